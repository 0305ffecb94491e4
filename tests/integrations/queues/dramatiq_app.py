"""Actors for Dramatiq's workers, and a slot that sends them work."""

import os
import signal
import time
from datetime import UTC, datetime
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AsyncIO

from cronce import Cronce, Run
from cronce.integrations.dramatiq import Once, dispatch
from tests.integrations.queues.book import here

SLOT = datetime(2026, 3, 29, 1, tzinfo=UTC)

cron = Cronce()
broker = RedisBroker(  # type: ignore[no-untyped-call]
    url=os.environ["BROKER"],
    namespace=os.environ["NAMESPACE"],
    heartbeat_timeout=1000,  # a minute unless you say so: here nobody wants to wait for it
    maintenance_chance=1_000_000,
)
broker.add_middleware(AsyncIO())
broker.add_middleware(Once(cron, lease="4s"))
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0)
def note(name: str) -> None:
    here().note("start", name)


@dramatiq.actor(max_retries=3, min_backoff=1)
async def fails_at_first(name: str) -> None:
    here().note("start", name)
    if len(here().lines("start", name)) == 1:
        raise ConnectionError("not yet")


@dramatiq.actor(max_retries=3, min_backoff=1, time_limit=1500)
def slow_at_first(name: str) -> None:
    here().note("start", name)
    while len(here().lines("start", name)) == 1:
        time.sleep(0.01)


@dramatiq.actor(max_retries=0)
def skipped(name: str) -> None:
    here().note("start", name)
    here().wait_for(name)
    here().note("end", name)


@dramatiq.actor(max_retries=0, on_lost="rerun")
def rerun(name: str) -> None:
    skipped(name)


@cron.job(name="nightly", on_lost="rerun", lease="2s")
def nightly(run: Run) -> str:
    return dispatch(run, "report", note.message("report"))


def die(*_args: Any, **_named: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    broker.middleware[-1].after_enqueue = die  # type: ignore[method-assign]
    nightly.at(SLOT)()
