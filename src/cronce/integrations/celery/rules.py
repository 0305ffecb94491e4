"""The instants of Celery's schedules. Beat asks its own "are you due?", with when it last ran: each beat has an answer
of its own. Slots have to be the same for all.

* `crontab` becomes our cron, in the zone that Celery would use, with our rules for when clocks change: Celery's own
  fires nothing of `*/5` in the hour that comes twice.
* An interval lies on the epoch grid: all beats mean the same instants, whenever they were started.
* Whatever else says how long it is from one time to the next (`solar`, or somebody's own) is asked for all of this year
  and the next, from the same beginning, and becomes a list. So does a crontab that wants both a date and a weekday.
"""

from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from celery.schedules import crontab
from celery.schedules import schedule as interval

from cronce.errors import BadInput, BadSchedule
from cronce.schedule import At, Cron, Every, Schedule
from cronce.schedule.at import MOST
from cronce.schedule.instant import SECOND

BEFORE: Final = timedelta(minutes=1)
"""Where a list begins to ask, ahead of the year: a crontab looks no closer than that."""


def rule_of(schedule: Any, year: int) -> Schedule:
    """What it says, as a rule of ours."""
    if schedule is None:
        raise BadSchedule("it has no schedule")
    if isinstance(schedule, crontab):
        expression = _expression(schedule)
        return Cron(expression, _zone(schedule.tz)) if expression else _listed(schedule, year)
    if isinstance(schedule, interval):
        return Every(schedule.run_every)
    return _listed(schedule, year)


def next_whole(instant: datetime) -> datetime:
    """The instant, or the next that is on a whole second."""
    return instant.replace(microsecond=0) + (SECOND if instant.microsecond else timedelta(0))


# --- crontab ---


def _expression(schedule: Any) -> str | None:
    """Cron takes a date *or* a weekday where both are given, Celery both, which cron can say of `*` only."""
    minute = _field(schedule._orig_minute, schedule.minute, range(60))
    hour = _field(schedule._orig_hour, schedule.hour, range(24))
    day = _field(schedule._orig_day_of_month, schedule.day_of_month, range(1, 32))
    month = _field(schedule._orig_month_of_year, schedule.month_of_year, range(1, 13))
    weekday = _field(schedule._orig_day_of_week, schedule.day_of_week, range(7))
    both = day.startswith("*") or weekday.startswith("*")
    return f"{minute} {hour} {day} {month} {weekday}" if both else None


def _field(said: Any, values: set[int], all_values: range) -> str:
    """The values, which Celery has worked out. Whether it was said with a star counts when clocks change."""
    if values == set(all_values):
        return "*"
    listed = sorted(values)
    step = listed[1] - listed[0] if len(listed) > 1 else len(all_values)
    if isinstance(said, str) and said.startswith("*") and values == set(all_values[::step]):
        return f"*/{step}"
    return ",".join(map(str, listed))


def _zone(zone: tzinfo) -> str:
    name = "UTC" if zone == UTC else getattr(zone, "key", None)
    if name is None:
        raise BadInput(f"its zone, {zone!r:.60}, has no name that all beats know; say timezone = 'Europe/Berlin'")
    return str(name)


# --- lists ---


def _listed(schedule: Any, year: int) -> At:
    """Asked from the same beginning by everybody, it gives the same list."""
    asked = copy(schedule)
    at, end = datetime(year, 1, 1, tzinfo=UTC) - BEFORE, datetime(year + 2, 1, 1, tzinfo=UTC)
    found: list[datetime] = []
    while (upcoming := _after(asked, at)) < end:
        if upcoming <= at or len(found) == MOST:
            raise BadSchedule(
                f"{schedule!r:.80} does not go on after {at}" if upcoming <= at else
                f"{schedule!r:.80} has more than {MOST:,} slots in two years; say it with crontab or a timedelta"
            )  # fmt: skip
        found.append(at := upcoming)
    if not found:
        raise BadSchedule(f"{schedule!r:.80} has no slot in {year} and {year + 1}")
    return At(*found)


def _after(schedule: Any, at: datetime) -> datetime:
    schedule.nowfun = lambda: at
    try:
        return next_whole((at + schedule.remaining_estimate(at)).astimezone(UTC))
    except NotImplementedError:
        raise BadSchedule(f"{schedule!r:.80} does not say when it is due next (remaining_estimate)") from None
