"""What the guards of queues share, in one process."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from cronce import Cronce, InDoubt, InProgress, Run
from cronce.errors import BadName, BadPolicy, StoreUnavailable
from cronce.integrations.deliveries import Deliveries, NotKept, dispatch, message_id
from cronce.model import Write, once_cell
from cronce.stores.memory import MemoryStore

SLOT = datetime(2026, 3, 29, 1, tzinfo=UTC)


class Moody(MemoryStore):
    """Is away when it is told to be."""

    away = False

    def swap(self, writes: Sequence[Write], *args: Any, **named: Any) -> Any:
        if self.away:
            raise StoreUnavailable("nobody answers")
        return super().swap(writes, *args, **named)


@pytest.fixture
def store() -> Moody:
    return Moody()


@pytest.fixture
def cron(store: Moody) -> Iterator[Cronce]:
    with Cronce(store=store) as cron:
        yield cron
        store.away = False


def kept(cron: Cronce, **policies: Any) -> Callable[[Callable[[], Any]], Any]:
    made = Deliveries(cron, **({"on_lost": "skip", "ttl": "1d", "lease": "30s"} | policies))
    return lambda body: made.once("reports.send", "message-1", body)


def test_who_comes_later_gets_what_json_can_say_of_the_result(cron: Cronce) -> None:
    once = kept(cron)
    assert once(lambda: ("a", 1)) == ("a", 1)
    assert once(lambda: pytest.fail("it ran again")) == ["a", 1]


@pytest.mark.parametrize("result", [{1, 2}, "x" * 70_000])
def test_who_comes_later_is_told_that_a_result_was_not_kept(cron: Cronce, result: Any) -> None:
    once = kept(cron)
    assert once(lambda: result) == result
    for _ in range(2):
        with pytest.raises(NotKept, match=r"reports.send message-1 is done, .* not kept"):
            once(lambda: pytest.fail("it ran again"))


def test_a_body_that_returned_nothing_returns_nothing_again(cron: Cronce) -> None:
    once = kept(cron)
    assert once(lambda: None) is None
    assert once(lambda: pytest.fail("it ran again")) is None


def test_a_body_that_raised_runs_again_and_one_that_was_stopped_does_not(cron: Cronce) -> None:
    once = kept(cron)
    for error in (ValueError, OSError):
        with pytest.raises(error):
            once(raising(error("no")))
    with pytest.raises(KeyboardInterrupt):
        once(raising(KeyboardInterrupt()))
    with pytest.raises(InDoubt, match=r"cronce resolve reports.send/message-1 done"):
        once(lambda: pytest.fail("it ran again"))
    assert kept(cron, on_lost="rerun")(lambda: "again") == "again"


def test_what_the_body_found_in_progress_is_not_waited_for_here(cron: Cronce) -> None:
    with pytest.raises(InProgress, match="something else"):
        kept(cron)(raising(InProgress("something else")))


def test_a_body_that_is_done_while_the_store_is_away_is_done(
    cron: Cronce, store: Moody, caplog: pytest.LogCaptureFixture
) -> None:
    def body() -> str:
        store.away = True
        return "sent"

    assert kept(cron, lease="1s")(body) == "sent"
    assert "reports.send message-1 is done, but that could not be recorded" in caplog.text


def test_a_body_that_is_done_after_its_lease_was_lost_is_done(
    cron: Cronce, store: Moody, caplog: pytest.LogCaptureFixture
) -> None:
    def body() -> str:
        store.purge(store.load([once_cell("reports.send", "message-1")]).cells)
        return "sent"

    assert kept(cron)(body) == "sent"
    assert "reports.send message-1 is done, but that could not be recorded" in caplog.text


def test_what_cannot_be_meant_is_refused_where_it_is_written(cron: Cronce) -> None:
    with pytest.raises(BadPolicy, match="on_lost"):
        kept(cron, on_lost="again")
    with pytest.raises(ValueError, match="lease"):
        kept(cron, lease="1h")
    with pytest.raises(ValueError, match=r"^ttl is"):
        kept(cron, ttl="0s")
    with pytest.raises(BadPolicy, match=r"^lease: '30' is not a duration"):
        kept(cron, lease="30")
    with pytest.raises(BadPolicy, match=r"^ttl: '1x' is not a duration"):
        kept(cron, ttl="1x")


def test_ids_are_plain_and_differ_as_keys_do(cron: Cronce) -> None:
    keys = ["a.b", "a-b", "ä", UUID(int=7), 7, "x" * 400]

    @cron.job(name="night.ly")
    def nightly(run: Run) -> list[str]:
        return [message_id(run, key) for key in keys]

    ids = nightly.at(SLOT)()
    assert isinstance(ids, list)
    assert len(set(ids)) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9-]{1,99}", one) for one in ids)
    assert ids[0] == "night-ly-2026-03-29T01-00-00Z-a-b-12f86daa46a68c18"  # it is the same for ever


def test_a_key_that_is_none_is_refused(cron: Cronce) -> None:
    @cron.job(name="night.ly")
    def nightly(run: Run) -> str:
        return message_id(run, "")

    with pytest.raises(BadName):
        nightly.at(SLOT)()


def test_a_message_is_sent_once_per_slot_and_key_and_again_if_that_failed(cron: Cronce) -> None:
    sent: list[str] = []

    def send(message: str) -> None:
        sent.append(message)
        if len(sent) == 1:
            raise ConnectionError("no broker")

    @cron.job(name="nightly", retries=5, backoff="1ms")
    def nightly(run: Run) -> None:
        dispatch(run, "report", send)
        dispatch(run, "bill", send)
        run.once("report", sent.append, "by another-name", per="slot")  # a step of the same name
        if run.attempt == 2:
            raise ConnectionError("after all was sent")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            nightly.at(SLOT)()
    nightly.at(SLOT)()
    assert [message.rpartition("-")[0] for message in sent] == [
        "nightly-2026-03-29T01-00-00Z-report",
        "nightly-2026-03-29T01-00-00Z-report",
        "nightly-2026-03-29T01-00-00Z-bill",
        "by another",
    ]
    assert sent[0] == sent[1]


def raising(error: BaseException) -> Callable[[], Any]:
    def body() -> None:
        raise error

    return body
