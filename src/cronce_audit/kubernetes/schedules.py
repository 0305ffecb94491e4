"""Schedules as Kubernetes reads them: robfig/cron's ParseStandard, which is not quite cron.

Five fields; `?` is `*`; weekdays are 0 to 6, and 7 is refused; no L, W or #; `@every 90m` counts from the last run.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import Cron, shortest_gap

DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
PREFIX: Final = re.compile(r"(CRON_TZ|TZ)=(\S+)\s+")

_EVERY: Final = re.compile(r"@every (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_LOOKS_LIKE_CRON: Final = re.compile(r"[0-9A-Za-z*/,?#-]+")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 6, _DAYS),
)


def complaint(text: str) -> str | None:
    """Why the API server refuses it; None where it does not, or where it is no schedule but a place for one."""
    if text.startswith("@"):
        known = text in DESCRIPTORS or (_EVERY.fullmatch(text) and text != "@every ")
        return None if known or not re.fullmatch(r"@[a-z]+", text) else f"it does not know `{text}`"
    fields = text.split()
    if len(fields) < 2 or not all(map(_LOOKS_LIKE_CRON.fullmatch, fields)) or not any("*" in one for one in fields):
        return None
    if len(fields) != 5:
        return f"it has {len(fields)} fields, and must have 5"
    return next(filter(None, map(_field, fields, _FIELDS)), None)


def _field(text: str, field: tuple[str, int, int, tuple[str, ...]]) -> str | None:
    name, low, high, names = field
    for part in filter(None, text.split(",")):
        span, slash, step = part.partition("/")
        if slash and not (step.isdigit() and int(step)):
            return f"the {name} has a step of `{step}`"
        if span in ("*", "?"):
            continue
        numbers = [_number(word, low, names) for word in span.split("-")]
        if None in numbers or len(numbers) > 2:
            return f"it knows no {name} `{part}`"
        known = [number for number in numbers if number is not None]
        if known[0] < low or known[-1] > high or known[0] > known[-1]:
            return f"the {name} `{part}` is not within {low}-{high}"
    return None


def _number(word: str, low: int, names: tuple[str, ...]) -> int | None:
    if word.lower() in names:
        return names.index(word.lower()) + low
    return int(word) if word.isdigit() else None


@lru_cache(1024)
def interval(text: str) -> timedelta | None:
    """The shortest time between two of its slots; None where that cannot be told."""
    every = _EVERY.fullmatch(text)
    if every and text != "@every ":
        hours, minutes, seconds = (int(one or 0) for one in every.groups())
        return timedelta(hours=hours, minutes=minutes, seconds=seconds) or None
    try:
        return shortest_gap(Cron(as_cron(text)), datetime(2026, 1, 1, tzinfo=UTC))
    except BadInput:
        return None


def as_cron(text: str) -> str:
    return PREFIX.sub("", text).replace("?", "*")
