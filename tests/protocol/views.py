"""Views of one cell, for tests of the table: what was read of it, by which clock, above which floor."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cronce.model import Cell, Epoch, Instant, Slot
from cronce.protocol import table
from cronce.protocol.commands import Command, Decision
from cronce.protocol.lease import Sample
from cronce.protocol.record import Job, Maker, Record
from cronce.protocol.view import KnownJob, View

AT = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
SLOT = Slot("billing", AT)


class Facts(NamedTuple):
    """What a decision rests on besides the cell. Without a floor it is about a run by hand."""

    now: Instant
    floor: Instant | None = None
    base: int = 0
    even: Callable[[timedelta], timedelta] = lambda _tolerance: timedelta(0)
    over: Collection[Maker] = ()
    heard: timedelta = timedelta.max


def view_of(cell: Cell, record: Record | None, facts: Facts) -> View:
    known = KnownJob(Cell("job/billing", 1), Job(floor=facts.floor), facts.now) if facts.floor else None
    return View(
        cell,
        record,
        Sample(0.0, 0.0, facts.now),
        SLOT if facts.floor else SLOT._replace(request="by-hand"),
        known=known,
        epoch=Epoch(1, base=facts.base),
        even=lambda _cell, _sample, tolerance: facts.even(tolerance),
        heard=lambda _sample, _ago: facts.heard,
        over=facts.over,
    )


def row(cell: Cell, record: Record | None, command: Command, facts: Facts) -> table.Row:
    return table.row(view_of(cell, record, facts), command)


def rule(cell: Cell, record: Record | None, command: Command, facts: Facts) -> Decision:
    return table.rule(view_of(cell, record, facts), command)


NOW = AT + timedelta(seconds=40)
JOB = Job(floor=AT - timedelta(seconds=1), firing="v1")


def claimable(job: Job | None = JOB, **fields: Any) -> View:
    """A slot without a record, of a job that was just read."""
    known = KnownJob(Cell("job/billing", 3 if job else 0), job, NOW)
    return View(Cell(SLOT.cell, at=AT), None, Sample(0.0, 0.0, NOW), SLOT, known=known, epoch=Epoch(1))._replace(
        **fields
    )
