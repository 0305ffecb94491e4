"""The time axis: where its lines stand and what they say, by the clocks on the wall of one zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from cronce.model import Instant
from cronce.schedule.changes import shifts
from cronce.value import NamedTuple

MOST_LINES: Final = 9

_DAY: Final = timedelta(days=1)
_MONDAY: Final = datetime(2001, 1, 1)  # noqa: DTZ001  on the wall of any zone
_STEPS: Final = (
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28)),
)


class Line(NamedTuple):
    """A line across the lanes."""

    at: Instant
    label: str


def lines(start: Instant, end: Instant, zone: tzinfo) -> list[Line]:
    """Round times of that zone's clocks, at most so many."""
    step = next((step for step in _STEPS if (end - start) / step <= MOST_LINES), _STEPS[-1])
    return [Line(at, _label(at.astimezone(zone), step)) for at in _round(start, end, step, zone)]


def _round(start: Instant, end: Instant, step: timedelta, zone: tzinfo) -> Iterator[Instant]:
    """Wall times in steps; one that the clocks jump over is left out, one that they show twice stands at its first."""
    wall = start.astimezone(zone).replace(tzinfo=None)
    wall -= (wall - _MONDAY) % step
    last = end.astimezone(zone).replace(tzinfo=None) + _DAY
    while wall <= last:
        at = wall.replace(tzinfo=zone).astimezone(UTC)
        if start <= at <= end and at.astimezone(zone).replace(tzinfo=None) == wall:
            yield at
        wall += step


def _label(wall: datetime, step: timedelta) -> str:
    if wall.time() == time():
        return f"{wall:%a %d %b}"
    return f"{wall:%H:%M:%S}" if step < timedelta(minutes=1) else f"{wall:%H:%M}"


def clock_changes(start: Instant, end: Instant, zone: tzinfo) -> list[Line]:
    """Where the clocks of the zone jump."""
    return [
        Line(
            shift.at,
            f"clocks go {'forward' if shift.after > shift.before else 'back'} to {shift.at.astimezone(zone):%H:%M %Z}",
        )
        for shift in shifts(zone, start, end)
    ]
