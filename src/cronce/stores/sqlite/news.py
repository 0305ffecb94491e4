"""Listening to an SQLite file. Nobody tells, so it is looked at, twenty-five times a second.

To ask SQLite, also for its `data_version`, takes several calls of the system: too much for something that has hardly
ever changed. So the time stamp of its log is asked first, which is one: every commit writes to the log.
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
"""Seconds. To wake up and ask for a time stamp takes up to 100 µs on a small and busy virtual machine: a four-hundredth
of a core, and much less of a real one."""

TIMESTAMP_STEP: Final = 0.02
"""Seconds. The clock of time stamps may stand still for half as long."""

ANYWAY: Final = 1.0
"""Seconds. So often it is looked at whatever its log says, should it lie where time stamps are not kept well."""


class SqliteListener:
    """Compares the board with what it was at the last look."""

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
        """A cell that is gone is no news: nothing was written on it."""
        if not self._may_be_new():
            return False
        last, self._board = self._board, self._look()
        return not self._board <= last

    def _may_be_new(self) -> bool:
        """What is written within the tick of the last look does not show in the stamp: so after it has changed it is
        looked at once more when that tick is over."""
        found, now = stamp(self._log), self._boot()
        if found != self._stamp:
            self._stamp, self._changed = found, now
        due = self._looked - self._changed < TIMESTAMP_STEP or now - self._looked >= ANYWAY
        self._looked = now if due else self._looked
        return due
