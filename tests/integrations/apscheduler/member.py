"""One of several processes that have the same jobs: a scheduler as people write it, and the line that protects it.

python member.py STORE JOBS BOOK [asyncio]: JOBS is the URL of a job store, or "memory".
"""

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Any

from apscheduler.jobstores.base import JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from cronce import Cronce
from cronce.integrations.apscheduler import protect

STORE, JOBS, BOOK, *KIND = sys.argv[1:]
faulthandler.register(signal.SIGUSR1)  # one that does not end is asked where it stands


def write(*words: object) -> None:
    line = " ".join(map(str, (*words, os.getpid())))
    with Path(BOOK).open("a", encoding="utf-8") as book:
        book.write(f"{line}\n")


def begin(run: Any) -> bool:
    """Whether it is the one that is to be killed in the middle."""
    write("start", run.job, run.at.timestamp())
    with suppress(FileNotFoundError):
        Path(f"{BOOK}.{run.job}.hang").rename(f"{BOOK}.{run.job}.hung")
        write("hang", run.job, run.at.timestamp())
        return True
    return False


def body(run: Any = None) -> None:
    if begin(run):
        threading.Event().wait()
    write("done", run.job, run.at.timestamp())


async def async_body(run: Any = None) -> None:
    if begin(run):
        await asyncio.Event().wait()
    write("done", run.job, run.at.timestamp())


def scheduler_of(kind: Any, fn: Any) -> Any:
    store = MemoryJobStore() if JOBS == "memory" else SQLAlchemyJobStore(JOBS)
    options = {"misfire_grace_time": 60, "max_instances": 5, "coalesce": False}  # all may be late on a busy machine
    scheduler = kind(timezone=UTC, jobstores={"default": store}, job_defaults=options)
    protect(scheduler, Cronce(STORE), lease="4s", jobs={"again": {"on_lost": "rerun"}})
    scheduler.add_job(fn, "interval", seconds=1, id="skip", replace_existing=True)
    scheduler.add_job(fn, "interval", seconds=1, jitter=1, id="again", replace_existing=True)
    return scheduler


def start(scheduler: Any, fn: Any) -> None:
    """The job of one date is over as soon as anybody has run it: then another finds it there, and no longer there."""
    scheduler.start()
    date: Any = {"run_date": "2026-01-01", "id": "date", "replace_existing": True, "misfire_grace_time": None}
    with suppress(JobLookupError):
        scheduler.add_job(fn, "date", **date)
    write("up", "-", 0)


def background() -> None:
    """It looks again and again whether it is to end: a signal that the kernel gives to another thread does not wake
    the main one, and one that waits for an event without a limit never runs the handler."""
    scheduler, told = scheduler_of(BackgroundScheduler, body), []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    start(scheduler, body)
    while not told:
        time.sleep(0.05)
    scheduler.shutdown()


async def on_a_loop() -> None:
    scheduler, over = scheduler_of(AsyncIOScheduler, async_body), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    start(scheduler, async_body)
    await over.wait()
    scheduler.pause()
    while scheduler._executors["default"].executor._pending_futures:  # noqa: ASYNC110  shutdown would cancel them
        await asyncio.sleep(0.01)
    scheduler.shutdown()
    await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(on_a_loop()) if KIND else background()
