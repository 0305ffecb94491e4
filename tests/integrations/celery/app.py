"""A small Celery app, for real beats and real workers. All that differs between processes comes from the environment:

* BROKER, and CRONCE_URL
* ENTRIES: the beat schedule, as JSON; a schedule is seconds, or the arguments of a crontab
* AT_SEND: what happens to the process at its first message: "kill before", "kill after" or "stop before"
"""

# mypy: disable-error-code="untyped-decorator"

import json
import os
import signal
import time
from typing import Any, Final

import redis
from celery import Celery, signals
from celery.schedules import crontab

from cronce.integrations.celery import Once

URL: Final = os.environ["BROKER"]
ENTRIES: Final[dict[str, dict[str, Any]]] = json.loads(os.environ.get("ENTRIES", "{}"))
AT_SEND: Final = os.environ.get("AT_SEND", "")
FOR_EVER: Final = 600.0
"""Seconds in a body whose worker is killed meanwhile; who runs it again does not wait."""
BOOK: Final = redis.Redis.from_url(URL)

app = Celery("shop", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 1},
    worker_prefetch_multiplier=1,
    cronce_lease="2s",
    cronce_start_within="5m",
    cronce_missed="all",
    beat_schedule={
        name: {**entry, "schedule": crontab(**when) if isinstance(when := entry["schedule"], dict) else when}
        for name, entry in ENTRIES.items()
    },
)


def note(book: str, **facts: object) -> bool:
    """A body writes down that it ran; whether it is the first in the book."""
    return BOOK.rpush(book, json.dumps(facts)) == 1


@signals.task_prerun.connect
def delivered(task_id: str, **_rest: object) -> None:
    note("deliveries", id=task_id)


def befall(when: str) -> None:
    what, _, planned = AT_SEND.partition(" ")
    if planned == when and BOOK.set(f"befell {os.getpid()}", "", nx=True):
        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)


@signals.before_task_publish.connect
def before_send(headers: dict[str, Any], **_rest: object) -> None:
    if AT_SEND:
        note(f"at send of {os.getpid()}", slot=headers.get("cronce_slot"), id=headers["id"])
        befall("before")


@signals.after_task_publish.connect
def after_send(**_rest: object) -> None:
    befall("after")


@app.task(name="plain", bind=True, ignore_result=True)
def plain(self: Any, book: str) -> None:
    note(book, slot=self.request.cronce_slot, id=self.request.id)


@app.task(name="guarded", bind=True, base=Once, lease="20s", ignore_result=True)
def guarded(self: Any, book: str) -> None:
    note(book, slot=self.request.get("cronce_slot"), id=self.request.id)


@app.task(name="adding", bind=True, base=Once, lease="4s", acks_late=True)
def adding(self: Any, number: int, book: str, stays: bool = False) -> int:
    if note(book, number=number) and stays:
        time.sleep(FOR_EVER)
    return number + 1


@app.task(name="skipping", bind=True, base=Once, lease="4s", acks_late=True, on_lost="skip")
def skipping(self: Any, book: str) -> None:
    if note(book):
        time.sleep(FOR_EVER)


@app.task(name="retrying", bind=True, base=Once, lease="20s", acks_late=True, max_retries=2)
def retrying(self: Any, book: str) -> str:
    note(book, attempt=self.request.retries, slot=self.request.cronce_slot)
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return "at last"


@app.task(name="replacing", bind=True, base=Once, lease="20s")
def replacing(self: Any, book: str, left: int) -> str:
    note(book, left=left)
    if left:
        raise self.replace(self.s(book, left - 1))
    return "all"


@app.task(name="failing", bind=True, base=Once, lease="20s")
def failing(self: Any, book: str) -> None:
    note(book)
    raise ValueError("as it should")
