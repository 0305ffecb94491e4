"""A survey: what a watcher reads of the store each few seconds. A flow that only reads, and never all of it.

Facts, no words and no judgement: those are the folds' (`watch`). What cannot be read, since it is damaged or of a newer
cronce, is left out; what a store does not keep is not there.

Ten thousand jobs and a million runs cannot be read every few seconds. So a watcher keeps what it learned
(`WatcherState`): jobs are read in slices, again and again; an agenda of all of them says which slots fall due; and of
the runs only those are looked at, until they are closed. What is kept grows with the jobs, never with the runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import timedelta
from functools import lru_cache
from typing import Final, Generic, TypeVar

from cronce.errors import BadInput
from cronce.model import BACKFILL, BOARD_JOBS, SWITCH, Boot, Cell, Epoch, Instant, Mark, Slot, Traits
from cronce.protocol.codec import Decode, all_readable
from cronce.protocol.notices import Beats, Bundle, Holder, Observed, decode_beats, decode_observed
from cronce.protocol.record import TOO_LATE, Act, Outcome, Record, standing_act
from cronce.protocol.table import Row
from cronce.runtime import queries
from cronce.runtime.effects.review import EffectSeen, look_at
from cronce.runtime.flow import Flow, Load, Request
from cronce.runtime.queries import HeldSeen, HolderSeen, JobSeen, RunSeen
from cronce.runtime.run import times_begun
from cronce.runtime.scheduling.roster import NO_JOBS, chunks
from cronce.runtime.stored_jobs import seen_stored
from cronce.schedule import Schedule, parse_duration
from cronce.schedule.agenda import Agenda
from cronce.stores.base import Page, Scan
from cronce.value import NamedTuple

T = TypeVar("T")

SLICE: Final = 1000
"""Cells that are read at once."""

SLOTS_WATCHED: Final = 20_000
"""If more slots than these are watched, it is the oldest of each job that counts."""

UNCLAIMED: Final = 20
"""Slots of a job without a run, so many are watched."""

MISSED_TTL: Final = timedelta(hours=1)
"""For so long it matters that a slot was missed, once newer ones run."""

ALL_SLOTS_UP_TO: Final = SLICE
"""So many slots are all looked at each time."""

LONG_RUN_EVERY: Final = timedelta(seconds=60)
"""Of more, a run that takes long, or that failed, is looked at this often."""


NAMES_WATCHED: Final = 10 * SLICE
"""Beats, and names under which calls are observed: so many are watched."""

OPEN_SURVEYED: Final = 5 * SLICE
"""Runs that are open, so many are looked at: those whose lease passed longest ago come first."""

ENDED_MATTERS: Final = timedelta(days=1)
"""For so long after a scheduler ended it matters what it carried."""

RESTART_WITHIN: Final = timedelta(seconds=60)
"""A scheduler that shut down may be back within this long."""


class Survey(NamedTuple):
    """What a watcher saw, at the store's now."""

    now: Instant
    epoch: Epoch
    halted: Act | None = None
    """Who paused everything, if it is paused."""
    jobs: Mapping[str, JobSeen] = {}
    holders: Sequence[HolderSeen] = ()
    """Schedulers, dead ones too: one is alive until its `until`."""
    bundles: Mapping[str, Bundle] = {}
    """Which version of which job, and where its code is, by what those holders name that live or did so lately."""
    unclaimed: Sequence[Slot] = ()
    """Slots that are due and may run, and that have no record."""
    looked: Sequence[RunSeen] = ()
    """Runs of slots that fell due, as far as they were looked at this time."""
    began: Mapping[str, RunSeen] = {}
    """The newest slot of each job that is on record, without what it printed."""
    ended: Mapping[str, RunSeen] = {}
    """The newest one that ran and is closed."""
    open: Sequence[RunSeen] = ()
    attention: Sequence[RunSeen] = ()
    """Runs that are lost or unknown; with `more` there are more than these."""
    more: bool = False
    doubts: Sequence[EffectSeen] = ()
    """Effects that are in doubt, a thousand of each sort at most."""
    leaders: Sequence[HeldSeen] = ()
    beats: Mapping[str, Beats] = {}
    observed: Mapping[str, Observed] = {}
    tzdata: Mapping[str, str] = {}
    """Which version of the time zone database machines have that run something of short life."""
    took: Mapping[str, Sequence[timedelta]] = {}
    """How long the last runs took that succeeded, of some jobs."""
    backfilled: Set[Slot] = frozenset()
    """Of slots that were too late to start, those that were made up for by hand."""
    history: bool = True
    """Whether the store keeps every slot (`Traits.history`); else it refuses runs by hand, and alerts suggest none."""

    def carried_by(self, one: Holder) -> Mapping[str, str]:
        """Which version of which job."""
        return self.bundles.get(one.bundle, NO_JOBS).specs

    @property
    def live(self) -> list[HolderSeen]:
        return [one for one in self.holders if one.until > self.now]


class WatchMemory(NamedTuple):
    """What is remembered from one judgement to the next. Each gives the memory to go on with."""

    first: Instant | None = None
    """Since when it is watched."""
    birth: int | None = None
    reborn: Instant | None = None
    """When the store was found to be in another life."""
    since: Mapping[str, Instant] = {}
    """Since when each finding stands."""
    progress: Mapping[str, tuple[tuple[int, int], Instant]] = {}
    """How far each run was, and since when."""
    missed: Mapping[str, Sequence[tuple[Instant, Instant]]] = {}
    """Of each job the slots that were missed, each with when that was noted."""
    lapses: Mapping[str, Sequence[tuple[Instant, str]]] = {}
    """Of each job when a lease lapsed, and whose."""


def attempts(record: Record) -> tuple[int, int]:
    """How often a slot was begun, and how often its work was completed: 0 or 1."""
    return times_begun(record), int(record.succeeded)


# --- what is known from earlier surveys ------------------------------------------------------------------------------


CellVersions = tuple[int, int]
"""Of a job's two cells: its own, and its definition if it lives in the store; 0 where there is none."""

WalkedJobs = Mapping[str, tuple[CellVersions, T]]


class JobWalk(Generic[T]):
    """A walk over all jobs, slice by slice. `make` says what is kept of a job; one whose cells have not changed is kept
    as it was. `with_removed`: also definitions that were removed are read, and their jobs are left out."""

    def __init__(self, make: Callable[[JobSeen], T], *, with_removed: bool) -> None:
        self.jobs: WalkedJobs[T] = {}
        """By name, as the last walk found them."""
        self._make, self._with_removed = make, with_removed
        self._walking: Flow[WalkedJobs[T]] | None = None
        self._asked: Request = Load([])

    def is_under_way(self) -> bool:
        return self._walking is not None

    def begin(self, limit: int) -> None:
        """Begin anew, with so many cells in a slice."""
        self._walking = self._walk(limit)
        self._asked = next(self._walking)

    def step(self) -> Flow[Boot]:
        """Read a slice; the boot clock afterwards."""
        assert self._walking is not None
        timed = yield self._asked
        try:
            self._asked = self._walking.send(timed)
        except StopIteration as over:
            self.jobs, self._walking = over.value, None
        return timed.ended

    def _walk(self, limit: int) -> Flow[WalkedJobs[T]]:
        """Definitions first: a process may have carried none of them yet."""
        stored: dict[str, Cell] = {}
        found: dict[str, tuple[CellVersions, T]] = {}
        for prefix, mark in (("stored/", None if self._with_removed else Mark.OPEN), ("job/", None)):
            scan: Scan | None = Scan(prefix, mark=mark, limit=limit)
            while scan is not None:
                page = yield from queries.read_page(scan)
                cells = {cell.key.removeprefix(prefix): cell for cell in page.cells}
                if prefix == "stored/":
                    stored |= cells
                else:
                    found |= self._kept((name, cell, stored.pop(name, None)) for name, cell in cells.items())
                scan = scan._replace(after=page.next) if page.next else None
        found |= self._kept((name, None, cell) for name, cell in stored.items())
        return dict(sorted(found.items()))

    def _kept(
        self, cells: Iterable[tuple[str, Cell | None, Cell | None]]
    ) -> Iterator[tuple[str, tuple[CellVersions, T]]]:
        for name, job, stored in cells:
            versions = (job.version if job else 0, stored.version if stored else 0)
            known = self.jobs.get(name)
            if known is not None and known[0] == versions:
                yield name, known
                continue
            seen = queries.seen_job(job) if job else None
            seen = seen_stored(name, seen, stored) if stored else seen
            removed = stored is not None and stored.mark is not Mark.OPEN
            if seen is not None and not (removed and "revision" in seen.policies):
                yield name, (versions, self._make(seen))


class WatchedSlot(NamedTuple):
    """A slot that fell due: from when on it is looked at again, and whether it has ever been on record."""

    slot: Slot
    look: Instant
    began: bool = False


class WatcherState:
    """One thread's. Surveys add to it."""

    def __init__(self) -> None:
        self.begin(Epoch(), Traits(""))

    def begin(self, epoch: Epoch, traits: Traits) -> None:
        """In this life of the store nothing is known yet; and up to where it forgot, nothing can be."""
        self.epoch, self._traits = epoch, traits
        self.halted = False
        """Whether everything is paused."""
        self.jobs: dict[str, JobSeen] = {}
        self.began: dict[str, RunSeen] = {}
        """The newest slot of each job that is on record."""
        self.ended: dict[str, RunSeen] = {}
        """The newest one of each that ran and is closed."""
        self._too_late: dict[Slot, Instant] = {}
        self.took: dict[str, tuple[Instant, tuple[timedelta, ...]]] = {}
        """How long the last successful runs of some jobs took, and when that was read."""
        self._walk: JobWalk[JobSeen] = JobWalk(lambda seen: seen, with_removed=True)
        self.board = -1
        self._agenda = Agenda()
        self._placed: dict[str, Schedule] = {}
        self._watched: dict[str, WatchedSlot] = {}
        self._new: list[Slot] = []

    # --- jobs ---

    def learn_jobs(self, now: Instant, *, whole: bool) -> Flow[None]:
        """Go on with the walk over all jobs, by a slice of each kind; or walk over all of them now."""
        if whole or not self._walk.is_under_way():
            self._walk.begin(SLICE)
        before, steps = self._walk.jobs, 0
        while self._walk.is_under_way() and (whole or steps < 2):
            yield from self._walk.step()
            steps += 1
        if self._walk.is_under_way():
            return
        for name in before.keys() - self._walk.jobs.keys():
            self._forget(name)
        for name, (versions, seen) in self._walk.jobs.items():
            if name not in before or before[name][0] != versions:
                self._place(seen, now)

    def _place(self, seen: JobSeen, now: Instant) -> None:
        """A job as it is now. The latest slot of one that is new, or has another schedule, is looked at."""
        self.jobs[seen.name] = seen
        rule = watched_rule(seen)
        if rule == self._placed.get(seen.name):
            return
        self._placed.pop(seen.name, None)
        self._agenda.remove(seen.name)
        if rule is not None:
            self._placed[seen.name] = rule
            self._agenda.add(seen.name, rule, now)
            slot = self.watch(seen.name, seen.latest(now), now)
            self._new += [slot] if slot else []

    def _forget(self, name: str) -> None:
        """There is no such job any more."""
        self._agenda.remove(name)
        for known in (self.jobs, self.began, self.ended, self.took, self._placed):
            known.pop(name, None)

    # --- slots ---

    def fall_due(self, now: Instant) -> None:
        """After a long time away only the latest slot is looked at."""
        popped = self._agenda.pop_due(now)
        for name, at in popped.slots:
            self.watch(name, at, now)
        for name, _ in popped.behind:
            latest = self.jobs[name].latest(now)
            self._agenda.skip_to(name, latest or now)
            self.watch(name, latest, now)

    def watch(self, name: str, at: Instant | None, now: Instant) -> Slot | None:
        """Look at this slot of the job from now on. Whether it may run shows if it is not on record."""
        if at is None:
            return None
        slot = Slot(name, at)
        self._watched.setdefault(slot.cell, WatchedSlot(slot, now))
        return slot

    def watch_previous(self, now: Instant) -> list[Slot]:
        """Of jobs that are new to us: if the latest slot has not ended yet, the one before says how the job is."""
        new, self._new = self._new, []
        before = [
            self.watch(slot.job, self._placed[slot.job].previous(slot.at), now) for slot in new if self._goes_on(slot)
        ]
        return [slot for slot in before if slot is not None]

    def _goes_on(self, slot: Slot) -> bool:
        return slot.job in self._placed and (slot.job not in self.ended or self.ended[slot.job].slot.at < slot.at)

    def looked_at(self, now: Instant) -> list[Slot]:
        """The slots whose turn it is: all, unless they are many. Those of a job that is no more are let go."""
        self._watched = {cell: one for cell, one in self._watched.items() if one.slot.job in self.jobs}
        few = len(self._watched) <= ALL_SLOTS_UP_TO
        return [one.slot for one in self._watched.values() if few or one.look <= now]

    def saw(self, slot: Slot, run: RunSeen | None, now: Instant) -> None:
        """What became of a slot until now."""
        watched = self._watched[slot.cell]
        if run is None:
            if watched.began or not self._may_run(slot, now):
                del self._watched[slot.cell]
            return  # it is looked at each time
        if run.record is None:
            del self._watched[slot.cell]
            return
        self.note(run)
        last_failed = run.record.outcome is Outcome.FAILED and self.ended[slot.job].slot == slot
        if run.record.is_closed and not last_failed:  # a person may still resolve that
            del self._watched[slot.cell]
        else:
            self._watched[slot.cell] = WatchedSlot(slot, now + min((now - slot.at) / 10, LONG_RUN_EVERY), began=True)

    def note(self, run: RunSeen) -> None:
        record = run.record
        assert record is not None
        job, at = run.slot.job, run.slot.at
        brief = run._replace(cell=run.cell._replace(value=""), record=record._replace(output="", payload="", result=""))
        if job not in self.began or self.began[job].slot.at <= at:
            self.began[job] = brief
        if is_too_late(record):
            self._too_late.setdefault(run.slot, record.finished or at)
        ran = record.outcome is not None and record.outcome.ran
        if ran and (job not in self.ended or self.ended[job].slot.at <= at):
            self.ended[job] = brief

    def too_late(self, now: Instant) -> list[Slot]:
        """Slots that were too late to start, for as long as that matters: a backfill may make up for them."""
        matter = [slot for slot, when in self._too_late.items() if now - when < MISSED_TTL or self._is_newest(slot)]
        self._too_late = {slot: self._too_late[slot] for slot in matter[-SLICE:]}
        return list(self._too_late)

    def _is_newest(self, slot: Slot) -> bool:
        return slot.job in self.began and self.began[slot.job].slot == slot

    def _may_run(self, slot: Slot, now: Instant) -> bool:
        seen, newest = self.jobs.get(slot.job), self.began.get(slot.job)
        if seen is None or seen.job is None or slot.job not in self._placed:
            return False
        if seen.job.paused or seen.row_of(slot, None, now, self.epoch, self._traits) is Row.BELOW:
            return False
        return newest is None or newest.slot.at < slot.at or now - slot.at <= MISSED_TTL

    def unclaimed(self) -> list[Slot]:
        """The oldest slots of each job without a run: those are missed first. The others are not watched."""
        slots: dict[str, list[Slot]] = {}
        for one in self._watched.values():
            if not one.began:
                slots.setdefault(one.slot.job, []).append(one.slot)
        most = UNCLAIMED if len(self._watched) <= SLOTS_WATCHED else 1
        for found in slots.values():
            for slot in found[most:]:
                del self._watched[slot.cell]
        return [slot for found in slots.values() for slot in found[:most]]


def watched_rule(seen: JobSeen) -> Schedule | None:
    """By what a job is expected to run. One that calls from outside have named with several schedules may be called by
    any of them still, or by none."""
    return seen.schedules[0] if len(seen.schedules) == 1 else None


def is_too_late(record: Record) -> bool:
    return record.outcome is Outcome.SKIPPED and record.reason == TOO_LATE


def read_runs(scan: Scan, most: int) -> Flow[tuple[list[RunSeen], bool]]:
    """Runs that can be read, and whether there are more."""
    page = yield from queries.read_all(scan, most)
    return [run for run in queries.seen_runs(page.cells, page.now) if run.record is not None], page.next is not None


# --- the flow -------------------------------------------------------------------------------------------------------


def survey(known: WatcherState, traits: Traits) -> Flow[Survey]:
    """What there is to see now. All jobs are read at once if nothing is known yet, or if a person changed one or
    resumed all; else a slice of them."""
    first = yield from queries.load([SWITCH, BOARD_JOBS])
    switch, board = first.cells
    if known.epoch.birth != first.epoch.birth:  # another life: nothing that was known of the last one holds
        known.begin(first.epoch, traits)
    stopped = standing_act(switch)
    halted = stopped is not None
    whole = (board.version, halted) != (known.board, known.halted)
    yield from known.learn_jobs(first.now, whole=whole)
    known.board, known.halted = board.version, halted
    _, everyone = yield from queries.everybody()
    bundles = yield from _bundles(everyone, first.now)
    looked = yield from _look_at_slots(known, first.now)
    still_open, _ = yield from read_runs(Scan("run/", "until", Mark.OPEN), OPEN_SURVEYED)
    attention, more = yield from _attention()
    yield from _note_recent(known)
    yield from read_histories(known, still_open, first.now)
    return Survey(
        now=first.now,
        epoch=first.epoch,
        halted=stopped,
        jobs=known.jobs,
        holders=everyone,
        bundles=bundles,
        unclaimed=known.unclaimed(),
        looked=looked,
        backfilled=(yield from _backfilled(known, first.now)),
        began=known.began,
        ended=known.ended,
        open=queries.by_beats(still_open, everyone, first.now),
        attention=attention,
        more=more,
        doubts=(yield from _doubts(first.now)),
        leaders=(yield from queries.held("leader/")).held,
        beats=(yield from named("beat/", decode_beats, NAMES_WATCHED)),
        observed=(yield from named("observed/", decode_observed, NAMES_WATCHED)),
        tzdata=(yield from queries.machines_tzdata()),
        took={job: took for job, (_, took) in known.took.items()},
        history=traits.history,
    )


def _bundles(everyone: Iterable[HolderSeen], now: Instant) -> Flow[Mapping[str, Bundle]]:
    """Of those that lived lately."""
    found = {}
    for bundle in sorted({one.holder.bundle for one in everyone if now - one.until < ENDED_MATTERS}):
        found[bundle] = yield from queries.read_bundle(bundle)
    return found


def _look_at_slots(known: WatcherState, now: Instant) -> Flow[list[RunSeen]]:
    """The slots that fell due, and of a job that is new to us also the one before, if its latest is not over yet."""
    known.fall_due(now)
    looked = yield from _look(known, known.looked_at(now), now)
    return [*looked, *(yield from _look(known, known.watch_previous(now), now))]


def _look(known: WatcherState, slots: Sequence[Slot], now: Instant) -> Flow[list[RunSeen]]:
    runs = []
    for slot, run in (yield from _load_runs({slot.cell: slot for slot in slots}, now)):
        known.saw(slot, run, now)
        runs += [run] if run is not None and run.record is not None else []
    return runs


def _backfilled(known: WatcherState, now: Instant) -> Flow[Set[Slot]]:
    by_cell = {slot._replace(request=BACKFILL).cell: slot for slot in known.too_late(now)}
    found = yield from _load_runs(by_cell, now)
    return {slot for slot, run in found if run and run.record and run.record.succeeded}


def _load_runs(by_cell: Mapping[str, Slot], now: Instant) -> Flow[list[tuple[Slot, RunSeen | None]]]:
    """Each slot with the run in its cell; None: there is none."""
    found = []
    for keys in chunks(by_cell):
        loaded = yield from queries.load(keys)
        found += [(by_cell[cell.key], queries.seen_run(cell, now) if cell.version else None) for cell in loaded.cells]
    return found


def _attention() -> Flow[tuple[list[RunSeen], bool]]:
    """Of more than fit, the newest besides: runs by hand are filed by no instant, so that one order does not do."""
    found, more = yield from read_runs(Scan("run/", mark=Mark.ATTENTION), SLICE)
    if more:
        newest, _ = yield from read_runs(Scan("run/", "at", Mark.ATTENTION, newest_first=True), SLICE)
        found = list({run.slot: run for run in (*found, *newest)}.values())
    return found, more


def _doubts(now: Instant) -> Flow[Sequence[EffectSeen]]:
    pages = []
    for scan in (steps_in_doubt(SLICE), *keys_in_doubt(SLICE, now)):
        pages += [(yield from queries.read_page(scan))]
    return (yield from effects_in_doubt(pages))


def _note_recent(known: WatcherState) -> Flow[None]:
    """Of jobs without a schedule that could be watched, the last runs."""
    if any(watched_rule(seen) is None for seen in known.jobs.values()):
        recent, _ = yield from read_runs(Scan("run/", "at", newest_first=True), SLICE)
        for run in recent:
            seen = known.jobs.get(run.slot.job)
            if seen is not None and watched_rule(seen) is None:
                known.note(run)


def effects_in_doubt(pages: Sequence[Page]) -> Flow[tuple[EffectSeen, ...]]:
    """Of the effects on these pages, those that are in doubt."""
    found = yield from look_at([cell for page in pages for cell in page.cells], pages[0].now)
    return tuple(one for one in found if one.state == "in doubt")


def steps_in_doubt(most: int) -> Scan:
    """Those that wait for a person. (Steps that are only begun are not read: they end with their run, which is lost
    then.)"""
    return Scan("effect/", mark=Mark.ATTENTION, limit=most)


def keys_in_doubt(most: int, now: Instant) -> tuple[Scan, Scan]:
    """Keys that wait for a person, and those whose lease has passed."""
    return Scan("once/", mark=Mark.ATTENTION, limit=most), Scan("once/", "until", Mark.OPEN, now, limit=most)


def named(prefix: str, decode: Decode[T], most: int) -> Flow[dict[str, T]]:
    """What stands under each name; the first of them by name, if there are more than that."""
    page = yield from queries.read_all(Scan(prefix, limit=min(most, SLICE)), most)
    return {cell.key.removeprefix(prefix): said for cell, said in all_readable(page.cells, decode)}


# --- how long runs take: of jobs of which that may matter just now, what their last runs took ------------------------


SHORTEST_COMPARED: Final = timedelta(minutes=1)
"""A shorter run is not compared with others."""

RUNS_COMPARED: Final = 20
"""With so many runs before it a run is compared."""

HISTORIES: Final = 20
"""Jobs whose history is read in one survey."""

HISTORY_AGE: Final = timedelta(minutes=10)
NEAR_TIMEOUT: Final = 0.8
"""Runs that take this share of their timeout are near it."""


def read_histories(known: WatcherState, still_open: Iterable[RunSeen], now: Instant) -> Flow[None]:
    wanted = _wanted(known, still_open, now)
    old = [job for job in wanted if job not in known.took or now - known.took[job][0] > HISTORY_AGE]
    for job in old[:HISTORIES]:
        scan = Scan(f"run/{job}/", mark=Mark.CLOSED, newest_first=True, limit=RUNS_COMPARED)
        runs, _ = yield from read_runs(scan, RUNS_COMPARED)
        known.took[job] = now, tuple(span for run in runs if (span := took(run)) is not None)


def _wanted(known: WatcherState, still_open: Iterable[RunSeen], now: Instant) -> list[str]:
    """Jobs that run for long just now, or whose last run came near its timeout."""
    running = {
        run.slot.job for run in still_open if (since := began(run)) is not None and now - since > SHORTEST_COMPARED
    }
    near = {job for job, run in known.ended.items() if is_near(took(run), timeout(known.jobs.get(job)))}
    known.took = {job: read for job, read in known.took.items() if job in running | near}
    return sorted(running | near)


def began(run: RunSeen) -> Instant | None:
    """Since when it has been running, if it is."""
    return run.record.started if run.record and run.record.is_running else None


def took(run: RunSeen) -> timedelta | None:
    """How long a run took that succeeded by itself."""
    return run.record.took() if run.record and run.record.succeeded else None


def timeout(seen: JobSeen | None) -> timedelta | None:
    return policy_span(seen, "timeout")


def policy_span(seen: JobSeen | None, name: str) -> timedelta | None:
    """A policy of a job that is a length of time; whatever else a newer cronce writes there is none."""
    written = seen.policies.get(name) if seen else None
    return _span(written) if isinstance(written, str) else None


@lru_cache(maxsize=1000)
def _span(text: str) -> timedelta | None:
    """Ten thousand jobs have a few of them, and are asked each few seconds."""
    try:
        return parse_duration(text)
    except BadInput:
        return None


def is_near(span: timedelta | None, limit: timedelta | None) -> bool:
    return span is not None and limit is not None and span > NEAR_TIMEOUT * limit
