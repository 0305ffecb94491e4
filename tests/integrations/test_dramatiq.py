"""Real Dramatiq workers: whatever is sent twice, retried or redelivered, a message's body runs once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from cronce import Cronce, Run
from cronce.errors import BadInput, BadPolicy
from cronce.integrations.dramatiq import Once, dispatch
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.integrations.queues.book import Book, taken_over
from tests.servers.valkey import Valkey

APP = "tests.integrations.queues.dramatiq_app"


class Office:
    """A namespace of one's own, a book, and workers."""

    def __init__(self, folder: Path, valkey: Valkey) -> None:
        self.book, self.valkey, self.namespace = Book(folder), valkey, folder.name
        url = f"sqlite:///{folder}/cronce.db"
        self.env = {"BOOK": str(folder), "CRONCE_URL": url, "BROKER": valkey.url, "NAMESPACE": self.namespace}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, **self.env}
        process = subprocess.Popen([sys.executable, "-m", *words], env=env, start_new_session=True)
        self._started.append(process)
        return process

    def workers(self) -> subprocess.Popen[bytes]:
        return self.start("dramatiq", APP, "--processes", "1", "--threads", "3")

    def queued(self) -> int:
        return int(self.valkey.cli("LLEN", f"{self.namespace}:default"))

    def unfinished(self) -> int:
        delayed, waiting = (self.valkey.cli("HLEN", f"{self.namespace}:default{end}.msgs") for end in (".DQ", ""))
        return int(delayed) + int(waiting)

    def dead(self) -> list[str]:
        return list(self.valkey.cli("HVALS", f"{self.namespace}:default.XQ.msgs"))

    def clean_up(self) -> None:
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def office(tmp_path: Path, valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    office = Office(tmp_path, valkey)
    for name, value in office.env.items():
        monkeypatch.setenv(name, value)
    yield office
    office.clean_up()


@pytest.fixture
def app(office: Office) -> Iterator[ModuleType]:
    """As whoever sends has it."""
    from tests.integrations.queues import dramatiq_app  # noqa: PLC0415  it reads the environment

    with dramatiq_app.cron:
        yield dramatiq_app
    dramatiq_app.broker.client.close()
    del sys.modules[APP]


def test_a_slot_sends_its_work_once_and_a_killed_body_runs_again_only_if_that_was_asked_for(
    office: Office, app: ModuleType
) -> None:
    assert office.start(APP).wait(60) == -signal.SIGKILL
    assert taken_over(app.nightly.at(app.SLOT)).startswith("nightly-2026-03-29T01-00-00Z-report-")
    assert office.queued() == 2  # nobody knew, and one of them is dropped
    app.fails_at_first.send("fails_at_first")
    app.slow_at_first.send("slow_at_first")
    app.skipped.send("lost")
    app.rerun.send("rerun")

    office.workers()
    tried_again = {"fails_at_first": 2, "slow_at_first": 2}
    wait_until(lambda: office.book.starts() == {"report": 1, "lost": 1, "rerun": 1, **tried_again})
    wait_until(lambda: office.unfinished() == 2)
    os.kill(office.book.lines("start", "rerun")[0].pid, signal.SIGKILL)
    office.book.let_go("rerun")
    office.workers()
    wait_until(lambda: office.unfinished() == 0)
    assert office.book.starts() == {"report": 1, "lost": 1, "rerun": 2, **tried_again}
    assert [line.body for line in office.book.lines("end")] == ["rerun"]
    (dead,) = office.dead()
    assert '"skipped"' in dead


# --- in one process, with Dramatiq's own worker ---


def delivered(middleware: Middleware | None, *, first: bool = True, twice: int = 2, **options: Any) -> list[str]:
    """The bodies of a message that is sent so often by one id."""
    bodies: list[str] = []
    broker = StubBroker()
    if middleware and first:
        broker.add_middleware(middleware)

    @dramatiq.actor(broker=broker, max_retries=0, **options)
    def body(name: str) -> None:
        bodies.append(name)
        if name == "sent":
            body("by itself")

    if middleware and not first:
        broker.add_middleware(middleware)
    body("by hand")
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    message = body.message("sent")
    for _ in range(twice):
        broker.enqueue(message)
    broker.join("default", fail_fast=False)
    worker.stop()
    broker.close()
    return bodies


def test_a_message_that_is_sent_twice_runs_once() -> None:
    with Cronce(store=MemoryStore()) as cron:
        assert delivered(None) == ["by hand", *["sent", "by itself"] * 2]
        assert delivered(Once(cron)) == ["by hand", "sent", "by itself"]
        assert delivered(Once(cron), first=False) == ["by hand", "sent", "by itself"]


def test_who_waits_for_a_result_gets_the_first_whether_it_is_on_record_or_too_long_for_that() -> None:
    """Two actors have a message of the same id."""
    bodies: list[str] = []
    broker, results = StubBroker(), StubBackend()
    broker.add_middleware(Results(backend=results, store_results=True))  # type: ignore[no-untyped-call]
    with Cronce(store=MemoryStore()) as cron:
        broker.add_middleware(Once(cron))

        @dramatiq.actor(broker=broker, max_retries=0)
        def short() -> int:
            bodies.append("short")
            return len(bodies)

        @dramatiq.actor(broker=broker, max_retries=0)
        def long() -> str:
            bodies.append("long")
            return "x" * 70_000

        worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
        worker.start()
        messages = [short.message().copy(message_id="7"), long.message().copy(message_id="7")]
        for message in messages * 2:
            broker.enqueue(message)
        broker.join("default")
        worker.stop()
        broker.close()
    assert bodies == ["short", "long"]
    assert [results.get_result(message) for message in messages] == [1, "x" * 70_000]


def test_without_an_answer_from_the_store_nothing_runs(caplog: pytest.LogCaptureFixture) -> None:
    with Cronce("redis://127.0.0.1:1/0?timeout=0.2") as nowhere:
        assert delivered(Once(nowhere), twice=1) == ["by hand"]
    assert "StoreUnavailable" in caplog.text


def test_what_cannot_be_meant_is_refused_where_it_is_written() -> None:
    """Dramatiq passes over most of what a middleware raises: the message would be used up, and no body run."""
    with Cronce(store=MemoryStore()) as cron:
        with pytest.raises(BadPolicy, match="on_lost"):
            Once(cron, on_lost="again")  # type: ignore[arg-type]
        broker = StubBroker(middleware=[Once(cron)])
        with pytest.raises(BadPolicy, match=r"^the actor note: on_lost must be one of 'skip', 'rerun', not 'reurn'"):
            dramatiq.actor(actor_name="note", broker=broker, on_lost="reurn")(print)
        assert broker.get_declared_actors() == set()


def test_what_is_passed_in_the_place_of_something_else_is_named() -> None:
    with pytest.raises(BadInput, match=r"^this is not a Cronce but of type str: write Once\(Cronce\(url\)\)$"):
        Once("redis://:secret@localhost")  # type: ignore[arg-type]
    broker = StubBroker(middleware=[])
    note: Any = dramatiq.actor(actor_name="note", broker=broker)(print)
    with pytest.raises(BadInput, match=r"^this is not a Run but of type StubBroker: write dispatch\(run, key, "):
        dispatch(broker, "key", note.message())  # type: ignore[arg-type]

    with Cronce(store=MemoryStore()) as cron:

        @cron.job(name="nightly")
        def nightly(run: Run) -> None:
            dispatch(run, "key", note, broker=broker)

        with pytest.raises(
            BadInput, match=r"^this is not a Message but of type Actor: write .*actor.message\(\.\.\.\)"
        ):
            nightly.at(datetime(2026, 3, 29, 1, tzinfo=UTC))()
