"""A service behind the middleware does each key once: what it answers, and how often it was asked, counted exactly."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cronce import Cronce
from cronce.errors import BadInput, BadPolicy, StoreError, StoreFull, StoreUnavailable
from cronce.headers import headers
from cronce.model import Fence, Write
from cronce.protocol.codec import MAX_PAYLOAD_BYTES
from cronce.receivers.asgi import Message, Once, Receive, Scope, Send
from cronce.stores import open_store
from tests.runtime.shelf import HandClock, Wire

OLD, NEW = Fence(1_774_746_000_000_000, 9), Fence(1_774_746_000_000_000, 10)
KEY = {"Idempotency-Key": "billing@2026-03-29T01:00:00Z/invoice-7"}


class Service:
    """An app that counts how often it is asked. What it answers a test may say: `answer` is called with the request's
    body, and gives a status, headers and a body."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: Callable[[bytes], Awaitable[tuple[int, list[tuple[bytes, bytes]], bytes]]] = self.charged
        self.scopes: list[Scope] = []

    async def charged(self, body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        amount = json.loads(body or b"{}").get("amount")
        answer = json.dumps({"charge": self.calls, "amount": amount}).encode()
        secret = [(b"set-cookie", b"session=1"), (b"date", b"today"), (b"x-request-id", b"4711")]
        return 201, [(b"Content-Type", b"application/json"), (b"location", b"/charges/1"), *secret], answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        status, given, answer = await self.answer(body)
        await send({"type": "http.response.start", "status": status, "headers": given})
        await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def cron(tmp_path: Path) -> Iterator[Cronce]:
    with Cronce(f"sqlite:///{tmp_path}/receiver.db") as cron:
        yield cron


def said(answer: httpx.Response) -> tuple[int, str]:
    """What a refusal is, in two words."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    return answer.status_code, problem["title"]


@asynccontextmanager
async def client(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
        yield client


def ask(app: Any, *asks: dict[str, Any]) -> list[httpx.Response]:
    """One request after the other, each a POST to /charges unless it says otherwise."""

    async def all_of_them() -> list[httpx.Response]:
        async with client(app) as sender:
            return [await sender.request(**{"method": "POST", "url": "/charges", **one}) for one in asks]

    return asyncio.run(all_of_them())


# --- by key ---------------------------------------------------------------------------------------------------------


def test_a_repeat_gets_the_recorded_answer_and_the_app_is_asked_once(service: Service, cron: Cronce) -> None:
    charge = {"headers": KEY, "json": {"amount": 5}}
    first, second, third = ask(Once(service, cron, name="payments"), charge, charge, charge)
    assert service.calls == 1
    assert (first.status_code, first.json()) == (201, {"charge": 1, "amount": 5})
    assert "idempotency-replayed" not in first.headers
    assert first.headers["set-cookie"] == "session=1"
    for repeat in (second, third):
        assert (repeat.status_code, repeat.content) == (201, first.content)
        assert dict(repeat.headers) == {
            "content-type": "application/json",
            "location": "/charges/1",
            "idempotency-replayed": "true",
            "content-length": str(len(first.content)),
        }


def test_the_record_outlives_the_process_and_is_shared_by_all(service: Service, tmp_path: Path) -> None:
    charge = {"headers": KEY, "json": {"amount": 5}}
    answers = []
    for _ in range(3):
        with Cronce(f"sqlite:///{tmp_path}/receiver.db") as cron:
            answers += ask(Once(service, cron, name="payments"), charge)
    assert service.calls == 1
    assert [answer.content for answer in answers] == [answers[0].content] * 3


def test_other_keys_other_names_and_other_callers_are_other_effects(service: Service, cron: Cronce) -> None:
    charge = {"headers": KEY, "json": {"amount": 5}}
    ask(Once(service, cron, name="payments"), charge, {**charge, "headers": {"Idempotency-Key": "another"}})
    ask(Once(service, cron, name="refunds"), charge)
    by_token = Once(service, cron, name="payments", caller=lambda scope: dict(scope["headers"])[b"x-client"].decode())
    for party in ("ada", "bob", "ada"):
        ask(by_token, {**charge, "headers": {**KEY, "X-Client": party}})
    assert service.calls == 5


@pytest.mark.parametrize(
    "other", [{"json": {"amount": 6}}, {"url": "/refunds"}, {"url": "/charges?x=1"}, {"method": "PUT"}]
)
def test_a_key_with_another_request_is_refused(service: Service, cron: Cronce, other: dict[str, Any]) -> None:
    charge = {"headers": KEY, "json": {"amount": 5}}
    _, refused = ask(Once(service, cron, name="payments"), charge, {**charge, **other})
    assert said(refused) == (422, "another request")
    assert service.calls == 1


def test_nobody_can_write_a_key_that_is_another_callers(service: Service, cron: Cronce) -> None:
    """Whatever stands in a caller's name or in a key: no two of these are one."""
    by_token = Once(service, cron, name="payments", caller=lambda scope: dict(scope["headers"])[b"x-client"].decode())
    named = [("", "acme/k1"), ("acme", "k1"), ("spiffe://o/t", "x/k"), ("spiffe://o/t/x", "k"), ("", "acme%20k1")]
    for party, key in named:
        (answer,) = ask(by_token, {"headers": {"Idempotency-Key": key, "X-Client": party}})
        assert "idempotency-replayed" not in answer.headers
    assert service.calls == len(named)


def test_while_the_first_is_at_work_the_others_are_told_to_come_back(service: Service, cron: Cronce) -> None:
    """Eight at once: one is handed on, seven are refused while it works, and all get its answer afterwards."""

    async def go() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(body: bytes) -> Any:
            begun.set()
            await go_on.wait()
            return await service.charged(body)

        service.answer = slow
        async with client(Once(service, cron, name="payments")) as sender:
            first = asyncio.create_task(sender.post("/charges", headers=KEY, json={"amount": 5}))
            await begun.wait()
            others = await asyncio.gather(*(sender.post("/charges", headers=KEY, json={"amount": 5}) for _ in range(7)))
            assert [said(other) for other in others] == [(409, "in progress")] * 7
            assert [other.headers["retry-after"] for other in others] == ["1"] * 7
            go_on.set()
            answer = await first
            repeat = await sender.post("/charges", headers=KEY, json={"amount": 5})
            assert (answer.status_code, repeat.status_code, answer.content) == (201, 201, repeat.content)

    asyncio.run(go())
    assert service.calls == 1


def test_of_eight_at_once_one_is_handed_on(service: Service, cron: Cronce) -> None:
    async def go() -> list[httpx.Response]:
        async with client(Once(service, cron, name="payments")) as sender:
            return await asyncio.gather(*(sender.post("/charges", headers=KEY, json={"amount": 5}) for _ in range(8)))

    answers = asyncio.run(go())
    assert service.calls == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert [a.json()["charge"] for a in answers if a.status_code == 201] == [1] * sum(
        a.status_code == 201 for a in answers
    )


def test_4xx_says_that_nothing_was_done_and_the_key_is_free(service: Service, cron: Cronce) -> None:
    statuses = [401, 422, 201, 500]

    async def answer(_body: bytes) -> Any:
        return statuses[service.calls - 1], [], b"said by the app"

    service.answer = answer
    answers = ask(Once(service, cron, name="payments"), *[{"headers": KEY}] * 4)
    assert [(a.status_code, a.content) for a in answers] == [
        (401, b"said by the app"), (422, b"said by the app"), (201, b"said by the app"), (201, b"said by the app"),
    ]  # fmt: skip
    assert service.calls == 3


# --- doubt ----------------------------------------------------------------------------------------------------------


async def _raises(_body: bytes) -> Any:
    raise ZeroDivisionError("in the middle")


async def _fails(_body: bytes) -> Any:
    return 500, [], b"oh dear"


@pytest.mark.parametrize(("answer", "first"), [(_raises, b""), (_fails, b"oh dear")])
def test_a_handler_that_failed_is_not_asked_again_before_a_person_looked(
    service: Service, cron: Cronce, answer: Any, first: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    service.answer = answer
    app = Once(service, cron, name="payments")
    failed, refused = ask(app, {"headers": KEY}, {"headers": KEY})
    assert (failed.status_code, failed.content) == (500, first)
    assert said(refused) == (409, "in doubt")
    assert "retry-after" not in refused.headers
    assert refused.json()["effect"] == f"payments/{KEY['Idempotency-Key']}"
    assert "middle" not in refused.text  # what went wrong is for the receiver's own people
    assert service.calls == 1
    assert f"nobody knows whether payments/{KEY['Idempotency-Key']} happened" in caplog.text


@pytest.mark.parametrize(
    ("result", "status", "body"), [(None, 204, b""), ({"charge": 5}, 200, b'{"charge": 5}'), ([1], 200, b"[1]")]
)
def test_what_a_person_said_that_came_of_it_is_the_answer(
    service: Service, cron: Cronce, result: Any, status: int, body: bytes
) -> None:
    service.answer = _fails
    app = Once(service, cron, name="payments")
    ask(app, {"headers": KEY})
    cron.resolve(f"payments/{KEY['Idempotency-Key']}", "done", "it is on the statement", result=result)
    (replayed,) = ask(app, {"headers": KEY})
    assert (replayed.status_code, replayed.content, replayed.headers["idempotency-replayed"]) == (status, body, "true")
    assert service.calls == 1


@pytest.mark.parametrize("answer", [_raises, _fails])
def test_where_the_app_may_be_asked_again_it_is(service: Service, cron: Cronce, answer: Any) -> None:
    app = Once(service, cron, name="payments", unsure="retry")
    service.answer = answer
    assert [a.status_code for a in ask(app, {"headers": KEY}, {"headers": KEY})] == [500, 500]
    service.answer = service.charged
    assert [a.status_code for a in ask(app, {"headers": KEY}, {"headers": KEY})] == [201, 201]
    assert service.calls == 3


def test_the_error_of_the_app_reaches_the_server_as_it_is(service: Service, cron: Cronce) -> None:
    """And so does what a framework has answered before it raises again."""
    error = StoreUnavailable("the app's own store, not ours")

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"made by a framework"})
        raise error

    sent: list[Message] = []
    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(_call(Once(app, cron, name="payments"), sent))
    assert caught.value is error
    assert [message.get("body") for message in sent] == [None, b"made by a framework"]


@pytest.mark.parametrize("messages", [[], ["http.response.start"]])
def test_half_an_answer_is_doubt(cron: Cronce, messages: list[str]) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for kind in messages:
            await send({"type": kind, "status": 200, "headers": []})

    sent: list[Message] = []
    once = Once(app, cron, name="payments")
    asyncio.run(_call(once, sent))
    assert [message["type"] for message in sent] == messages or said_raw(sent) == (409, "in doubt")
    sent.clear()
    asyncio.run(_call(once, sent))
    assert said_raw(sent) == (409, "in doubt")


def test_a_handler_that_worked_longer_than_it_was_trusted_is_stopped(store: Wire, clock: HandClock) -> None:
    """As after a pause of the whole machine: another may hold the key by now."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        clock.turn(600)
        await asyncio.Event().wait()

    sent: list[Message] = []
    with Cronce(store=store, clock=clock) as cron:
        asyncio.run(_call(Once(app, cron, name="payments"), sent))
    assert said_raw(sent) == (409, "in doubt")


# --- by fence -------------------------------------------------------------------------------------------------------


def fenced(key: str, fence: Fence, scope: str = "billing") -> dict[str, Any]:
    return {"headers": headers(key, fence, scope), "json": {"amount": 5}}


def test_a_run_that_was_overtaken_is_refused_with_the_facts(service: Service, cron: Cronce) -> None:
    app = Once(service, cron, name="payments")
    answers = ask(
        app, fenced("a", OLD), fenced("b", NEW), fenced("c", OLD), fenced("c", OLD, "reports"), fenced("c", NEW)
    )
    assert [answer.status_code for answer in answers] == [201, 201, 412, 201, 201]
    assert answers[2].json() == {
        "title": "overtaken",
        "status": 412,
        "detail": "a later run has already written here: the run that sends this was taken over, and must stop",
        "scope": "billing",
        "fence": str(OLD),
    }
    assert service.calls == 3  # "c" in another scope is the same key, answered from the record


def test_a_repeat_by_a_later_run_is_answered_and_raises_the_fence(service: Service, cron: Cronce) -> None:
    app = Once(service, cron, name="payments")
    answers = ask(app, fenced("a", OLD), fenced("a", NEW), fenced("a", OLD), fenced("b", OLD))
    assert [answer.status_code for answer in answers] == [201, 201, 412, 412]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert service.calls == 1


def test_a_fence_without_a_key_keeps_order_and_nothing_else(service: Service, cron: Cronce) -> None:
    app = Once(service, cron, name="payments")
    sent = [{"headers": {"Cronce-Fence": f"{fence}; scope=billing"}} for fence in (OLD, OLD, NEW, OLD)]
    assert [answer.status_code for answer in ask(app, *sent)] == [201, 201, 201, 412]
    assert service.calls == 3


# --- what fails closed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [{"Idempotency-Key": "a b"}, {"Idempotency-Key": ""}, {"Cronce-Fence": "42; scope=billing"}]
)
def test_what_cannot_be_read_is_refused_and_not_handed_on(service: Service, cron: Cronce, sent: dict[str, str]) -> None:
    (refused,) = ask(Once(service, cron, name="payments"), {"headers": sent})
    assert said(refused) == (400, "unreadable")
    assert next(iter(sent)) in refused.json()["detail"]
    assert service.calls == 0


class Troubled:
    """A store that can be made to fail, with `trouble`."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)
        self.trouble: StoreError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def swap(self, writes: Sequence[Write], *facts: Any) -> Any:
        if self.trouble:
            raise self.trouble
        return self._store.swap(writes, *facts)


@pytest.fixture
def troubled(tmp_path: Path) -> Iterator[Troubled]:
    store = Troubled(f"sqlite:///{tmp_path}/receiver.db")
    yield store
    store.close()


@pytest.mark.parametrize("sent", [{"headers": KEY}, fenced("a", OLD)])
def test_without_the_store_nothing_is_handed_on(
    service: Service,
    troubled: Troubled,
    sent: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cronce.runtime.effects.idempotent.BEGUN_TIMEOUT", 0.0)  # it is asked for 10 s otherwise
    troubled.trouble = StoreUnavailable("postgresql://app:***@db: no answer")
    with Cronce(store=troubled) as cron:
        app = Once(service, cron, name="payments")
        (refused,) = ask(app, sent)
        assert said(refused) == (503, "unavailable")
        assert refused.headers["retry-after"] == "5"
        assert "postgresql" not in refused.text
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert service.calls == 0
        troubled.trouble = None
        assert [answer.status_code for answer in ask(app, sent)] == [201]


def test_an_answer_that_cannot_be_put_on_record_is_given_and_a_repeat_is_refused(
    service: Service, troubled: Troubled, caplog: pytest.LogCaptureFixture
) -> None:
    """What the app said is true; and what the record says, begun and not done, is not taken for either."""

    async def full_meanwhile(body: bytes) -> Any:
        troubled.trouble = StoreFull("no room is left")
        return await service.charged(body)

    service.answer = full_meanwhile
    with Cronce(store=troubled) as cron:
        app = Once(service, cron, name="payments")
        (answer,) = ask(app, {"headers": KEY})
        assert (answer.status_code, answer.json()["charge"]) == (201, 1)
        assert "could not be recorded" in caplog.text
        troubled.trouble = None
        (repeat,) = ask(app, {"headers": KEY})
        assert said(repeat) == (409, "in progress")  # until its lease lapses: then it is in doubt
    assert service.calls == 1


def test_a_store_that_cannot_be_opened_is_no_different(service: Service, tmp_path: Path) -> None:
    (tmp_path / "receiver.db").write_bytes(b"this is not a database, but it is long enough to be taken for one" * 100)
    with Cronce(f"sqlite:///{tmp_path}/receiver.db") as cron:
        (refused,) = ask(Once(service, cron, name="payments"), {"headers": KEY})
    assert said(refused) == (503, "unavailable")
    assert service.calls == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_all_other_traffic_passes_untouched(service: Service, tmp_path: Path, method: str) -> None:
    """No store is even opened for it: its extensions, its scope and its receive are the server's own."""
    app = Once(service, Cronce(f"sqlite:///{tmp_path}/missing/receiver.db"), name="payments")
    sent = {"GET": KEY, "POST": {"accept": "*/*"}}[method]
    (answer,) = ask(app, {"method": method, "headers": sent})
    assert answer.status_code == 201


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_other_protocols_pass_untouched(cron: Cronce, kind: str) -> None:
    seen: list[Any] = []

    async def app(*given: Any) -> None:
        seen.append(given)

    async def go() -> None:
        given: Any = ({"type": kind}, receive_nothing, lambda _message: None)
        await Once(app, cron, name="payments")(*given)
        assert seen == [given]
        assert seen[0][0] is given[0]

    asyncio.run(go())


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_a_request_is_bounded_and_read_in_pieces(service: Service, cron: Cronce) -> None:
    app = Once(service, cron, name="payments", max_body=20)
    within, beyond = ask(app, {"headers": KEY, "content": b'{"amount": 5}'}, {"headers": KEY, "content": b"x" * 21})
    assert within.json()["amount"] == 5
    assert said(beyond) == (413, "too long")
    sent: list[Message] = []
    pieces: list[Message] = [
        {"type": "http.request", "body": part, "more_body": part != b"5}"} for part in (b'{"am', b'ount": ', b"5}")
    ]
    asyncio.run(_call(app, sent, pieces))
    assert sent[0]["status"] == 201
    assert (b"idempotency-replayed", b"true") in sent[0]["headers"]  # the same bytes are the same request
    assert service.calls == 1


def test_a_request_that_was_cut_short_is_not_handed_on(service: Service, cron: Cronce) -> None:
    sent: list[Message] = []
    gone = {"type": "http.disconnect"}
    asyncio.run(_call(Once(service, cron, name="payments"), sent, [{"type": "http.request", "more_body": True}, gone]))
    assert said_raw(sent) == (400, "cut short")
    assert service.calls == 0


@pytest.mark.parametrize(
    ("size", "kept"), [(45_000, True), (MAX_PAYLOAD_BYTES - 10_000, False), (3 * MAX_PAYLOAD_BYTES, False)]
)
def test_of_an_answer_that_is_too_long_the_status_is_kept(
    service: Service, cron: Cronce, size: int, kept: bool
) -> None:
    async def long(_body: bytes) -> Any:
        return 201, [(b"content-type", b"text/plain")], b"x" * size

    service.answer = long
    first, repeat = ask(Once(service, cron, name="payments"), {"headers": KEY}, {"headers": KEY})
    assert (first.status_code, len(first.content)) == (201, size)
    assert (repeat.status_code, len(repeat.content)) == (201, size if kept else 0)
    assert repeat.headers["idempotency-replayed"] == "true"
    assert repeat.headers.get("idempotency-body") == (None if kept else "omitted")
    assert service.calls == 1


def test_an_answer_comes_in_a_form_that_can_be_kept(service: Service, cron: Cronce) -> None:
    """A server that could send a file by its path is not asked to: the record would not have it."""
    asyncio.run(_call(Once(service, cron, name="payments"), []))
    assert [scope["extensions"] for scope in service.scopes] == [{}]


def test_a_long_answer_is_sent_as_it_comes(cron: Cronce) -> None:
    """Memory is bounded: what is beyond a record does not wait for the end."""
    sent: list[Message] = []
    seen: list[int] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for place in range(4):
            await send({"type": "http.response.body", "body": b"x" * 30_000, "more_body": place < 3})
            seen.append(len(sent))

    asyncio.run(_call(Once(app, cron, name="payments"), sent))
    assert seen == [0, 0, 4, 5]


def test_the_longest_keys_are_told_apart(service: Service, cron: Cronce) -> None:
    keys = [f"{'k' * 2900}{end}" for end in "ab"]
    app = Once(service, cron, name="payments")
    answers = ask(app, *({"headers": headers(key, OLD, key)} for key in (*keys, *keys)))
    assert [answer.status_code for answer in answers] == [201] * 4
    assert service.calls == 2


def test_what_cannot_be_meant_is_refused(service: Service, cron: Cronce) -> None:
    with pytest.raises(BadInput, match="a list"):
        Once(service, cron, name="payments", methods="POST")
    with pytest.raises(BadPolicy, match="unsure"):
        Once(service, cron, name="payments", unsure="skip")  # type: ignore[arg-type]


# --- by hand --------------------------------------------------------------------------------------------------------


async def receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _call(app: Any, sent: list[Message], messages: list[Message] | None = None) -> None:
    """What a server does with a request, without a client that minds what comes back."""
    left = list(messages or [await receive_nothing()])
    scope = {
        "type": "http", "method": "POST", "path": "/charges", "query_string": b"",
        "extensions": {"http.response.pathsend": {}},
        "headers": [(b"idempotency-key", KEY["Idempotency-Key"].encode())],
    }  # fmt: skip

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)


def said_raw(sent: list[Message]) -> tuple[int, str]:
    start, body = sent
    return start["status"], json.loads(body["body"])["title"]
