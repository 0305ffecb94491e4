"""What a worker does with one message, without the worker: the guard, and what it leaves in the queue."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.app.trace import build_tracer
from celery.exceptions import Reject

from cronce.errors import BadPolicy
from cronce.integrations.celery import Once
from cronce.integrations.celery.beat import cronce_of
from tests.integrations.celery.shop import begin
from tests.servers.valkey import DURABLE, Valkey

NOWHERE = "redis://127.0.0.1:1"


class Office:
    """An app whose messages are worked off here."""

    def __init__(self, broker: Valkey, queue: str, store: str) -> None:
        self.broker, self.queue = broker, queue
        self.app = Celery("office", broker=broker.url, set_as_current=False)
        self.app.conf.update(cronce_url=store, task_default_queue=queue)
        self.ran: list[Any] = []

    def task(self, body: Callable[[], Any] = lambda: None, **options: Any) -> Any:
        def run(number: int) -> Any:
            self.ran.append(number)
            return body()

        return self.app.task(name="run", base=Once, shared=False, **options)(run)

    def deliver(self, task: Any, number: int = 1, **more: Any) -> tuple[str, Any]:
        """Its state, where Celery has one for it, and what it returned."""
        request = {"id": "7", "retries": 0, "delivery_info": {"routing_key": self.queue}, **more}
        done = build_tracer(task.name, task, app=self.app)("7", [number], {}, request)
        return (done.info.state if done.info else "SUCCESS"), done.retval

    def queued(self) -> list[dict[str, Any]]:
        return [json.loads(text)["headers"] for text in self.broker.cli("LRANGE", self.queue, 0, -1)]

    def close(self) -> None:
        cronce_of(self.app).close()
        self.app.close()


@contextmanager
def begun(store: Valkey) -> Iterator[Valkey]:
    with store:
        begin(store.url)
        yield store


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def office(valkey: Valkey, tmp_path: Path, store: str) -> Iterator[Office]:
    office = Office(valkey, tmp_path.name, store)
    yield office
    office.close()


def test_a_message_runs_once_and_what_comes_again_is_ignored(office: Office) -> None:
    task = office.task(lambda: "done")
    assert office.deliver(task) == ("SUCCESS", "done")
    assert [office.deliver(task)[0] for _ in range(2)] == ["IGNORED", "IGNORED"]
    assert office.ran == [1]


def test_what_the_broker_delivers_again_is_answered_from_the_record(office: Office) -> None:
    task = office.task(lambda: {"paid": 7})
    office.deliver(task)
    assert office.deliver(task, delivery_info={"redelivered": True}) == ("SUCCESS", {"paid": 7})
    assert office.ran == [1]


def test_a_result_that_json_cannot_say_is_not_made_up(office: Office) -> None:
    task = office.task(lambda: {1, 2})
    assert office.deliver(task) == ("SUCCESS", {1, 2})
    assert office.deliver(task, delivery_info={"redelivered": True})[0] == "IGNORED"


def test_a_body_that_raised_is_over_also_for_the_broker(office: Office) -> None:
    def body() -> None:
        raise ValueError("no")

    task = office.task(body, acks_late=True)
    assert office.deliver(task)[0] == "FAILURE"
    assert [office.deliver(task, delivery_info={"redelivered": True})[0] for _ in range(2)] == ["IGNORED", "IGNORED"]
    assert office.ran == [1]


def test_called_directly_or_eagerly_it_is_the_plain_function(valkey: Valkey, tmp_path: Path) -> None:
    office = Office(valkey, tmp_path.name, NOWHERE)
    task = office.task(lambda: "plain")
    assert (task(1), task.apply([2]).get(), office.ran) == ("plain", "plain", [1, 2])
    office.app.close()


def test_while_the_store_is_away_nothing_runs_and_the_message_stays(tmp_path: Path) -> None:
    with Valkey() as broker:
        store = Valkey(*DURABLE)
        office = Office(broker, tmp_path.name, store.url)
        task = office.task(lease="1s", acks_late=True)
        assert office.deliver(task, retries=2)[0] == "IGNORED"
        (later,) = office.queued()
        assert (later["id"], later["task"], later["retries"], later["argsrepr"]) == ("7", "run", 2, "(1,)")
        assert later["eta"]
        assert office.ran == []
        with begun(store):
            assert office.deliver(task, retries=2)[0] == "SUCCESS"
            assert office.ran == [1]
        office.close()


def test_while_the_stores_url_is_wrong_nothing_runs_and_the_message_stays(
    valkey: Valkey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    office = Office(valkey, tmp_path.name, "reddis://localhost")
    assert office.deliver(office.task())[0] == "IGNORED"
    assert ([later["id"] for later in office.queued()], office.ran) == (["7"], [])
    assert "7 is postponed: 'reddis://localhost': no store is called 'reddis'" in caplog.text
    office.close()


def test_a_body_whose_lease_is_lost_is_stopped_and_its_message_stays(tmp_path: Path) -> None:
    """A store that is away for longer than the lease: another worker may be at it by then."""
    with Valkey() as broker, begun(Valkey(*DURABLE)) as store:

        def body() -> None:
            store.kill()
            while True:
                time.sleep(0.01)

        office = Office(broker, tmp_path.name, store.url)
        task = office.task(body, lease="2s", acks_late=True)
        assert office.deliver(task)[0] == "IGNORED"
        assert ([later["id"] for later in office.queued()], office.ran) == (["7"], [1])
        office.close()


def test_a_body_that_ended_while_the_store_was_away_has_its_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Valkey() as broker, begun(Valkey(*DURABLE)) as store:

        def body() -> str:
            store.kill()
            return "done"

        office = Office(broker, tmp_path.name, store.url)
        task = office.task(body, lease="1s")
        assert (office.deliver(task), office.queued()) == (("SUCCESS", "done"), [])
        assert "run 7:0:0 is done, but that could not be recorded" in caplog.text
        office.close()


def test_a_message_that_its_body_rejects_runs_when_it_is_delivered_again(office: Office) -> None:
    def body() -> str:
        if len(office.ran) == 1:
            raise Reject("not yet", requeue=True)
        return "now"

    task = office.task(body, acks_late=True)
    assert [office.deliver(task)[0] for _ in range(3)] == ["REJECTED", "SUCCESS", "IGNORED"]
    assert office.ran == [1, 1]


def nothing() -> None:
    """A body: Celery takes no lambdas."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_lost": "reurn"}, "on_lost must be one of 'skip', 'rerun', not 'reurn'"),
        ({"lease": "30"}, "lease: '30' is not a duration"),
        ({"lease": "1d"}, "lease is how long"),
        ({"ttl": "1x"}, "ttl: '1x' is not a duration"),
    ],
)
def test_a_task_that_cannot_be_meant_is_never_made(options: dict[str, str], words: str) -> None:
    """A worker would use up its messages, and run no body. Celery makes tasks when its app is finalised, which a worker
    does before it starts; or when they are first used."""
    app = Celery("office", set_as_current=False)
    task = app.task(name="run", base=Once, shared=False, **options)(nothing)
    with pytest.raises(BadPolicy, match=f"^the task run: {words}"):
        app.finalize()
    with pytest.raises(BadPolicy, match=f"^the task run: {words}"):
        task.delay()
    with pytest.raises(BadPolicy, match=f"^the task .*: {words}"):
        type("Mine", (Once,), options)


def test_what_annotations_say_of_a_task_is_judged_too() -> None:
    app = Celery("office", set_as_current=False)
    app.conf.task_annotations = {"run": {"lease": "30"}}
    app.task(name="run", base=Once, shared=False)(nothing)
    with pytest.raises(BadPolicy, match=r"^the task run: lease: '30' is not a duration"):
        app.finalize()


def test_a_worker_with_a_misspelt_setting_does_not_start() -> None:
    """It would keep its records in another store than the others."""
    app = Celery("office", set_as_current=False)
    app.conf.cronce_ur = "redis://localhost"
    app.task(name="run", base=Once, shared=False)(nothing)
    with pytest.raises(BadPolicy, match=r"there is no option 'cronce_ur'; did you mean cronce_url\?"):
        app.finalize()
