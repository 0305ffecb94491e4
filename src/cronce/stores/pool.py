"""Connections of one process to a server, each used by one thread at a time. A forked child begins with none.

One that failed is not used again, nor are those that lie idle: whatever befell it befell them. One that the server
hung up while it lay idle is noticed before it is used. Nothing here retries: a piece of work runs once.
"""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Generic, Protocol, TypeVar

from cronce.errors import StoreUnavailable


class Line(Protocol):
    """What a driver calls a connection."""

    def close(self) -> None: ...


L = TypeVar("L", bound=Line)

MOST: Final = 8
"""Lines that one process has open at most; a call on top of them waits for one."""


class Pool(Generic[L]):
    """`connect` opens a line, `socket` is the number of its file, `patience` how many seconds to wait for a free one."""

    def __init__(
        self, connect: Callable[[], L], socket: Callable[[L], int], patience: float, most: int = MOST
    ) -> None:
        self._connect = connect
        self._socket = socket
        self._patience = patience
        self._most = most
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Condition()
        self._idle: list[L] = []
        self._open = 0

    @contextmanager
    def line(self) -> Iterator[L]:
        """A line for one piece of work. After an error it is hung up: what it is in the middle of, nobody knows."""
        line = self._take()
        try:
            yield line
        except BaseException:
            self._drop(line)
            raise
        self._give_back(line)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._hang_up_idle()

    def _take(self) -> L:
        if self._process != os.getpid():
            self._forked()
        with self._lock:
            while self._idle:
                line = self._idle.pop()
                if not self._hung_up(line):
                    return line
                self._forget(line)
            if self._closed:
                raise StoreUnavailable("this store was closed by this process; open it again")
            if not self._lock.wait_for(lambda: self._idle or self._open < self._most, self._patience):
                raise StoreUnavailable(
                    f"all {self._most} connections of this process were busy for {self._patience:g} s"
                )
            if self._idle:
                return self._idle.pop()
            self._open += 1
        try:
            return self._connect()
        except BaseException:
            with self._lock:
                self._open -= 1
                self._lock.notify()
            raise

    def _give_back(self, line: L) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            if self._closed:
                self._forget(line)
            else:
                self._idle.append(line)
            self._lock.notify()

    def _drop(self, line: L) -> None:
        if self._process != os.getpid():
            return
        with self._lock:
            self._forget(line)
            self._hang_up_idle()
            self._lock.notify()

    def _hang_up_idle(self) -> None:
        while self._idle:
            self._forget(self._idle.pop())

    def _forget(self, line: L) -> None:
        self._open -= 1
        with suppress(Exception):
            line.close()

    def _hung_up(self, line: L) -> bool:
        """An idle line has nothing to say; one that can be read has been closed from the other end."""
        poll = select.poll()
        poll.register(self._socket(line), select.POLLIN | select.POLLHUP | select.POLLERR)
        return bool(poll.poll(0))

    def _forked(self) -> None:
        """The parent's lines stay the parent's: not used here, and not closed, for that would hang up on it."""
        _PARENTS.extend(self._idle)
        self._begin()


_PARENTS: Final[list[object]] = []

