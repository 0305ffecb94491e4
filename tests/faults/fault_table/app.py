"""A process of a play: `app WAY URL BOOK FIRST LAST`. A scheduler, or a guard that is called at each second.

Job functions write down what they do in a file that knows nothing of cronce: a line when they begin, and one when they
end.
"""

import os
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from cronce import Cronce, Run
from cronce.errors import CronceError

JOB: Final = "tick"
SECOND: Final = timedelta(seconds=1)
WORKS: Final = 0.3
"""Seconds that a job function takes: it ends well before the trust in its lease does."""

LEASE: Final = "5s"
WAYS: Final[dict[str, dict[str, Any]]] = {
    "guard": {"on_lost": "rerun", "overlap": "allow", "lease": LEASE},
    "scheduler": {"on_lost": "rerun", "overlap": "allow", "lease": LEASE},
    "missed=all": {"on_lost": "rerun", "missed": "all", "lease": LEASE, "start_within": "1h"},
    "defaults": {},
}


def main(way: str, url: str, book: str, first: str, last: str) -> None:
    cron = Cronce(url)
    file = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    def tick(run: Run) -> None:
        write("begin", run.at.isoformat(), os.getpid())
        time.sleep(WORKS)
        write("end", run.at.isoformat(), os.getpid())

    begin, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    guard = cron.job(every="1s", start=begin, end=end, name=JOB, **WAYS[way])(tick)
    write("up", first, os.getpid())
    if way != "guard":
        cron.run()
        return

    def call(at: datetime) -> None:
        with suppress(CronceError):  # as others' schedulers do: a call that failed is a line in a log
            guard.at(at)()

    for number in range((end - begin) // SECOND + 1):
        at = begin + number * SECOND
        time.sleep(max(at.timestamp() - time.time(), 0.0))
        thread = threading.Thread(target=call, args=[at], daemon=True)
        thread.start()
        if number == 0:  # it registers the job just below its slot: were the second call faster, the first is too old
            thread.join()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
