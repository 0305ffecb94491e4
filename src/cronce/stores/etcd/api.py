"""Talking to etcd: its v3 API in JSON, over plain HTTP.

There is no light and maintained client for Python, and gRPC is heavy: compiled code, and threads that do not outlive a
fork. Every etcd since 3.4 serves the same API as JSON, and for that the standard library is enough.

*Connecting* is tried at each endpoint in turn. A request that was sent is never sent again, unless etcd said that it
refused it for an old token: whether it landed, nobody knows.
"""

import base64
import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreCorrupt, StoreError, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import Boot, check_name
from cronce.stores import mask, scheme_of, seconds
from cronce.stores.dates import Reading, second_of
from cronce.stores.pool import Pool
from cronce.value import NamedTuple

PORT: Final = 2379
TIMEOUT: Final = 5.0

STREAMED: Final = {"Grpc-Metadata-hasleader": "true"}
"""What is asked for with an answer that goes on: to end it if the member loses its leader."""

Json = dict[str, Any]

# --- where it is ----------------------------------------------------------------------------------------------------


class Address(NamedTuple):
    """What a URL says: ``etcd://user:password@host:2379,other:2379/?namespace=cronce&timeout=5``."""

    shown: str
    endpoints: Sequence[tuple[str, int]]
    namespace: str = "cronce"
    timeout: float = TIMEOUT
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | None = None


def read_url(url: str) -> Address:
    _, _, rest = url.partition("://")
    before, _, query = rest.partition("?")
    login, _, hosts = before.rpartition("@")
    hosts, _, path = hosts.partition("/")
    user, _, password = login.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    shown, secure = mask(url), scheme_of(url) == "etcds"
    files: dict[str, str] = {name: options.pop(name) for name in ("ca", "cert", "key") if name in options}
    address = Address(
        shown,
        [_endpoint(host, shown) for host in hosts.split(",")],
        check_name(options.pop("namespace", "cronce")),
        seconds(shown, options.pop("timeout", str(TIMEOUT))),
        unquote(user),
        unquote(password),
        _tls(files, shown) if secure else None,
    )
    if options:
        known = "namespace, timeout, and with etcds:// ca, cert and key"
        raise BadInput(f"{shown!r}: etcd knows no {', '.join(sorted(options))}; it knows {known}")
    if path:
        raise BadInput(f"{shown!r}: etcd has no databases; write ?namespace={path.strip('/') or 'NAME'} for /{path}")
    if files and not secure:
        raise BadInput(f"{shown!r}: {', '.join(files)} is for TLS; write etcds:// for it")
    return address


def _endpoint(text: str, shown: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host, port = (host, port) if colon else (text, str(PORT))
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"{shown!r}: {text!r} is not a host and a port; write it like etcd://localhost:{PORT}")
    return host, int(port)


def _tls(files: dict[str, str], shown: str) -> ssl.SSLContext:
    if "key" in files and "cert" not in files:
        raise BadInput(f"{shown!r}: key is the key of a certificate; name that too with cert=FILE")
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except OSError as error:
        raise BadInput(f"{shown!r}: {', '.join(files.values())} cannot be used for TLS: {error}") from None
    return context


# --- asking ---------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What etcd answered, and what it says about its clock."""

    body: Json
    reading: Reading

    @property
    def header(self) -> Json:
        header: Json = self.body.get("header", {})
        return header

    @property
    def cluster(self) -> str:
        return str(self.header.get("cluster_id", ""))

    @property
    def revision(self) -> int:
        return int(self.header.get("revision", 0))

    @property
    def number(self) -> int:
        return int(self.body.get("count", 0))

    @property
    def succeeded(self) -> bool:
        return bool(self.body.get("succeeded", False))

    @property
    def ranges(self) -> Iterator[Sequence[Json]]:
        """The keys and values that each range of a transaction found, in the order they were asked for."""
        return _ranges(self.body)


def _ranges(txn: Json) -> Iterator[Sequence[Json]]:
    for response in txn.get("responses", ()):
        if "response_range" in response:
            yield response["response_range"].get("kvs", ())
        elif "response_txn" in response:
            yield from _ranges(response["response_txn"])


class Api:
    """The endpoints of one cluster, for all threads of a process."""

    def __init__(self, address: Address) -> None:
        self.address: Final = address
        self.boot: Final = SystemClock().boot
        self._first = 0
        self._answered = False
        self._logged_in = not address.user
        self._token = ""
        self._pool: Pool[HTTPConnection] = Pool(self._connect, _socket, address.timeout)

    def deadline(self) -> Boot:
        """When a call that begins now has taken long enough."""
        return self.boot() + self.address.timeout

    def ask(self, path: str, body: Json, deadline: Boot) -> Answer:
        """One request. An old token is refused before anything is done, so a new one may be tried."""
        if self.boot() >= deadline:
            raise StoreUnavailable(
                f"{self.address.shown}: not done within {self.address.timeout:g} s; too much goes on"
            )
        if not self._logged_in:
            self._log_in(deadline)
        status, text, reading = self._send(path, body, deadline)
        if status != 200 and self.address.user and _is_old_token(text):
            self._log_in(deadline)
            status, text, reading = self._send(path, body, deadline)
        if status != 200:
            raise refused(status, text, self.address.shown)
        answer = Answer(self._parsed(text), reading)
        return answer._replace(reading=reading._replace(member=str(answer.header.get("member_id", ""))))

    def stream(self, path: str, body: Json, deadline: Boot) -> tuple[HTTPConnection, HTTPResponse]:
        """A request whose answer goes on. The line is the caller's."""
        line = self._connect()
        try:
            line.sock.settimeout(max(deadline - self.boot(), 0.001))
            line.request("POST", path, _spelled(body), {**self._headers(), **STREAMED})
            response = line.getresponse()
            if response.status != 200:
                raise refused(response.status, response.read().decode(), self.address.shown)
        except BaseException as error:
            line.close()
            if isinstance(error, OSError | HTTPException):
                raise StoreUnavailable(f"{self.address.shown}: cannot be listened to: {error}") from error
            raise
        return line, response

    def each(self) -> "Iterator[tuple[str, Api]]":
        """Every endpoint by itself."""
        for host, port in self.address.endpoints:
            yield f"{host}:{port}", Api(self.address._replace(endpoints=[(host, port)]))

    def close(self) -> None:
        self._pool.close()

    def _parsed(self, text: str) -> Json:
        try:
            body: Json = json.loads(text)
        except ValueError:
            raise StoreUnusable(f"{self.address.shown}: what answers there is not etcd: {text[:60]!r}") from None
        return body

    def _log_in(self, deadline: Boot) -> None:
        """A token for this user, or none where etcd asks nobody who they are."""
        self._token = ""
        body = {"name": self.address.user, "password": self.address.password}
        status, text, _ = self._send("/v3/auth/authenticate", body, deadline)
        if status == 200:
            self._token = str(self._parsed(text).get("token", ""))
        elif "authentication is not enabled" not in text:
            raise refused(status, text, self.address.shown)
        self._logged_in = True

    # --- one request over one connection ---

    def _connect(self) -> HTTPConnection:
        """The first endpoint that takes a connection, beginning with the one that worked last."""
        endpoints = self.address.endpoints
        failures: list[str] = []
        insecure = False
        for step in range(len(endpoints)):
            number = (self._first + step) % len(endpoints)
            connection = self._line(*endpoints[number])
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                failures.append(f"{':'.join(map(str, endpoints[number]))}: {error.strerror or error}")
                insecure = isinstance(error, ssl.SSLError)
                continue
            self._first = number
            return connection
        why = f"{self.address.shown}: no connection ({'; '.join(failures)})"
        if self.address.tls is None:
            raise StoreUnavailable(f"{why}; is etcd running there?")
        raise (StoreUnusable if insecure else StoreUnavailable)(
            f"{why}; is etcd running there, with TLS? Name who signed its certificate with ?ca=FILE, or write etcd://"
        )

    def _line(self, host: str, port: int) -> HTTPConnection:
        timeout = self.address.timeout / len(self.address.endpoints)
        if self.address.tls is None:
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=self.address.tls)

    def _send(self, path: str, body: Json, deadline: Boot) -> tuple[int, str, Reading]:
        headers, payload = self._headers(), _spelled(body)
        with suppress(_Spent), self._pool.line() as line:
            began = self.boot()
            try:
                line.sock.settimeout(max(deadline - began, 0.001))
                line.request("POST", path, payload, headers)
                response = line.getresponse()
                text = response.read().decode()
            except (OSError, HTTPException) as error:
                self._look_elsewhere(line)
                raise self._unanswered(error) from error
            ended = self.boot()
            if response.status >= 500 and not _is_old_token(text):
                self._look_elsewhere(line)
                raise refused(response.status, text, self.address.shown)
            if line.sock is None:
                raise _Spent
        self._answered = True
        return (
            response.status,
            text,
            Reading("", second_of(response.headers.get("Date"), self.address.shown), began, ended),
        )

    def _headers(self) -> dict[str, str]:
        token = {"Authorization": self._token} if self._token else {}
        return {"Content-Type": "application/json", **token}

    def _look_elsewhere(self, line: HTTPConnection) -> None:
        """A member that hangs or has no leader may do so for long: connect to the next from now on, if there is one."""
        self._first = self.address.endpoints.index((line.host, line.port)) + 1

    def _unanswered(self, error: Exception) -> StoreUnavailable:
        late = isinstance(error, TimeoutError)
        how = f"within {self.address.timeout:g} s" if late else f"({str(error) or type(error).__name__})"
        why = "a write may have landed"
        if self.address.tls is None and not self._answered:
            why = "if it speaks TLS, write etcds://"
        return StoreUnavailable(f"{self.address.shown}: no answer {how}; {why}")


def _spelled(body: Json) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _socket(line: HTTPConnection) -> int:
    number: int = line.sock.fileno()
    return number


class _Spent(Exception):
    """The other end answered, and hung up: the pool must not keep this line."""


# --- what it refuses ------------------------------------------------------------------------------------------------


def _is_old_token(text: str) -> bool:
    """Or none, where authentication was enabled since. Refused before it is applied, also by those that say 500."""
    return any(
        words in text for words in ("invalid auth token", "auth store is old", "in header is old", "name is empty")
    )


_REFUSALS: Final[Sequence[tuple[str, type[StoreError], str]]] = (
    (
        "database space exceeded",
        StoreFull,
        "compact and defragment it, then `etcdctl alarm disarm`; --auto-compaction-retention=1h keeps it small",
    ),
    ("corrupt cluster", StoreCorrupt, "a member's data differs from the others'; see `etcdctl alarm list`"),
    ("too large", StoreUnusable, "a value is longer than --max-request-bytes allows; raise that, or store less"),
    ("larger than max", StoreUnusable, "a value is longer than --max-request-bytes allows; raise that, or store less"),
    ("too many operations", StoreUnusable, "cronce needs --max-txn-ops=128, the default, or more"),
    ("user name is empty", StoreUnusable, "it wants a user; write etcd://USER:PASSWORD@HOST"),
    ("authentication failed", StoreUnusable, "user or password is wrong"),
    ("permission denied", StoreUnusable, "grant the user's role readwrite on the prefix NAMESPACE/"),
)


def refused(status: int, text: str, shown: str) -> StoreError:
    """What etcd said no to, in words, and what to do about it."""
    said = _message(text)
    for words, kind, remedy in _REFUSALS:
        if words in said:
            return kind(f"{shown}: {said}; {remedy}")
    if status == 404:
        return StoreUnusable(
            f"{shown}: no v3 API in JSON is served there; start etcd with --enable-grpc-gateway=true, its default"
        )
    if status >= 500 or "too many requests" in said:
        return StoreUnavailable(f"{shown}: {said}; a write may have landed")
    return StoreUnusable(f"{shown}: etcd answered {status}: {said}")


def _message(text: str) -> str:
    """Of a refusal; older gateways call it error, newer ones message."""
    try:
        body = json.loads(text)
        return str(body.get("message") or body.get("error")).removeprefix("etcdserver: ")
    except (ValueError, AttributeError):
        return text.strip()[:200]


# --- the language of transactions -----------------------------------------------------------------------------------

WIDTH: Final = 104
PACK: Final = 24
"""etcd takes 128 operations in a transaction (--max-txn-ops), counted down a branch: the longest of a transaction's
three lists, and that of a transaction within it, together. So 104 packs of 24 fit into one."""


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def data64(text: str) -> bytes:
    return base64.b64decode(text)


def one(key: bytes) -> Json:
    return {"request_range": {"key": text64(key)}}


def span(first: bytes, end: bytes, limit: int, *, backwards: bool = False) -> Json:
    """Keys from `first` to before `end`, in order. Forwards etcd stops at the limit; backwards it reads the span."""
    wanted: Json = {"key": text64(first), "range_end": text64(end), "limit": limit}
    return {"request_range": {**wanted, "sort_order": "DESCEND", "sort_target": "KEY"} if backwards else wanted}


def count(first: bytes, end: bytes) -> Json:
    """How many keys there are from `first` to before `end`; etcd keeps them in memory."""
    return {"key": text64(first), "range_end": text64(end), "count_only": True}


def put(key: bytes, value: bytes = b"") -> Json:
    return {"request_put": {"key": text64(key), "value": text64(value)}}


def delete(key: bytes) -> Json:
    return {"request_delete_range": {"key": text64(key)}}


def is_at(key: bytes, revision: int) -> Json:
    """The key was last written at this revision; 0: it is not there."""
    return {"key": text64(key), "target": "MOD", "mod_revision": revision, "result": "EQUAL"}


def is_at_least(key: bytes, revision: int) -> Json:
    return {"key": text64(key), "target": "MOD", "mod_revision": revision - 1, "result": "GREATER"}


def txn(compare: Sequence[Json], then: Sequence[Json], other: Sequence[Json] = ()) -> Json:
    return {"compare": compare, "success": packed(then), "failure": packed(other)}


def packed(operations: Sequence[Json]) -> Sequence[Json]:
    """More operations than fit side by side, in transactions without a condition."""
    if len(operations) <= WIDTH:
        return operations
    starts = range(0, len(operations), PACK)
    return [{"request_txn": {"success": operations[start : start + PACK]}} for start in starts]
