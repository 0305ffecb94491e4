"""A Celery app with one periodic task, as beats and workers load it."""

import os
from datetime import timedelta

from celery import Celery, Task

from cronce.integrations.celery import Once
from tests.faults.neighbours.apps import GUARDED, PERIOD
from tests.faults.neighbours.book import note

app = Celery("neighbours", broker=os.environ["NEIGHBOURS_BROKER"])
app.conf.update(
    timezone="UTC",
    beat_schedule={"report": {"task": "report", "schedule": timedelta(seconds=PERIOD)}},
    broker_connection_retry_on_startup=True,
)


def report() -> None:
    note()


app.task(report, name="report", base=Once if GUARDED else Task)
