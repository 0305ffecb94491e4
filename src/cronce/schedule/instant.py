"""Instants: aware datetimes in UTC. A slot is one of whole seconds."""

from datetime import UTC, datetime, timedelta

from cronce.errors import BadSchedule
from cronce.model import EPOCH
from cronce.schedule.quote import shown

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
RESOLUTION = timedelta.resolution
"""The least by which two instants differ: strictly before t is up to t − RESOLUTION."""


def whole(instant: datetime) -> datetime:
    """The whole second that `instant` is in, in UTC. A naive datetime is refused, by Python's own TypeError."""
    return EPOCH + (instant - EPOCH) // SECOND * SECOND


def parse_instant(instant: datetime | str) -> datetime:
    """The instant that ISO 8601 text with a `Z` or an offset says, or that an aware datetime is; whole seconds only."""
    parsed = instant if isinstance(instant, datetime) else _read(instant)
    if parsed.tzinfo is None:
        raise BadSchedule(
            f"{shown(instant)} does not say in which zone; end it with Z, or with an offset such as +02:00"
        )
    if parsed.microsecond:
        raise BadSchedule(f"{shown(instant)} is between two seconds; slots are whole seconds")
    try:
        return parsed.astimezone(UTC)
    except OverflowError:
        raise BadSchedule(f"{shown(instant)} is outside the years 1 to 9999 in UTC") from None


def _read(text: str) -> datetime:
    if isinstance(text, str) and len(text) <= 40 and text.isascii():
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise BadSchedule(f"{shown(text)} is not an instant; write it like '2026-03-29T01:00:00Z'")
