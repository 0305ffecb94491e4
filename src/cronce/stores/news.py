"""Listening on a connection of its own: waiting is the same for every server that can notify.

A fork copies the connection, and two processes that read from it would each get a part. So a child does not use its
parent's listener, and does not close it either, which would end the parent's connection.
"""

import json
import math
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from ssl import SSLWantReadError
from typing import Any, Final, Protocol

from cronce.clock import SystemClock
from cronce.errors import StoreUnavailable


class NewsSource(Protocol):
    """A connection on which a server sends its news."""

    def fileno(self) -> int: ...

    def heard(self) -> bool:
        """Whether news has arrived since the last call. It never waits; a broken connection raises
        `StoreUnavailable`."""
        ...

    def close(self) -> None: ...


class SocketListener:
    """Waits for news from a source, or for another thread to call `wake`."""

    def __init__(self, source: NewsSource) -> None:
        keep_alive(source.fileno())
        self._source = source
        self._process = os.getpid()
        self._waiting = threading.Lock()
        self._closed = False
        self._boot = SystemClock().boot
        self._ear, self._bell = socket.socketpair()
        self._ear.settimeout(0)
        self._bell.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self._ear, select.POLLIN)
        self._poll.register(source.fileno(), select.POLLIN)

    def wait(self, seconds: float) -> bool:
        refuse_others(self._process)
        with self._waiting:
            if self._closed:
                raise StoreUnavailable("this listener was closed; listen again")
            deadline = self._boot() + seconds
            while not self._source.heard():
                left = max(deadline - self._boot(), 0)
                ready = [file for file, _ in self._poll.poll(math.ceil(left * 1000))]
                if self._ear.fileno() in ready:
                    self._ear.recv(1 << 12)
                    return self._source.heard()
                if not ready:
                    return False
            return True

    def wake(self) -> None:
        with suppress(OSError):  # closed, or its buffer is full and wakes the reader anyway
            self._bell.send(b"!")

    def close(self) -> None:
        if self._process != os.getpid():
            _PARENTS_LISTENERS.append(self)
            return
        self._closed = True
        self.wake()
        with self._waiting:
            for each in (self._source, self._ear, self._bell):
                each.close()


_PARENTS_LISTENERS: Final[list[object]] = []
"""Listeners of the parent process. They are kept, so that no destructor closes their connections."""


def refuse_others(process: int) -> None:
    """A listener can only be used in the process that made it."""
    if process != os.getpid():
        raise StoreUnavailable("this listener belongs to the process before the fork; listen again")


def received(connection: socket.socket) -> bytes | None:
    """What has arrived on a non-blocking connection; None: nothing yet. A closed one is an error."""
    try:
        data = connection.recv(1 << 16)
    except (BlockingIOError, SSLWantReadError):
        return None
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data


IDLE, EVERY, TIMES = 30, 10, 3
"""After 30 s of silence the other end is asked, every 10 s, whether it is still there; after three times it is not."""


class HttpWatch:
    """A response in JSON that does not end: a line for each message, in HTTP's chunked encoding."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse, shown: str) -> None:
        self._connection = connection
        self._response = response
        self._shown = shown
        self._pieces = self._text = b""
        self._ended = False
        connection.sock.settimeout(0)
        with suppress(SSLWantReadError):
            self._pieces = response.fp.peek()  # the first of it may have come with the headers

    def is_news(self, message: dict[str, Any]) -> bool:
        """Whether a message is about a write on the board; one that ends the watch raises what `over` returns."""
        raise NotImplementedError

    def over(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(f"{self._shown}: its notifications stopped: {why}")

    def fileno(self) -> int:
        number: int = self._connection.sock.fileno()
        return number

    def heard(self) -> bool:
        try:
            self._pieces += received(self._connection.sock) or b""
        except OSError as error:
            raise self.over(str(error)) from error
        news = [message for message in self._messages() if self.is_news(message)]
        if self._ended and not news:
            raise self.over("it closed the connection")
        return bool(news)

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def _messages(self) -> Iterator[dict[str, Any]]:
        self._text += b"".join(self._whole_pieces())
        *lines, self._text = self._text.split(b"\n")
        return map(json.loads, lines)

    def _whole_pieces(self) -> Iterator[bytes]:
        """Each chunk is its length in hexadecimal, CRLF, the chunk, and CRLF; an empty one is the last."""
        while True:
            length, there, rest = self._pieces.partition(b"\r\n")
            size = int(length, 16) if there else 0
            self._ended |= bool(there) and not size
            if self._ended or not there or len(rest) < size + 2:
                return
            self._pieces = rest[size + 2 :]
            yield rest[:size]


def keep_alive(file: int) -> None:
    """Let an idle connection break when the other end is gone, or a router in between has forgotten it; else a listener
    would wait for ever."""
    with socket.socket(fileno=os.dup(file)) as copy:
        if copy.family == socket.AF_UNIX:
            return
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", EVERY), ("TCP_KEEPCNT", TIMES)):
            if hasattr(socket, name):
                copy.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
