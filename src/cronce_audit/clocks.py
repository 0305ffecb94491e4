"""Local times that occur twice or never in a zone; and whether two schedules ever fire at the same time."""

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce.schedule import Cron
from cronce.schedule.describe import changes
from cronce.schedule.instant import RESOLUTION
from cronce.schedule.zone import find_zone, shifts


class Disputed(NamedTuple):
    """The effect of a year's clock changes on the fixed times of a schedule."""

    twice: datetime | None
    """The first of its times that occurs twice."""
    never: datetime | None
    """The first of its times that does not exist."""


@lru_cache(1024)
def disputed(expression: str, zone: str, year: int) -> Disputed | None:
    """None where the schedule or the zone cannot be read, or where the schedule follows real time (`*/5 * * * *`)."""
    try:
        found = changes(Cron(expression, zone, fold="both"), *_year(year))
    except BadInput:
        return None
    hit = [(change.is_gap, change.walls.first) for change in found if change.walls and not change.wildcard]
    return Disputed(
        next((wall for is_gap, wall in hit if not is_gap), None), next((wall for is_gap, wall in hit if is_gap), None)
    )


@lru_cache(1024)
def never(expression: str) -> str:
    """Why five plain fields have no time at all: a number that no clock shows, or a day that no month has. Empty where
    they have one, or not all programs read them alike."""
    if not _FIVE_FIELDS.fullmatch(expression):
        return ""
    try:
        Cron(expression)
    except BadInput as error:
        why, day, _ = str(error).splitlines()[-1].strip(" ^").partition(", so this never fires")
        return why if day or " is not in " in why else ""
    return ""


_FIVE_FIELDS: Final = re.compile(r"[\d*/,-]+( +[\d*/,-]+){4}")


def season(day: date) -> str:
    """`each year (in 2026 on 25 October)`: a date alone would look like a thing of the past."""
    return f"each year (in {day.year} on {day.day} {day:%B})"


def has_changes(zone: str, year: int) -> bool:
    """Whether its clocks change at all."""
    return is_zone(zone) and any(shifts(find_zone(zone), *_year(year)))


def _year(year: int) -> tuple[datetime, datetime]:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def is_zone(name: str) -> bool:
    try:
        find_zone(name)
    except BadInput:
        return False
    return True


_STEPS: Final = 500
"""Steps in the search for a common slot; schedules that share one within a year find it long before."""


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
    """Two different minutes or hours: no search is needed."""
    pairs = zip(one[:2], other[:2], strict=True) if len(one) == len(other) else ()
    return any(first.isdecimal() and second.isdecimal() and int(first) != int(second) for first, second in pairs)
