"""Jobs: which there are, a part of their list, and all that there is to see of one.

*An index, kept in the process*: a page that lists or finds ten thousand jobs reads only those it shows. The index holds
what a search goes by: names, schedules, whether a job is paused. It is filled by a walk over the cells of jobs, a slice
at a time, and again when a person changed a job, or after a minute. A job whose cell has not changed is not decoded
again. What is shown of a job always comes from the store.

A schedule is asked for its next slot once for all its jobs: many share one.
"""

import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from heapq import nsmallest
from typing import Final

from cronce.model import (
    BOARD_JOBS,
    SWITCH,
    Boot,
    Cell,
    Instant,
    Mark,
    check_name,
    job_cell,
    observed_cell,
    prevented_cell,
    stored_cell,
)
from cronce.monitor.figures import Figures, figures
from cronce.monitor.read_lists import (
    LIST_COUNTED,
    RunList,
    counted_runs,
    open_alerts,
)
from cronce.monitor.survey import JobWalk
from cronce.protocol.codec import all_readable, readable
from cronce.protocol.notices import Observed, Prevented, Refusals, Stored, decode_observed, decode_refusals
from cronce.protocol.record import Act, standing_act
from cronce.runtime.effects.review import EMPTY_SURVEY, EffectsSurvey, doubts, of_job
from cronce.runtime.flow import Flow, Load
from cronce.runtime.prevented import PARTS, prevented_in
from cronce.runtime.queries import (
    READ_AHEAD,
    HolderSeen,
    JobLine,
    JobSeen,
    RunSeen,
    by_beats,
    is_carried,
    latest_runs,
    load,
    present,
    read_page,
    sparing,
)
from cronce.runtime.run_lists import RunsPage, by_key, latest_of, newest_runs
from cronce.runtime.stored_jobs import line_of, lines_in
from cronce.schedule import Schedule
from cronce.stores.base import Loaded, Scan
from cronce.telling.words import as_written
from cronce.value import NamedTuple

JOB_CELLS_AT_ONCE: Final = 500
"""Cells that are read at once."""

WALK_WAIT: Final = 0.05
"""Seconds that a request spends on a walk, after the first one."""

STALE: Final = 60.0
"""Seconds after which the jobs are walked over again, whatever the board says."""


class IndexedJob(NamedTuple):
    """What the index holds of a job."""

    text: str
    """What is searched: its name and its schedules, in lower case."""
    rules: tuple[Schedule, ...]
    paused: Act | None


class JobMatches(NamedTuple):
    """Names in order, how many there are in all, and the one after which the rest stands, or None."""

    names: tuple[str, ...]
    total: int
    next: str | None


class BoardVersion(NamedTuple):
    """The version of the board of jobs, and the boot clock."""

    board: int
    boot: Boot


class JobIndex:
    """One per process and store. Any number of threads may ask it; one of them at a time goes on with a walk."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        """Held by the thread that walks."""
        self._walk = JobWalk(self._entry, with_removed=False)
        self._walk_board = -1
        """The board of jobs, when the walk began."""
        self._rules: dict[Schedule, Schedule] = {}
        """Many jobs share a schedule: it is kept once."""
        self._walked: Boot | None = None
        self._board = -1
        self._entries: Mapping[str, IndexedJob] = {}
        """By name, in order."""
        self._jobs_of: Mapping[Schedule, Sequence[str]] = {}
        """The jobs of each schedule, but for those that are paused."""

    def __len__(self) -> int:
        return len(self._entries)

    def keep_up(self, look: BoardVersion | None = None) -> Flow[None]:
        """Go on with a walk if one is due, for a moment. The first walk, which every request needs, goes to its end,
        and other threads wait for it. Call this before a search; `look` is the board, if it was read just now."""
        if self._turn.acquire(blocking=self._walked is None):
            try:
                yield from self._go_on(look or (yield from _look()))
            finally:
                self._turn.release()

    def _go_on(self, look: BoardVersion) -> Flow[None]:
        first = self._walked is None
        stale = self._walked is None or look.boot - self._walked >= STALE
        if not self._walk.is_under_way() and (stale or look.board != self._board):
            self._walk.begin(JOB_CELLS_AT_ONCE)
            self._walk_board = look.board
        ended = look.boot
        while self._walk.is_under_way() and (first or ended - look.boot < WALK_WAIT):
            ended = yield from self._walk.step()
            if not self._walk.is_under_way():
                entries = {name: entry for name, (_, entry) in self._walk.jobs.items()}
                self._rules = {rule: rule for entry in entries.values() for rule in entry.rules}
                self._jobs_of = _by_schedule(entries)
                self._board, self._walked = self._walk_board, look.boot
                self._entries = entries  # last: a thread that finds these jobs finds the rest, too

    def _entry(self, seen: JobSeen) -> IndexedJob:
        rules = tuple(self._rules.setdefault(rule, rule) for rule in seen.schedules)
        text = " ".join((seen.name, *map(as_written, rules))).lower()
        return IndexedJob(text, rules, seen.job.paused if seen.job else None)

    def search(self, matching: str = "", after: str = "", limit: int = 50) -> JobMatches:
        """Jobs whose name or schedule contains the text."""
        wanted = matching.strip().lower()
        names = [name for name, entry in self._entries.items() if wanted in entry.text]
        start = bisect_right(names, after) if after else 0
        part = tuple(names[start : start + limit])
        return JobMatches(part, len(names), part[-1] if start + limit < len(names) else None)

    @property
    def paused(self) -> dict[str, Act]:
        """The jobs that are paused, each by itself, and who paused it."""
        return {name: entry.paused for name, entry in self._entries.items() if entry.paused}

    def schedules(self, name: str) -> tuple[Schedule, ...]:
        """Those of a job; none, if it is paused or not known."""
        entry = self._entries.get(name)
        return entry.rules if entry and not entry.paused else ()

    def due(self, limit: int, now: Instant) -> list[str]:
        """The jobs that are due next."""
        return list(dict.fromkeys(name for _, name in self.soonest(limit, now)))

    def soonest(self, limit: int, now: Instant) -> list[tuple[Instant, str]]:
        """The next slots of all jobs that are not paused, and whose they are."""
        slots = ((slot, names) for rule, names in self._jobs_of.items() if (slot := rule.next(now)) is not None)
        return sorted((slot, name) for slot, names in nsmallest(limit, slots) for name in names[:limit])[:limit]


def _by_schedule(entries: Mapping[str, IndexedJob]) -> dict[Schedule, list[str]]:
    found: dict[Schedule, list[str]] = {}
    for name, entry in entries.items():
        for rule in () if entry.paused else entry.rules:
            found.setdefault(rule, []).append(name)
    return found


def _look() -> Flow[BoardVersion]:
    timed = yield Load([BOARD_JOBS])
    assert isinstance(timed.reply, Loaded)
    return BoardVersion(timed.reply.cells[0].version, timed.ended)


# --- a part of their list ---------------------------------------------------------------------------------------------

RUNS_FOR_FIGURES: Final = 200
"""So many runs of a job its figures are of."""

TIMED: Final = 100
"""Of so many runs it is told how long they took."""

HOSTS: Final = 200
"""Of so many hosts it is told what they were refused."""


def job_lines(
    after: str = "", limit: int = 50, matching: str = "", *, index: JobIndex
) -> Flow[tuple[JobMatches, list[JobLine]]]:
    """Jobs by name, those whose name or schedule contains a text, each with its next slot and its newest run; of one
    that is gone, nothing."""
    yield from index.keep_up()
    found = index.search(matching, after, limit)
    _, lines = yield from lines_alone(found.names)
    latest = yield from latest_runs([line.seen for line in lines], 1)
    return found, [line._replace(last=next(iter(latest[line.seen.name]), None)) for line in lines]


def lines_alone(names: Sequence[str]) -> Flow[tuple[Instant, list[JobLine]]]:
    """The same in one request, without runs."""
    loaded = yield from load(cells_of(names))
    return loaded.now, lines_in(names, {cell.key: cell for cell in loaded.cells}, loaded.now)


def cells_of(names: Sequence[str]) -> list[str]:
    return [*map(job_cell, names), *map(stored_cell, names)]


# --- one job --------------------------------------------------------------------------------------------------------


class HostRefused(NamedTuple):
    """What a host was refused of a job."""

    job: str
    host: str
    refusals: Refusals


class JobView(NamedTuple):
    """All that there is to see of a job, as of the store's now."""

    now: Instant
    seen: JobSeen
    """Its floor, its spans and whether it is paused stand in `seen.job`; everything may be `halted` besides."""
    halted: Act | None
    stored: Stored | None
    next: Instant | None
    carried: bool
    """Whether a live scheduler would run what is due of it."""
    observed: Observed | None
    """Where it is only observed: what ran though a guard would have refused it."""
    runs: RunsPage
    open: RunList
    attention: RunList
    refused: tuple[HostRefused, ...]
    durations: tuple[tuple[RunSeen, timedelta], ...]
    """Of the newest runs, those that have ended, the newest first, and how long each took."""
    present: tuple[HolderSeen, ...]
    """Schedulers that left a sign, dead ones too."""
    prevented: Prevented
    """How many duplicates were prevented."""
    figures: Figures | None
    """Of its newest runs."""
    doubtful: EffectsSurvey
    """Its effects that are in doubt."""
    alerts: int
    """How many are open, of all jobs, up to a hundred."""


def job_view(name: str, runs: int = 50, after: str | None = None, *, with_doubts: bool = False) -> Flow[JobView | None]:
    """None: there is no such job. `with_doubts`: also which of its effects are in doubt, and the alerts."""
    return (
        yield from sparing(_job_view(name, runs, after, with_doubts=with_doubts), *(READ_AHEAD if with_doubts else ()))
    )


def _job_view(name: str, runs: int, after: str | None, *, with_doubts: bool) -> Flow[JobView | None]:
    cells = [job_cell(check_name(name)), stored_cell(name), SWITCH, observed_cell(name)]
    counts = [prevented_cell(name, part) for part in range(PARTS)]
    there = yield from present([*cells, *counts])
    loaded, everybody = there.beside, there.holders
    job, stored, switch, observed, *others = loaded.cells
    line = line_of(name, job, stored, loaded.now)
    if line is None:
        return None
    has_scheduler = yield from is_carried(name, there.live)
    newest, latest = yield from latest_of(name)
    found = by_beats(latest[:RUNS_FOR_FIGURES], everybody, newest.now)
    page = yield from newest_runs(name, after=after, limit=runs)
    still_open = yield from read_page(by_key(Mark.OPEN, name, LIST_COUNTED))
    attention = yield from read_page(by_key(Mark.ATTENTION, name, LIST_COUNTED))
    refused = yield from read_page(refusals(f"refusals/{name}/"))
    return JobView(
        loaded.now,
        line.seen,
        standing_act(switch),
        line.stored,
        line.next,
        has_scheduler,
        readable(observed, decode_observed),
        page._replace(runs=tuple(by_beats(page.runs, everybody, page.now))),
        _with_hosts(counted_runs(still_open), everybody, loaded.now),
        counted_runs(attention),
        hosts_refused(refused.cells),
        tuple((run, span) for run in found[:TIMED] if run.record and (span := run.record.took()) is not None),
        tuple(everybody),
        prevented_in(others).get(name, Prevented(0, {})),
        figures(found, newest.now),
        (yield from doubts(of_job(name))) if with_doubts else EMPTY_SURVEY,
        (yield from open_alerts()) if with_doubts else 0,
    )


def _with_hosts(found: RunList, holders: Sequence[HolderSeen], now: Instant) -> RunList:
    return found._replace(runs=tuple(by_beats(found.runs, holders, now)))


def refusals(prefix: str) -> Scan:
    return Scan(prefix, limit=HOSTS)


def hosts_refused(cells: Iterable[Cell]) -> tuple[HostRefused, ...]:
    found = []
    for cell, refused in all_readable(cells, decode_refusals):
        _, job, host = cell.key.split("/", 2) if cell.key.count("/") > 1 else ("", "", "")
        found.append(HostRefused(job, host, refused))
    return tuple(found)
