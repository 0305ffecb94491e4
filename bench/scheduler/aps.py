"""A process of APScheduler 3, in memory or on its PostgreSQL job store, with so many jobs.

It is as it comes, with its ten threads, which are no slower here than more of them; but for the grace, where we say so:
by default a job that comes a second late is dropped.
"""

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bench.scheduler.book import note
from bench.scheduler.jobs import far, names
from bench.scheduler.process import given, say


def main(
    url: str | None,
    book: str,
    jobs: int,
    *,
    every: float | None = None,
    offset: float = 0,
    table: str = "apscheduler_jobs",
    graceful: bool = True,
    canary: bool = False,
) -> None:
    logging.disable(logging.WARNING)
    began = time.time()
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url, tablename=table) if url else MemoryJobStore()},
        job_defaults={"misfire_grace_time": None} if graceful else {},
        timezone=UTC,
    )
    for number, name in enumerate(names(jobs)):
        trigger = grid(every, offset) if every else CronTrigger.from_crontab(far(number), UTC)
        add(scheduler, book, name, trigger)
    if canary:
        add(scheduler, book, "canary", grid(1, 0))
    declared = time.time()
    scheduler.start()
    say(began=began, declared=declared, started=time.time())
    for _ in sys.stdin:
        pass
    scheduler.shutdown()


def add(scheduler: Any, book: str, name: str, trigger: Any) -> None:
    scheduler.add_job(note, trigger, (book, name), id=name, replace_existing=True)


def grid(every: float, offset: float) -> Any:
    """Every so many seconds on the epoch's grid, moved by some seconds."""
    return IntervalTrigger(seconds=every, start_date=datetime.fromtimestamp(offset, UTC), timezone=UTC)


if __name__ == "__main__":
    main(**given())
