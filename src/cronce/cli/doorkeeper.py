"""/healthz, /readyz and /metrics of `cronce run`, over HTTP: for whoever restarts processes, waits for them and looks.

*It shows nothing else*: words that stand in `health`, and numbers by the names of jobs. No URLs, no hosts, no errors:
it may be asked from other machines.
"""

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from cronce.cli.address import listening, read_address
from cronce.cli.attendant import Attendant
from cronce.cli.counting import Counts
from cronce.cli.health import Page, hangs, not_ready
from cronce.clock import SystemClock
from cronce.monitor.metrics.exposition import CONTENT_TYPE

SLOW: Final = 5.0
"""Seconds after which whoever asks has to have asked."""


class Doorkeeper(Attendant):
    def __init__(self, address: str, page: Page) -> None:
        super().__init__(listening(*read_address(address)))
        self._page, self.counts = page, Counts(page)

    def answer(self) -> None:
        _Door(self._socket, self._page, self.counts).serve_forever()


class _Door(ThreadingHTTPServer):
    def __init__(self, listening: socket.socket, page: Page, counts: Counts) -> None:
        super().__init__(("", 0), _Answer, bind_and_activate=False)
        self.socket.close()
        self.socket, self.page, self.counts, self.boot = listening, page, counts, SystemClock().boot

    def handle_error(self, *_: object) -> None:
        """Who asks may hang up."""


class _Answer(BaseHTTPRequestHandler):
    server: _Door
    timeout = SLOW

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                self._judged(hangs(self.server.page.read(), self.server.boot()))
            case "/readyz":
                self._judged(not_ready(self.server.page.read(), self.server.boot()))
            case "/metrics":
                self._say(HTTPStatus.OK, self.server.counts.text(), CONTENT_TYPE)
            case _:
                self._say(HTTPStatus.NOT_FOUND, "there are /healthz, /readyz and /metrics\n")

    do_HEAD = do_GET  # noqa: N815

    def _judged(self, trouble: str) -> None:
        self._say(HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, f"{trouble or 'ok'}\n")

    def _say(self, status: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "cronce"

    def log_message(self, *_: object) -> None:
        """A line for each probe is nobody's news."""
