"""What RQ's workers are told to run, and a slot that queues it."""

import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

from redis import Redis
from rq import Queue, Retry

from cronce import Cronce, Run
from cronce.integrations.rq import dispatch, once
from tests.integrations.queues.book import here

APP = "tests.integrations.queues.rq_app"
SLOT = datetime(2026, 3, 29, 1, tzinfo=UTC)

cron = Cronce()


def plain(name: str) -> str:
    here().note("start", name)
    return f"did {name}"


@once(cron)
def guarded(name: str) -> str:
    return plain(name)


@once(cron)
async def awaited(name: str) -> complex:
    plain(name)
    return 1j  # no JSON, and a pickle


@once(cron)
async def fails_at_first(name: str) -> None:
    here().note("start", name)
    if len(here().lines("start", name)) == 1:
        raise ConnectionError("not yet")


@once(cron)
def asks_for_more(name: str) -> Retry | str:
    here().note("start", name)
    return Retry(max=5) if len(here().lines("start", name)) < 3 else "enough"


@once(cron)
def calls_itself(name: str, left: int) -> None:
    here().note("start", name)
    if left:
        calls_itself(name, left - 1)


def calls_another(name: str) -> None:
    guarded(name)


def held(name: str) -> str:
    here().note("start", name)
    here().wait_for(name)
    here().note("end", name)
    return f"did {name}"


skipped = once(cron, lease="2s")(held)


@once(cron, lease="2s", on_lost="rerun")
def rerun(name: str) -> str:
    return held(name)


@once(cron, lease="30s", on_lost="rerun")
def takes_long(name: str) -> str:
    return held(name)


class Dying(Queue):
    """The process of whoever queues something is gone right after that."""

    def enqueue(self, *args: Any, **named: Any) -> Any:
        super().enqueue(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)


@cron.job(name="nightly", on_lost="rerun", lease="2s")
def nightly(run: Run, queue: Queue) -> str:
    return dispatch(run, "report", queue, f"{APP}.guarded", "report", description="the report of the night")


if __name__ == "__main__":
    with Redis.from_url(sys.argv[1]) as connection:
        nightly.at(SLOT)(Dying(sys.argv[2], connection=connection))
