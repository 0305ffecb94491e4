"""Looking: what the store says about jobs, runs, locks and leaders. Flows that only read.

Facts, no words: whoever shows them to a person says them in theirs.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Literal

from cronce.errors import BadInput, BadRecord, NotOnRecord
from cronce.model import SWITCH, Cell, Instant, Mark, Slot, slot, slot_of_cell
from cronce.protocol.record import (
    Act,
    Job,
    Record,
    State,
    Stored,
    decode,
    decode_job,
    standing_act,
)
from cronce.runtime.flow import Flow, Load
from cronce.schedule import Schedule, parse_instant, parse_schedule
from cronce.schedule.instant import RESOLUTION
from cronce.stores.base import Loaded, Page, Scan
from cronce.value import NamedTuple

# --- reading --------------------------------------------------------------------------------------------------------


def read_page(scan: Scan) -> Flow[Page]:
    timed = yield scan
    assert isinstance(timed.reply, Page)
    return timed.reply


def read_all(scan: Scan) -> Flow[tuple[Instant, list[Cell]]]:
    """Every cell of a scan, and the store's now of its last page."""
    cells: list[Cell] = []
    while True:
        page = yield from read_page(scan)
        cells += page.cells
        if page.next is None:
            return page.now, cells
        scan = scan._replace(after=page.next)


# --- jobs -----------------------------------------------------------------------------------------------------------


class JobSeen(NamedTuple):
    """A job as the store has it; without a `job` the cell is unreadable, and `trouble` says why."""

    name: str
    job: Job | None
    schedules: tuple[Schedule, ...] = ()
    """Those that fire it, the newest first: one, unless calls from outside each bring their own."""
    former: tuple[Schedule, ...] = ()
    policies: Mapping[str, Any] = MappingProxyType({})
    trouble: str = ""

    @property
    def schedule(self) -> Schedule | None:
        return self.schedules[0] if self.schedules else None

    @property
    def is_scheduled(self) -> bool:
        """Whether schedulers run it: not a job that only calls from outside have named."""
        return self.job is not None and (bool(self.job.firing) or "revision" in self.policies)

    def next(self, now: Instant) -> Instant | None:
        """The next slot of any of its schedules."""
        return min((slot for rule in self.schedules if (slot := rule.next(now)) is not None), default=None)

    def latest(self, now: Instant) -> Instant | None:
        """The latest slot that is due."""
        slots = (rule.previous(now + RESOLUTION) for rule in self.schedules)
        return max((slot for slot in slots if slot is not None), default=None)

    def fires_at(self, instant: Instant) -> bool:
        """Whether it is an instant of a schedule that the job has or had; of one without a schedule any instant is."""
        rules = (*self.schedules, *self.former)
        return not rules or any(rule.next(instant - RESOLUTION) == instant for rule in rules)


class JobLine(NamedTuple):
    """A job, its next slot and the latest slot on record."""

    seen: JobSeen
    next: Instant | None
    last: "RunSeen | None"
    stored: Stored | None = None
    """What the store has of a job that lives there."""


def job_names() -> Flow[list[str]]:
    """Also of those in the store that no process has carried yet."""
    _, cells = yield from read_all(Scan("job/"))
    _, stored = yield from read_all(Scan("stored/", mark=Mark.OPEN))
    return sorted({cell.key.partition("/")[2] for cell in (*cells, *stored)})


def refuse_unknown(job: str, names: Iterable[str]) -> None:
    """Say which job was meant, if there is none of that name."""
    known = sorted(names)
    if job in known:
        return
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    close = get_close_matches(job, known, n=1)
    listed = "`cronce jobs` lists them" if known else "there are none yet, and `cronce jobs` says in which store"
    raise NotOnRecord(f"no job is called {job[:60]!r}; {f'did you mean {close[0]!r}?' if close else listed}")


def jobs() -> Flow[tuple[Instant, list[JobLine]]]:
    now, cells = yield from read_all(Scan("job/"))
    lines = []
    for cell in cells:
        seen = seen_job(cell)
        page = yield from read_page(Scan(f"run/{seen.name}/", newest_first=True, limit=1))
        last = seen_run(page.cells[0], page.now) if page.cells else None
        lines.append(JobLine(seen, seen.next(now), last))
    return now, lines


def halted() -> Flow[Act | None]:
    """Who stopped everything, if somebody did; what cannot be read stops everything, too."""
    timed = yield Load([SWITCH])
    assert isinstance(timed.reply, Loaded)
    (cell,) = timed.reply.cells
    return standing_act(cell)


def seen_job(cell: Cell) -> JobSeen:
    name = cell.key.removeprefix("job/")
    try:
        job = decode_job(cell.value, cell.key)
    except BadRecord as error:
        return JobSeen(name, None, trouble=str(error))
    texts = [(spec.digest == job.firing, read_spec(spec.text)) for spec in reversed(job.specs)]
    firing = [spec for fires, spec in texts if fires or not job.firing]
    schedules = _distinct(map(_schedule, firing))
    former = _distinct(_schedule(spec) for _, spec in texts)
    policies = {key: value for key, value in firing[0].items() if key != "schedule"} if firing else {}
    return JobSeen(name, job, schedules, tuple(rule for rule in former if rule not in schedules), policies)


def read_spec(text: str) -> dict[str, Any]:
    """A version of a job as its deploy wrote it; nothing if it is not written as ours are."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def _schedule(spec: Mapping[str, Any]) -> Schedule | None:
    try:
        return parse_schedule(**spec["schedule"])
    except (KeyError, TypeError, BadInput):
        return None


def _distinct(rules: Iterable[Schedule | None]) -> tuple[Schedule, ...]:
    return tuple(dict.fromkeys(rule for rule in rules if rule is not None))


# --- runs -----------------------------------------------------------------------------------------------------------

MARKS: Final[dict[str, Mark]] = {
    **dict.fromkeys(("due", "waiting", "running", "retrying", "lapsed"), Mark.OPEN),
    **dict.fromkeys(("succeeded", "failed", "skipped"), Mark.CLOSED),
    **dict.fromkeys(("lost", "unknown"), Mark.ATTENTION),
}
WANTED: Final = (*MARKS, "closed")
"""A state or an outcome to look for; lapsed is no state, but somebody may want to see it."""


_EXAMPLE: Final = "billing@2026-03-29T01:00:00Z"


def slot_named(text: str) -> Slot:
    """The slot that a person names, by its key."""
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.60} is not a slot, which is written like {_EXAMPLE}")
    job, at, rest = text.partition("@")
    if not at:
        raise BadInput(
            f"{text[:80]!r} is not a slot, which is written like {_EXAMPLE}; `cronce runs JOB` lists those of a job"
        )
    when, _, request = rest.partition("#")
    try:
        return slot(job, parse_instant(when), request)
    except BadInput as error:
        raise BadInput(
            f"{text[:80]!r} is not a slot, which is written like {job[:60]}@2026-03-29T01:00:00Z: {error}"
        ) from None


class RunSeen(NamedTuple):
    """A run as the store has it; without a `record` the cell is unreadable, and `trouble` says why."""

    slot: Slot
    cell: Cell
    record: Record | None
    lapsed: bool = False
    trouble: str = ""

    @property
    def shown(self) -> str:
        """What there is to say of it in one word: its outcome, or its state."""
        if self.record is None:
            return "unreadable"
        return "lapsed" if self.lapsed else str(self.record.outcome or self.record.state)


def runs(job: str | None, wanted: str | None, limit: int) -> Flow[list[RunSeen]]:
    """The newest runs of a job, or of all. By key, since a run by hand is filed by when it was asked for: its slot is
    part of its key, as it is of every other, so that within a job the order of keys is the order of slots."""
    names = [job] if job is not None else (yield from job_names())
    found: list[RunSeen] = []
    for name in names:
        found += yield from _runs_of(name, wanted, limit)
    found.sort(key=lambda run: (run.slot.at, run.cell.key), reverse=True)
    return found[:limit]


def _runs_of(job: str, wanted: str | None, limit: int) -> Flow[list[RunSeen]]:
    scan = Scan(f"run/{job}/", mark=MARKS.get(wanted or ""), newest_first=True, limit=min(limit, 1000))
    found: list[RunSeen] = []
    while True:
        page = yield from read_page(scan)
        read = (seen_run(cell, page.now) for cell in page.cells)
        found += [run for run in read if wanted is None or matches(run, wanted)]
        if page.next is None or len(found) >= limit:
            return found[:limit]
        scan = scan._replace(after=page.next)


def matches(run: RunSeen, wanted: str) -> bool:
    return run.record is not None and wanted in (run.record.state, run.record.outcome, run.shown)


def seen_run(cell: Cell, now: Instant) -> RunSeen:
    slot = slot_of_cell(cell.key)
    try:
        record = decode(cell.value, cell.key)
    except BadRecord as error:
        return RunSeen(slot, cell, None, trouble=str(error))
    return RunSeen(slot, cell, record, lapsed=_passed(cell, record, now))


def seen_runs(cells: Iterable[Cell], now: Instant) -> list[RunSeen]:
    """The runs behind these cells; one whose very key is none of a run is nobody's, and left out."""
    runs = []
    for cell in cells:
        with suppress(BadInput):
            runs.append(seen_run(cell, now))
    return runs


def _passed(cell: Cell, record: Record, now: Instant) -> bool:
    return record.state is State.RUNNING and cell.until is not None and cell.until <= now


# --- locks and leaders ----------------------------------------------------------------------------------------------

HeldState = Literal["held", "lapsed", "resting", "free", "unreadable"]


class HeldSeen(NamedTuple):
    """A lock or a leadership: held until then at least, lapsed and not yet taken, resting (`at_least`), or free."""

    name: str
    state: HeldState
    cell: Cell
    record: Record | None


def locks() -> Flow[list[HeldSeen]]:
    return (yield from _held("lock/"))


def leaders() -> Flow[list[HeldSeen]]:
    return (yield from _held("leader/"))


def _held(prefix: str) -> Flow[list[HeldSeen]]:
    now, cells = yield from read_all(Scan(prefix))
    return [seen_held(cell, cell.key.removeprefix(prefix), now) for cell in cells]


def seen_held(cell: Cell, name: str, now: Instant) -> HeldSeen:
    try:
        record = decode(cell.value, cell.key)
    except BadRecord:
        return HeldSeen(name, "unreadable", cell, None)
    return HeldSeen(name, _held_state(cell, record, now), cell, record)


def _held_state(cell: Cell, record: Record, now: Instant) -> HeldState:
    if record.state is State.RUNNING:
        return "lapsed" if _passed(cell, record, now) else "held"
    return "resting" if cell.until is not None and now < cell.until else "free"
