"""An ASGI middleware for the service that effects are sent to: each key is done once, and its answer is given again.

    app = Once(app, cron, name="payments")

It needs a store of the receiver's own, and senders that write the headers of `cronce.headers`. In this order: what
cannot be read is refused; so is a request under a fence that was overtaken; what was done is answered from the record;
what is in progress, or in doubt, is refused. The rest is passed to the app, and its answer is recorded before it is
sent. While the store cannot be reached, nothing is passed to the app.

What an answer means is read from its status. Below 400 it is done. 4xx means that nothing was done, and the key is free
again. After 5xx, an exception, half an answer or a crash the effect is in doubt. All other traffic passes untouched:
other methods, requests without these headers, websockets, lifespan.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from hashlib import sha256
from typing import Any, Final, Literal
from urllib.parse import quote

from cronce.errors import BadInput, InDoubt, InProgress, StoreError
from cronce.headers import RequestHeaders, read_headers
from cronce.model import Fence
from cronce.policy import check_choice
from cronce.protocol.codec import MAX_PAYLOAD_BYTES
from cronce.runtime.app import Cronce
from cronce.runtime.declare import Duration
from cronce.runtime.log import LOGGER

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

UNSAFE: Final = ("POST", "PUT", "PATCH", "DELETE")
ANSWER_HEADERS: Final = {
    b"content-type", b"content-encoding", b"content-language", b"content-disposition", b"etag", b"last-modified",
    b"link", b"location",
}  # fmt: skip
"""The headers of an answer that are part of it. The rest belong to a connection, a moment or a person: cookies do."""

KEY_SHOWN: Final = 200
"""Characters of a key that a person may have to type. Of a longer one the record has the beginning, and a hash."""


class Once:
    """Wraps an app. Where there are several senders, `caller` finds the sender of a request from its ASGI scope. Keys
    and fences of one sender do not affect another's. So put this middleware inside the one that authenticates."""

    def __init__(
        self,
        app: App,
        cron: Cronce,
        *,
        name: str,
        ttl: Duration = "1d",
        methods: Iterable[str] = UNSAFE,
        unsure: Literal["raise", "retry"] = "raise",
        caller: Callable[[Scope], str] = lambda _scope: "",
        max_body: int = 1024 * 1024,
    ) -> None:
        check_choice("unsure", unsure, Literal["raise", "retry"])
        if isinstance(methods, str):
            raise BadInput(f"methods are a list, such as ('POST', 'PUT'), not {methods!r:.60}")
        self._app, self._cron, self._caller, self._max_body = app, cron, caller, max_body
        self._methods = frozenset(method.upper() for method in methods)
        guard = cron.idempotent(name, key=lambda exchange: exchange.key, ttl=ttl, unsure=unsure, not_done=NotDone)
        self._once: Callable[[HttpExchange], Awaitable[Any]] = guard(self._hand_on)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self._methods:
            return await self._app(scope, receive, send)
        try:
            exchange = await self._admit(scope, receive, send)
        except RefusedRequest as refusal:
            return await _send(send, *refusal.answer)
        if exchange is None:
            return await self._app(scope, receive, send)
        return await self._answer(exchange, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> "HttpExchange | None":
        """What is to be done once; None for a request without a key, which may be handed on as it is."""
        try:
            sent = read_headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        except BadInput as problem:
            raise RefusedRequest(400, "unreadable", str(problem)) from None
        caller = self._caller(scope) if sent != RequestHeaders() else ""
        if sent.fence is not None and not await self._admits(_told(caller, sent.scope), sent.fence):
            detail = "a later run has already written here: the run that sends this was taken over, and must stop"
            raise RefusedRequest(412, "overtaken", detail, scope=sent.scope, fence=str(sent.fence))
        if sent.key is None:
            return None
        body = await _body_of(receive, self._max_body)
        return HttpExchange(_told(caller, sent.key), scope, body, receive, send)

    async def _admits(self, scope: str, fence: Fence) -> bool:
        try:
            return await asyncio.to_thread(self._cron.admits, scope, fence)
        except StoreError as error:
            raise _refusal(error) from error

    async def _answer(self, exchange: "HttpExchange", send: Send) -> None:
        try:
            record = await self._once(exchange)
        except Exception as error:
            if not exchange.answered and exchange.raised is None:
                return await _send(send, *_refusal(error).answer)
            if not isinstance(error, NotDone):
                LOGGER.warning("%s", error)
        else:
            if not exchange.called:
                return await _send(send, *_recorded(record, exchange.print))
        await exchange.deliver()  # also if it could not be recorded: the app's answer is true all the same
        if exchange.raised is not None:
            raise exchange.raised  # for the server, as without this middleware
        return None

    async def _hand_on(self, exchange: "HttpExchange") -> dict[str, Any]:
        return await exchange.run(self._app)


class NotDone(Exception):
    """The app answered that it did nothing: 4xx."""


class Doubtful(Exception):
    """The app answered that it failed, or its answer does not show what happened."""


class HttpExchange:
    """One request, and its answer as far as it was made. That is held back until it is on record, unless it is longer
    than a record may be: then it is sent as it comes, and not kept."""

    def __init__(self, key: str, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        self.key = key
        self._scope: Scope = {**scope, "extensions": {}}  # an answer comes as start and body, and in no other form
        self._receive, self._send = receive, send
        self._request: Message | None = {"type": "http.request", "body": body, "more_body": False}
        said = [scope["method"], scope.get("root_path", ""), scope["path"], scope["query_string"].decode("latin-1")]
        self.print = sha256(json.dumps(said).encode() + body).hexdigest()
        """Two requests that are the same have the same."""
        self.called = False
        self.raised: Exception | None = None
        self._start: Message = {}
        self._body: bytearray | None = bytearray()
        self._held: list[Message] = []
        self._whole = False

    @property
    def answered(self) -> bool:
        return bool(self._start)

    async def run(self, app: App) -> dict[str, Any]:
        self.called = True
        try:
            await app(self._scope, self._next, self._take)
        except Exception as error:
            self.raised = error
            raise
        status: int = self._start.get("status", 0)
        if self._whole and 400 <= status < 500:
            raise NotDone(f"it was answered with {status}")
        if not self._whole or status >= 500:
            raise Doubtful(f"it was answered with {status}" if self._whole else "it was not answered to the end")
        return self._record(status)

    async def deliver(self) -> None:
        held, self._held = self._held, []
        for message in held:
            await self._send(message)

    async def _next(self) -> Message:
        request, self._request = self._request, None
        return request or await self._receive()

    async def _take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._whole = not message.get("more_body", False)
        self._held.append(message)
        if self._body is not None:
            self._body += message.get("body", b"")
            if len(self._body) <= MAX_PAYLOAD_BYTES:
                return
            self._body = None
        await self.deliver()

    def _record(self, status: int) -> dict[str, Any]:
        short: dict[str, Any] = {"print": self.print, "status": status}
        if self._body is None:
            return short
        pairs = [(bytes(name).lower(), bytes(value)) for name, value in self._start.get("headers", ())]
        headers = [[name.decode(), value.decode("latin-1")] for name, value in pairs if name in ANSWER_HEADERS]
        whole = {**short, "headers": headers, "body": b64encode(self._body).decode()}
        return whole if len(json.dumps(whole)) <= MAX_PAYLOAD_BYTES else short


async def _body_of(receive: Receive, longest: int) -> bytes:
    """The body of a request."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedRequest(400, "cut short", "the request ended before its body did")
        body += message.get("body", b"")
        if len(body) > longest:
            raise RefusedRequest(
                413, "too long", (f"a request with an Idempotency-Key may have at most {longest:,} bytes")
            )
        if not message.get("more_body", False):
            return bytes(body)


def _told(caller: str, text: str) -> str:
    """A key or scope as the store has it, beside those of other callers."""
    whole = f"{quote(caller, safe='')} {text}" if caller else text  # neither of the two has a space in it
    return whole if len(whole) <= KEY_SHOWN else f"{whole[:KEY_SHOWN]}~{sha256(whole.encode()).hexdigest()}"


# --- answers that are not the app's ---------------------------------------------------------------------------------

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _recorded(record: Any, fingerprint: str) -> Answer:
    """The answer that was given before, if it was to the same request. A result that a person recorded answers any
    request."""
    replayed = (b"idempotency-replayed", b"true")
    if not isinstance(record, dict) or not {"print", "status"} <= record.keys():
        if record is None:
            return 204, [replayed], b""
        return 200, [(b"content-type", b"application/json"), replayed], json.dumps(record).encode()
    if record["print"] != fingerprint:
        detail = "this Idempotency-Key was used before with another request: another path, or another body"
        return RefusedRequest(422, "another request", detail).answer
    headers = [(name.encode(), value.encode("latin-1")) for name, value in record.get("headers", ())]
    headers.append(replayed)
    if "body" not in record:
        headers.append((b"idempotency-body", b"omitted"))
    return record["status"], headers, b64decode(record.get("body", ""))


class RefusedRequest(Exception):
    """The app is not called: an answer for people and programs, in the form of RFC 9457. It names no process, and not
    what went wrong: that is for the receiver's own people, and in the log."""

    def __init__(self, status: int, title: str, detail: str, *, retry_after: int = 0, **facts: str) -> None:
        super().__init__(detail)
        problem = {"title": title, "status": status, "detail": detail, **facts}
        headers = [(b"content-type", b"application/problem+json")]
        if retry_after:
            headers.append((b"retry-after", str(retry_after).encode()))
        self.answer: Answer = (status, headers, json.dumps(problem).encode())


def _refusal(error: Exception) -> RefusedRequest:
    match error:
        case InProgress():
            return RefusedRequest(
                409, "in progress", "another request with this Idempotency-Key is in progress: try again", retry_after=1
            )
        case InDoubt(name=name):
            LOGGER.warning("%s", error)
            detail = "an earlier request with this key started and did not finish: a person must check what it did"
            return RefusedRequest(409, "in doubt", detail, effect=name)
        case StoreError():
            LOGGER.warning("%s", error)
            detail = "cannot check now whether this was done before: try again"
            return RefusedRequest(503, "unavailable", detail, retry_after=5)
        case _:
            raise error
