"""Numbers about runs: how many succeeded, how many there were over time, how late they started and how long they took.
And how many duplicates were prevented, over all jobs. Pure, but for the flow that reads the last."""

import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import inf
from typing import Final

from cronce.model import Boot, Instant
from cronce.protocol.notices import Prevented
from cronce.runtime.client import Client
from cronce.runtime.flow import Flow
from cronce.runtime.prevented import prevented_of_all
from cronce.runtime.queries import RunSeen
from cronce.value import NamedTuple

BINS: Final = 24
"""Columns of a span of time."""

RECOUNTED: Final = 15.0
"""Seconds after which duplicates are counted again, over all jobs."""


class Bin(NamedTuple):
    """Runs that started in a part of the span."""

    start: Instant
    succeeded: int
    others: int


class Figures(NamedTuple):
    """Of runs that ended. Percentiles are the 50th and the 95th."""

    ran: int
    succeeded: int
    since: Instant
    until: Instant
    late: tuple[timedelta, timedelta] | None
    """How long after their slot they started; None: by no schedule."""
    took: tuple[timedelta, timedelta] | None
    bins: tuple[Bin, ...]

    @property
    def rate(self) -> float:
        return 100 * self.succeeded / self.ran

    @property
    def per_hour(self) -> float:
        hours = max((self.until - self.since) / timedelta(hours=1), 1 / 60)
        return self.ran / hours


def figures(runs: Iterable[RunSeen], now: Instant) -> Figures | None:
    """None: none of them ran."""
    ended = [run for run in runs if run.record and run.record.started and run.record.outcome and run.record.outcome.ran]
    if not ended:
        return None
    started = [(_started(run), run) for run in ended]
    since = min(at for at, _ in started)
    late = [max(at - run.slot.at, timedelta(0)) for at, run in started if not run.slot.request]
    took = [span for run in ended if run.record and (span := run.record.took()) is not None]
    good = sum(run.shown == "succeeded" for run in ended)
    return Figures(len(ended), good, since, now, _percentiles(late), _percentiles(took), _bins(started, since, now))


def _started(run: RunSeen) -> Instant:
    """The first time that it was begun."""
    record = run.record
    assert record is not None
    return min(at for at in (record.started, *(past.started for past in record.past)) if at is not None)


def _percentiles(spans: Sequence[timedelta]) -> tuple[timedelta, timedelta] | None:
    ordered = sorted(spans)
    return (ranked(ordered, 50), ranked(ordered, 95)) if ordered else None


def ranked(ordered: Sequence[timedelta], percent: int) -> timedelta:
    """What so many percent of them do not exceed: the nearest rank."""
    return ordered[-(-percent * len(ordered) // 100) - 1]


def _bins(started: Iterable[tuple[Instant, RunSeen]], since: Instant, now: Instant) -> tuple[Bin, ...]:
    width = max((now - since) / BINS, timedelta(seconds=1))
    bins = [Bin(since + width * number, 0, 0) for number in range(BINS)]
    for at, run in started:
        place = min(int((at - since) / width), BINS - 1)
        one, good = bins[place], run.shown == "succeeded"
        bins[place] = one._replace(succeeded=one.succeeded + good, others=one.others + (not good))
    return tuple(bins)


# --- duplicates that were prevented, over all jobs ------------------------------------------------------------------


class PreventedTotals:
    """Kept in the process, and counted anew beside the pages: there are a few cells for each job."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._counted: Boot = -inf
        self._known: Prevented | None = None

    def of_all(self) -> Prevented | None:
        """As last counted; None: not yet."""
        return self._known

    def count(self, client: Client, boot: Boot) -> Flow[None]:
        """Again, if it is time and no other thread does."""
        if boot - self._counted < RECOUNTED or not self._turn.acquire(blocking=False):
            return
        try:
            found = yield from prevented_of_all(client)
            days: dict[str, int] = {}
            for one in found.values():
                for day, number in one.days.items():
                    days[day] = days.get(day, 0) + number
            self._known, self._counted = Prevented(sum(one.total for one in found.values()), days), boot
        finally:
            self._turn.release()
