"""A receiver of notices and pings, over real HTTP: it notes what comes, and answers as it is told to."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Heard(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes
    peer: int
    """The port of whoever sent it."""

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def alert(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["alert"]
        return found

    @property
    def told(self) -> tuple[str, str]:
        """Which alert, and whether it is raised or cleared."""
        return str(self.alert["kind"]), str(self.alert["state"])


Answer = Callable[[Heard], int]
"""A status; 0: it hangs up without a word. It may take its time."""


class Receiver(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer = lambda _heard: 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.location = ""
        self.heard: list[Heard] = []
        self.let_go = threading.Event()
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.let_go.set()
        self.shutdown()
        self.server_close()
        self._thread.join()
        if self._errors:  # it is the test that answered wrongly
            raise self._errors[0]

    def hang(self, _heard: Heard) -> int:
        """Answer when it is over."""
        self.let_go.wait(60)
        return 200

    def told(self) -> list[tuple[str, str]]:
        return [one.told for one in [*self.heard]]

    def handle_error(self, *_: object) -> None:
        """Who sends may hang up."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self._errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        heard = Heard(self.path, dict(self.headers.items()), body, self.client_address[1])
        self.server.heard.append(heard)
        status = self.server.answer(heard)
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def receiving(answer: Answer = lambda _heard: 200) -> Iterator[Receiver]:
    with Receiver(answer) as receiver:
        yield receiver
