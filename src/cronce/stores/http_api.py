"""Servers that are asked in JSON over HTTP, and tell the time by the second in the `Date` of their replies: etcd and
Kubernetes.

*One client for both*, of the standard library: `http.client` is imported in 31 ms, where httpx takes 144, and each run
under cron starts anew. A request is sent once: whether one without an answer has landed, nobody knows. Connecting is
tried at each endpoint in turn.

*The clock.* A *member* is one of several machines that may answer.

A reply dated D, asked for at `began` and here at `ended` on our boot clock, was written at some moment between the two,
and at that moment the member's clock stood between D and D + 1 s. So the offset *member's clock − boot clock* is

    at least  D − ended        (the reply was written at the latest when it arrived)
    below     D + 1 s − began  (and at the earliest when it was asked for)

Every reply gives such a pair of bounds, and the truth lies in all of them: a few replies around a change of the second
narrow a whole second down to the length of a round trip. Old bounds grow by DRIFT, since no two clocks run alike, and
by MEMBERS when another member answers. If nothing is left between them, the clock was set: begin anew.

`now` is the lower bound: the latest instant that the server's clock has surely reached. It never claims a slot early,
never takes a lease for lapsed early, and does not fall while the clock is left alone. It is behind by what is not known
yet, at most a second and the way of a reply; a lease written by it ends that much early for others, and the margin of
trust (`Traits.step` and `Traits.skew`) pays for that. It is exact right after a change of the second, where slots are.
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
"""What a request raises that has no answer."""


class NoConnection(OSError):
    """No endpoint took a connection: which, and why not, the last one last."""

    def __init__(self, failures: Sequence[tuple[str, OSError]]) -> None:
        super().__init__("; ".join(f"{endpoint}: {error.strerror or error}" for endpoint, error in failures))
        self.last: Final = failures[-1][1]


class JsonRequest(NamedTuple):
    """A request."""

    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = {}


class Reply(NamedTuple):
    """What a server answered, its `Date`, and between which readings of our boot clock."""

    status: int
    text: str
    date: str | None = None
    began: Boot = 0.0
    ended: Boot = 0.0


class HttpServer:
    """The endpoints of one server or cluster, for all threads of a process. `shown` is its URL, for people. `via` is
    where connections are opened instead, such as a tunnel: TLS still checks that the endpoint itself is at its end."""

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
        """When a call that begins now has taken long enough."""
        return self.boot() + self.timeout

    def close(self) -> None:
        self._pool.close()

    def send(self, question: JsonRequest, deadline: Boot) -> Reply:
        """One request. A server that gives no answer, or 5xx, may do so for long: the next one goes elsewhere."""
        if self.boot() >= deadline:
            raise StoreUnavailable(f"{self.shown}: not done within {self.timeout:g} s; this process is too busy")
        with suppress(_UnusableConnection), self._pool.line() as line:
            began = self.boot()
            try:
                response = ask(line, question, deadline - began)
                text = self._whole(response, deadline)
            except NoAnswer:
                self._look_elsewhere(line)
                raise
            ended = self.boot()
            if response.status >= 500:
                self._look_elsewhere(line)
            if line.sock is None:
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
        line = self.connect()
        with closed_on_error(line):
            response = ask(line, question, deadline - self.boot())
            if response.status != 200:
                raise refused(Reply(response.status, response.read().decode()))
            return SocketListener(watch(line, response, self.shown))

    def hear(self, reply: Reply, member: str = "") -> None:
        """Take in what a reply tells of the clock."""
        try:
            second = int(parsedate_to_datetime(reply.date or "").timestamp())
        except ValueError:
            raise StoreUnusable(
                f"{self.shown}: the replies carry no Date, so the server's clock cannot be read; is there a"
                " proxy in front of it?"
            ) from None
        self.clock.heard(DateReading(member, second, reply.began, reply.ended))

    def connect(self) -> HTTPConnection:
        """To the first endpoint that takes a connection, beginning with the one that worked last."""
        failures: list[tuple[str, OSError]] = []
        for step in range(len(self._endpoints)):
            number = (self._first + step) % len(self._endpoints)
            host, port = self._endpoints[number]
            line = HTTPConnection(host, port)
            line.auto_open = 0  # once hung up it stays so: by itself it would connect again, and without TLS
            try:
                line.sock = self._socket(host, port)
            except OSError as error:
                failures.append((f"{host}:{port}", error))
                continue
            self._first = number
            return line
        raise NoConnection(failures)

    def _socket(self, host: str, port: int) -> socket:
        plain = create_connection(self._via or (host, port), self.timeout / len(self._endpoints))
        with closed_on_error(plain):
            plain.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            return plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=host)

    def _look_elsewhere(self, line: HTTPConnection) -> None:
        self._first = self._endpoints.index((line.host, line.port)) + 1
        line.close()

    def _whole(self, response: HTTPResponse, deadline: Boot) -> str:
        """The socket's own limit is from one piece to the next."""
        pieces = []
        while piece := response.read1():
            pieces.append(piece)
            if self.boot() >= deadline:
                raise TimeoutError
        response.read()  # the end of it, so that the line can be used again
        return b"".join(pieces).decode(errors="replace")


def ask(line: HTTPConnection, question: JsonRequest, seconds: float) -> HTTPResponse:
    method, path, body, headers = question
    payload = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    line.sock.settimeout(max(seconds, 0.001))
    line.request(method, path, payload, {"Content-Type": "application/json", **headers})
    return line.getresponse()


def _number(line: HTTPConnection) -> int:
    number: int = line.sock.fileno()
    return number


class _UnusableConnection(Exception):
    """There is an answer, and the pool must not keep this line: the other end hung up, or does not work."""


# --- the clock ------------------------------------------------------------------------------------------------------

MAX_DRIFT = 500e-6
"""Two clocks drift apart by less than this: the most by which NTP slews one."""

MEMBERS = 0.5
"""Seconds by which the clocks of two members may differ: far more than NTP allows."""

MAX_DOUBT = 1.25
"""Seconds of doubt with which nothing is written: the one of the date, and a quarter for the way of its reply."""


class DateReading(NamedTuple):
    """The second that a member wrote on a reply, and between which readings of our boot clock."""

    member: str
    second: int
    began: Boot
    ended: Boot


class ClockBounds(NamedTuple):
    """Between which numbers of seconds a member's clock was ahead of our boot clock, as known at `when`."""

    member: str
    low: float
    high: float
    when: Boot

    def now(self, boot: Boot) -> float:
        """The instant that the member's clock has surely reached, in seconds since 1970."""
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
    """What one reply tells."""
    return ClockBounds(
        reading.member, reading.second - reading.ended, reading.second + 1 - reading.began, reading.ended
    )


class ServerClock:
    """What all replies up to now tell together."""

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
        """Whether something may be written by it; else one asks, after a slow reply or a long sleep."""
        return self.doubt <= MAX_DOUBT
