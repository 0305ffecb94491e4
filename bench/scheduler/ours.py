"""A process of ours with so many jobs. Says when it has declared them and when `start` came back."""

import logging
import sys
import time
from collections.abc import Callable

from bench.scheduler.book import note
from bench.scheduler.jobs import far, names
from bench.scheduler.process import given, say
from cronce import Cronce


def main(
    url: str,
    book: str,
    jobs: int,
    *,
    every: str | None = None,
    workers: int = 250,
    canary: bool = False,
) -> None:
    """Jobs without `every` are not due for months. The canary is: each second."""
    logging.disable(logging.WARNING)
    began = time.time()
    cron = Cronce(url)
    for number, name in enumerate(names(jobs)):
        cron.job(None if every else far(number), every=every, name=name)(body(book, name))
    if canary:
        cron.job(every="1s", name="canary")(body(book, "canary"))
    declared = time.time()
    with cron.start(role="both", workers=workers):
        say(began=began, declared=declared, started=time.time())
        for _ in sys.stdin:
            pass
    cron.close()


def body(book: str, name: str) -> Callable[[], None]:
    return lambda: note(book, name)


if __name__ == "__main__":
    main(**given())
