"""The application of `life`, whose process stops itself when it is about to commit a claim, once a file asks for it: it
holds SQLite's write lock then."""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from cronce.model import Write
from cronce.stores.base import Swapped
from cronce.stores.sqlite import Select, SqliteConnection
from tests.runtime.scheduling.life.app import cron

__all__ = ["cron"]

STOP = Path(os.environ["LIFE_STOP"])
plain_swap = SqliteConnection.swap


def swap(self: SqliteConnection, writes: Sequence[Write], wanted: Select, seen: tuple[int, int]) -> Swapped:
    if STOP.exists() and any(write.key.startswith("run/") and write.grant for write in writes):
        self.db.set_trace_callback(stop_at_commit)
    return plain_swap(self, writes, wanted, seen)


def stop_at_commit(statement: str) -> None:
    if statement == "COMMIT" and STOP.exists():
        STOP.unlink()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


SqliteConnection.swap = swap  # type: ignore[method-assign]
