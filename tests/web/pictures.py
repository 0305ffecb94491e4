"""Runs as a picture is drawn from: a few words for each."""

from datetime import UTC, datetime, timedelta
from itertools import count

from cronce.model import Cell, Fence, Instant, Slot
from cronce.protocol.record import LAPSED, Outcome, Past, Record, State
from cronce.runtime.queries import RunSeen

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
START = NOW - timedelta(seconds=600)
END = NOW + timedelta(seconds=100)
"""A picture of 700 seconds: one of them is a seventh of a percent."""

A, B, C = "web-1:4711:9c1f", "web-2:812:77ab", "web-3:90:e02d"

_fences = count(1)


def ago(seconds: float) -> Instant:
    return NOW - timedelta(seconds=seconds)


def fence() -> Fence:
    return Fence(1, next(_fences))


def ran(
    job: str,
    due: float,
    holder: str = A,
    *,
    started: float | None = None,
    ended: float | None = None,
    outcome: Outcome | None = Outcome.SUCCEEDED,
    past: tuple[Past, ...] = (),
    reason: str = "",
) -> RunSeen:
    """A run that ended; all times are so many seconds ago."""
    started = due if started is None else started
    ended = started - 10 if ended is None else ended
    record = Record(State.CLOSED, 1, "n", holder, started=ago(started), finished=ago(ended), outcome=outcome, past=past)
    return seen(Slot(job, ago(due)), record._replace(reason=reason), fence())


def runs(job: str, due: float, holder: str, *, started: float, until: float, past: tuple[Past, ...] = ()) -> RunSeen:
    """A run that goes on, under a lease until so many seconds ago (below nothing: from now)."""
    record = Record(State.RUNNING, 1, "n", holder, started=ago(started), past=past)
    return seen(Slot(job, ago(due)), record, fence(), until=ago(until))


def skipped(job: str, due: float, reason: str = "too late to start") -> RunSeen:
    record = Record(State.CLOSED, outcome=Outcome.SKIPPED, reason=reason, finished=ago(due))
    return seen(Slot(job, ago(due)), record)


def lapsed(holder: str, started: float, ended: float) -> Past:
    return Past(fence(), holder, ago(started), LAPSED, ago(ended))


def seen(slot: Slot, record: Record | None, fence: Fence | None = None, until: Instant | None = None) -> RunSeen:
    cell = Cell(slot.cell, 1, at=slot.at, fence=fence, until=until)
    is_lapsed = record is not None and record.state is State.RUNNING and until is not None and until <= NOW
    return RunSeen(slot, cell, record, is_lapsed, "" if record else "it has a newer format")
