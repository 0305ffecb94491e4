"""A function that is done once for each key, on clocks that are turned by hand."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID
from zlib import crc32

import pytest

from cronce import Cronce, Run
from cronce.errors import BadInput, BadName, BadPolicy, InDoubt, InProgress, SlotFailed, StoreUnavailable
from cronce.model import Mark, Slot
from cronce.protocol.record import Outcome, decode
from cronce.runtime.effects import once
from cronce.runtime.effects.idempotent import SWEPT, Keyed
from cronce.runtime.effects.once import EffectPolicy
from cronce.runtime.jobs import SWEPT_AFTER
from cronce.stores.memory import MemoryStore
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import FORGETFUL, START, HandClock, Wire

DAY = timedelta(days=1)


class Boom(Exception):
    """What the function raises."""


class Consumer:
    """Counts the messages that it handled."""

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()
        self.act: Callable[[int], Any] = lambda message: {"sent": message}

    def __call__(self, message: int) -> Any:
        self.done[message] += 1
        return self.act(message)


def keyed(office: Office, fn: Callable[..., Any], name: str = "mail", **how: Any) -> Any:
    return Keyed(name, lambda message: message, DAY, EffectPolicy(**how), lambda: office.keeper).guard(fn)


@pytest.fixture
def consumer() -> Consumer:
    return Consumer()


def test_each_message_is_handled_once_and_a_repeat_gets_the_same_answer(office: Office, consumer: Consumer) -> None:
    mail = keyed(office, consumer)
    assert [mail(1), mail(1), mail(2), mail(1)] == [{"sent": 1}, {"sent": 1}, {"sent": 2}, {"sent": 1}]
    assert consumer.done == {1: 1, 2: 1}


def test_two_names_for_one_order_are_two_effects(office: Office, consumer: Consumer) -> None:
    keyed(office, consumer, "order-email")(7)
    keyed(office, consumer, "reservation")(7)
    assert consumer.done == {7: 2}


def test_it_takes_two_calls_of_the_store_and_a_repeat_one(office: Office, consumer: Consumer) -> None:
    mail = keyed(office, consumer)
    mail(0)
    office.store.calls.clear()
    mail(1)
    mail(1)
    assert office.store.calls == ["swap", "swap", "swap"]


def test_while_one_is_at_it_another_is_told_so_and_does_not_wait(store: Wire, consumer: Consumer) -> None:
    one, other = Office(store), Office(store)

    def meanwhile(_message: int) -> str:
        with pytest.raises(
            InProgress, match=r"mail/7 is in progress at web-[0-9]+, until 2026-03-29 12:00:30 UTC"
        ) as told:
            keyed(other, consumer)(7)
        assert (told.value.name, told.value.by) == ("mail/7", one.node.holder)
        return "done"

    consumer.act = meanwhile
    assert keyed(one, consumer)(7) == "done"
    assert keyed(other, consumer)(7) == "done"
    assert consumer.done == {7: 1}


def test_its_lease_is_renewed_for_as_long_as_it_takes(store: Wire, consumer: Consumer) -> None:
    one, other = Office(store), Office(store)

    def takes_long(_message: int) -> str:
        for _ in range(120):
            one.hand.turn(1)
            one.keeper.renew()
            other.node.do(other.node.ledger.overdue())
            with pytest.raises(InProgress):
                keyed(other, consumer)(7)
        return "done"

    consumer.act = takes_long
    assert keyed(one, consumer)(7) == "done"
    assert (consumer.done, one.keeper.busy) == ({7: 1}, False)


# --- how long it is known ---------------------------------------------------------------------------------------------


def test_it_is_known_for_the_ttl_counted_from_when_it_was_done(office: Office, consumer: Consumer) -> None:
    consumer.act = lambda _message: office.hand.turn(20)
    mail = keyed(office, consumer)
    mail(1)
    office.hand.turn(DAY.total_seconds() - 1)
    mail(1)
    assert consumer.done == {1: 1}
    office.hand.turn(1)
    mail(1)
    assert consumer.done == {1: 2}


def test_what_is_known_for_long_enough_is_swept_and_what_is_in_doubt_never(office: Office, consumer: Consumer) -> None:
    def fails(message: int) -> None:
        if message == 2:
            raise Boom

    consumer.act = fails
    mail = keyed(office, consumer)
    mail(1)
    with pytest.raises(InDoubt):
        mail(2)
    office.hand.turn((DAY + SWEPT_AFTER).total_seconds())
    watch(office, 31)
    assert office.node.do(office.node.ledger.jobs.sweep()) == 1
    known, doubt = office.store.load(["once/mail/1", "once/mail/2"]).cells
    assert (known.version, doubt.mark) == (0, Mark.ATTENTION)
    with pytest.raises(InDoubt):
        mail(2)
    assert consumer.done == {1: 1, 2: 1}


def test_at_one_key_of_a_thousand_somebody_looks_for_what_can_be_swept(office: Office, consumer: Consumer) -> None:
    chosen = next(key for key in range(100_000) if crc32(str(key).encode()) % SWEPT == 0)
    mail = keyed(office, consumer)
    for key in (chosen + 1, chosen):
        assert office.keeper._chores == {}
        mail(key)
    assert list(office.keeper._chores) == ["sweep"]


# --- in doubt -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unsure", "times"), [("raise", 1), ("skip", 1), ("retry", 2)])
def test_what_raised_is_in_doubt(
    office: Office, consumer: Consumer, unsure: Literal["raise", "retry", "skip"], times: int
) -> None:
    def fails_once(message: int) -> str:
        if consumer.done[message] == 1:
            raise Boom("timed out")
        return "sent"

    consumer.act = fails_once
    mail = keyed(office, consumer, unsure=unsure)
    if unsure == "skip":
        assert mail(1) is None
    else:
        with pytest.raises(InDoubt if unsure == "raise" else Boom):
            mail(1)
    if unsure == "raise":
        with pytest.raises(InDoubt, match="nobody knows whether mail/1 happened: Boom: timed out"):
            mail(1)
    else:
        assert mail(1) == (None if unsure == "skip" else "sent")
    assert consumer.done == {1: times}


def test_a_key_that_was_never_done_is_swept_like_one_that_was(office: Office, consumer: Consumer) -> None:
    def refuses(_message: int) -> None:
        raise ConnectionRefusedError

    consumer.act = refuses
    with pytest.raises(ConnectionRefusedError):
        keyed(office, consumer, not_done=(ConnectionRefusedError,))(1)
    office.hand.turn((SWEPT_AFTER + timedelta(seconds=1)).total_seconds())
    watch(office, 31)
    assert office.node.do(office.node.ledger.jobs.sweep()) == 1


def test_what_surely_did_nothing_may_be_redelivered(office: Office, consumer: Consumer) -> None:
    def refuses_once(message: int) -> str:
        if consumer.done[message] == 1:
            raise ConnectionRefusedError
        return "sent"

    consumer.act = refuses_once
    mail = keyed(office, consumer, not_done=(ConnectionRefusedError,))
    with pytest.raises(ConnectionRefusedError):
        mail(1)
    assert (mail(1), consumer.done) == ("sent", {1: 2})


def _killed_in(dead: Office, consumer: Consumer, handle: Callable[[int], Any]) -> None:
    """A process that is killed while it handles message 1."""

    def killed(_message: int) -> None:
        dies(dead)
        dead.hand.turn(60)

    consumer.act = killed
    with pytest.raises(StoreUnavailable):
        handle(1)
    dead.hand.turn(-60)
    consumer.act = lambda _message: "sent"


@pytest.mark.parametrize(("unsure", "times"), [("raise", 1), ("skip", 1), ("retry", 2)])
def test_a_key_whose_process_died_is_in_progress_until_its_lease_is_over_and_then_in_doubt(
    store: Wire, consumer: Consumer, unsure: Literal["raise", "retry", "skip"], times: int
) -> None:
    dead, alive = Office(store), Office(store)

    _killed_in(dead, consumer, keyed(dead, consumer))
    mail = keyed(alive, consumer, unsure=unsure)
    with pytest.raises(InProgress):
        mail(1)
    watch(alive, 31)
    if unsure == "raise":
        with pytest.raises(InDoubt, match=r"its holder .* did not renew its lease"):
            mail(1)
    else:
        assert mail(1) == (None if unsure == "skip" else "sent")
    assert consumer.done == {1: times}


def test_a_shorter_lease_is_over_sooner(store: Wire, consumer: Consumer) -> None:
    dead, alive = Office(store), Office(store)
    ttl, how, short = timedelta(days=1), EffectPolicy("retry"), timedelta(seconds=2)

    def of(office: Office) -> Any:
        return Keyed("mail", lambda message: message, ttl, how, lambda: office.keeper, lease=short).guard(consumer)

    _killed_in(dead, consumer, of(dead))
    alive.node.do(alive.node.ledger.overdue())
    watch(alive, 3)
    assert (of(alive)(1), consumer.done) == ("sent", {1: 2})


def test_one_that_was_stopped_because_its_lease_ended_leaves_a_doubt(office: Office) -> None:
    def hangs(_message: int) -> None:
        office.hand.turn(60)
        office.keeper.watch()
        while True:
            pass

    with pytest.raises(InDoubt, match="nobody knows whether mail/1 happened: it was stopped: it could not be renewed"):
        keyed(office, hangs)(1)
    (cell,) = office.store.load(["once/mail/1"]).cells
    assert decode(cell.value).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("times", [1, 4, 9])
@pytest.mark.parametrize("lose", [1, 2, 3])
def test_whichever_calls_are_lost_it_is_done_once(
    consumer: Consumer, lose: int, times: int, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "FIRST_RETRY", 0.001)
    clock = HandClock()
    office = Office(Wire(clock))
    made = 0

    def lost(_name: str) -> str:
        nonlocal made
        made += 1
        return fate if lose <= made < lose + times else ""

    office.store.lose = lost
    mail = keyed(office, consumer)
    assert [mail(1), mail(1)] == [{"sent": 1}] * 2
    assert consumer.done == {1: 1}


@pytest.mark.parametrize("lease", [5, 30])
def test_a_store_that_forgot_lets_nobody_begin_before_whoever_was_at_it_is_over(consumer: Consumer, lease: int) -> None:
    """Messages of a Celery task with lease="5s" were held for 30 s after a Redis was wiped."""
    office = Office(Wire(HandClock(), FORGETFUL, on_purpose=False))
    length = timedelta(seconds=lease)
    mail = Keyed("mail", lambda message: message, DAY, EffectPolicy(), lambda: office.keeper, lease=length).guard(
        consumer
    )
    office.hand.turn(lease - 1)
    with pytest.raises(InProgress):
        mail(1)
    office.hand.turn(1)
    assert mail(1) == {"sent": 1}


# --- as it is written -------------------------------------------------------------------------------------------------


@pytest.fixture
def cron() -> Any:
    with Cronce("memory:") as cron:
        yield cron


def test_the_key_is_made_of_the_calls_arguments(cron: Cronce) -> None:
    seen: list[str] = []

    @cron.idempotent("mail", key=lambda order, *, to: f"{order}:{to}", ttl="1d")
    def mail(order: int, *, to: str) -> str:
        """Send it."""
        seen.append(to)
        return to

    assert [mail(1, to="ada"), mail(1, to="bob"), mail(1, to="ada")] == ["ada", "bob", "ada"]
    assert (seen, mail.__name__, mail.__doc__) == (["ada", "bob"], "mail", "Send it.")


def test_a_coroutine_function_is_awaited(cron: Cronce) -> None:
    seen: list[int] = []

    @cron.idempotent("mail", key=lambda order: order)
    async def mail(order: int) -> int:
        await asyncio.sleep(0)
        seen.append(order)
        return order

    async def twice() -> list[int]:
        return [await mail(1), await mail(1)]

    assert (asyncio.run(twice()), seen) == ([1, 1], [1])


@pytest.mark.parametrize("key", [7, "seven", UUID(int=7)])
def test_a_key_may_be_a_text_a_number_or_a_uuid(cron: Cronce, key: Any) -> None:
    assert cron.idempotent("mail", key=lambda: key)(lambda: 1)() == 1


def test_a_kind_and_an_id_are_the_same_effect_as_a_runs_on_that_thing(cron: Cronce) -> None:
    done: list[int] = []
    mail = cron.idempotent("mail", key=lambda order: ("order", order))(done.append)

    @cron.job(None)
    def remind(run: Run) -> None:
        run.on("order", 7).once("mail", done.append, 7)

    mail(7)
    remind.at("2026-03-29T12:00:00Z")()
    assert done == [7]


@pytest.mark.parametrize("order", [None, "", 7.5, (), ("order",), ("order", 7, 8)])
def test_an_id_that_is_missing_is_refused_each_time(cron: Cronce, order: Any) -> None:
    """In a text it was the key `order:None`, and the second message without an id was dropped."""
    done: list[Any] = []
    key = (lambda order: order) if isinstance(order, tuple) else lambda order: ("order", order)
    mail = cron.idempotent("mail", key=key)(done.append)
    for _ in range(2):
        with pytest.raises(BadInput, match="cannot be the key of an effect"):
            mail(order)
    assert done == []


def test_a_key_that_is_none_is_refused_before_anything_is_done(cron: Cronce) -> None:
    seen: list[int] = []
    with pytest.raises(BadName, match="None cannot be the key of an effect"):
        cron.idempotent("mail", key=lambda: None)(lambda: seen.append(1))()
    assert seen == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"key": "id"}, BadInput),
        ({"key": str, "ttl": "0s"}, BadInput),
        ({"key": str, "ttl": "soon"}, BadInput),
        ({"key": str, "unsure": "maybe"}, BadPolicy),
        ({"key": str, "expire": 60}, BadPolicy),
        ({"key": str, "lease": "31s"}, BadInput),
        ({"key": str, "lease": "100ms"}, BadInput),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_written(cron: Cronce, words: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        cron.idempotent("mail", **words)


def test_a_name_that_cannot_be_one_is_refused(cron: Cronce) -> None:
    with pytest.raises(BadName):
        cron.idempotent("a/b", key=str)
    with pytest.raises(BadInput, match="with a name for what is done"):
        cron.idempotent(print, key=str)  # type: ignore[arg-type]


def test_a_receiver_admits_no_lower_fence_than_it_has_seen(cron: Cronce) -> None:
    low, high = "00000000000001-000000000001", "00000000000001-000000000002"
    assert [cron.admits("billing", fence) for fence in (low, high, high, low)] == [True, True, True, False]
    assert cron.admits("another", low)
    with pytest.raises(BadInput, match="is not a fence"):
        cron.admits("billing", "7")


# --- inside of a job --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "outcome", "told"),
    [
        ({}, Outcome.UNKNOWN, "nobody knows whether mail/7 happened: Boom"),
        ({"unsure": "retry"}, Outcome.FAILED, "mail/7 is not done: Boom"),
        ({"not_done": (Boom,)}, Outcome.FAILED, "mail/7 is not done: Boom"),
        ({"unsure": "skip"}, Outcome.SUCCEEDED, ""),
    ],
)
def test_one_that_fails_inside_a_job_is_remembered_by_its_run(
    office: Office, consumer: Consumer, how: Any, outcome: Outcome, told: str
) -> None:
    """A job function that caught the error left its slot *succeeded*, with the message not handled."""

    def fails(_message: int) -> None:
        raise Boom

    consumer.act, mail = fails, keyed(office, consumer, **how)

    def body(_run: Run) -> None:
        with suppress(Exception):
            mail(7)

    with suppress(SlotFailed):
        office.call(job(), body, when=Slot("billing", START))
    record = office.record(Slot("billing", START))
    assert (record.outcome, record.reason) == (outcome, told)


def test_one_that_is_done_at_last_or_in_progress_elsewhere_leaves_its_run_as_it_is(
    store: Wire, office: Office, consumer: Consumer
) -> None:
    other = Office(store)

    def first_fails(message: int) -> None:
        if message == 7 and consumer.done[7] == 1:
            raise Boom
        if message == 8:
            other.call(job("dunning"), meets_it, when=Slot("dunning", START))

    def meets_it(_run: Run) -> None:
        with suppress(InProgress):
            keyed(other, consumer)(8)

    consumer.act, mail = first_fails, keyed(office, consumer, unsure="retry")

    def body(_run: Run) -> None:
        with suppress(Boom):
            mail(7)
        mail(7)
        mail(8)

    office.call(job(), body, when=Slot("billing", START))
    slots = (Slot("billing", START), Slot("dunning", START))
    assert [office.record(slot).outcome for slot in slots] == [Outcome.SUCCEEDED] * 2
    assert consumer.done == {7: 2, 8: 1}


@pytest.mark.parametrize("message", [None, "", 7.5])
def test_one_that_is_refused_inside_a_job_is_remembered_and_the_cursor_stays(
    office: Office, consumer: Consumer, message: Any
) -> None:
    mail = keyed(office, consumer)

    def body(run: Run) -> None:
        for _ in run.cursor.over([1], at=lambda position: position):
            with suppress(BadInput):
                mail(message)

    told = office.call_failing(job(), body, when=Slot("billing", START))
    assert "cannot be the key of an effect" in told
    got: list[Any] = []
    office.hand.turn(900)
    office.call(job(), lambda run: got.append(run.cursor.get()))
    assert (got, consumer.done) == ([None], {})


def test_on_an_event_loop_it_is_remembered_too() -> None:
    with Cronce(store=MemoryStore()) as cron:

        @cron.idempotent("mail", key=lambda message: message)
        async def mail(_message: int) -> None:
            raise Boom

        @cron.job("@hourly")
        async def billing() -> None:
            with suppress(InDoubt):
                await mail(7)

        with pytest.raises(SlotFailed, match="nobody knows whether mail/7 happened: Boom"):
            asyncio.run(billing())
