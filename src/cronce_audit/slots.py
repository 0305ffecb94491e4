"""Whether two schedules ever fire at the same time."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cronce.errors import BadInput
from cronce.schedule import Cron
from cronce.schedule.instant import RESOLUTION, SECOND

_STEPS: Final = 500
"""Turns that are taken in looking for a common slot; schedules that share one within a year find it long before."""
_NOON: Final = datetime(2023, 1, 2, 12, tzinfo=UTC)
"""Of a Monday in winter."""
_HOUR: Final = timedelta(hours=1)


@lru_cache(4096)
def shared_slot(one: str, other: str, year: int) -> datetime | None:
    """The first time of a year at which both fire, by the clocks of one zone; None where there is none, or where a
    schedule cannot be read."""
    if _never_meet(one.split(), other.split()):
        return None
    try:
        first, second = Cron(one), Cron(other)
    except BadInput:
        return None
    at, end = first.next(datetime(year, 1, 1, tzinfo=UTC) - RESOLUTION), datetime(year + 1, 1, 1, tzinfo=UTC)
    for _ in range(_STEPS):
        if at is None or at >= end:
            return None
        then = second.next(at - RESOLUTION)
        if then == at:
            return at
        at, first, second = then, second, first
    return None


def _never_meet(one: list[str], other: list[str]) -> bool:
    """At one minute, or in one hour, and at or in another: that is seen without looking for a slot."""
    pairs = zip(one[:2], other[:2], strict=True) if len(one) == len(other) else ()
    return any(first.isdecimal() and second.isdecimal() and int(first) != int(second) for first, second in pairs)


@lru_cache(4096)
def minutes_between(schedule: str) -> int | None:
    """The minutes between its runs, of a schedule that fires several times an hour, all day long."""
    try:
        times = Cron(schedule).count(_NOON - SECOND, _NOON + _HOUR - SECOND)
    except BadInput:
        return None
    return max(60 // times, 1) if times > 1 else None
