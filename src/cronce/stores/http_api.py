"""Servers with a JSON API over HTTP, whose clock is read from the `Date` of their replies: etcd and Kubernetes.

*One client for both*, of the standard library: importing `http.client` takes 31 ms and httpx 144, and each run under
cron is a new process. A request is sent once: one without an answer may have been carried out. Connecting is tried at
each endpoint in turn.

*The clock.* A *member* is one of several machines that may answer.

A reply dated D, requested at `began` and received at `ended` on our boot clock, was written at some moment between the
two, and at that moment the member's clock showed between D and D + 1 s. So the offset *member's clock − boot clock* is

    at least  D − ended        (the reply was written at the latest when it arrived)
    below     D + 1 s − began  (and at the earliest when it was requested)

Every reply gives such a pair of bounds, and the true offset is within all of them: a few replies around a change of the
second narrow a whole second down to the length of a round trip. Old bounds are widened by MAX_DRIFT, since no two
clocks run alike, and by MEMBERS when another member answers. If nothing is left between them, the clock was set: start
again.

`now` is the lower bound: the latest instant that the server's clock has certainly reached. By it no slot is claimed
early and no lease counts as lapsed early, and it does not fall while the clock is not set. It is behind by what is not
known yet, at most a second and the time of a reply. A lease dated by it ends that much early for others; the margin of
trust (`Traits.step` and `Traits.skew`) covers that. It is exact right after a change of the second, where slots are.
"""

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from math import inf
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection, socket
from typing import Any, Final

from cronce.errors import StoreUnavailable, StoreUnusable
from cronce.model import EPOCH, Boot, Instant
from cronce.stores.base import closed_on_error
from cronce.stores.news import NewsSource, SocketListener
from cronce.stores.pool import ConnectionPool
from cronce.value import NamedTuple

Json = dict[str, Any]

# --- asking ---------------------------------------------------------------------------------------------------------

NoAnswer: Final = (OSError, HTTPException)
"""What a request without an answer raises."""


class NoConnection(OSError):
    """No endpoint accepted a connection: each with its error."""

    def __init__(self, failures: Sequence[tuple[str, OSError]]) -> None:
        super().__init__("; ".join(f"{endpoint}: {error.strerror or error}" for endpoint, error in failures))
        self.last: Final = failures[-1][1]


class JsonRequest(NamedTuple):
    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = {}


class Reply(NamedTuple):
    """The answer of a server, its `Date`, and our boot clock before and after."""

    status: int
    text: str
    date: str | None = None
    began: Boot = 0.0
    ended: Boot = 0.0


class HttpServer:
    """The endpoints of one server or cluster, for all threads of a process. `shown` is its URL, masked. `via` is where
    connections are opened instead, such as a tunnel: TLS still verifies the endpoint itself."""

    def __init__(
        self,
        shown: str,
        endpoints: Sequence[tuple[str, int]],
        timeout: float,
        tls: ssl.SSLContext | None,
        boot: Callable[[], Boot],
        *,
        via: tuple[str, int] | None = None,
    ) -> None:
        self.shown: Final = shown
        self.timeout: Final = timeout
        self.boot: Final = boot
        self.clock: Final = ServerClock(boot)
        self._endpoints = endpoints
        self._tls, self._via = tls, via
        self._first = 0
        self._pool: ConnectionPool[HTTPConnection] = ConnectionPool(self.connect, _number, timeout)

    def deadline(self) -> Boot:
        """When a call that begins now times out."""
        return self.boot() + self.timeout

    def close(self) -> None:
        self._pool.close()

    def send(self, question: JsonRequest, deadline: Boot) -> Reply:
        """One request. After no answer, or a status of 500 or more, the next one goes to another endpoint."""
        if self.boot() >= deadline:
            raise StoreUnavailable(f"{self.shown}: not done within {self.timeout:g} s; this process is too busy")
        with suppress(_UnusableConnection), self._pool.line() as connection:
            began = self.boot()
            try:
                response = ask(connection, question, deadline - began)
                text = self._whole(response, deadline)
            except NoAnswer:
                self._look_elsewhere(connection)
                raise
            ended = self.boot()
            if response.status >= 500:
                self._look_elsewhere(connection)
            if connection.sock is None:
                raise _UnusableConnection
        return Reply(response.status, text, response.headers.get("Date"), began, ended)

    def listen(
        self,
        question: JsonRequest,
        deadline: Boot,
        watch: Callable[[HTTPConnection, HTTPResponse, str], NewsSource],
        refused: Callable[[Reply], Exception],
    ) -> SocketListener:
        """A request whose answer goes on, on a connection of its own."""
        connection = self.connect()
        with closed_on_error(connection):
            response = ask(connection, question, deadline - self.boot())
            if response.status != 200:
                raise refused(Reply(response.status, response.read().decode()))
            return SocketListener(watch(connection, response, self.shown))

    def hear(self, reply: Reply, member: str = "") -> None:
        """Learn about the server's clock from a reply."""
        try:
            second = int(parsedate_to_datetime(reply.date or "").timestamp())
        except ValueError:
            raise StoreUnusable(
                f"{self.shown}: the replies carry no Date, so the server's clock cannot be read; is there a"
                " proxy in front of it?"
            ) from None
        self.clock.heard(DateReading(member, second, reply.began, reply.ended))

    def connect(self) -> HTTPConnection:
        """To the first endpoint that accepts a connection, beginning with the one that worked last."""
        failures: list[tuple[str, OSError]] = []
        for step in range(len(self._endpoints)):
            number = (self._first + step) % len(self._endpoints)
            host, port = self._endpoints[number]
            connection = HTTPConnection(host, port)
            connection.auto_open = 0  # by itself it would connect again after an error, and without TLS
            try:
                connection.sock = self._socket(host, port)
            except OSError as error:
                failures.append((f"{host}:{port}", error))
                continue
            self._first = number
            return connection
        raise NoConnection(failures)

    def _socket(self, host: str, port: int) -> socket:
        plain = create_connection(self._via or (host, port), self.timeout / len(self._endpoints))
        with closed_on_error(plain):
            plain.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            return plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=host)

    def _look_elsewhere(self, connection: HTTPConnection) -> None:
        self._first = self._endpoints.index((connection.host, connection.port)) + 1
        connection.close()

    def _whole(self, response: HTTPResponse, deadline: Boot) -> str:
        """The socket's own timeout is only for each part of it."""
        pieces = []
        while piece := response.read1():
            pieces.append(piece)
            if self.boot() >= deadline:
                raise TimeoutError
        response.read()  # its end, so that the connection can be used again
        return b"".join(pieces).decode(errors="replace")


def ask(connection: HTTPConnection, question: JsonRequest, seconds: float) -> HTTPResponse:
    method, path, body, headers = question
    payload = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    connection.sock.settimeout(max(seconds, 0.001))
    connection.request(method, path, payload, {"Content-Type": "application/json", **headers})
    return connection.getresponse()


def _number(connection: HTTPConnection) -> int:
    number: int = connection.sock.fileno()
    return number


class _UnusableConnection(Exception):
    """There is an answer, but the pool must not keep this connection: it was closed, or its server does not work."""


# --- the clock ------------------------------------------------------------------------------------------------------

MAX_DRIFT = 500e-6
"""Seconds a second. Two clocks drift apart by less than this: the most by which NTP slews one."""

MEMBERS = 0.5
"""Seconds by which the clocks of two members may differ: far more than NTP allows."""

MAX_DOUBT = 1.25
"""Seconds of doubt above which nothing is written: one for the date, and a quarter for the time of a reply."""


class DateReading(NamedTuple):
    """The second in the `Date` of a member's reply, and our boot clock before and after."""

    member: str
    second: int
    began: Boot
    ended: Boot


class ClockBounds(NamedTuple):
    """By at least `low` and below `high` seconds a member's clock is ahead of our boot clock, as known at `when`."""

    member: str
    low: float
    high: float
    when: Boot

    def now(self, boot: Boot) -> float:
        """The instant that the member's clock has certainly reached, in seconds since 1970."""
        return boot + self._aged(boot).low

    def doubt(self, boot: Boot) -> float:
        """By how many seconds that may be behind."""
        aged = self._aged(boot)
        return aged.high - aged.low

    def _aged(self, boot: Boot) -> "ClockBounds":
        return self._widened(MAX_DRIFT * max(boot - self.when, 0.0))

    def _widened(self, by: float) -> "ClockBounds":
        return self._replace(low=self.low - by, high=self.high + by)

    def narrowed(self, reading: DateReading) -> "ClockBounds":
        """What is known after one more reply."""
        fresh = bounds(reading)
        known = self._aged(reading.ended)
        if self.member != reading.member:
            known = known._widened(MEMBERS)
        low, high = max(known.low, fresh.low), min(known.high, fresh.high)
        return fresh if low >= high else fresh._replace(low=low, high=high)


def bounds(reading: DateReading) -> ClockBounds:
    """What one reply shows."""
    return ClockBounds(
        reading.member, reading.second - reading.ended, reading.second + 1 - reading.began, reading.ended
    )


class ServerClock:
    """What all replies so far show together."""

    def __init__(self, boot: Callable[[], Boot]) -> None:
        self._boot = boot
        self._bounds: ClockBounds | None = None

    def heard(self, reading: DateReading) -> None:
        self._bounds = bounds(reading) if self._bounds is None else self._bounds.narrowed(reading)

    def now(self) -> Instant:
        assert self._bounds is not None, "opened by asking"
        return EPOCH + timedelta(seconds=self._bounds.now(self._boot()))

    @property
    def doubt(self) -> float:
        return inf if self._bounds is None else self._bounds.doubt(self._boot())

    @property
    def is_sure(self) -> bool:
        """Whether a write may be dated by it; if not, after a slow reply or a long pause, ask again first."""
        return self.doubt <= MAX_DOUBT
