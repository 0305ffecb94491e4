"""Whether the store's clock can be believed. Pure; every clock is an argument.

THEORY OF OPERATION

The store's clock says which slots are due. Whoever believes a wrong one starts slots before their instant, and closes
those that seem long past. So each reading is held against the last one that was believed: the boot clock of this
machine, which nobody sets, says how much time has passed since. A reading that does not fit opens *doubt*.

In doubt nothing starts, nothing is closed, no floor rises and nothing is deleted (`doubted`). What runs goes on, is
renewed, and may end; what the store dates meanwhile is corrected where that is safe (`dated`, `is_ahead`).
Slots that fall due are late, as after an outage. Before a leap is known, and when it is over, the store itself refuses
what comes five minutes too late or too early by its clock: all that is dated says so. Doubt ends in one of four ways:

* A reading fits again: the clock leapt, and came back.
* The new readings agree with this machine's own clock for a few seconds: somebody put the store's clock right. But that
  clock must be another one. Where it was set by as much at the same time, as it always is if both are one (SQLite), the
  kernel has to say that it is synchronised.
* The leap was small, and the clock has run evenly for some minutes since.
* A person says that it is right (`cronce store clock`).

A process that has no reading of its own goes on from those that others left since this boot. Without any, it believes a
clock that agrees with its own to some minutes. Where both are one that proves nothing: right after a boot it waits
until the kernel says that the clock is synchronised.

A store's clock that is behind the birth of the store is never right.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from cronce.errors import StoreUnavailable
from cronce.model import EPOCH, Boot, Instant, Slot, Traits, spell
from cronce.protocol.commands import Ask, Change, Command, Finish, Release, Renew, Unsure
from cronce.protocol.lease import LONGEST_LEASE, Sample
from cronce.protocol.record import Job
from cronce.schedule.instant import format_duration
from cronce.value import NamedTuple

MAX_READING_ERROR: Final = timedelta(seconds=1)
"""By so much a reading may be off, whatever the store promises."""

DRIFT: Final = 0.001
"""And by so much of the time since the last one: no two clocks run alike."""

NEAR_OWN_CLOCK: Final = timedelta(seconds=5)
"""So near to this machine's own clock a leap was towards it. So far apart may be the clocks of a store with several."""

AGREES: Final = 5.0
"""Seconds for which the new readings have to agree with this machine's clock."""

HARMLESS_ERROR: Final = timedelta(minutes=5)
"""A clock that is off by less may be a wrong one, and harms little."""

EVEN: Final = 300.0
"""Seconds for which a clock has to run evenly after a small leap."""

FRESH_BOOT: Final = 120.0
"""Seconds after a boot in which NTP may not have set the clock yet."""

ACCEPTED_FOR: Final = timedelta(hours=1)
"""For so long after a person said so, by that very clock, it is right."""

REMEDY: Final = "If the clock is right now, run `cronce store clock`"
SET_CLOCK: Final = "Set the store's clock right, then run `cronce store clock` to repair that"


class Host(NamedTuple):
    """This machine, at a reading: its own clock, whether the kernel says that it is synchronised, and whether it is the
    store's clock, too."""

    wall: Instant
    synchronised: Callable[[], bool]
    is_store: bool = False


class Doubt(NamedTuple):
    """Why the store's clock is not trusted."""

    why: str
    """What is wrong with it: *jumped 20s ahead*."""
    off: timedelta
    first: Sample
    """Since then the readings agree with each other."""
    by_birth: bool = False
    """It is behind the birth of the store. A person's word on that holds for good."""

    @property
    def text(self) -> str:
        return f"the store's clock {self.why}, so cronce starts no runs until it is right"

    @property
    def words(self) -> str:
        """For people, with what to do about it."""
        return f"{self.text}. {REMEDY}"


class Believed(NamedTuple):
    """What a process believes of the store's clock."""

    last: Sample | None = None
    """The last reading that was believed."""
    set_to: timedelta | None = None
    """This machine's own clock less its boot clock, at that reading; None: not known."""
    doubt: Doubt | None = None
    since: Boot = 0.0
    """What was read before then was read off a clock that has leapt since, and for good."""

    def now(self, boot: Boot) -> Instant:
        """The store's clock of this moment, as well as it is known."""
        known = self.last or (self.doubt and self.doubt.first)
        return EPOCH if known is None else known.now + timedelta(seconds=max(boot - known.ended, 0.0))


_ALLOWED_IN_DOUBT: Final = (Renew, Finish, Release, Ask)


def doubted(doubt: Doubt | None, command: Command, change: Change) -> Unsure | None:
    """The answer to whatever would start something, or close what is not the caller's own. By a clock that is ahead
    nothing is put off either: it would wait for as long."""
    if doubt is None:
        return None
    waits = not change.record.is_closed and not change.record.is_running
    if isinstance(command, _ALLOWED_IN_DOUBT) and not (waits and doubt.off > timedelta(0)):
        return None
    return Unsure(doubt.words, StoreUnavailable(doubt.words))


def is_dated(command: Command, change: Change) -> bool:
    """Whether it matters when the store says that it was written: not if a run ends for good."""
    ends = isinstance(command, Finish) and change.record.is_closed and change.record.keep is None
    return not ends and not isinstance(command, Ask)


def dated(doubt: Doubt | None, change: Change) -> Change:
    """What the store dates by a clock that is behind comes out right. If it is ahead, a lease, and what was done, last
    for longer: others may believe this very clock before we do. How far it is behind may be known by this machine's own
    clock alone, which may be off too: so what was done is known for longer, never for less."""
    if doubt is None or change.ttl is None or doubt.off > timedelta(0):
        return change
    is_done = change.record.is_closed and change.record.keep is not None
    return change._replace(ttl=change.ttl - doubt.off + (HARMLESS_ERROR if is_done else timedelta(0)))


def is_job_dated(job: Job | None, new: Job) -> bool:
    """Whether an edit closes slots, or lets runs be deleted: by a clock in doubt neither is done."""
    return job is None or (job.floor, job.purging, job.firing) != (new.floor, new.purging, new.firing)


def is_early(doubt: Doubt | None, slot: Slot | None, now: Instant) -> bool:
    """Whether a clock in doubt granted a slot before its instant: then it is given back."""
    return doubt is not None and slot is not None and now < slot.at


_FAR_OFF: Final = 2 * LONGEST_LEASE


def is_ahead(until: Instant, now: Instant) -> bool:
    """Whether an instant lies so far ahead that a clock which leapt must have dated it: no lease is as long. Such a
    lease has lapsed when nobody renewed it for its own length, by the boot clock of whoever looks."""
    return until - now > _FAR_OFF


def closed_ahead(slots: str) -> str:
    """Of a floor that a clock which leapt has raised: for people."""
    return f"the store's clock was far ahead at some time, which closed {slots}"


def dated_ahead(leases: str) -> str:
    return f"the store's clock was far ahead at some time, so the dates of {leases} are wrong"


def judged(before: Believed, sample: Sample, host: Host, traits: Traits, born: Instant = EPOCH) -> Believed:
    """What is believed after another reading."""
    last, tolerance = (
        before.last,
        max(MAX_READING_ERROR, traits.step + traits.skew) + (NEAR_OWN_CLOCK * (not traits.one_clock)),
    )
    if last is not None and sample.ended < last.ended:
        return before  # another thread's, and older
    believed = Believed(sample, _set_to(host, sample.ended), since=before.since)
    expected = host.wall if last is None else last.now + timedelta(seconds=sample.ended - last.ended)
    why = _wrong(last, sample, host, tolerance, born)
    if not why:
        return before if _is_loose(sample, tolerance) and before.doubt is None else believed
    stands = before.doubt
    first = stands.first if stands is not None and _fits(stands.first, sample, tolerance) else sample
    doubt = Doubt(why, sample.now - expected, first, by_birth=sample.now < born - HARMLESS_ERROR)
    if not doubt.by_birth and (_is_settled(doubt, sample) or _is_put_right(before, doubt, sample, host)):
        return believed._replace(since=first.began)
    return before._replace(doubt=doubt)


def _wrong(last: Sample | None, sample: Sample, host: Host, tolerance: timedelta, born: Instant) -> str:
    """What is wrong with a reading, if anything is."""
    if sample.now < born - HARMLESS_ERROR:
        return f"says {spell(sample.now)}, but the store was created at {spell(born)}"
    if last is None:
        return _first(sample, host)
    if _fits(last, sample, tolerance):
        return ""
    off = sample.now - last.now - timedelta(seconds=sample.ended - last.ended)
    return f"jumped {_span(off)} {'ahead' if off > timedelta(0) else 'back'}"


def recalled(samples: Sequence[Sample], traits: Traits) -> Believed:
    """What the processes before this one saw since this boot: the first of it is believed."""
    state = Believed(samples[0])
    for sample in samples[1:]:
        state = judged(state, sample, Host(EPOCH, lambda: False), traits)
    return state._replace(set_to=None)


def is_said(doubt: Doubt, act_at: Instant | None, now: Instant) -> bool:
    """Whether a person has said lately, by this very clock, that it is right."""
    return act_at is not None and timedelta(0) <= now - act_at and (doubt.by_birth or now - act_at <= ACCEPTED_FOR)


def _first(sample: Sample, host: Host) -> str:
    """Why a process does not believe the first reading that it has."""
    off = sample.now - host.wall
    if abs(off) > HARMLESS_ERROR + timedelta(seconds=sample.ended - sample.began):
        return f"is {_span(off)} {'ahead of' if off > timedelta(0) else 'behind'} this machine's"
    if host.is_store and sample.ended < FRESH_BOOT and not host.synchronised():
        return "is this machine's, which was just started and is not synchronised yet"
    return ""


def _is_settled(doubt: Doubt, sample: Sample) -> bool:
    """Whether the leap was small, and long enough ago."""
    return abs(doubt.off) < HARMLESS_ERROR and sample.ended - doubt.first.ended >= EVEN


def _is_put_right(before: Believed, doubt: Doubt, sample: Sample, host: Host) -> bool:
    """Whether the clock leapt towards this machine's own, which is another."""
    if abs(host.wall - sample.now) > NEAR_OWN_CLOCK or sample.ended - doubt.first.ended < AGREES:
        return False
    stood = before.set_to is not None and abs(_set_to(host, sample.ended) - before.set_to) <= MAX_READING_ERROR
    return stood or host.synchronised()


def _fits(last: Sample, sample: Sample, tolerance: timedelta) -> bool:
    """Each reading was taken somewhere between the question and the answer."""
    passed = (sample.now - last.now).total_seconds()
    slack = tolerance.total_seconds() + DRIFT * max(sample.began - last.ended, 0.0)
    return sample.began - last.ended - slack <= passed <= sample.ended - last.began + slack


def _is_loose(sample: Sample, tolerance: timedelta) -> bool:
    """An answer that took so long says too little to compare others with."""
    return sample.ended - sample.began > tolerance.total_seconds()


def _set_to(host: Host, boot: Boot) -> timedelta:
    return host.wall - EPOCH - timedelta(seconds=boot)


def _span(off: timedelta) -> str:
    return format_duration(timedelta(seconds=max(round(abs(off).total_seconds()), 1)))
