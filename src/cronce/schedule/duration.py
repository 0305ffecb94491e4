"""Durations as people write them: `90s`, `15m`, `1h30m`, `2d`."""

import re
from datetime import timedelta

from cronce.errors import BadInput
from cronce.schedule.quote import shown

LONGEST = timedelta(days=36_525)  # a century: more is a slip of the keyboard
UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
# Each unit at most once, the largest first: `1h 30m`, never `30m1h`. Eight digits of each fit in a timedelta.
_WRITTEN = r" *" + "".join(rf"(?:([0-9]{{1,8}}){unit} *)?" for unit in UNITS)


def parse_duration(duration: timedelta | str) -> timedelta:
    """What `duration` says, from nothing up to a century; a `timedelta` says it already."""
    parsed = duration if isinstance(duration, timedelta) else _read(duration)
    if parsed < timedelta(0):
        raise BadInput(f"a duration cannot be negative: {parsed}")
    if parsed > LONGEST:
        raise BadInput(f"a duration is at most a century: {parsed.days:,} days are more than {LONGEST.days:,}")
    return parsed


def format_duration(span: timedelta) -> str:
    """`span` in days and below, as `parse_duration` reads it back (to the millisecond)."""
    written = ""
    for unit, size in UNITS.items():
        if unit != "w":  # 14d says more than 2w to most people
            count, span = divmod(span, size)
            written += f"{count}{unit}" if count else ""
    return written or "0s"


def _read(text: str) -> timedelta:
    if not isinstance(text, str):
        raise BadInput(f"{shown(text)} is not a duration: {_remedy('')}, or give a timedelta")
    match = re.fullmatch(_WRITTEN, text) if len(text) <= 100 else None
    if match is None or not any(match.groups()):
        raise BadInput(f"{shown(text)} is not a duration: {_remedy(text)}")
    parts = zip(match.groups(), UNITS.values(), strict=True)
    return sum((int(count or 0) * size for count, size in parts), timedelta(0))


def _remedy(text: str) -> str:
    if text.isdigit() and text.isascii() and len(text) < 10:
        return f"say which unit, '{text}s' or '{text}m'"
    return "write it like '90s', '15m', '1h30m' or '2d', in whole numbers, the largest unit first"
