"""Runs as rows of a table."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.model import Instant, Slot
from cronce.monitor.survey import attempts
from cronce.protocol.record import RESOLVED, Record, State
from cronce.runtime.look import RunSeen
from cronce.telling.words import moment, safe
from cronce.value import NamedTuple

REMARK: Final = 500
"""Characters of it in a table: the page of the run has more."""


class Row(NamedTuple):
    slot: Slot
    at: str
    """The slot's instant, without its date if that is today's."""
    shown: str
    holder: str = ""
    started: Instant | None = None
    took: timedelta | None = None
    remark: str = ""
    progress: tuple[int, int] | None = None
    begun: int = 0
    """How often its work was begun."""
    completed: int = 0


def rows_of(runs: Iterable[RunSeen], now: Instant) -> list[Row]:
    return [row_of(run, now) for run in runs]


def row_of(run: RunSeen, now: Instant) -> Row:
    slot, record = run.slot, run.record
    at = moment(slot.at, now) + (f"#{slot.request}" if slot.request else "")
    if record is None:
        return Row(slot, at, run.shown, remark=safe(run.trouble))
    going_on = record.state is State.RUNNING
    return Row(
        slot,
        at,
        run.shown,
        safe(record.holder),
        record.started,
        took(record, now),
        safe((record.reason or (f"asked for by {record.by}" if record.by else ""))[:REMARK]),
        record.progress if going_on else None,
        *attempts(record),
    )


def took(record: Record, now: Instant) -> timedelta | None:
    """How long it ran, or runs. What somebody resolved was over at a time that nobody knows."""
    ended = now if record.state is State.RUNNING else record.finished
    if ended is None or record.started is None or record.reason.startswith(RESOLVED):
        return None
    return ended - record.started
