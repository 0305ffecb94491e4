"""Instants and durations, as values and as people write them. A slot is an instant of whole seconds, in UTC.

An error quotes what the caller wrote: short, on one line (`shown`).
"""

import re
from datetime import UTC, datetime, timedelta

from cronce.errors import BadInput, BadSchedule
from cronce.model import EPOCH

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
RESOLUTION = timedelta.resolution
"""The least by which two instants differ: strictly before t is up to t − RESOLUTION."""


def whole(instant: datetime) -> datetime:
    """The whole second that `instant` is in, in UTC. A naive datetime is refused, by Python's own TypeError."""
    return EPOCH + (instant - EPOCH) // SECOND * SECOND


def parse_instant(instant: datetime | str) -> datetime:
    """The instant of ISO 8601 text with a `Z` or an offset, or of an aware datetime; whole seconds only."""
    parsed = instant if isinstance(instant, datetime) else _read_instant(instant)
    if parsed.tzinfo is None:
        raise BadSchedule(f"{shown(instant)} has no time zone; end it with Z, or with an offset such as +02:00")
    if parsed.microsecond:
        raise BadSchedule(f"{shown(instant)} is between two seconds; slots are whole seconds")
    try:
        return parsed.astimezone(UTC)
    except OverflowError:
        raise BadSchedule(f"{shown(instant)} is outside the years 1 to 9999 in UTC") from None


def _read_instant(text: str) -> datetime:
    if isinstance(text, str) and len(text) <= 40 and text.isascii():
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise BadSchedule(f"{shown(text)} is not an instant; write it like '2026-03-29T01:00:00Z'")


def shown(value: object, most: int = 60) -> str:
    """`value` as a literal, cut so that ten megabytes of nonsense make one line of error."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}… ({len(value):,} characters)"
    return repr(value) if isinstance(value, str) else f"{type(value).__name__} {str(value)[:most]}"


# --- durations ------------------------------------------------------------------------------------------------------

LONGEST_DURATION = timedelta(days=36_525)  # a century: more is a slip of the keyboard
DURATION_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
# Each unit at most once, the largest first: `1h 30m`, never `30m1h`. Eight digits of each fit in a timedelta.
_WRITTEN = r" *" + "".join(rf"(?:([0-9]{{1,8}}){unit} *)?" for unit in DURATION_UNITS)


def parse_duration(duration: timedelta | str) -> timedelta:
    """The length of `duration`, from nothing up to a century; a `timedelta` is returned as it is."""
    parsed = duration if isinstance(duration, timedelta) else _read_duration(duration)
    if parsed < timedelta(0):
        raise BadInput(f"a duration cannot be negative: {parsed}")
    if parsed > LONGEST_DURATION:
        raise BadInput(f"a duration is at most a century: {parsed.days:,} days are more than {LONGEST_DURATION.days:,}")
    return parsed


def format_duration(span: timedelta) -> str:
    """`span` in days and below, as `parse_duration` reads it back (to the millisecond)."""
    written = ""
    for unit, size in DURATION_UNITS.items():
        if unit != "w":  # 14d is clearer than 2w to most people
            count, span = divmod(span, size)
            written += f"{count}{unit}" if count else ""
    return written or "0s"


def _read_duration(text: str) -> timedelta:
    if not isinstance(text, str):
        raise BadInput(f"{shown(text)} is not a duration: {_remedy('')}, or give a timedelta")
    match = re.fullmatch(_WRITTEN, text) if len(text) <= 100 else None
    if match is None or not any(match.groups()):
        raise BadInput(f"{shown(text)} is not a duration: {_remedy(text)}")
    parts = zip(match.groups(), DURATION_UNITS.values(), strict=True)
    return sum((int(count or 0) * size for count, size in parts), timedelta(0))


def _remedy(text: str) -> str:
    if text.isdigit() and text.isascii() and len(text) < 10:
        return f"add the unit, '{text}s' or '{text}m'"
    return "write it like '90s', '15m', '1h30m' or '2d', in whole numbers, the largest unit first"
