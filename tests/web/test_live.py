"""Pages are told that something changed; whoever is slow, dies or comes in crowds troubles nobody else."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import httpx
import pytest

from cronce.model import FREE, LOOKED_ON, Cell, Mark, Traits, Write
from cronce.protocol.record import Record, State, encode
from cronce.stores.memory import MemoryStore
from cronce.web import live, server
from tests.house.wait import PATIENCE, wait_until
from tests.runtime.shelf import HandClock
from tests.web.house import Api, Busy
from tests.web.served import Stream, raw, served


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """And do nothing besides, however long a test takes."""
    monkeypatch.setattr(live, "LIVE_LOOK_EVERY", 0.05)
    monkeypatch.setattr(live, "WATCHED_EVERY", 3600.0)
    monkeypatch.setattr(live, "STREAM_SECONDS", 3600.0)


def write(busy: Busy) -> int:
    """Something changes: the tally then."""
    swapped = busy.store.swap([Write("cursor/x", FREE, "", Mark.FREE)], busy.store.load([]).epoch.seen)
    return swapped.epoch.tally


def watched(busy: Busy) -> Cell:
    (cell,) = busy.store.load([LOOKED_ON]).cells
    return cell


def heard(stream: Stream, wanted: Callable[[int], bool]) -> int:
    """The first tally that is wanted; others may come before."""
    while not wanted(found := stream.tally()):
        pass
    return found


def test_a_change_is_told_and_while_somebody_looks_on_that_stands_in_the_store() -> None:
    busy = Busy()
    with served(busy.app) as port:
        assert watched(busy).version == 0
        with Stream(port) as one:
            assert (one.status, one.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert one.headers["cache-control"] == "no-store"
            one.tally()
            cell, loaded = watched(busy), busy.store.load([])
            assert cell.until == loaded.now + timedelta(seconds=10)
            tally = write(busy)
            assert heard(one, lambda found: found >= tally) == tally
        # nobody listens any more: it looks no more, either
        looking = busy.app.state.live._looking
        wait_until(looking.done)
        assert busy.app.state.live._listening == 0


def test_it_goes_on_being_said_that_somebody_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "WATCHED_EVERY", 0.2)
    busy = Busy()
    with served(busy.app) as port, Stream(port) as one:
        one.tally()
        first = watched(busy).version
        wait_until(lambda: watched(busy).version > first)
        second = watched(busy).version
        wait_until(lambda: watched(busy).version > second)


def resolved(busy: Busy) -> httpx.Response:
    return Api(busy.app).act("/effects/letter/7/resolve", {"verdict": "done"})


def test_whoever_looked_on_for_as_long_as_a_lease_may_say_what_came_of_its_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That a lease has passed is believed of a clock that was watched for as long."""
    monkeypatch.setattr(live, "WATCHED_EVERY", 0.1)
    unseen, busy = Busy(MemoryStore()), Busy(MemoryStore())
    begun = Record(State.RUNNING, 1, "n", "gone:1:a", timedelta(seconds=0.3), started=busy.scene.now)
    lapsed = Write("once/letter/7", FREE, encode(begun), Mark.OPEN, ttl=-timedelta(seconds=5))
    for one in (unseen, busy):
        one.store.swap([lapsed], one.store.load([]).epoch.seen)
    versions: set[int] = set()  # one for each tenth of a second

    def for_long() -> bool:
        versions.add(watched(busy).version)
        return len(versions) > 12

    with served(busy.app) as port, Stream(port):
        wait_until(for_long)
        assert resolved(busy).status_code == 200
    refused = resolved(unseen)
    assert (refused.status_code, "cronce watches the store's clock for" in refused.json()["error"]) == (409, True)


def test_a_crowd_has_bounds_and_is_all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 20)
    busy = Busy()
    with served(busy.app) as port, ExitStack() as crowd:
        streams = [crowd.enter_context(Stream(port)) for _ in range(20)]
        for one in streams:
            one.tally()
        refused = crowd.enter_context(Stream(port))
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        tally = write(busy)
        assert {heard(one, lambda found: found >= tally) >= tally for one in streams} == {True}
        for one in streams[:5]:
            one.close()  # without a word
        wait_until(lambda: busy.app.state.live._listening == 15)
        assert crowd.enter_context(Stream(port)).status == 200


def test_one_who_does_not_read_keeps_nobody_waiting() -> None:
    busy = Busy()
    with served(busy.app) as port, Stream(port) as deaf, Stream(port) as one:
        assert deaf.status == 200
        for _ in range(3):
            tally = write(busy)
            assert heard(one, lambda found, tally=tally: found >= tally) == tally  # type: ignore[misc]


def test_all_streams_end_with_the_server_and_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the server would wait for them, and then say that it waits no longer."""
    monkeypatch.setattr(server, "SHUTDOWN_GRACE", round(PATIENCE / 2))
    busy = Busy()
    with ExitStack() as crowd, caplog.at_level(logging.ERROR, "uvicorn.error"):
        with served(busy.app) as port:
            streams = [crowd.enter_context(Stream(port)) for _ in range(10)]
            for one in streams:
                one.tally()
        assert [one.rest().endswith(b"0\r\n\r\n") for one in streams] == [True] * 10
    assert "timeout graceful shutdown exceeded" not in caplog.text


def test_that_the_store_is_away_is_told_without_its_password_and_that_it_is_back() -> None:
    busy = Busy()
    with served(busy.app) as port, Stream(port) as one:
        one.tally()
        busy.store.away = True
        news = one.event()
        while news[0] == "changed":
            news = one.event()
        assert news == ("away", "postgresql://cronce:***@db/cronce gives no answer")
        with Stream(port) as another:  # who comes later is told at once
            assert another.event() == news
        busy.store.away = False
        one.tally()


def test_a_stream_ends_by_itself_and_whoever_listens_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that it is mounted in waits at its end for whoever is connected, and is not told."""
    monkeypatch.setattr(live, "KEEPALIVE_EVERY", 0.1)
    busy, clock = Busy(), HandClock()
    busy.app.state.site.clock = clock
    with served(busy.app) as port, Stream(port) as one:
        told = one.until(b": still here")
        assert b"retry: 1000" in told
        clock.turn(live.STREAM_SECONDS)
        assert one.rest().endswith(b"0\r\n\r\n")


def test_a_store_that_does_not_count_may_have_changed_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UNCOUNTED_EVERY", 0.3)
    busy = Busy()
    monkeypatch.setattr(type(busy.store), "traits", Traits("counts nothing", tally=False, shared=False))
    with served(busy.app) as port, Stream(port) as one:
        assert one.tally() < one.tally()


# --- a real server, and what it is sent -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_line", "statuses"),
    [
        (b"GET /static/../app.py HTTP/1.1", {404}),
        (b"GET /static/..%2fapp.py HTTP/1.1", {404}),
        (b"GET /static//etc/passwd HTTP/1.1", {404}),
        (b"GET //evil.example/ HTTP/1.1", {404}),
        (b"GET /../../etc/passwd HTTP/1.1", {404}),
        (b"GET http://evil.example/ HTTP/1.1", {400, 404}),
        (b"GET /jobs/%00 HTTP/1.1", {400}),
        (b"GET /jobs/\x00 HTTP/1.1", {400}),
        (b"GET /jobs/\xff HTTP/1.1", {400, 404}),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1", {400, 414}),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, {400, 431}),
        (b"GET / HTTP/1.1\r\nHost: evil.example", {400, 421}),
        (b"POST /login HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", {400, 415}),
        (b"POST /login HTTP/1.1\r\nContent-Length: -5", {400}),
        (b"G\x01T / HTTP/1.1", {400}),
        (b"BREW /jobs HTTP/1.1", {405}),
        (b"CONNECT localhost:80 HTTP/1.1", {400, 404, 405}),
    ],
)
def test_strange_requests_are_refused(strange: int, request_line: bytes, statuses: set[int]) -> None:
    answer = raw(strange, request_line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert int(answer.split()[1]) in statuses, answer[:200]
    assert b"root:" not in answer
    assert b"\r\nserver:" not in answer.lower()


@pytest.fixture(scope="module")
def strange() -> Iterator[int]:
    with served(Busy(names=[]).app) as port:
        yield port
