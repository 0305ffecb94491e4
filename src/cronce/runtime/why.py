"""Why a slot ran, runs or did not run: all that the store knows of it. A flow that only reads.

Facts, no words: what shows them to people finds the words.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, date, timedelta
from enum import StrEnum
from typing import Final

from cronce.errors import BadInput
from cronce.model import (
    BACKFILL,
    SWITCH,
    Cell,
    Epoch,
    Instant,
    Mark,
    Slot,
    Traits,
    check_name,
    job_cell,
    slot_of_cell,
    spell,
    stored_cell,
)
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.notices import Refusals, Refused, decode_refusals
from cronce.protocol.record import STILL_RAN, TOO_LATE, Act, Outcome, SpanRecord, decode_turn, standing_act
from cronce.protocol.specs import after_forgetting
from cronce.protocol.table import Row
from cronce.runtime.declare import instant_of, zone_of
from cronce.runtime.effects.review import EMPTY_SURVEY, EffectsSurvey, doubts, of_job, survey
from cronce.runtime.flow import Flow
from cronce.runtime.journal import Entry
from cronce.runtime.queries import (
    READ_AHEAD,
    HolderSeen,
    JobSeen,
    RunSeen,
    by_beats,
    is_carried,
    job_names,
    load,
    present,
    read_all,
    read_page,
    refuse_unknown,
    seen_run,
    slot_named,
    sparing,
)
from cronce.runtime.stored_jobs import line_of
from cronce.schedule.instant import RESOLUTION
from cronce.stores.base import Loaded, Position, Scan
from cronce.value import NamedTuple

ONCE_STILL_RAN: Final = " still ran"
"""What records of older versions have instead of `STILL_RAN`."""

OPEN_SHOWN: Final = 5
"""At most this many of the open slots of a job are listed: the newest."""


class Case(StrEnum):
    """The main fact about a slot."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"
    TOO_LATE = "too late"  # skipped: too late to start
    OVERLAP = "overlap"  # skipped: another had not ended
    SKIPPED = "skipped"  # for another reason
    RUNNING = "running"
    LAPSED = "lapsed"
    RETRYING = "retrying"
    WAITING = "waiting"
    DUE = "due"
    FORGOTTEN = "forgotten"  # open since before the store forgot
    UNREADABLE = "unreadable"
    # and what has no record:
    NO_SLOT = "no slot"  # not an instant of its schedule
    NO_REQUEST = "no request"  # this run was not asked for by hand
    FUTURE = "not due yet"
    TOO_OLD = "too old"  # at or below the floor
    PAUSED = "paused"
    UNCLAIMED = "unclaimed"


_CASE_OF_ROW: Final = {Row.FORGOTTEN: Case.FORGOTTEN, Row.LAPSED: Case.LAPSED}
"""The main fact about a slot that is not closed, where that is more than its state."""


class RefusedHost(NamedTuple):
    """A claim that a host lost."""

    host: str
    refused: Refused


class Blocker(NamedTuple):
    """Which run has a turn of the job, until then at least."""

    run: str
    until: Instant | None


class Story(NamedTuple):
    """All that is known of one slot."""

    slot: Slot
    case: Case
    run: RunSeen | None
    refused: tuple[RefusedHost, ...]
    span: SpanRecord | None
    """Of a slot that is too old: why its job's floor rose past it; None: it is older than the job."""
    effects: EffectsSurvey = EMPTY_SURVEY
    """What its job function did once."""
    blocker: RunSeen | None = None
    """Of a slot that was skipped for a run that had not ended: that run, as it is now."""
    backfill: "Story | None" = None
    """Of a slot that has no record: the run that was asked for in its place."""


class Why(NamedTuple):
    """A job and the stories of some of its slots, newest first, as of the store's now."""

    now: Instant
    job: JobSeen
    halted: Act | None
    """Who stopped everything: then the job is paused, too."""
    epoch: Epoch
    stories: tuple[Story, ...]
    blockers: tuple[Blocker, ...]
    refusals: Mapping[str, int]
    """How often each host was refused a slot of the job, ever."""
    carried: bool
    """Whether a live scheduler would run what is due of the job."""
    effects: EffectsSurvey | None = None
    """Which effects of all its slots are in doubt, or in progress; None where one slot was asked about."""
    journal: tuple[Entry, ...] = ()
    """What this machine could not write to the store yet."""
    doubt: str = ""
    """Why this process does not trust the store's clock."""
    history: bool = True
    """Whether the store keeps a history: then a slot can have reruns."""

    @property
    def abandoned(self) -> bool:
        """Schedulers run it, and none that lives does."""
        return self.job.is_scheduled and not self.carried


SLOTS_SHOWN: Final = 3
"""So many slots of a day are listed where one has to be chosen."""


def slot_meant(text: str) -> Flow[Slot]:
    """The slot that is named, or the only one on the day that is. A day begins where the job lives."""
    job, _, when = text.partition("@")
    try:
        day = date.fromisoformat(when)
    except ValueError:
        return slot_named(text)
    if not MINYEAR < day.year < MAXYEAR:
        raise BadInput(f"{job} has no slot on {day}")
    loaded = yield from load([job_cell(check_name(job)), stored_cell(job)])
    job_at, stored_at = loaded.cells
    line = line_of(job, job_at, stored_at, loaded.now)
    if line is None or line.seen.schedule is None:
        refuse_unknown(job, (yield from job_names()))
        return slot_named(text)
    start, end = (instant_of(one, zone_of(line.seen.schedule)) for one in (day, day + timedelta(days=1)))
    slots, at = list[Slot](), line.seen.after(start - RESOLUTION)
    while at is not None and at < end and len(slots) < SLOTS_SHOWN:
        slots.append(Slot(job, at))
        at = line.seen.after(at)
    if len(slots) > 1:  # better those that are on record than those from before there was a job
        slots = (yield from _on_record(job, start, end)) or slots
    elif slots:
        return slots[0]
    if not slots:
        raise BadInput(
            f"{job} has no slot on {day}" + (f"; the next slot:\n  cronce why {Slot(job, at).key}" if at else "")
        )
    listed = "".join(f"\n  cronce why {one.key}" for one in slots)
    raise BadInput(f"{job} has several slots on {day}; name one, such as:{listed}")


def _on_record(job: str, start: Instant, end: Instant) -> Flow[list[Slot]]:
    """The newest on record from `start` until before `end`."""
    prefix = f"run/{job}/"
    before = Position(0, prefix + spell(end).removesuffix("Z"))
    page = yield from read_page(Scan(prefix, after=before, newest_first=True, limit=SLOTS_SHOWN))
    return [slot for slot in (slot_of_cell(cell.key) for cell in page.cells) if slot.at >= start]


def why(name: str, slot: Slot | None, traits: Traits) -> Flow[Why | None]:
    """One slot of a job, or those that matter: what is due, what is open, what was last. None: there is no such job."""
    return (yield from sparing(_why(name, slot, traits), *READ_AHEAD))


def _why(name: str, slot: Slot | None, traits: Traits) -> Flow[Why | None]:
    keys = [job_cell(name), stored_cell(name), SWITCH, *(_cells([slot]) if slot else ())]
    there = yield from present(keys)
    loaded = there.beside
    job_at, stored_at, switch, *_ = loaded.cells
    line = line_of(name, job_at, stored_at, loaded.now)
    if line is None:
        return None
    seen, stopped = line.seen, standing_act(switch)
    has_scheduler = yield from is_carried(name, there.live)
    if seen.job is not None:
        job = after_forgetting(seen.job, loaded.epoch, traits)
        seen = seen._replace(job=job._replace(paused=job.paused or stopped))
    slots = [slot] if slot else (yield from _that_matter(seen, loaded.now))
    blockers = yield from _blockers(name)
    refusals = yield from _refusals(name)
    read = loaded if slot else (yield from load(_cells(slots)))
    teller = _Teller(seen, there.holders, {cell.key: cell for cell in read.cells}, read, traits)
    stories = []
    for one in slots:
        story = yield from teller.story(one)
        stories.append(story._replace(refused=_turned(one, refusals)))
    times = {host: told.times for host, told in refusals}
    doubtful = None if slot else (yield from doubts(of_job(name)))
    known = Why(read.now, seen, stopped, read.epoch, tuple(stories), blockers, times, has_scheduler, doubtful)
    return known._replace(history=traits.history)


def _cells(slots: Iterable[Slot]) -> list[str]:
    """The cells of slots, and of the runs that were asked for in their place."""
    return [key for one in slots for key in (one.cell, one._replace(request=BACKFILL).cell)]


class _Teller(NamedTuple):
    """What the explanations of a job are made from."""

    seen: JobSeen
    holders: Sequence[HolderSeen]
    cells: Mapping[str, Cell]
    read: Loaded
    traits: Traits

    def story(self, slot: Slot) -> Flow[Story]:
        seen, (now, epoch, _) = self.seen, self.read
        cell, instead = self.cells[slot.cell], slot._replace(request=BACKFILL)
        run = self._run(cell, now) if cell.version else None
        backfill = None
        if run is None and not slot.request and self.traits.history and self.cells[instead.cell].version:
            backfill = yield from self.story(instead)
        at = seen.row_of(slot, run, now, epoch, self.traits)
        case = _case(run, at) if run else _absent(slot, seen, now, at, is_slot=backfill is not None)
        span = _span(slot, seen) if case is Case.TOO_OLD else None
        blocker = (yield from self._blocker(run)) if run and case is Case.OVERLAP else None
        effects = (yield from survey(slot, run.record)) if run and run.record else EMPTY_SURVEY
        return Story(slot, case, run, (), span, effects, blocker, backfill)

    def _run(self, cell: Cell, now: Instant) -> RunSeen:
        return by_beats([seen_run(cell, now)], self.holders, now)[0]

    def _blocker(self, run: RunSeen) -> Flow[RunSeen | None]:
        """By the key that the reason of a skipped slot begins with."""
        reason = run.record.reason if run.record else ""
        with suppress(BadInput):
            loaded = yield from load([slot_named(reason.partition(" ")[0]).cell])
            (cell,) = loaded.cells
            if cell.version:
                return self._run(cell, loaded.now)
        return None


def _that_matter(seen: JobSeen, now: Instant) -> Flow[list[Slot]]:
    prefix = f"run/{seen.name}/"
    last = yield from read_page(Scan(prefix, newest_first=True, limit=1))
    still_open = yield from read_page(Scan(prefix, mark=Mark.OPEN, newest_first=True, limit=OPEN_SHOWN))
    in_doubt = yield from read_page(Scan(prefix, mark=Mark.ATTENTION, newest_first=True, limit=1))
    slots = {slot_of_cell(cell.key) for cell in (*last.cells, *still_open.cells, *in_doubt.cells)}
    due = seen.latest(now)
    if due is not None:
        slots.add(Slot(seen.name, due))
    return sorted(slots, key=lambda slot: (slot.at, slot.request), reverse=True)


def _blockers(job: str) -> Flow[tuple[Blocker, ...]]:
    cells = (yield from read_all(Scan(f"turn/{job}/", mark=Mark.OPEN))).cells
    turns = ((readable(cell, decode_turn), cell.until) for cell in cells)
    return tuple(Blocker(turn.run, until) for turn, until in turns if turn is not None and turn.run)


def _refusals(job: str) -> Flow[list[tuple[str, Refusals]]]:
    """What each host was refused of the job."""
    prefix = f"refusals/{job}/"
    cells = (yield from read_all(Scan(prefix))).cells
    return [(cell.key.removeprefix(prefix), refusals) for cell, refusals in all_readable(cells, decode_refusals)]


def _turned(slot: Slot, refusals: Iterable[tuple[str, Refusals]]) -> tuple[RefusedHost, ...]:
    refused = ((host, one) for host, told in refusals for one in told.recent)
    return tuple(RefusedHost(host, one) for host, one in refused if one.slot == slot.key)


def _case(run: RunSeen, at: Row) -> Case:
    """Of a slot that is on record."""
    record = run.record
    if record is None:
        return Case.UNREADABLE
    if record.outcome is Outcome.SKIPPED:
        return _skipped(record.reason)
    if record.is_closed:
        return Case(record.outcome or Outcome.UNKNOWN)
    return _CASE_OF_ROW.get(at, Case(record.state))


def _skipped(reason: str) -> Case:
    if reason == TOO_LATE:
        return Case.TOO_LATE
    return Case.OVERLAP if reason.endswith((STILL_RAN, ONCE_STILL_RAN)) else Case.SKIPPED


def _absent(slot: Slot, seen: JobSeen, now: Instant, at: Row, *, is_slot: bool) -> Case:
    """Of a slot that has no record; one that was backfilled was a slot once, whatever the schedule is now."""
    if slot.request:
        return Case.NO_REQUEST
    if not is_slot and not seen.fires_at(slot.at):
        return Case.NO_SLOT
    if slot.at > now:
        return Case.FUTURE
    if seen.job is None:
        return Case.UNREADABLE
    if at is Row.BELOW:
        return Case.TOO_OLD
    return Case.PAUSED if seen.job.paused else Case.UNCLAIMED


def _span(slot: Slot, seen: JobSeen) -> SpanRecord | None:
    """What passed the slot over: a span begins after its start, where the floor was before."""
    spans = seen.job.spans if seen.job else ()
    return next((span for span in reversed(spans) if span.start < slot.at <= span.end), None)
