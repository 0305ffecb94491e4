"""A process of Celery beat with so many entries, by its own scheduler or by RedBeat's.

A number that it hears is for how many seconds to tick; what was sent meanwhile, the broker knows.
"""

import logging
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab, schedule

from bench.scheduler.jobs import far, names
from bench.scheduler.process import given, say


def main(url: str, jobs: int, file: str, *, due: bool = False, redbeat: bool = False) -> None:
    """Each entry is due once, or not for months."""
    began = time.time()
    logging.disable(logging.ERROR)
    app = Celery(broker=url)
    app.conf.redbeat_redis_url = url
    app.conf.beat_schedule = {name: entry(number, due=due) for number, name in enumerate(names(jobs))}
    declared = time.time()
    scheduler = opened(app, file, redbeat=redbeat)
    scheduler.tick()
    say(began=began, declared=declared, started=time.time())
    for seconds in sys.stdin:
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            time.sleep(max(0, min(scheduler.tick(), end - time.monotonic())))
        say(done=True)
    scheduler.close()


def opened(app: Any, file: str, *, redbeat: bool) -> Any:
    if not redbeat:
        return PersistentScheduler(app, schedule_filename=file)
    from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock  # noqa: PLC0415  a peer of its own

    scheduler = RedBeatScheduler(app)
    acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
    return scheduler


def entry(number: int, *, due: bool) -> dict[str, Any]:
    minute, hour, day, month, _ = far(number).split()
    when = schedule(timedelta(hours=1)) if due else crontab(minute, hour, day_of_month=day, month_of_year=month)
    old = {"last_run_at": datetime.now(UTC) - timedelta(hours=2)} if due else {}
    return {"task": "bench.note", "schedule": when, **old}


if __name__ == "__main__":
    main(**given())
