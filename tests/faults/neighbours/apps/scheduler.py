"""APScheduler in a process of its own, on a job store that it shares with others."""

import os

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

from cronce import Cronce
from cronce.integrations.apscheduler import protect
from tests.faults.neighbours.apps import GUARDED, PERIOD
from tests.faults.neighbours.book import note


def main() -> None:
    scheduler = BlockingScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=os.environ["NEIGHBOURS_DATABASE"])}, timezone="UTC"
    )
    if GUARDED:
        protect(scheduler, Cronce())
    scheduler.add_job(note, "cron", second=f"*/{PERIOD}", id="report", replace_existing=True)
    note("up")
    scheduler.start()


if __name__ == "__main__":
    main()
