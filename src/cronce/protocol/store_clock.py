"""Whether the store's clock can be believed. Pure; every clock is an argument.

THEORY OF OPERATION

The store's clock decides which slots are due. A process that believes a wrong clock starts slots before their instant,
and closes slots that seem long past. So each reading is compared with the last one that was believed: the boot clock of
this machine, which cannot be set, shows how much time has passed since. A reading that does not fit opens *doubt*.

In doubt nothing starts, nothing is closed, no floor rises and nothing is deleted (`doubted`). Runs go on, are renewed,
and may end. What the store dates meanwhile is corrected where that is safe (`dated`, `is_ahead`). Slots that fall due
are late, as after an outage. Before a jump is known, and when it is over, the store itself refuses writes that come
five minutes too late or too early by its clock: every dated write carries that limit. Doubt ends in one of four ways:

* A reading fits again: the clock jumped, and came back.
* The new readings agree with this machine's own clock for a few seconds: the store's clock was corrected. But that
  clock must be another one. Where both were set by the same amount at the same time, as is always the case if both are
  one (SQLite), the kernel must report the clock as synchronised.
* The jump was small, and the clock has run evenly for some minutes since.
* A person confirms the clock (`cronce store clock`).

A process that has no reading of its own continues from those that other processes left since this boot. Without any,
it believes a clock that agrees with its own to some minutes. Where both are one clock, that proves nothing: right after
a boot the process waits until the kernel reports the clock as synchronised.

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
"""How far a reading may be off, whatever the store promises."""

DRIFT: Final = 0.001
"""And this share of the time since the last reading: no two clocks run alike."""

NEAR_OWN_CLOCK: Final = timedelta(seconds=5)
"""A jump that ends this near to this machine's own clock was towards it. The clocks of one store may differ by this
much."""

AGREES: Final = 5.0
"""For how many seconds the new readings must agree with this machine's clock."""

HARMLESS_ERROR: Final = timedelta(minutes=5)
"""A clock that is off by less may be wrong, but does little harm."""

EVEN: Final = 300.0
"""For how many seconds a clock must run evenly after a small jump."""

FRESH_BOOT: Final = 120.0
"""Seconds after a boot in which NTP may not have set the clock yet."""

ACCEPTED_FOR: Final = timedelta(hours=1)
"""For this long, by the same clock, a person's confirmation holds."""

REMEDY: Final = "If the clock is right now, run `cronce store clock`"
SET_CLOCK: Final = "Set the store's clock right, then run `cronce store clock` to repair that"


class Host(NamedTuple):
    """This machine at a reading: its own clock, whether the kernel reports it as synchronised, and whether it is also
    the store's clock."""

    wall: Instant
    synchronised: Callable[[], bool]
    is_store: bool = False


class Doubt(NamedTuple):
    """Why the store's clock is not trusted."""

    why: str
    """What is wrong with the clock: *jumped 20s ahead*."""
    off: timedelta
    first: Sample
    """The readings agree with each other since this one."""
    by_birth: bool = False
    """It is behind the birth of the store. A person's confirmation of that holds for good."""

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
    wall: Instant | None = None
    """This machine's own clock at that reading; None: not known."""
    doubt: Doubt | None = None
    since: Boot = 0.0
    """Readings from before then came from a clock that has jumped since, for good."""

    def now(self, boot: Boot) -> Instant:
        """The store's time now, as well as it is known."""
        known = self.last or (self.doubt and self.doubt.first)
        return EPOCH if known is None else known.now + timedelta(seconds=max(boot - known.ended, 0.0))


_ALLOWED_IN_DOUBT: Final = (Renew, Finish, Release, Ask)


def doubted(doubt: Doubt, command: Command, change: Change) -> Unsure | None:
    """The answer to a command that would start something, or close a run that is not the caller's own. If the clock is
    ahead nothing is put off either: it would wait for that long."""
    waits = not change.record.is_closed and not change.record.is_running
    if isinstance(command, _ALLOWED_IN_DOUBT) and not (waits and doubt.off > timedelta(0)):
        return None
    return Unsure(doubt.words, StoreUnavailable(doubt.words))


def is_dated(command: Command, change: Change) -> bool:
    """Whether the store's date of a write matters: not if a run ends for good."""
    ends = isinstance(command, Finish) and change.record.is_closed and change.record.keep is None
    return not ends and not isinstance(command, Ask)


def dated(doubt: Doubt, change: Change) -> Change:
    """Corrects what the store dates with a clock that is behind. If it is ahead, a lease, and the completion of an
    effect, last longer: other processes may believe this clock before this one does. How far it is behind may be known
    only from this machine's own clock, which may be off too. So a completion stays known for longer, never for less."""
    if change.ttl is None or doubt.off > timedelta(0):
        return change
    is_done = change.record.is_closed and change.record.keep is not None
    return change._replace(ttl=change.ttl - doubt.off + (HARMLESS_ERROR if is_done else timedelta(0)))


def is_job_dated(job: Job | None, new: Job) -> bool:
    """Whether an edit closes slots, or lets runs be deleted: neither is done by a clock in doubt."""
    return job is None or (job.floor, job.purging, job.firing) != (new.floor, new.purging, new.firing)


def is_early(doubt: Doubt | None, slot: Slot | None, now: Instant) -> bool:
    """Whether a clock in doubt granted a slot before its instant: then it is given back."""
    return doubt is not None and slot is not None and now < slot.at


_FAR_OFF: Final = 2 * LONGEST_LEASE


def is_ahead(until: Instant, now: Instant) -> bool:
    """Whether an instant lies so far ahead that a clock must have jumped when it was dated: no lease is that long. Such
    a lease has lapsed when no holder renewed it for its own length, by the reader's boot clock."""
    return until - now > _FAR_OFF


def closed_ahead(slots: str) -> str:
    """A message for people about a floor that a clock raised after a jump."""
    return f"the store's clock was far ahead at some time, which closed {slots}"


def dated_ahead(leases: str) -> str:
    return f"the store's clock was far ahead at some time, so the dates of {leases} are wrong"


def judged(before: Believed, sample: Sample, host: Host, traits: Traits, born: Instant = EPOCH) -> Believed:
    """What is believed after another reading."""
    last = before.last
    if last is not None and sample.ended < last.ended:
        return before  # another thread's reading, and older
    tolerance = max(MAX_READING_ERROR, traits.step + traits.skew)
    if not traits.one_clock:
        tolerance += NEAR_OWN_CLOCK
    believed = Believed(sample, host.wall, since=before.since)
    why = _wrong(last, sample, host, tolerance, born)
    if not why:
        return before if last is not None and _is_loose(sample, tolerance) else believed
    expected = host.wall if last is None else last.now + timedelta(seconds=sample.ended - last.ended)
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
    """What earlier processes saw since this boot: the first reading is believed."""
    state = Believed(samples[0])
    for sample in samples[1:]:
        state = judged(state, sample, Host(EPOCH, lambda: False), traits)
    return state._replace(wall=None)


def is_said(doubt: Doubt, act_at: Instant | None, now: Instant) -> bool:
    """Whether a person has recently confirmed this very clock."""
    return act_at is not None and timedelta(0) <= now - act_at and (doubt.by_birth or now - act_at <= ACCEPTED_FOR)


def _first(sample: Sample, host: Host) -> str:
    """Why a process does not believe its first reading."""
    off = sample.now - host.wall
    if abs(off) > HARMLESS_ERROR + timedelta(seconds=sample.ended - sample.began):
        return f"is {_span(off)} {'ahead of' if off > timedelta(0) else 'behind'} this machine's"
    if host.is_store and sample.ended < FRESH_BOOT and not host.synchronised():
        return "is this machine's, which was just started and is not synchronised yet"
    return ""


def _is_settled(doubt: Doubt, sample: Sample) -> bool:
    """Whether the jump was small, and long enough ago."""
    return abs(doubt.off) < HARMLESS_ERROR and sample.ended - doubt.first.ended >= EVEN


def _is_put_right(before: Believed, doubt: Doubt, sample: Sample, host: Host) -> bool:
    """Whether the clock jumped towards this machine's own clock, which is a different one."""
    if abs(host.wall - sample.now) > NEAR_OWN_CLOCK or sample.ended - doubt.first.ended < AGREES:
        return False
    return _has_gone_on(before, sample, host) or host.synchronised()


def _has_gone_on(before: Believed, sample: Sample, host: Host) -> bool:
    """Whether this machine's own clock was not set since the last reading that was believed."""
    if before.last is None or before.wall is None:
        return False
    passed = timedelta(seconds=sample.ended - before.last.ended)
    return abs(host.wall - before.wall - passed) <= MAX_READING_ERROR


def _fits(last: Sample, sample: Sample, tolerance: timedelta) -> bool:
    """Each reading was taken between the request and the reply."""
    passed = (sample.now - last.now).total_seconds()
    slack = tolerance.total_seconds() + DRIFT * max(sample.began - last.ended, 0.0)
    return sample.began - last.ended - slack <= passed <= sample.ended - last.began + slack


def _is_loose(sample: Sample, tolerance: timedelta) -> bool:
    """A reply that took this long bounds the clock too loosely to compare others with."""
    return sample.ended - sample.began > tolerance.total_seconds()


def _span(off: timedelta) -> str:
    return format_duration(timedelta(seconds=max(round(abs(off).total_seconds()), 1)))
