"""etcd's v3 API in JSON, over HTTP.

There is no light and maintained client for Python, and gRPC is heavy: compiled code, and threads that do not survive a
fork. Every etcd since 3.4 serves the same API as JSON, for which the standard library is enough.

A request is never sent twice, unless etcd refused it for an old token: one without an answer may have been carried out.
"""

import json
import ssl
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreCorrupt, StoreError, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import Boot, check_name
from cronce.stores import mask, options, scheme_of, seconds
from cronce.stores.etcd.layout import after_all, count
from cronce.stores.http_api import HttpServer, Json, JsonRequest, NoAnswer, NoConnection, Reply
from cronce.stores.news import HttpWatch, SocketListener
from cronce.value import NamedTuple

ETCD_PORT: Final = 2379
ETCD_TIMEOUT: Final = 5.0

# --- where it is ----------------------------------------------------------------------------------------------------


class EtcdAddress(NamedTuple):
    """What a URL says: ``etcd://user:password@host:2379,other:2379/?namespace=cronce&timeout=5``."""

    shown: str
    endpoints: Sequence[tuple[str, int]]
    namespace: str = "cronce"
    timeout: float = ETCD_TIMEOUT
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | None = None


TLS_FILES: Final = ("ca", "cert", "key")
"""Options of TLS."""


def read_url(url: str) -> EtcdAddress:
    _, _, rest = url.partition("://")
    before, _, query = rest.partition("?")
    login, _, hosts = before.rpartition("@")
    hosts, _, path = hosts.partition("/")
    user, _, password = login.partition(":")
    shown, secure = mask(url), scheme_of(url) == "etcds"
    found = options(shown, query, ["namespace", "timeout", *TLS_FILES])
    files: dict[str, str] = {name: found[name] for name in TLS_FILES if name in found}
    address = EtcdAddress(
        shown,
        [_endpoint(host, shown) for host in hosts.split(",")],
        check_name(found.get("namespace", "cronce")),
        seconds(shown, found.get("timeout", str(ETCD_TIMEOUT))),
        unquote(user),
        unquote(password),
        _tls(files, shown) if secure else None,
    )
    if path:
        raise BadInput(f"{shown!r}: etcd has no databases; write ?namespace={path.strip('/') or 'NAME'} for /{path}")
    if files and not secure:
        raise BadInput(f"{shown!r}: {', '.join(files)} is for TLS; write etcds:// for it")
    return address


def _endpoint(text: str, shown: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host, port = (host, port) if colon else (text, str(ETCD_PORT))
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise BadInput(f"{shown!r}: {text!r} is not a host and a port; write it like etcd://localhost:{ETCD_PORT}")
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


class EtcdAnswer(NamedTuple):
    """What etcd answered."""

    body: Json

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
        for response in self.body.get("responses", ()):
            if "response_range" in response:
                yield response["response_range"].get("kvs", ())
            elif "response_txn" in response:
                yield from EtcdAnswer(response["response_txn"]).ranges

    @property
    def voters(self) -> int:
        """How many members of the answer vote."""
        return sum(not member.get("isLearner", False) for member in self.body.get("members", ()))


class EtcdApi:
    """The endpoints of one cluster, for all threads of a process."""

    def __init__(self, address: EtcdAddress) -> None:
        self.address: Final = address
        self.boot: Final = SystemClock().boot
        self._http = HttpServer(address.shown, address.endpoints, address.timeout, address.tls, self.boot)
        self.clock, self.deadline, self.close = self._http.clock, self._http.deadline, self._http.close
        self._answered = False
        self._logged_in = not address.user
        self._token = ""

    def ask(self, path: str, body: Json, deadline: Boot) -> EtcdAnswer:
        """One request. An old token is refused before anything is done, so it is sent again with a new one."""
        if not self._logged_in:
            self._log_in(deadline)
        reply = self._send(path, body, deadline)
        if reply.status != 200 and self.address.user and _is_old_token(reply.text):
            self._log_in(deadline)
            reply = self._send(path, body, deadline)
        if reply.status != 200:
            raise self._refused(reply)
        answer = EtcdAnswer(self._parsed(reply.text))
        self._http.hear(reply, str(answer.header.get("member_id", "")))
        return answer

    def listen(self, prefix: bytes) -> SocketListener:
        """To all that is put below a prefix from now on: the watch begins after the current revision, and ends if its
        member loses the leader."""
        deadline, board = self.deadline(), count(prefix, after_all(prefix))
        now = self.ask("/v3/kv/range", board, deadline).revision
        watch = {**board, "start_revision": now + 1, "filters": ["NODELETE"]}
        headers = {**self._headers(), "Grpc-Metadata-hasleader": "true"}
        question = JsonRequest("POST", "/v3/watch", {"create_request": watch}, headers)
        try:
            return self._http.listen(question, deadline, EtcdWatch, self._refused)
        except NoConnection as error:
            raise self._unanswered(error) from error
        except NoAnswer as error:
            raise StoreUnavailable(f"{self.address.shown}: cannot be watched: {error}") from error

    def each(self) -> "Iterator[tuple[str, EtcdApi]]":
        """Every endpoint by itself."""
        for host, port in self.address.endpoints:
            yield f"{host}:{port}", EtcdApi(self.address._replace(endpoints=[(host, port)]))

    def _parsed(self, text: str) -> Json:
        try:
            body: Json = json.loads(text)
        except ValueError:
            raise StoreUnusable(f"{self.address.shown}: what answers there is not etcd: {text[:60]!r}") from None
        return body

    def _log_in(self, deadline: Boot) -> None:
        """A token for this user, or none where authentication is not enabled."""
        self._token = ""
        body = {"name": self.address.user, "password": self.address.password}
        reply = self._send("/v3/auth/authenticate", body, deadline)
        if reply.status == 200:
            self._token = str(self._parsed(reply.text).get("token", ""))
        elif "authentication is not enabled" not in reply.text:
            raise self._refused(reply)
        self._logged_in = True

    def _send(self, path: str, body: Json, deadline: Boot) -> Reply:
        try:
            reply = self._http.send(JsonRequest("POST", path, body, self._headers()), deadline)
        except NoAnswer as error:
            raise self._unanswered(error) from error
        self._answered = True
        return reply

    def _headers(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token else {}

    def _unanswered(self, error: Exception) -> StoreError:
        shown, secure = self.address.shown, self.address.tls is not None
        if isinstance(error, NoConnection):
            why = f"{shown}: no connection ({error}); is etcd running there"
            if not secure:
                return StoreUnavailable(f"{why}?")
            return (StoreUnusable if isinstance(error.last, ssl.SSLError) else StoreUnavailable)(
                f"{why}, with TLS? Give the CA of its certificate with ?ca=FILE, or write etcd://"
            )
        late = isinstance(error, TimeoutError)
        how = f"within {self.address.timeout:g} s" if late else f"({str(error) or type(error).__name__})"
        maybe = "a write may have succeeded" if secure or self._answered else "if it speaks TLS, write etcds://"
        return StoreUnavailable(f"{shown}: no answer {how}; {maybe}")

    def _refused(self, reply: Reply) -> StoreError:
        """What etcd refused, in words, and what to do about it."""
        shown, status, said = self.address.shown, reply.status, _message(reply.text)
        for words, kind, remedy in _ETCD_REFUSALS:
            if words in said:
                return kind(f"{shown}: {said}; {remedy}")
        if status == 404:
            return StoreUnusable(
                f"{shown}: no v3 API in JSON is served there; start etcd with --enable-grpc-gateway=true, its default"
            )
        if status >= 500 or "too many requests" in said:
            return StoreUnavailable(f"{shown}: {said}; a write may have succeeded")
        return StoreUnusable(f"{shown}: etcd answered {status}: {said}")


# --- what it refuses ------------------------------------------------------------------------------------------------


def _is_old_token(text: str) -> bool:
    """Or none, where authentication was enabled since. Refused before anything is done, also with status 500."""
    return any(
        words in text for words in ("invalid auth token", "auth store is old", "in header is old", "name is empty")
    )


_ETCD_REFUSALS: Final[Sequence[tuple[str, type[StoreError], str]]] = (
    (
        "database space exceeded",
        StoreFull,
        "compact and defragment it, then `etcdctl alarm disarm`; --auto-compaction-retention=1h keeps it small",
    ),
    ("corrupt cluster", StoreCorrupt, "a member's data differs from the others'; see `etcdctl alarm list`"),
    ("too large", StoreUnusable, "a value is longer than --max-request-bytes allows; raise that, or store less"),
    ("larger than max", StoreUnusable, "a value is longer than --max-request-bytes allows; raise that, or store less"),
    ("too many operations", StoreUnusable, "cronce needs --max-txn-ops=128, the default, or more"),
    ("user name is empty", StoreUnusable, "it needs a user; write etcd://USER:PASSWORD@HOST"),
    ("authentication failed", StoreUnusable, "user or password is wrong"),
    ("permission denied", StoreUnusable, "grant the user's role readwrite on the prefix NAMESPACE/"),
)


def _message(text: str) -> str:
    """The text of a refusal; older gateways call it error, newer ones message."""
    try:
        body = json.loads(text)
        return str(body.get("message") or body.get("error")).removeprefix("etcdserver: ")
    except (ValueError, AttributeError):
        return text.strip()[:200]


# --- listening ------------------------------------------------------------------------------------------------------


class EtcdWatch(HttpWatch):
    """A watch: first that it was created, then events."""

    def is_news(self, message: Json) -> bool:
        """A watch is cancelled if its member has no leader, or the revision that it begins with was compacted."""
        result = message.get("result", {})
        if "error" in message or result.get("canceled"):
            raise self.over(str(message.get("error") or result.get("cancel_reason") or "it was cancelled"))
        return bool(result.get("events"))
