"""Which jobs there are, kept in the process: a page that lists or finds ten thousand of them reads only those it shows.

What stands in the index is what a search goes by: names, schedules, whether a job is paused. It is filled by walking
over the cells of jobs, as far as a moment allows, and walked again when the board of jobs says that somebody changed
one, or after a minute. A job whose cell has not changed is not read anew. Whatever is shown of a job comes from the
store when it is shown.

The next slots are kept per schedule, not per job: many jobs share one, and it is asked once for all of them.
"""

import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Final

from cronce.model import BOARD_JOBS, Boot, Cell, Instant, Mark
from cronce.runtime.flow import Flow, Load
from cronce.runtime.look import JobSeen, seen_job
from cronce.runtime.stored.definitions import seen_stored
from cronce.schedule import Schedule
from cronce.stores.base import Loaded, Page, Scan
from cronce.telling.schedules import as_written
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
        self._lock = threading.Lock()
        self._learning = threading.Lock()
        self._entries: Mapping[str, Entry] = {}
        self._names: Sequence[str] = ()
        self._soon = Soon({})
        self._board = -1
        self._walked: Boot | None = None
        self._walk: Walk | None = None
        self._walking = False

    def __len__(self) -> int:
        return len(self._names)

    def keep_up(self) -> Flow[Instant]:
        """Go on with a walk if one is due, for a moment; the first one to its end. To be run before asking. The store's
        now."""
        first = yield from self.learn()
        if first is not None:
            return first
        now, board, began = yield from _look()
        walk = self._due(board, began)
        if walk is not None:
            try:
                ended = began
                while not walk.is_over and ended - began < MOMENT:
                    ended = yield from walk.step()
            finally:
                self._put(walk, began)
        return now

    def learn(self) -> Flow[Instant | None]:
        """The first walk, which everybody needs: one goes it, whoever else comes waits for that one. The store's now;
        None: it was done."""
        if self._walked is None:
            with self._learning:
                return (yield from self._learn())
        return None

    def _learn(self) -> Flow[Instant | None]:
        if self._walked is not None:
            return None
        now, board, began = yield from _look()
        walk = Walk(board, {})
        while not walk.is_over:
            yield from walk.step()
        self._put(walk, began)
        return now

    def _due(self, board: int, boot: Boot) -> Walk | None:
        """The walk to go on with; None: none is due, or somebody else is at it."""
        with self._lock:
            if self._walking:
                return None
            stale = self._walked is None or boot - self._walked >= STALE
            if self._walk is None and (board != self._board or stale):
                self._walk = Walk(board, self._entries)
            self._walking = self._walk is not None
            return self._walk

    def _put(self, walk: Walk, boot: Boot) -> None:
        with self._lock:
            self._walking = False
            if walk.is_over:
                self._entries, self._names = walk.entries, sorted(walk.entries)
                self._soon = Soon(walk.entries, self._soon)
                self._board, self._walked, self._walk = walk.board, boot, None

    def search(self, matching: str = "", after: str = "", limit: int = 50) -> Matches:
        """Jobs whose name or schedule contains the text."""
        names, entries = self._names, self._entries
        wanted = matching.strip().lower()
        if wanted:
            names = [name for name in names if wanted in entries[name].text]
        start = bisect_right(names, after) if after else 0
        part = tuple(names[start : start + limit])
        return Matches(part, len(names), part[-1] if start + limit < len(names) else None)

    @property
    def paused(self) -> set[str]:
        """The jobs that are paused, each by itself."""
        return {name for name, entry in self._entries.items() if entry.paused}

    def soonest(self, limit: int, now: Instant) -> list[tuple[Instant, str]]:
        """The next slots of all jobs that are not paused, and whose they are."""
        with self._lock:
            return self._soon.next(limit, now)


def _look() -> Flow[tuple[Instant, int, Boot]]:
    """The store's now, the version of the board of jobs, and the boot clock."""
    timed = yield Load([BOARD_JOBS])
    assert isinstance(timed.reply, Loaded)
    return timed.reply.now, timed.reply.cells[0].version, timed.ended


class Soon:
    """The next slot of every schedule, by its jobs; what an earlier one has worked out is taken over."""

    def __init__(self, entries: Mapping[str, Entry], before: "Soon | None" = None) -> None:
        self._jobs: dict[Schedule, list[str]] = {}
        for name, entry in sorted(entries.items()):
            for rule in () if entry.paused else entry.rules:
                self._jobs.setdefault(rule, []).append(name)
        known = before.slots if before else {}
        self.slots: dict[Schedule, Instant | None] = {rule: known[rule] for rule in self._jobs if rule in known}

    def next(self, limit: int, now: Instant) -> list[tuple[Instant, str]]:
        for rule in self._jobs:
            slot = self.slots.get(rule, now)
            if slot is not None and slot <= now:
                self.slots[rule] = rule.next(now)
        rules = nsmallest(limit, ((slot, self._jobs[rule]) for rule, slot in self.slots.items() if slot is not None))
        found = [(slot, name) for slot, names in rules for name in names[:limit]]
        return sorted(found)[:limit]
