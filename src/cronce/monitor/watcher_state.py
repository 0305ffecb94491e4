"""What a watcher knows from its earlier surveys: the jobs, the slots that are due, and what became of them.

With ten thousand jobs and a million runs nobody reads it all each few seconds. So jobs are read in slices, again and
again; an agenda of all of them says which slots fall due; and of the runs only those are looked at, until they are
closed. What is kept grows with the jobs, never with the runs.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.model import Cell, Epoch, Instant, Mark, Slot, Traits
from cronce.protocol.notices import Bundle
from cronce.protocol.record import TOO_LATE, Outcome, Record
from cronce.protocol.table import Row
from cronce.runtime.flow import Flow
from cronce.runtime.queries import JobSeen, RunSeen, read_page, seen_job, seen_runs
from cronce.runtime.stored_jobs import seen_stored
from cronce.schedule import Schedule
from cronce.schedule.agenda import Agenda
from cronce.stores.base import Page, Position, Scan
from cronce.value import NamedTuple

SLICE: Final = 1000
"""Cells that are read at once."""

SLOTS_WATCHED: Final = 20_000
"""If more slots than these are watched, it is the oldest of each job that counts."""

UNCLAIMED: Final = 20
"""Slots of a job that nobody has claimed, so many are watched."""

MISSED_TTL: Final = timedelta(hours=1)
"""For so long it matters that a slot was missed, once newer ones run."""

ALL_SLOTS_UP_TO: Final = SLICE
"""So many slots are all looked at each time."""

LONG_RUN_EVERY: Final = timedelta(seconds=60)
"""Of more, a run that is at work for long, or that failed, is looked at this often."""


class SurveySlices:
    """The cells of a prefix, some at each survey and all of them by and by."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._after: Position | None = None
        self._before: set[str] = set()
        self._found: set[str] = set()

    def read(self, *, whole: bool) -> Flow[tuple[list[Cell], set[str]]]:
        """The next of them, or all, and the keys of those that were there in the last round and are no more."""
        if whole:
            self._after, self._found = None, set()
        cells: list[Cell] = []
        while True:
            page = yield from read_page(Scan(self._prefix, after=self._after, limit=SLICE))
            cells += page.cells
            self._found |= {cell.key for cell in page.cells}
            self._after = page.next
            if page.next is None:
                gone = self._before - self._found
                self._before, self._found = self._found, set()
                return cells, gone
            if not whole:
                return cells, set()


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
        """How long the last runs took that succeeded, of a job of which somebody asked, and when."""
        self.bundles: dict[str, Bundle] = {}
        self.job_cells, self.stored_cells = SurveySlices("job/"), SurveySlices("stored/")
        self.board = -1
        self._agenda = Agenda()
        self._placed: dict[str, Schedule] = {}
        self._watched: dict[str, WatchedSlot] = {}
        self._stored: dict[str, Cell] = {}
        self._versions: dict[str, int] = {}
        self._new: list[Slot] = []

    # --- jobs ---

    def learn_stored(self, cells: Iterable[Cell], gone: Iterable[str], now: Instant) -> None:
        """Jobs that live in the store are jobs before a process has carried them, and none once they were removed."""
        for key in gone:
            self._stored.pop(key.removeprefix("stored/"), None)
        for cell in cells:
            name = cell.key.removeprefix("stored/")
            if self._stored.get(name) == cell:
                continue
            self._stored[name] = cell
            seen = self.jobs.get(name)
            if cell.mark is Mark.OPEN and not (seen and seen.job and seen.job.firing):
                self._learn(name, None, now)
            elif seen is not None and self._is_removed(seen):
                self._forget(name)

    def learn_jobs(self, cells: Iterable[Cell], gone: Iterable[str], now: Instant) -> None:
        for key in gone:
            self._forget(key.removeprefix("job/"))
        for cell in cells:
            name = cell.key.removeprefix("job/")
            if self._versions.get(name) != cell.version:
                self._learn(name, seen_job(cell), now)
                self._versions[name] = cell.version

    def _learn(self, name: str, seen: JobSeen | None, now: Instant) -> None:
        self._versions.pop(name, None)
        if name in self._stored:
            seen = seen_stored(name, seen, self._stored[name])
        if seen is not None and not self._is_removed(seen):
            self._place(seen, now)

    def _is_removed(self, seen: JobSeen) -> bool:
        cell = self._stored.get(seen.name)
        return cell is not None and cell.mark is not Mark.OPEN and "revision" in seen.policies

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
        for known in (self.jobs, self.began, self.ended, self.took, self._placed, self._versions):
            known.pop(name, None)

    # --- slots ---

    def fall_due(self, now: Instant) -> None:
        """Whoever was away for long looks at the latest slot alone."""
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
        if run.record.is_closed and not last_failed:  # of that somebody may say that all is well
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
        """Of each job the oldest that nobody has claimed: those are missed first. The others are not watched."""
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


def read_most(scan: Scan, most: int) -> Flow[Page]:
    """So many cells of a scan at most, as one page."""
    page = yield from read_page(scan)
    cells = list(page.cells)
    while page.next is not None and len(cells) < most:
        page = yield from read_page(scan._replace(after=page.next))
        cells += page.cells
    return page._replace(cells=cells)


def read_runs(scan: Scan, most: int) -> Flow[tuple[list[RunSeen], bool]]:
    """Runs that can be read, and whether there are more."""
    page = yield from read_most(scan, most)
    return [run for run in seen_runs(page.cells, page.now) if run.record is not None], page.next is not None
