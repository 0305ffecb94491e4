"""A process of ours with one job, due once, that does not end by itself the first time."""

import logging
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime

from bench.scheduler.book import note
from bench.scheduler.process import given
from cronce import Cronce
from cronce.runtime.run import Run


def main(url: str, book: str, at: float, lease: str) -> None:
    """A body that SIGTERM waits for too long is cut short after the grace."""
    logging.disable(logging.WARNING)
    cron = Cronce(url)

    @cron.job(at=datetime.fromtimestamp(at, UTC), on_lost="rerun", lease=lease, name="job")
    def job(run: Run) -> None:
        note(book, "job")
        try:
            while run.attempt == 1:
                time.sleep(0.002)
        finally:
            note(book, "job", "end")

    threading.Thread(target=end_with_parent, daemon=True).start()
    cron.run(role="both", workers=2, grace="1s")


def end_with_parent() -> None:
    for _ in sys.stdin:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(**given())
