"""What the store has on record about jobs, runs, locks, leaders and schedulers. Flows that only read.

Facts, no words: what shows them to people finds the words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from heapq import nlargest
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from cronce.errors import BadInput, BadRecord, NotOnRecord
from cronce.model import (
    EPOCH,
    SWITCH,
    Boot,
    Cell,
    Epoch,
    Instant,
    Mark,
    Slot,
    Traits,
    bundle_cells,
    check_name,
    drain_cells,
    holder_cell,
    slot,
    slot_of_cell,
)
from cronce.protocol.codec import all_readable
from cronce.protocol.commands import Settle
from cronce.protocol.lease import Sample
from cronce.protocol.notices import Bundle, Holder, Stored, decode_bundle, decode_holder, decode_machine
from cronce.protocol.record import Act, Job, Record, decode, decode_job, standing_act
from cronce.protocol.specs import read_spec
from cronce.protocol.store_clock import is_ahead
from cronce.protocol.table import Row, row
from cronce.protocol.view import KnownJob, View
from cronce.runtime.flow import Flow, Load, Timed
from cronce.runtime.process_notes import NOTES_TTL
from cronce.runtime.scheduling.roster import HOLDER_TTL, NO_JOBS, chunks, digest_of, joined
from cronce.schedule import Schedule, parse_instant, parse_schedule
from cronce.schedule.instant import RESOLUTION
from cronce.stores.base import Loaded, Page, Position, Scan, page_of
from cronce.value import NamedTuple

T = TypeVar("T")

MACHINES: Final = 1000
"""So many machines are asked for what they left word of."""

TZDATA_NOTE_AGE: Final = timedelta(days=1)
"""A machine's report of its time zone database that is older than this is not shown."""

# --- reading --------------------------------------------------------------------------------------------------------


def load(keys: Sequence[str]) -> Flow[Loaded]:
    timed = yield Load(keys)
    assert isinstance(timed.reply, Loaded)
    return timed.reply


def read_page(scan: Scan) -> Flow[Page]:
    timed = yield scan
    assert isinstance(timed.reply, Page)
    return timed.reply


def read_all(scan: Scan, most: int | None = None) -> Flow[Page]:
    """Every cell of a scan, or so many at most, as one page."""
    page = yield from read_page(scan)
    cells = list(page.cells)
    while page.next is not None and (most is None or len(cells) < most):
        page = yield from read_page(scan._replace(after=page.next))
        cells += page.cells
    return page._replace(cells=cells)


READ_AHEAD: Final = (Scan("", mark=Mark.OPEN, limit=200), Scan("", mark=Mark.ATTENTION, limit=400))
"""Cells that are read at once, whatever they are: few stores have more that are open, or need attention."""


def sparing(flow: Flow[T], *ahead: Scan) -> Flow[T]:
    """A flow that only reads, without the scans that are answered by what it has read before, or by what is read
    `ahead` of it."""
    known: list[tuple[Scan, Timed]] = []
    for scan in ahead:
        known += [(scan, (yield scan))]
    try:
        request = next(flow)
        while True:
            answers = (_answer(request, *one) for one in known if isinstance(request, Scan))
            timed = next(filter(None, answers), None)
            if timed is None:
                timed = yield request
                known += [(request, timed)] if isinstance(request, Scan) else []
            request = flow.send(timed)
    except StopIteration as ended:
        found: T = ended.value
        return found


def _answer(asked: Scan, known: Scan, timed: Timed) -> Timed | None:
    """What a scan would find by a page of another, by key; None: there may be more of it than was read. The first by
    key are whole if more were read than are wanted."""
    page = timed.reply
    assert isinstance(page, Page)
    if asked == known:
        return timed
    is_part = asked.prefix.startswith(known.prefix) and known.mark in (None, asked.mark)
    is_behind = known.after is None or asked.prefix > known.after.key
    is_all = page.next is None and known.after is None
    if known.by != "key" or not (is_part and is_behind and (is_all or not known.newest_first)):
        return None
    found = page_of(page.cells, asked, page.now, page.epoch)
    last = page.cells[-1].key if page.next else None
    whole = last is None or (last > asked.prefix and not last.startswith(asked.prefix))
    first = asked.by == "key" and not asked.newest_first and found.next is not None
    return timed._replace(reply=found) if whole or first else None


# --- its row in the table -------------------------------------------------------------------------------------------


def row_of(cell: Cell, record: Record, now: Instant) -> Row:
    """The row of the protocol's table for a run, a lock or an effect, in a store that never lost data."""
    return row(_view(cell, record, now), Settle())


def _view(cell: Cell, record: Record | None, now: Instant) -> View:
    """For a reader that only shows what the protocol states: a lease is over by the store's clock alone, whether or not
    this process has watched the clock for long enough to act on it. A lease that was dated by a clock that leapt is not
    over."""
    even = timedelta.min if cell.until is not None and is_ahead(cell.until, now) else timedelta.max
    return View(cell, record, Sample(0.0, 0.0, now), even=lambda *_: even, heard=lambda *_: timedelta.max)


# --- jobs -----------------------------------------------------------------------------------------------------------


FEW_SCHEDULES: Final = 4


class JobSeen(NamedTuple):
    """A job as the store has it; without a `job` the cell is unreadable, and `trouble` is the reason."""

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
        """The next slot of any of its schedules that may run."""
        return self.after(max(now, self.job.floor) if self.job else now)

    def after(self, instant: Instant) -> Instant | None:
        """The first slot of any of its schedules after an instant, whether or not it may run."""
        return min((slot for rule in self.schedules if (slot := rule.next(instant)) is not None), default=None)

    def latest(self, now: Instant) -> Instant | None:
        """The latest slot that is due."""
        slots = (rule.previous(now + RESOLUTION) for rule in self.schedules)
        return max((slot for slot in slots if slot is not None), default=None)

    def past(self, now: Instant, most: int) -> Iterator[Slot]:
        """The latest slots of each schedule that it has or had; where calls bring ever new ones, there is no past to
        list."""
        rules = (*self.schedules, *self.former)
        for rule in rules if len(rules) <= FEW_SCHEDULES else ():
            at = rule.previous(now + RESOLUTION)
            for _ in range(most):
                if at is not None:
                    yield Slot(self.name, at)
                    at = rule.previous(at)

    def fires_at(self, instant: Instant) -> bool:
        """Whether it is an instant of a schedule that the job has or had; of one without a schedule any instant is."""
        rules = (*self.schedules, *self.former)
        return not rules or any(rule.next(instant - RESOLUTION) == instant for rule in rules)

    def row_of(self, slot: Slot, run: "RunSeen | None", now: Instant, epoch: Epoch, traits: Traits) -> Row:
        """The row of the protocol's table for a slot of the job, with this run or none."""
        view = _view(run.cell, run.record, now) if run else _view(Cell(slot.cell, at=slot.due), None, now)
        known = KnownJob(Cell(""), self.job, now) if self.job else None
        return row(view._replace(slot=slot, known=known, epoch=epoch, traits=traits), Settle())


class JobLine(NamedTuple):
    """A job, its next slot and the latest slot on record."""

    seen: JobSeen
    next: Instant | None
    last: "RunSeen | None" = None
    stored: Stored | None = None
    """What the store has of a job that lives there."""


def job_names() -> Flow[list[str]]:
    """Also of those in the store that no process has carried yet."""
    known = yield from read_all(Scan("job/"))
    stored = yield from read_all(Scan("stored/", mark=Mark.OPEN))
    return sorted({cell.key.partition("/")[2] for cell in (*known.cells, *stored.cells)})


class NoSuchJob(NotOnRecord):
    """No job of this store has such a name: another store may be meant."""


def refuse_unknown(job: str, names: Iterable[str]) -> None:
    """Suggest which job was meant, if there is none of that name."""
    known = sorted(names)
    if job in known:
        return
    from difflib import get_close_matches  # noqa: PLC0415  only who misspells pays for it

    close = get_close_matches(job, known, n=1)
    if close:
        raise NotOnRecord(f"no job is called {job[:60]!r}; did you mean {close[0]!r}?")
    listed = "`cronce jobs` lists those of this store" if known else "there are no jobs yet in this store"
    raise NoSuchJob(f"no job is called {job[:60]!r}; {listed}")


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


def _schedule(spec: Mapping[str, Any]) -> Schedule | None:
    try:
        return parse_schedule(**spec["schedule"])
    except (KeyError, TypeError, BadInput):
        return None


def _distinct(rules: Iterable[Schedule | None]) -> tuple[Schedule, ...]:
    return tuple(dict.fromkeys(rule for rule in rules if rule is not None))


# --- runs -----------------------------------------------------------------------------------------------------------

MARK_OF_STATE: Final[dict[str, Mark]] = {
    **dict.fromkeys(("due", "waiting", "running", "retrying", "lapsed"), Mark.OPEN),
    **dict.fromkeys(("succeeded", "failed", "skipped"), Mark.CLOSED),
    **dict.fromkeys(("lost", "unknown"), Mark.ATTENTION),
}
STATES_WANTED: Final = (*MARK_OF_STATE, "closed")
"""A state or an outcome to look for; lapsed is no state, but a person may want to see it."""


_EXAMPLE: Final = "billing@2026-03-29T01:00:00Z"


def slot_named(text: str) -> Slot:
    """The slot that a person names, by its key."""
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.60} is not a slot; a slot is written like {_EXAMPLE}")
    job, at, rest = text.partition("@")
    if not at:
        raise BadInput(
            f"{text[:80]!r} is not a slot; a slot is written like {_EXAMPLE}; `cronce runs JOB` lists the"
            " slots of a job"
        )
    when, _, request = rest.partition("#")
    try:
        return slot(job, parse_instant(when), request)
    except BadInput as error:
        raise BadInput(
            f"{text[:80]!r} is not a slot; a slot is written like {job[:60]}@2026-03-29T01:00:00Z: {error}"
        ) from None


HOST_GONE: Final = "host gone"
"""How a run is shown that is running on record, and whose scheduler no longer beats."""

GONE_AFTER: Final = timedelta(seconds=3)
"""A scheduler counts as gone after two missed beats, and never sooner than this: while a page is open it beats each
second, and a busy machine may delay two of them."""


class SilentScheduler(NamedTuple):
    """The scheduler that has a run no longer beats: for how long, and how much is left of the run's lease."""

    unheard: timedelta
    left: timedelta


class RunSeen(NamedTuple):
    """A run as the store has it; without a `record` the cell is unreadable, and `trouble` is the reason."""

    slot: Slot
    cell: Cell
    record: Record | None
    lapsed: bool = False
    trouble: str = ""
    gone: SilentScheduler | None = None
    """Of one that is running on record, if its scheduler is gone; `with_hosts` finds out."""

    @property
    def shown(self) -> str:
        """A summary in one word: its outcome, or its state."""
        if self.record is None:
            return "unreadable"
        if self.gone and not self.lapsed:
            return HOST_GONE
        return "lapsed" if self.lapsed else str(self.record.outcome or self.record.state)


def with_hosts(runs: Sequence[RunSeen]) -> Flow[list[RunSeen]]:
    """The same runs. Of those that are running, whether their scheduler is gone: one request, if there are any."""
    keys = {holder_cell(run.record.holder) for run in runs if run.record and run.record.is_running}
    if not keys:
        return list(runs)
    loaded = yield from load(sorted(keys))
    return by_beats(runs, _seen(loaded.cells, ()), loaded.now)


def by_beats(runs: Iterable[RunSeen], holders: Iterable["HolderSeen"], now: Instant) -> list[RunSeen]:
    """The same by holders that were read before. A run whose holder is not among them leaves no beats, as under a
    crontab: only its lease shows whether it is alive."""
    known = {one.holder.holder: one for one in holders}
    return [run._replace(gone=_gone(run, known, now)) for run in runs]


def _gone(run: RunSeen, known: Mapping[str, "HolderSeen"], now: Instant) -> SilentScheduler | None:
    one = known.get(run.record.holder) if run.record and run.record.is_running else None
    if one is None or run.cell.until is None or not one.is_gone(now):
        return None
    return SilentScheduler(now - one.beat, run.cell.until - now)


def filed(cell: Cell) -> tuple[Instant, str]:
    """When it was due or asked for."""
    return cell.at or EPOCH, cell.key


def ran_at(run: RunSeen) -> tuple[Instant, str]:
    """When it started; one that never did, when it was closed, or else was due or asked for."""
    ran = run.record and (run.record.started or run.record.finished)
    return ran or run.cell.at or EPOCH, run.cell.key


def seen_run(cell: Cell, now: Instant) -> RunSeen:
    slot = slot_of_cell(cell.key)
    try:
        record = decode(cell.value, cell.key)
    except BadRecord as error:
        return RunSeen(slot, cell, None, trouble=str(error))
    return RunSeen(slot, cell, record, lapsed=row_of(cell, record, now) is Row.LAPSED)


def seen_runs(cells: Iterable[Cell], now: Instant) -> list[RunSeen]:
    """The runs of these cells; cells whose key is not that of a run are left out."""
    runs = []
    for cell in cells:
        with suppress(BadInput):
            runs.append(seen_run(cell, now))
    return runs


LATEST_RUNS: Final = Scan("run/", "at", newest_first=True)
"""The latest runs of all jobs."""

MAYBE_UNCLAIMED: Final = 2
"""So many of the slots that a schedule names may have no run: one that is just due, or was passed over."""


def latest_runs(jobs: Sequence[JobSeen], limit: int) -> Flow[dict[str, list[RunSeen]]]:
    """The latest runs of each job, the latest first: among the latest of all jobs, read at once; of a job with too few
    there, by the slots that its schedules name, of all such jobs at once; and of a job with none there, or too
    few there, too, by its own keys. So a run by hand of an old slot is found if it is among the latest of all."""
    page = yield from read_page(LATEST_RUNS)
    found: dict[str, dict[str, Cell]] = {seen.name: {} for seen in jobs}

    def short() -> list[JobSeen]:
        return [seen for seen in jobs if page.next is not None and len(found[seen.name]) < limit]

    def take(cells: Iterable[Cell]) -> None:
        for cell in cells:
            if cell.version and (name := cell.key.split("/")[1]) in found:
                found[name][cell.key] = cell

    take(page.cells)
    some = [seen for seen in short() if found[seen.name]]
    for keys in chunks(one.cell for seen in some for one in seen.past(page.now, limit + MAYBE_UNCLAIMED)):
        take((yield from load(keys)).cells)
    for seen in short():
        take((yield from read_page(Scan(f"run/{seen.name}/", newest_first=True, limit=limit))).cells)
    return {name: nlargest(limit, seen_runs(cells.values(), page.now), key=ran_at) for name, cells in found.items()}


# --- locks and leaders ----------------------------------------------------------------------------------------------

HeldState = Literal["held", "lapsed", "resting", "free", "unreadable"]
_STATES: Final[Mapping[Row, HeldState]] = {Row.HELD: "held", Row.LAPSED: "lapsed", Row.RESTING: "resting"}


class HeldSeen(NamedTuple):
    """A lock or a leadership: held until then at least, lapsed and not yet taken, resting (`at_least`), or free."""

    name: str
    state: HeldState
    cell: Cell
    record: Record | None


class HeldPage(NamedTuple):
    """Locks or leaderships by name, and the one after which the rest stands, or None."""

    now: Instant
    held: tuple[HeldSeen, ...]
    next: str | None


def held(prefix: str, after: str = "", most: int | None = None) -> Flow[HeldPage]:
    """Locks (`lock/`), or leaderships (`leader/`): all, or so many at most."""
    place = Position(0, prefix + check_name(after)) if after else None
    page = yield from read_all(Scan(prefix, after=place, limit=min(most or 1000, 1000)), most)
    found = tuple(seen_held(cell, cell.key.removeprefix(prefix), page.now) for cell in page.cells)
    return HeldPage(page.now, found, found[-1].name if page.next else None)


def seen_held(cell: Cell, name: str, now: Instant) -> HeldSeen:
    try:
        record = decode(cell.value, cell.key)
    except BadRecord:
        return HeldSeen(name, "unreadable", cell, None)
    return HeldSeen(name, _STATES.get(row_of(cell, record, now), "free"), cell, record)


# --- schedulers: which are alive, which shall claim nothing more, and what they would run -----------------------------


Life = Literal["alive", "late", "dead"]


class HolderSeen(NamedTuple):
    """A scheduler: until when its last beat counts, and what keeps it from claiming, if anything does."""

    holder: Holder
    until: Instant
    drained: Act | None

    @property
    def beat(self) -> Instant:
        """When it was last heard of."""
        return self.until if self.holder.gone else self.until - HOLDER_TTL

    def life(self, now: Instant) -> Life:
        """By its last beat. Late: two beats are overdue. Others take it for dead only when it lapses."""
        if self.holder.gone or self.until <= now:
            return "dead"
        return "late" if now - self.beat > 2 * self.holder.every else "alive"

    def is_gone(self, now: Instant) -> bool:
        """Whether its runs have lost their process, as far as beats show."""
        return self.life(now) == "dead" or now - self.beat > max(2 * self.holder.every, GONE_AFTER)

    @property
    def claims(self) -> bool:
        return self.drained is None and not self.holder.draining

    def concerned(self, cell: str) -> bool:
        """Whether an order in that cell applies to it."""
        return cell in drain_cells(self.holder.holder, self.holder.labels)


def holders() -> Flow[tuple[Instant, list[HolderSeen]]]:
    """The live schedulers, by name."""
    now, seen = yield from everybody()
    return now, [one for one in seen if one.until > now]


HOLDER_SIGNS: Final = Scan("holder/", mark=Mark.OPEN)


def everybody() -> Flow[tuple[Instant, list[HolderSeen]]]:
    """All processes, dead ones too, as long as they are remembered. A record that a newer cronce wrote is left out."""
    orders = yield from read_all(Scan("drain/"))
    signs = yield from read_all(HOLDER_SIGNS)
    return signs.now, _seen(signs.cells, orders.cells)


class PresentHolders(NamedTuple):
    """Schedulers that left a record, dead ones too, and the cells that were read beside their orders."""

    holders: list[HolderSeen]
    beside: Loaded
    ended: Boot

    @property
    def live(self) -> list[HolderSeen]:
        return [one for one in self.holders if one.until > self.beside.now]


def present(beside: Sequence[str]) -> Flow[PresentHolders]:
    signs = yield from read_all(HOLDER_SIGNS)
    return (yield from told(signs.cells, beside))


def told(cells: Sequence[Cell], beside: Sequence[str] = ()) -> Flow[PresentHolders]:
    """The schedulers that left these cells."""
    known = (holder for _, holder in all_readable(cells, decode_holder))
    orders = dict.fromkeys(key for holder in known for key in drain_cells(holder.holder, holder.labels))
    timed = yield Load([*beside, *orders])
    loaded, number = timed.reply, len(beside)
    assert isinstance(loaded, Loaded)
    return PresentHolders(
        _seen(cells, loaded.cells[number:]), loaded._replace(cells=loaded.cells[:number]), timed.ended
    )


def _seen(cells: Iterable[Cell], orders: Iterable[Cell]) -> list[HolderSeen]:
    acts = {cell.key: act for cell in orders if (act := standing_act(cell)) is not None}
    seen = []
    for cell, holder in all_readable(cells, decode_holder):
        if cell.until is not None:
            stands = (acts[key] for key in drain_cells(holder.holder, holder.labels) if key in acts)
            seen.append(HolderSeen(holder, cell.until, next(stands, None)))
    return seen


def halted_and_carried() -> Flow[tuple[Act | None, set[str]]]:
    """Who paused everything, if it is paused; a record that cannot be read pauses everything, too. And the jobs of
    which a live scheduler would run what is due."""
    there = yield from present([SWITCH])
    return standing_act(there.beside.cells[0]), (yield from carried(there.live))


def carried(by: Iterable[HolderSeen]) -> Flow[set[str]]:
    """The jobs of which one of these schedulers would run what is due."""
    jobs: set[str] = set()
    for bundle in _claimed(by):
        jobs |= (yield from read_bundle(bundle)).specs.keys()
    return jobs


def is_carried(job: str, by: Iterable[HolderSeen]) -> Flow[bool]:
    """Whether one of these would run what is due of a job."""
    for bundle in sorted(_claimed(by), key=lambda bundle: bundle not in _WHOLE):
        if job in (yield from read_bundle(bundle)).specs:
            return True
    return False


def _claimed(by: Iterable[HolderSeen]) -> list[str]:
    """The bundles that these schedulers claim slots of."""
    return sorted({one.holder.bundle for one in by if one.claims and one.holder.role != "schedule"})


_WHOLE: Final[dict[str, Bundle]] = {}
"""The bundles that were read last: a bundle is named by the digest of its content, so it never changes."""

_BUNDLES: Final = 100
"""So many are remembered."""


def read_bundle(bundle: str) -> Flow[Bundle]:
    if bundle in _WHOLE:
        return _WHOLE[bundle]
    cells = (yield from read_all(Scan(bundle_cells(bundle)))).cells
    found = joined(part for _, part in all_readable(cells, decode_bundle))
    if digest_of({job: (digest, "") for job, digest in found.specs.items()}, found.code) == bundle:
        while len(_WHOLE) >= _BUNDLES:
            _WHOLE.pop(next(iter(_WHOLE)), None)
        _WHOLE[bundle] = found
    return found


def shared_names(live: Iterable[Holder], bundles: Mapping[str, Bundle]) -> dict[str, dict[str, str]]:
    """Jobs that are different functions in different processes: where each is, and one that has it there."""
    places: dict[str, dict[str, str]] = {}
    for one in live:
        for job, code in bundles.get(one.bundle, NO_JOBS).code.items():
            places.setdefault(job, {}).setdefault(code, one.holder)
    return {job: dict(sorted(found.items())) for job, found in sorted(places.items()) if len(found) > 1}


def mixed_tzdata(live: Iterable[Holder], machines: Mapping[str, str]) -> dict[str, str]:
    """The versions of the time zone database, if there are several, and who has each."""
    found = {version: f"on {host}" for host, version in machines.items()}
    found |= {one.tzdata: one.holder for one in live if one.tzdata}
    return dict(sorted(found.items())) if len(found) > 1 else {}


def machines_tzdata() -> Flow[dict[str, str]]:
    """Which version each machine has, as processes like `cronce exec` left word of within a day."""
    page = yield from read_page(Scan("machine/", "until", Mark.FREE, newest_first=True, limit=MACHINES))
    lately = [cell for cell in page.cells if cell.until and cell.until > page.now + NOTES_TTL - TZDATA_NOTE_AGE]
    return {one.host: one.tzdata for _, one in all_readable(lately, decode_machine) if one.tzdata}
