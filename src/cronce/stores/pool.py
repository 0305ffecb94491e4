"""Connections of one process to a server, each used by one thread at a time. A forked child begins with none.

A connection that failed is not used again, nor are the idle ones: they have probably failed, too. A connection that the
server closed while it was idle is noticed before it is used. Nothing here retries: a piece of work runs once.
"""

import os
import select
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from cronce.errors import StoreUnavailable
from cronce.stores.base import Closes

L = TypeVar("L", bound=Closes)

MAX_CONNECTIONS: Final = 8
"""Lines that one process has open at most; a call on top of them waits for one."""


class ConnectionPool(Generic[L]):
    """`connect` opens a line, `socket` is the number of its file. Within `patience` seconds one must come back."""

    def __init__(
        self, connect: Callable[[], L], socket: Callable[[L], int], patience: float, most: int = MAX_CONNECTIONS
    ) -> None:
        self._connect = connect
        self._socket = socket
        self._patience = patience
        self._most = most
        self._closed = False
        self._idle: list[L] = []
        self.begin()
        _POOLS.add(self)

    def begin(self) -> None:
        """Begin without connections. After a fork the parent's connections stay the parent's: the child does not use
        them, and does not close them either, because that would end them for the parent."""
        _PARENTS_LINES.extend(self._idle)
        self.lock = threading.RLock()
        self._room = threading.Condition(self.lock)
        self._returned = 0  # how often a line came back, to be used again
        self._idle = []
        self._open = 0
        self._pid = os.getpid()

    def line(self) -> "Borrowed[L]":
        """A line for one piece of work: ``with pool.line() as line``."""
        return Borrowed(self)

    def close(self) -> None:
        """Close the connections. Calls in progress finish first; a caller that waits for a connection gets an error."""
        with self.lock:
            self._closed = True
            self._hang_up_idle()
            self._room.notify_all()

    def __del__(self) -> None:
        """Of a store that was not closed: its connections are closed, and not left to the driver, which would warn."""
        if sys.is_finalizing():
            return
        if self._pid == os.getpid():
            self._hang_up_idle()
        else:  # collected in a forked child before it could begin anew: they are the parent's
            _PARENTS_LINES.extend(self._idle)

    def take(self) -> L:
        with self.lock:
            if not self._idle:
                self._wait_for_room()
            if self._closed:
                raise StoreUnavailable("this store was closed by this process; open it again")
            while self._idle:
                line = self._idle.pop()
                if not self._hung_up(line):
                    return line
                self._forget(line)
            self._open += 1
        try:
            return self._connect()
        except BaseException:
            with self.lock:
                self._open -= 1
                self._room.notify()
            raise

    def give_back(self, line: L, *, failed: bool) -> None:
        """After an error the connection is closed, because its state is unknown."""
        with self.lock:
            if failed or self._closed:
                self._forget(line)
                self._hang_up_idle()
                self._room.notify_all()
            else:
                self._idle.append(line)
                self._returned += 1
                self._room.notify()

    def _wait_for_room(self) -> None:
        """However many wait, each has its turn as long as the server answers. It does not where no line comes back."""
        while True:
            before = self._returned
            if self._room.wait_for(self._has_room, self._patience):
                return
            if self._returned == before:
                raise StoreUnavailable(
                    f"all {self._most} connections of this process were busy for {self._patience:g} s"
                )

    def _has_room(self) -> bool:
        return bool(self._idle) or self._open < self._most or self._closed

    def _hang_up_idle(self) -> None:
        while self._idle:
            self._forget(self._idle.pop())

    def _forget(self, line: L) -> None:
        self._open -= 1
        with suppress(Exception):
            line.close()

    def _hung_up(self, line: L) -> bool:
        """An idle connection has nothing to read; one that can be read has been closed by the server."""
        poll = select.poll()
        poll.register(self._socket(line), select.POLLIN)
        return bool(poll.poll(0))


class Borrowed(Generic[L]):
    """A line while it is used."""

    __slots__ = ("_line", "_lock", "_pool")

    def __init__(self, pool: ConnectionPool[L]) -> None:
        self._pool = pool
        self._lock = pool.lock

    def __enter__(self) -> L:
        self._line = self._pool.take()
        return self._line

    def __exit__(self, kind: object, *_: object) -> None:
        if self._lock is self._pool.lock:
            self._pool.give_back(self._line, failed=kind is not None)
        else:  # the pool began anew: the work forked, and this is the child
            _PARENTS_LINES.append(self._line)


_PARENTS_LINES: Final[list[object]] = []
"""Connections that another process uses. They are kept, so that no destructor closes them."""

_POOLS: Final = weakref.WeakSet[ConnectionPool[Any]]()


def _forked() -> None:
    for pool in _POOLS:
        pool.begin()


os.register_at_fork(after_in_child=_forked)
