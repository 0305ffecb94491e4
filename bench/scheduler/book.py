"""Who ran what and when, by the bodies themselves: each appends one line to a file, which no scheduler knows of."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    what: str
    job: str
    at: float
    pid: int


def note(path: str, job: str, what: str = "start") -> None:
    """The whole body of most jobs here. One write at the end of a file is one line, whoever else writes."""
    os.write(_opened(path), f"{what}\t{job}\t{time.time():.6f}\t{os.getpid()}\n".encode())


@cache
def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def read(path: Path) -> list[Entry]:
    if not path.exists():
        return []
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return [Entry(what, job, float(at), int(pid)) for what, job, at, pid in lines]


class Tally(NamedTuple):
    """How one slot of many jobs went: the seconds from the slot to each body, in order; what ran again, or never."""

    delays: Sequence[float]
    extra: int
    missed: int

    @property
    def exact(self) -> bool:
        return not self.extra and not self.missed


def tally(entries: Iterable[Entry], jobs: Iterable[str], slot: float, until: float) -> Tally:
    """Of the slot at `slot`, whose bodies are those that start before `until`: the jobs' next slot."""
    expected = set(jobs)
    starts = [
        entry for entry in entries if entry.what == "start" and slot <= entry.at < until and entry.job in expected
    ]
    ran = Counter(entry.job for entry in starts)
    return Tally(sorted(entry.at - slot for entry in starts), len(starts) - len(ran), len(expected - ran.keys()))


def exactly_once(tallies: Sequence[Tally]) -> Sequence[Tally]:
    """Ours: a slot that ran twice or never is an error, whatever the figures say."""
    wrong = [(cycle.extra, cycle.missed) for cycle in tallies if not cycle.exact]
    if wrong:
        raise AssertionError(f"of {len(tallies)} slots {len(wrong)} went wrong; (extra, missed) runs: {wrong[:20]}")
    return tallies


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]
