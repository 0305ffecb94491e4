"""Which jobs there are, kept in the process: a page that lists or finds ten thousand of them reads only those it shows.

What stands in the index is what a search goes by: names, schedules, whether a job is paused. It is filled by walking
over the cells of jobs, as far as a moment allows, and walked again when the board of jobs says that somebody changed
one, or after a minute. A job whose cell has not changed is not read anew. Whatever is shown of a job comes from the
store when it is shown.

The next slots are kept per schedule, not per job: many jobs share one, and it is asked once for all of them.
"""

import threading
from bisect import bisect_right
from collections.abc import Mapping
from heapq import nsmallest
from typing import Final

from cronce.model import BOARD_JOBS, EPOCH, Boot, Cell, Instant, Mark
from cronce.runtime.flow import Flow, Load
from cronce.runtime.queries import JobSeen, seen_job
from cronce.runtime.stored_jobs import seen_stored
from cronce.schedule import Schedule
from cronce.stores.base import Loaded, Page, Scan
from cronce.telling.words import as_written
from cronce.value import NamedTuple

SLICE: Final = 500
"""Cells that are read at once."""

MOMENT: Final = 0.05
"""Seconds of walking that somebody who asks has to wait for, after the first walk."""

STALE: Final = 60.0
"""Seconds after which the jobs are walked over again, whatever the board says."""


class Entry(NamedTuple):
    """A job in the index, as of the versions of its cells."""

    job: int
    stored: int
    text: str
    """What is searched: its name and its schedules, in lower case."""
    rules: tuple[Schedule, ...]
    paused: bool


class Matches(NamedTuple):
    """Names in order, how many there are in all, and the one after which the rest stands, or None."""

    names: tuple[str, ...]
    total: int
    next: str | None


class Look(NamedTuple):
    """The version of the board of jobs, and the boot clock."""

    board: int
    boot: Boot


class Walk:
    """A walk over the cells of jobs, under way: `known` is what the one before it found."""

    def __init__(self, board: int, known: Mapping[str, Entry]) -> None:
        self.board = board
        self.entries: dict[str, Entry] = {}
        self._known = known
        self._rules = {rule: rule for entry in known.values() for rule in entry.rules}
        self._scan: Scan | None = Scan("job/", limit=SLICE)

    @property
    def is_over(self) -> bool:
        return self._scan is None

    def step(self) -> Flow[Boot]:
        """Read a slice; the boot clock afterwards."""
        scan = self._scan
        assert scan is not None
        timed = yield scan
        assert isinstance(timed.reply, Page)
        for cell in timed.reply.cells:
            (self._take_job if scan.prefix == "job/" else self._take_stored)(cell)
        if timed.reply.next is not None:
            self._scan = scan._replace(after=timed.reply.next)
        else:
            self._scan = Scan("stored/", mark=Mark.OPEN, limit=SLICE) if scan.prefix == "job/" else None
        return timed.ended

    def _take_job(self, cell: Cell) -> None:
        name = cell.key.removeprefix("job/")
        known = self._known.get(name)
        if known is not None and known.job == cell.version and not known.stored:
            self.entries[name] = known
        else:
            self.entries[name] = self._entry(seen_job(cell), cell.version, 0)

    def _take_stored(self, cell: Cell) -> None:
        """What a process has carried is known from that; this is for what none has carried yet."""
        name = cell.key.removeprefix("stored/")
        entry, known = self.entries.get(name), self._known.get(name)
        if entry is not None and entry.rules:
            return
        version = entry.job if entry else 0
        if known is not None and (known.job, known.stored) == (version, cell.version):
            self.entries[name] = known
        elif (seen := seen_stored(name, None, cell)) is not None:
            made = self._entry(seen, version, cell.version)
            self.entries[name] = made._replace(paused=entry.paused) if entry else made

    def _entry(self, seen: JobSeen, job: int, stored: int) -> Entry:
        rules = tuple(self._rules.setdefault(rule, rule) for rule in seen.schedules)
        text = " ".join((seen.name, *map(as_written, rules))).lower()
        return Entry(job, stored, text, rules, paused=seen.job is not None and seen.job.paused is not None)


class JobIndex:
    """One per process and store. Any number of threads may ask it; one of them at a time goes on with a walk."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        """Of whoever walks."""
        self._walk: Walk | None = None
        self._walked: Boot | None = None
        self._board = -1
        self._entries: Mapping[str, Entry] = {}
        """By name, in order."""
        self._soon = Soon({}, {})

    def __len__(self) -> int:
        return len(self._entries)

    def keep_up(self, look: Look | None = None) -> Flow[None]:
        """Go on with a walk if one is due, for a moment. The first one, which everybody needs, is gone to its end, and
        whoever else comes waits for that. To be run before asking; whoever has read the board just now says what he
        saw."""
        if self._turn.acquire(blocking=self._walked is None):
            try:
                yield from self._go_on(look or (yield from _look()))
            finally:
                self._turn.release()

    def _go_on(self, look: Look) -> Flow[None]:
        first = self._walked is None
        stale = self._walked is None or look.boot - self._walked >= STALE
        if self._walk is None and (stale or look.board != self._board):
            self._walk = Walk(look.board, self._entries)
        ended = look.boot
        while self._walk is not None and (first or ended - look.boot < MOMENT):
            ended = yield from self._walk.step()
            if self._walk.is_over:
                entries = dict(sorted(self._walk.entries.items()))
                self._soon = Soon(entries, self._soon.slots)
                self._board, self._walked, self._walk = self._walk.board, look.boot, None
                self._entries = entries  # last: whoever finds its jobs finds all of it

    def search(self, matching: str = "", after: str = "", limit: int = 50) -> Matches:
        """Jobs whose name or schedule contains the text."""
        wanted = matching.strip().lower()
        names = [name for name, entry in self._entries.items() if wanted in entry.text]
        start = bisect_right(names, after) if after else 0
        part = tuple(names[start : start + limit])
        return Matches(part, len(names), part[-1] if start + limit < len(names) else None)

    @property
    def paused(self) -> set[str]:
        """The jobs that are paused, each by itself."""
        return {name for name, entry in self._entries.items() if entry.paused}

    def due(self, limit: int, now: Instant) -> list[str]:
        """The jobs that are due next."""
        return list(dict.fromkeys(name for _, name in self.soonest(limit, now)))

    def soonest(self, limit: int, now: Instant) -> list[tuple[Instant, str]]:
        """The next slots of all jobs that are not paused, and whose they are."""
        return self._soon.next(limit, now)


def _look() -> Flow[Look]:
    timed = yield Load([BOARD_JOBS])
    assert isinstance(timed.reply, Loaded)
    return Look(timed.reply.cells[0].version, timed.ended)


class Soon:
    """The next slot of every schedule, by its jobs; what is known from before is taken over. Threads that work out the
    same slot at once do no harm: no schedule comes or goes."""

    def __init__(self, entries: Mapping[str, Entry], known: Mapping[Schedule, Instant | None]) -> None:
        self._jobs: dict[Schedule, list[str]] = {}
        for name, entry in entries.items():
            for rule in () if entry.paused else entry.rules:
                self._jobs.setdefault(rule, []).append(name)
        self.slots: dict[Schedule, Instant | None] = {rule: known.get(rule, EPOCH) for rule in self._jobs}

    def next(self, limit: int, now: Instant) -> list[tuple[Instant, str]]:
        for rule, slot in self.slots.items():
            if slot is not None and slot <= now:
                self.slots[rule] = rule.next(now)
        rules = nsmallest(limit, ((slot, self._jobs[rule]) for rule, slot in self.slots.items() if slot is not None))
        found = [(slot, name) for slot, names in rules for name in names[:limit]]
        return sorted(found)[:limit]
