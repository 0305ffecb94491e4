"""Listening to an SQLite file. SQLite does not notify other processes, so the file is checked 25 times a second.

Asking SQLite, even for its `data_version`, takes several system calls. So the time stamp of the log is read first,
which takes one: every commit writes to the log.
"""

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable
from cronce.stores.news import refuse_others
from cronce.stores.sqlite.file import names, stamp

if TYPE_CHECKING:
    from cronce.stores.sqlite import SqliteStore

WAKE_EVERY: Final = 0.04
"""Seconds. Waking up and reading a time stamp takes up to 100 µs on a small and busy machine: 0.25 % of a core."""

TIMESTAMP_STEP: Final = 0.02
"""Seconds. Time stamps of files advance in steps of up to half of this."""

ANYWAY: Final = 1.0
"""Seconds. The store is read this often whatever the time stamp says: some file systems do not keep them well."""


class SqliteListener:
    """Compares the board with what it was when it was last read."""

    def __init__(self, store: "SqliteStore") -> None:
        self._look = store.board
        self._log = names(store.path)[1]
        self._process = os.getpid()
        self._boot = SystemClock().boot
        self._bell = threading.Lock()  # to get it is to be woken
        self._bell.acquire()
        self._closed = False
        self._stamp = stamp(self._log)
        self._changed = self._looked = self._boot()
        self._board = self._look()

    def wait(self, seconds: float) -> bool:
        refuse_others(self._process)
        if self._closed:
            raise StoreUnavailable("this listener was closed; listen again")
        deadline = self._boot() + seconds
        while not self._heard():
            left = deadline - self._boot()
            if left <= 0:
                return False
            if self._bell.acquire(timeout=min(left, WAKE_EVERY)):
                return self._heard()
        return True

    def wake(self) -> None:
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def close(self) -> None:
        self._closed = True
        self.wake()

    def _heard(self) -> bool:
        """A cell that was deleted is no news."""
        if not self._may_be_new():
            return False
        last, self._board = self._board, self._look()
        return not self._board <= last

    def _may_be_new(self) -> bool:
        """A write within the same step of the clock as the last read does not change the time stamp. So after a change
        the store is read once more when that step is over."""
        found, now = stamp(self._log), self._boot()
        if found != self._stamp:
            self._stamp, self._changed = found, now
        due = self._looked - self._changed < TIMESTAMP_STEP or now - self._looked >= ANYWAY
        self._looked = now if due else self._looked
        return due
