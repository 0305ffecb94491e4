"""Paid services behind HTTP, and what they were paid for: kept by the test, out of reach of those who pay."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen


class Market(ThreadingHTTPServer):
    """Sells once under a key. Whoever buys what is `fatal` first dies of it: it is paid, and nobody was told."""

    def __init__(self, fatal: str) -> None:
        super().__init__(("127.0.0.1", 0), _Counter)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.bill: Counter[str] = Counter()
        self.buyers: list[int] = []
        self._fatal: str | None = fatal
        self._sold: dict[str, str] = {}
        self._lock = threading.Lock()

    def buy(self, what: str, key: str, buyer: int) -> str | None:
        with self._lock:
            self.buyers.append(buyer)
            if not key or key not in self._sold:
                self.bill[what] += 1
                self._sold[key] = f"{what} {sum(self.bill.values())}"
            if what == self._fatal:
                self._fatal = None
                os.kill(buyer, signal.SIGKILL)
                return None
            return self._sold[key]


class _Counter(BaseHTTPRequestHandler):
    server: Market

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sold = self.server.buy(**asked)
        if sold is not None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(sold.encode())

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def market(fatal: str) -> Iterator[Market]:
    with Market(fatal) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def pay(what: str, key: str = "") -> str:
    """In an agent's process."""
    said = json.dumps({"what": what, "key": key, "buyer": os.getpid()}).encode()
    with urlopen(Request(os.environ["MARKET"], said), timeout=60) as reply:
        return str(reply.read().decode())
