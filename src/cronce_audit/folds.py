"""Times that the clocks of a zone show twice, or never."""

from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

from cronce.errors import BadInput
from cronce.schedule import Cron
from cronce.schedule.describe import changes
from cronce.schedule.zone import find_zone, shifts


class Disputed(NamedTuple):
    """What the changes of a year do to the fixed times of a schedule."""

    twice: datetime | None
    """The first of its times that the clocks show twice."""
    never: datetime | None
    """The first of its times that they leave out."""


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


def season(day: date) -> str:
    """When it is, without making anybody think that it is over: each year (in 2026 on 25 October)."""
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
