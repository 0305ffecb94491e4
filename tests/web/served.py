"""The page behind a real server, and a client that reads what streams."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.applications import Starlette

from cronce.cli.listening import listening
from cronce.web.server import PageServer
from tests.house.wait import PATIENCE, wait_until


@contextmanager
def served(app: Starlette) -> Iterator[int]:
    """The port that it listens on. It is told to end with the block, and has ended after it."""
    listener = listening("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    server = PageServer(app, until_told=False)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Stream:
    """One who listens."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), PATIENCE)
        self._socket.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self._lines = self._socket.makefile("rb")
        self.status = int(self._lines.readline().split()[1])
        self.headers = dict(iter(self._header, None))

    def _header(self) -> tuple[str, str] | None:
        name, colon, value = self._lines.readline().decode().strip().partition(": ")
        return (name.lower(), value) if colon else None

    def event(self) -> tuple[str, str]:
        """The next piece of news, and what it says."""
        for line in self._lines:
            if line.startswith(b"event: "):
                data = next(self._lines)
                return line[7:].decode().strip(), data.removeprefix(b"data: ").decode().strip()
        return "end", ""

    def tally(self) -> int:
        name, data = self.event()
        assert name == "changed", (name, data)
        return int(data)

    def until(self, wanted: bytes) -> bytes:
        """What comes up to the line that begins so."""
        told = b""
        for line in self._lines:
            told += line
            if line.startswith(wanted):
                break
        return told

    def rest(self) -> bytes:
        return self._lines.read()

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def raw(port: int, request: bytes) -> bytes:
    """What is answered to these very bytes."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as one:
        told = b""
        with suppress(ConnectionError):  # of what it does not want, it need not hear the end
            one.sendall(request)
            while part := one.recv(65_536):
                told += part
        return told
