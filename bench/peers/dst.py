"""How often `30 1 * * *` fires in New York on the day with two 01:30, and `30 2 * * *` on the day without 02:30.

    python -m bench.peers.dst TRIGGER

Run in the peer's environment; prints the two counts.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

ZONE: Final = ZoneInfo("America/New_York")
DAYS: Final = ((1, datetime(2026, 11, 1, tzinfo=ZONE)), (2, datetime(2027, 3, 14, tzinfo=ZONE)))
"""The hour at whose half the job is due, and the midnight at which the day begins."""


def apscheduler(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415

    return _next_fires(CronTrigger.from_crontab(f"30 {hour} * * *", ZONE), begin, end)


def protect(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    """With cronce's own trigger, which its page on APScheduler recommends for local times."""
    from cronce.integrations.apscheduler import CronceTrigger  # noqa: PLC0415

    return _next_fires(CronceTrigger(f"30 {hour} * * *", tz=ZONE.key), begin, end)


def _next_fires(trigger: Any, begin: datetime, end: datetime) -> Iterator[datetime]:
    last, now = None, begin
    while (found := trigger.get_next_fire_time(last, now)) is not None and found < end:
        yield found
        last, now = found, found.astimezone(UTC) + timedelta(seconds=1)


def cronce(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    from cronce.schedule import Cron  # noqa: PLC0415

    schedule, at = Cron(f"30 {hour} * * *", tz=ZONE.key), begin.astimezone(UTC)
    while (found := schedule.next(at)) is not None and found < end:
        yield found
        at = found


def celery(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    """As beat asks: is it due, by the time of day? Each half minute."""
    from celery import Celery  # noqa: PLC0415
    from celery.schedules import crontab  # noqa: PLC0415

    app = Celery(set_as_current=False)
    app.conf.timezone = ZONE.key
    now = begin
    schedule = crontab(hour=hour, minute=30, app=app, nowfun=lambda: now)
    last = begin - timedelta(hours=12)
    while now < end:
        if schedule.is_due(last).is_due:
            yield now
            last = now
        now = (now.astimezone(UTC) + timedelta(seconds=30)).astimezone(ZONE)


def croniter(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    """What DBOS goes by."""
    from croniter import croniter as iterate  # noqa: PLC0415

    fires = iterate(f"30 {hour} * * *", begin - timedelta(seconds=1))
    while (found := fires.get_next(datetime)) < end:
        yield found


def procrastinate(_hour: int, _begin: datetime, _end: datetime) -> Iterator[datetime]:
    sys.exit("its expressions are in UTC, and cannot name a local time")


def arq(hour: int, begin: datetime, end: datetime) -> Iterator[datetime]:
    from arq.cron import next_cron  # noqa: PLC0415

    now = begin
    while (found := next_cron(now, hour=hour, minute=30, microsecond=0)) < end:
        yield found
        now = found


TRIGGERS: Final[dict[str, Callable[[int, datetime, datetime], Iterator[datetime]]]] = {
    "apscheduler": apscheduler,
    "protect": protect,
    "cronce": cronce,
    "cronce-beat": cronce,
    "celery": celery,
    "procrastinate": procrastinate,
    "dbos": croniter,
    "arq": arq,
}


def main(trigger: str) -> None:
    counts = []
    for hour, begin in DAYS:
        end = (begin + timedelta(days=1)).astimezone(UTC)
        counts.append(len({found.timestamp() for found in TRIGGERS[trigger](hour, begin, end)}))
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1])
