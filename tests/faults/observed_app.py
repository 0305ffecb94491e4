"""A process with a scheduler of APScheduler that nobody protects, as there are three of them. Run as a script.

Two of its jobs are only observed: a function, and a job that knows its schedule. Each writes a line into a plain file
that knows nothing of cronce: which it was, whose, and when it was called. So does its caller, before.
A third beats.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable

from apscheduler.schedulers.background import BackgroundScheduler

from cronce import Cronce
from cronce.clock import SystemClock

EVERY, WINDOW = 2, 1.0
"""Seconds from one slot to the next, and for how long a second call of the function is one too many."""


def main() -> None:
    url, book = sys.argv[1:]
    ledger = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    over, cron = threading.Event(), Cronce(url)
    signal.signal(signal.SIGTERM, lambda *_: over.set())

    def ran(what: str, called: float) -> None:
        os.write(ledger, f"{what} {os.getpid()} {called}\n".encode())

    def call(one: Callable[[float], None], what: str) -> None:
        called = SystemClock().wall().timestamp()
        ran(f"call-of-{what}", called)
        one(called)

    @cron.observe("function", window=f"{WINDOW:g}s")
    def function(called: float) -> None:
        ran("function", called)

    @cron.job(every=f"{EVERY}s", name="job", mode="observe", overlap="allow")  # one slot's end may be written late
    def job(called: float) -> None:
        ran("job", called)

    scheduler = BackgroundScheduler()
    for what, one in (("function", function), ("job", job)):
        scheduler.add_job(call, "cron", [one, what], second=f"*/{EVERY}")
    scheduler.add_job(cron.heartbeat, "cron", ["beat", f"{EVERY}s"], second=f"*/{EVERY}")
    scheduler.start()
    over.wait()
    scheduler.shutdown()
    cron.close()


if __name__ == "__main__":
    main()
