"""The payment service: a process of its own, which knows nothing of cronce. It charges, and keeps its own books.

    python -m tests.faults.billing.receiver BOOKS SEED

It honours `Idempotency-Key`, as payment services do: the first request with a key charges, every later one gets the
answer of the first. A request without a key is a charge, each time. Some requests it carries out and then hangs up,
without an answer; at some it hangs up before: whoever asked cannot tell the two apart.

It says its port on standard output. The end of its input is its end.
"""

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Literal

from cronce.value import NamedTuple

HANGS_UP: Final = 0.03
"""How many of the requests are carried out and get no answer."""

CUT_OFF: Final = 0.02
"""How many are not carried out, and get none either."""

TAKES: Final = 0.003
"""Seconds on either side of the charge, at most: a request can be caught before it and after it."""

NO_KEY: Final = "-"

What = Literal["request", "charge", "hung-up", "cut-off"]


class Entry(NamedTuple):
    """A line of the books."""

    what: str
    invoice: int
    who: str
    key: str = NO_KEY


def read_books(lines: Iterable[str]) -> list[Entry]:
    return [Entry(what, int(invoice), who, key) for what, invoice, who, key in map(str.split, lines)]


class Books:
    """Append-only, and on the disk before anybody gets an answer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._answers: dict[str, str] = {}
        self._charges = 0

    def charge(self, invoice: int, who: str, key: str) -> str:
        """The number of the charge: of the one that this key stands for, if there is one."""
        with self._lock:
            self._write("request", invoice, who, key)
            if key not in self._answers or key == NO_KEY:
                self._charges += 1
                self._answers[key] = f"charge-{self._charges}"
                self._write("charge", invoice, who, key)
                os.fdatasync(self._file)
            return self._answers[key]

    def gave_no_answer(self, what: Literal["hung-up", "cut-off"], invoice: int, who: str, key: str) -> None:
        self._write(what, invoice, who, key)

    def _write(self, what: What, invoice: int, who: str, key: str) -> None:
        os.write(self._file, f"{what} {invoice} {who} {key}\n".encode())  # one write: no line is torn


def serve(books: Books, seed: int) -> ThreadingHTTPServer:
    dice = random.Random(seed)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            invoice, who = int(self.path.rpartition("/")[2]), self.headers["From"]
            key = self.headers.get("Idempotency-Key", NO_KEY)
            time.sleep(TAKES * dice.random())
            if dice.random() < CUT_OFF:
                self._hang_up("cut-off", invoice, who, key)
                return
            charge = books.charge(invoice, who, key)
            time.sleep(TAKES * dice.random())
            if dice.random() < HANGS_UP:
                self._hang_up("hung-up", invoice, who, key)
            else:
                self._answer(charge)

        def _hang_up(self, what: Literal["hung-up", "cut-off"], invoice: int, who: str, key: str) -> None:
            books.gave_no_answer(what, invoice, who, key)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _answer(self, text: str) -> None:
            try:
                self.send_response(201)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())
            except ConnectionError:  # it was killed, and hears nothing any more
                self.close_connection = True

        def log_message(self, *_words: object) -> None:
            """The books are the log."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main() -> None:
    path, seed = sys.argv[1:]
    server = serve(Books(Path(path)), int(seed))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
