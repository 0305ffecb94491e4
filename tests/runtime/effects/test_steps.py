"""Steps of a run, on clocks that are turned by hand: exactly how often each was done, and what a repeat returns."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, Literal, assert_type

import pytest

from cronce.errors import (
    BadInput,
    BadName,
    BadPolicy,
    InDoubt,
    InProgress,
    LeaseLost,
    NotRecorded,
    SlotFailed,
    StoreUnavailable,
)
from cronce.model import Cell, Mark, Slot, Write
from cronce.protocol.commands import Queue
from cronce.protocol.record import Outcome, State, decode
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.effects import once
from cronce.runtime.effects.review import resolve_effect
from cronce.runtime.keeper import LeaseEnd
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run
from cronce.runtime.steps import take_async
from cronce.stores.base import Swapped
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import START, HandClock, Wire

NOON = Slot("billing", START)
RERUN = {"on_lost": "rerun", "lease": "10s"}


class Boom(Exception):
    """What a step raises."""


class Refused(Exception):
    """What a step raises that surely did nothing."""


class Receiver:
    """The other side: it counts what it is asked to do."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.act: Callable[[str], Any] = lambda what: f"did {what}"

    def __call__(self, what: str) -> Any:
        self.done[what] += 1
        return self.act(what)


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def step(office: Office, key: str) -> Any:
    (cell,) = office.store.load([f"effect/billing/{NOON.key.partition('@')[2]}/{key}"]).cells
    return cell, decode(cell.value, cell.key)


# --- done once ------------------------------------------------------------------------------------------------------


def test_a_repeat_returns_the_recorded_result(office: Office, receiver: Receiver) -> None:
    seen: list[Any] = []

    def body(run: Run) -> None:
        seen.append(run.once("mail:1", receiver, "mail", per="slot"))
        if run.attempt < 3:
            raise Boom

    for _ in range(3):
        try:
            office.call(job(retries=5, backoff="1s"), body, when=NOON)
        except Boom:
            office.hand.turn(60)
    assert (seen, receiver.done) == (["did mail"] * 3, {"mail": 1})


def test_each_slot_has_steps_of_its_own(office: Office, clock: HandClock, receiver: Receiver) -> None:
    for _ in range(2):
        office.call(job(), lambda run: run.once("mail", receiver, str(run.at), per="slot"))
        clock.turn(15 * 60)
    assert list(receiver.done.values()) == [1, 1]


def test_the_first_call_returns_what_a_repeat_will(office: Office) -> None:
    results = office.call(job(), lambda run: [run.once("k", lambda: [1, {"2": "x"}], per="slot") for _ in range(2)])
    assert results == [[1, {"2": "x"}]] * 2


def test_arguments_are_passed_on(office: Office) -> None:
    assert office.call(job(), lambda run: run.once("k", lambda a, *, b: [a, b], 1, b=2, per="slot")) == [1, 2]


def test_a_step_costs_two_calls_of_the_store(office: Office) -> None:
    def body(run: Run) -> list[str]:
        office.store.calls.clear()
        run.once("k", int, per="slot")
        first, office.store.calls[:] = list(office.store.calls), []
        run.once("k", int, per="slot")
        return [*first, "again", *office.store.calls]

    assert office.call(job(), body) == ["swap", "swap", "again", "swap"]


@pytest.mark.parametrize("key", ["", " \n", "a\x00", "x" * 501, "\ud800", None, 1.5, b"k", object()])
def test_a_key_that_cannot_be_one_is_refused_before_anything_is_done(
    office: Office, receiver: Receiver, key: Any
) -> None:
    with pytest.raises(BadName, match="key"):
        office.call(job(), lambda run: run.once(key, receiver, "x", per="slot"))
    assert receiver.done == {}


@pytest.mark.parametrize("key", ["größe/7", "a b", 7, "x" * 500])
def test_a_key_is_any_text_or_number(office: Office, receiver: Receiver, key: Any) -> None:
    assert office.call(job(), lambda run: run.once(key, receiver, "x", per="slot")) == "did x"


@pytest.mark.parametrize("policy", [{"unsure": "maybe"}, {"not_done": 7}, {"not_done": (7,)}])
def test_what_cannot_be_meant_is_refused(office: Office, receiver: Receiver, policy: dict[str, Any]) -> None:
    with pytest.raises((BadPolicy, BadInput)):
        office.call(job(), lambda run: run.once("k", receiver, "x", per="slot", **policy))
    assert receiver.done == {}


def test_the_key_for_the_other_side_is_that_of_the_slot_and_the_step(office: Office) -> None:
    assert office.call(job(), lambda run: run.key_of("mail:1", per="slot")) == "billing@2026-03-29T12:00:00Z/mail:1"


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [object(), {1, 2}, float("nan"), "x" * 70_000, b"bytes"], ids=lambda r: f"{r!r:.20}")
def test_a_result_that_cannot_be_kept_is_an_error_each_time_and_done_once(office: Office, result: Any) -> None:
    calls: list[int] = []

    def effect() -> Any:
        calls.append(1)
        return result

    def body(run: Run) -> None:
        run.once("k", effect, per="slot")

    for _ in range(2):
        with pytest.raises(BadInput, match=r"billing@2026-03-29T12:00:00Z/k is done, but its result cannot be stored"):
            office.call(job(retries=5, backoff="1ms"), body, when=NOON)
        office.hand.turn(1)
    assert calls == [1]


@pytest.mark.parametrize(
    ("result", "instead"),
    [
        (("ch_1", 400), "JSON turns a tuple into a list, so return a list"),
        ({"charges": [("ch_1", 400)]}, "JSON turns a tuple into a list, so return a list"),
        ({7: "ch_1"}, "JSON turns the key 7 into text, so use text as the key"),
        ([{None: 1}], "JSON turns the key None into text, so use text as the key"),
    ],
    ids=str,
)
def test_a_result_that_json_gives_back_as_something_else_is_an_error_each_time(
    office: Office, receiver: Receiver, result: Any, instead: str
) -> None:
    """A tuple came back as a list, the first time too. What it was is on record for a person to see."""
    receiver.act = lambda _what: result
    for _ in range(2):
        with pytest.raises(BadInput, match=f"cannot be stored for a retry: {instead}"):
            office.call(job(retries=5, backoff="1ms"), lambda run: run.once("k", receiver, "k", per="slot"), when=NOON)
        office.hand.turn(1)
    assert receiver.done == {"k": 1}
    assert step(office, "k")[1].result == json.dumps(result, separators=(",", ":"))


class Size(IntEnum):
    SMALL = 1


@pytest.mark.parametrize("result", [[1, [2.5, None]], {"a": {"b": True}}, "", 0, Size.SMALL, Counter("aab"), 1e300])
def test_a_result_that_json_gives_back_as_it_is_is_kept(office: Office, receiver: Receiver, result: Any) -> None:
    receiver.act = lambda _what: result
    assert office.call(job(), lambda run: run.once("k", receiver, "k", per="slot")) == result


def test_once_has_the_type_of_what_its_function_returns(office: Office) -> None:
    def charge(cents: int) -> str:
        return f"ch_{cents}"

    async def send(cents: int) -> int:
        return cents

    def body(run: Run) -> None:
        assert_type(run.once("charge", charge, 7, per="slot"), str)
        assert_type(run.on("invoice", 7).once("charge", charge, 7), str)
        assert_type(run.once("maybe", charge, 7, per="slot", unsure="skip"), Any)  # it may be None

    async def later(run: Run) -> int:
        sent = run.once("send", send, 7, per="slot")
        assert_type(sent, Awaitable[int])
        return await sent

    office.call(job(), body)
    assert asyncio.run(take_async(office.call_steps(job("mail"), later), office.node)) == 7


def test_a_generator_or_coroutine_that_nobody_runs_is_refused(office: Office) -> None:
    async def later() -> None: ...

    with pytest.raises(BadInput, match="and none of it has run"):
        office.call(job(), lambda run: run.once("k", lambda: later(), per="slot"))  # noqa: PLW0108
    assert office.record(NOON).outcome is Outcome.FAILED


# --- in doubt -------------------------------------------------------------------------------------------------------


def test_an_exception_leaves_a_doubt_and_the_slot_is_closed_as_unknown_without_retries(
    office: Office, receiver: Receiver
) -> None:
    def fails(_what: str) -> None:
        raise Boom("timed out")

    receiver.act = fails
    name = "billing@2026-03-29T12:00:00Z/pay"
    with pytest.raises(InDoubt, match=f"nobody knows whether {name} happened: Boom: timed out") as raised:
        office.call(job(retries=5), lambda run: run.once("pay", receiver, "pay", per="slot"))
    assert (raised.value.name, raised.value.why) == (name, "Boom: timed out")
    record = office.record(NOON)
    assert (record.state, record.outcome, receiver.done) == (State.CLOSED, Outcome.UNKNOWN, {"pay": 1})
    assert record.reason.startswith(f"nobody knows whether {name} happened")
    cell, doubt = step(office, "pay")
    assert (cell.mark, doubt.outcome, doubt.reason) == (Mark.ATTENTION, Outcome.UNKNOWN, "Boom: timed out")


def test_a_body_that_swallows_the_doubt_does_the_rest_and_its_slot_is_unknown_all_the_same(
    office: Office, receiver: Receiver
) -> None:
    def fails_once(what: str) -> None:
        if what == "2":
            raise Boom

    def body(run: Run) -> str:
        for what in "1234":
            try:
                run.once(what, receiver, what, per="slot")
            except InDoubt:
                continue
        return "went on"

    receiver.act = fails_once
    office.call_failing(job(retries=5), body)
    assert (receiver.done, office.record(NOON).outcome) == (dict.fromkeys("1234", 1), Outcome.UNKNOWN)


@pytest.mark.parametrize("unsure", ["retry", "skip"])
def test_what_raised_stays_in_doubt_on_record_until_it_is_done(
    office: Office, receiver: Receiver, unsure: Literal["retry", "skip"]
) -> None:
    def fails_once(_what: str) -> str:
        if receiver.done["pay"] == 1:
            raise Boom("timed out")
        return "paid"

    def body(run: Run) -> Any:
        return run.once("pay", receiver, "pay", unsure=unsure, per="slot")

    receiver.act = fails_once
    if unsure == "skip":
        assert office.call(job(retries=1), body, when=NOON) is None
    else:
        with pytest.raises(Boom):
            office.call(job(retries=1, backoff="1ms"), body, when=NOON)
    cell, record = step(office, "pay")
    assert (cell.mark, record.outcome, record.reason) == (Mark.ATTENTION, Outcome.UNKNOWN, "Boom: timed out")
    if unsure == "retry":
        office.hand.turn(1)
        assert office.call(job(retries=1), body, when=NOON) == "paid"
    assert (office.record(NOON).outcome, receiver.done) == (
        Outcome.SUCCEEDED, {"pay": 2 if unsure == "retry" else 1},
    )  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.once("k", {"sent": 1}, per="slot"),
        lambda run: run.once("k", len, per="slot"),
        lambda run: run.once("k", lambda order: order, per="slot"),
        lambda run: run.once("k", lambda: 1, 2, per="slot"),
        lambda run: run.once_each([1], key="id", fn=str, per="slot"),
        lambda run: run.once_each([1], key=str, fn=None, per="slot"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_before_it_is_begun(office: Office, call: Callable[[Run], Any]) -> None:
    with pytest.raises(BadInput, match="cannot be called"):
        office.call(job(), call)
    assert [key for key in office.store._cells if key.startswith("effect/")] == []


def test_a_run_that_is_over_makes_no_more_effects(office: Office, receiver: Receiver) -> None:
    kept: list[Run] = []
    office.call(job(), kept.append)
    (run,) = kept
    for act in (run.check, lambda: run.once("k", receiver, "x", per="slot"), lambda: run.cursor.set(1), run.cursor.get):
        with pytest.raises(LeaseLost, match="is over: its job function has ended"):
            act()
    assert (run.trusted, receiver.done) == (False, {})


def test_what_surely_did_nothing_is_tried_again(office: Office, receiver: Receiver) -> None:
    def refuses_once(_what: str) -> str:
        if receiver.done["pay"] == 1:
            raise Refused
        return "paid"

    receiver.act = refuses_once
    with pytest.raises(Refused):
        office.call(
            job(retries=1, backoff="1ms"), lambda run: run.once("pay", receiver, "pay", not_done=Refused, per="slot")
        )
    office.hand.turn(1)
    again = office.call(
        job(retries=1), lambda run: run.once("pay", receiver, "pay", not_done=Refused, per="slot"), when=NOON
    )
    assert (again, receiver.done, office.record(NOON).outcome) == ("paid", {"pay": 2}, Outcome.SUCCEEDED)


def _dies_in(office: Office, receiver: Receiver, how: dict[str, Any]) -> None:
    """A process that dies while it does a step, after the other side has done it."""
    receiver.act = lambda _what: dies(office)
    with pytest.raises((NotRecorded, StoreUnavailable)):
        office.call(job(**RERUN), lambda run: run.once("pay", receiver, "pay", per="slot", **how), when=NOON)
    receiver.act = lambda what: f"did {what}"


@pytest.mark.parametrize(
    ("unsure", "result", "times", "outcome"),
    [
        ("retry", "did pay", 2, Outcome.SUCCEEDED),
        ("skip", None, 1, Outcome.SUCCEEDED),
        ("raise", InDoubt, 1, Outcome.UNKNOWN),
    ],
)
def test_a_step_whose_run_died_is_in_doubt_and_unsure_says_what_to_do(
    store: Wire,
    receiver: Receiver,
    unsure: Literal["raise", "retry", "skip"],
    result: Any,
    times: int,
    outcome: Outcome,
) -> None:
    dead, alive = Office(store), Office(store)
    alive.call(job("other"), lambda _run: None)  # it watches the store's clock
    _dies_in(dead, receiver, {"unsure": unsure})
    watch(alive, 12)

    def body(run: Run) -> Any:
        return run.once("pay", receiver, "pay", unsure=unsure, per="slot")

    if result is InDoubt:
        with pytest.raises(InDoubt, match=r"its run at web-[0-9]+ is over"):
            alive.call(job(**RERUN), body, when=NOON)
    else:
        assert alive.call(job(**RERUN), body, when=NOON) == result
    assert (receiver.done, alive.record(NOON).outcome) == ({"pay": times}, outcome)


def test_a_stricter_reader_is_not_overruled_by_how_it_was_begun(store: Wire, receiver: Receiver) -> None:
    dead, alive = Office(store), Office(store)
    alive.call(job("other"), lambda _run: None)
    _dies_in(dead, receiver, {"unsure": "retry"})
    watch(alive, 12)
    with pytest.raises(InDoubt):
        alive.call(job(**RERUN), lambda run: run.once("pay", receiver, "pay", per="slot"), when=NOON)
    assert receiver.done == {"pay": 1}


# --- a run that was taken over ----------------------------------------------------------------------------------------


def test_a_run_whose_lease_has_lapsed_begins_no_step(store: Wire, receiver: Receiver) -> None:
    paused, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)

    def body(run: Run) -> None:
        watch(other, 12)
        run.once("pay", receiver, "pay", per="slot")

    with pytest.raises(LeaseLost, match="lost its lease"):
        paused.call(job(**RERUN), body, when=NOON)
    assert receiver.done == {}


def test_a_run_that_was_paused_between_its_check_and_the_store_begins_no_step(store: Wire, receiver: Receiver) -> None:
    """By the store's clock: the write that begins it comes too late."""
    paused, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)

    def body(run: Run) -> None:
        def late(name: str) -> str:
            if name == "swap":
                store.lose = lambda _name: ""
                watch(other, 12)
            return ""

        store.lose = late
        run.once("pay", receiver, "pay", per="slot")

    with pytest.raises(LeaseLost, match="was not begun: the lease of its run has lapsed"):
        paused.call(job(**RERUN), body, when=NOON)
    assert receiver.done == {}


def test_a_run_that_was_taken_over_in_a_step_cannot_say_that_it_is_done(store: Wire, receiver: Receiver) -> None:
    paused, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)

    def slow(_what: str) -> None:
        receiver.act = lambda what: f"did {what}"
        watch(other, 12)
        with pytest.raises(InDoubt):
            other.call(job(**RERUN), lambda run: run.once("pay", receiver, "pay", per="slot"), when=NOON)

    receiver.act = slow
    with pytest.raises(LeaseLost):
        paused.call(job(**RERUN), lambda run: run.once("pay", receiver, "pay", per="slot"), when=NOON)
    assert (receiver.done, other.record(NOON).outcome) == ({"pay": 1}, Outcome.UNKNOWN)


@pytest.mark.parametrize("error", [GeneratorExit, StopIteration])
def test_what_a_generator_would_take_for_its_end_is_an_error_like_others(
    office: Office, error: type[BaseException]
) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(InDoubt, match=f"RuntimeError: the step raised {error.__name__}"):
        office.call(job(), lambda run: run.once("pay", fails, per="slot"))
    assert office.record(NOON).outcome is Outcome.UNKNOWN


def test_a_stop_that_comes_before_the_function_is_called_leaves_no_doubt(office: Office, receiver: Receiver) -> None:
    def body(run: Run) -> None:
        def stop_meanwhile(name: str) -> str:
            if name == "swap":
                office.store.lose = lambda _name: ""
                office.keeper.end(run._lease, LeaseEnd("drained", "it is drained"))
            return ""

        office.store.lose = stop_meanwhile
        run.once("pay", receiver, "pay", per="slot")

    with pytest.raises(LeaseLost, match="it is drained"):
        office.call(job(**RERUN), body, when=NOON)
    assert (receiver.done, office.record(NOON).state) == ({}, State.RETRYING)
    office.call(job(**RERUN), lambda run: run.once("pay", receiver, "pay", per="slot"), when=NOON)
    assert (receiver.done, office.record(NOON).outcome) == ({"pay": 1}, Outcome.SUCCEEDED)


def test_two_threads_of_one_run_are_two_and_one_is_told_that_it_is_in_progress(
    office: Office, receiver: Receiver
) -> None:
    def body(run: Run) -> None:
        def meanwhile(_what: str) -> None:
            with pytest.raises(InProgress, match="billing@2026-03-29T12:00:00Z/pay is in progress at web-"):
                run.once("pay", receiver, "pay", per="slot")

        receiver.act = meanwhile
        run.once("pay", receiver, "pay", per="slot")

    office.call(job(), body)
    assert receiver.done == {"pay": 1}


def test_a_body_that_is_stopped_in_a_step_leaves_a_doubt_and_is_not_tried_again(office: Office) -> None:
    def hangs() -> None:
        office.hand.turn(60)
        office.keeper.watch()
        while True:
            pass

    with pytest.raises(LeaseLost, match="was stopped: it could not be renewed in time"):
        office.call(job(retries=3, **RERUN), lambda run: run.once("pay", hangs, per="slot"), when=NOON)
    assert (step(office, "pay")[1].outcome, office.record(NOON).outcome) == (Outcome.UNKNOWN, Outcome.UNKNOWN)


def _asked_for(office: Office, request: str) -> Slot:
    """A run by hand that goes by the key of noon."""
    slot = NOON._replace(request=request)
    office.node.do(office.node.ledger.put({slot: Queue(by="ada", key=NOON.key)}))
    return slot


def test_a_step_that_another_run_by_the_same_key_is_at_is_in_progress_and_not_in_doubt(
    store: Wire, receiver: Receiver
) -> None:
    one, other = Office(store), Office(store)
    declared = job(overlap="allow")
    one.call(declared, lambda _run: None, when=NOON)
    first, second = _asked_for(one, "a"), _asked_for(one, "b")

    def meanwhile(_what: str) -> None:
        with pytest.raises(InProgress):
            other.call(declared, lambda run: run.once("pay", receiver, "pay", per="slot"), when=second)

    receiver.act = meanwhile
    one.call(declared, lambda run: run.once("pay", receiver, "pay", per="slot"), when=first)
    assert receiver.done == {"pay": 1}


def test_a_step_is_not_retried_beside_a_run_that_is_still_at_it_in_a_store_that_lost_data(
    store: Wire, receiver: Receiver
) -> None:
    """With unsure="retry" it was made by both runs at once."""
    one, other = Office(store), Office(store)
    declared = job(overlap="allow", lease="30s")
    one.call(declared, lambda _run: None, when=NOON)
    first, second = _asked_for(one, "a"), _asked_for(one, "b")

    def pay(run: Run) -> Any:
        return run.once("pay", receiver, "pay", per="slot", unsure="retry")

    def meanwhile(_what: str) -> None:
        receiver.act = lambda _what: None
        with pytest.raises(InDoubt):
            other.call(declared, lose_then_pay, when=second)

    def lose_then_pay(run: Run) -> Any:
        birth, tally = store.load([]).epoch.seen
        store.swap([], (birth, tally + 1000))  # as after a replica that lagged was promoted
        return pay(run)

    receiver.act = meanwhile
    with suppress(LeaseLost):
        one.call(declared, pay, when=first)
    assert receiver.done == {"pay": 1}


def test_a_step_of_another_run_by_the_same_key_that_is_over_is_in_doubt(store: Wire, receiver: Receiver) -> None:
    one, other = Office(store), Office(store)
    declared = job(overlap="allow", on_lost="skip", lease="10s")
    one.call(declared, lambda _run: None, when=NOON)
    first, second = _asked_for(one, "a"), _asked_for(one, "b")
    receiver.act = lambda _what: dies(one)
    with pytest.raises(StoreUnavailable):
        one.call(declared, lambda run: run.once("pay", receiver, "pay", per="slot"), when=first)
    watch(other, 12)
    other.node.do(other.node.ledger.settle([Cell(first.cell)]))
    with pytest.raises(InDoubt):
        other.call(declared, lambda run: run.once("pay", receiver, "pay", per="slot"), when=second)
    assert receiver.done == {"pay": 1}


# --- lost calls -----------------------------------------------------------------------------------------------------


def _lived_through(receiver: Receiver, lose: int, times: int, fate: str) -> Office:
    """Two steps, one after the other, of a slot that is tried until it is closed; so many calls are lost on the way."""
    clock = HandClock()
    store = Wire(clock)
    made = 0

    def lost(_name: str) -> str:
        nonlocal made
        made += 1
        return fate if lose <= made < lose + times else ""

    office = Office(store)
    office.call(job("other"), lambda _run: None)
    store.lose = lost
    for _ in range(14):
        try:
            office.call(
                job(retries=9, backoff="1ms", on_lost="rerun", lease="10s"),
                lambda run: [run.once(key, receiver, key, per="slot") for key in ("a", "b")],
                when=NOON,
            )
        except (StoreUnavailable, InDoubt, LeaseLost):
            store.lose = lost if made < lose + times else lambda _name: ""
        _watch_quietly(office)
    store.lose = lambda _name: ""
    return office


def _watch_quietly(office: Office) -> None:
    for _ in range(12):
        office.hand.turn(1)
        try:
            office.node.do(office.node.ledger.overdue())
        except StoreUnavailable:
            continue


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("times", [1, 4, 9])
@pytest.mark.parametrize("lose", range(1, 14))
def test_whichever_calls_are_lost_each_step_is_done_once_and_none_is_in_doubt(
    lose: int, times: int, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "FIRST_RETRY", 0.001)
    receiver = Receiver()
    office = _lived_through(receiver, lose, times, fate)
    assert (office.record(NOON).outcome, receiver.done) == (Outcome.SUCCEEDED, {"a": 1, "b": 1})


# --- many -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unsure", ["raise", "retry", "skip"])
def test_each_of_many_is_done_once_and_the_results_are_in_order(
    office: Office, receiver: Receiver, unsure: Literal["raise", "retry", "skip"]
) -> None:
    def body(run: Run) -> Any:
        each = run.once_each(range(250), key=str, fn=lambda item: receiver(str(item)), unsure=unsure, per="slot")
        if run.attempt == 1:
            raise Boom
        return each

    with pytest.raises(Boom):
        office.call(job(retries=1, backoff="1ms"), body, when=NOON)
    office.hand.turn(1)
    assert office.call(job(retries=1), body, when=NOON) == [f"did {item}" for item in range(250)]
    assert receiver.done == {str(item): 1 for item in range(250)}


def test_a_thousand_that_may_be_repeated_take_two_calls_of_the_store_per_hundred_at_most(
    office: Office, receiver: Receiver
) -> None:
    def body(run: Run) -> list[str]:
        office.store.calls.clear()
        run.once_each(range(1000), key=str, fn=lambda item: receiver(str(item)), unsure="retry", per="slot")
        return list(office.store.calls)

    assert office.call(job(), body) == ["swap"] * 11
    assert len(receiver.done) == 1000


def test_slow_ones_are_put_on_record_about_every_second(office: Office, receiver: Receiver) -> None:
    receiver.act = lambda _what: office.hand.turn(0.4)

    def body(run: Run) -> list[str]:
        office.store.calls.clear()
        run.once_each(range(9), key=str, fn=lambda item: receiver(str(item)), unsure="retry", per="slot")
        return list(office.store.calls)

    assert office.call(job(), body) == ["swap"] * 4  # begun; after the third, the sixth and the ninth


def test_one_that_fails_gives_back_those_after_it_and_nothing_before_it_is_repeated(
    office: Office, receiver: Receiver
) -> None:
    def fails_once(what: str) -> str:
        if what == "5" and receiver.done["5"] == 1:
            raise Boom
        return what

    def body(run: Run) -> Any:
        return run.once_each(range(10), key=str, fn=lambda item: receiver(str(item)), unsure="retry", per="slot")

    receiver.act = fails_once
    with pytest.raises(Boom):
        office.call(job(retries=1, backoff="1ms"), body, when=NOON)
    assert receiver.done == {str(item): 1 for item in range(6)}
    office.hand.turn(1)
    assert office.call(job(retries=1), body, when=NOON) == [str(item) for item in range(10)]
    assert receiver.done == {str(item): 2 if item == 5 else 1 for item in range(10)}


def test_items_that_end_in_an_error_leave_what_is_done_on_record(office: Office, receiver: Receiver) -> None:
    def items() -> Iterator[int]:
        yield from range(150)
        raise Boom

    def body(run: Run) -> Any:
        return run.once_each(items(), key=str, fn=lambda item: receiver(str(item)), unsure="retry", per="slot")

    for _ in range(2):
        with pytest.raises(Boom):
            office.call(job(retries=5, backoff="1ms"), body, when=NOON)
        office.hand.turn(1)
    assert receiver.done == {str(item): 1 for item in range(100)}


def test_long_results_are_put_on_record_a_megabyte_at_a_time(office: Office) -> None:
    def body(run: Run) -> list[int]:
        sizes: list[int] = []
        swap = office.store.swap

        def sized(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            sizes.append(sum(len(write.value) for write in writes))
            return swap(writes, seen)

        office.store.swap = sized  # type: ignore[method-assign]
        run.once_each(range(60), key=str, fn=lambda _item: "x" * 60_000, unsure="retry", per="slot")
        return sizes

    assert max(office.call(job(), body)) < 1_200_000


def test_a_batch_is_stopped_where_its_run_lost_its_lease(office: Office, receiver: Receiver) -> None:
    def slow(what: str) -> None:
        if what == "3":
            office.hand.turn(60)

    receiver.act = slow
    with pytest.raises(LeaseLost):
        office.call(
            job(**RERUN),
            lambda run: run.once_each(
                range(9), key=str, fn=lambda item: receiver(str(item)), unsure="retry", per="slot"
            ),
        )
    assert receiver.done == dict.fromkeys("0123", 1)


def test_two_items_of_one_key_are_refused_before_the_second_is_done(office: Office, receiver: Receiver) -> None:
    with pytest.raises(BadInput, match="two items have the key 'billing@2026-03-29T12:00:00Z/a'"):
        office.call(job(), lambda run: run.once_each(["a", "b", "a"], key=str, fn=receiver, per="slot"))
    assert receiver.done == {"a": 1, "b": 1}


# --- on an event loop -------------------------------------------------------------------------------------------------


def _awaited(office: Office, body: Callable[[Run], Any]) -> Any:
    call = Call(office.keeper, job(retries=1), Work(body, is_async=True))
    return asyncio.run(take_async(call.steps(NOON), office.node))


def test_a_coroutine_function_is_awaited(office: Office, receiver: Receiver) -> None:
    async def send(what: str) -> Any:
        await asyncio.sleep(0)
        return receiver(what)

    async def body(run: Run) -> Any:
        one = await run.once("mail", send, "mail", per="slot")
        again = await run.once("mail", send, "mail", per="slot")
        many = await run.once_each("ab", key=str, fn=send, unsure="retry", per="slot")
        return [one, again, many]

    assert _awaited(office, body) == ["did mail", "did mail", ["did a", "did b"]]
    assert receiver.done == {"mail": 1, "a": 1, "b": 1}


def test_a_coroutine_function_in_a_plain_body_is_refused(office: Office, receiver: Receiver) -> None:
    async def send(what: str) -> Any:
        return receiver(what)

    with pytest.raises(BadInput, match="make the job function `async def`, and await it there"):
        office.call(job(), lambda run: run.once("mail", send, "mail", per="slot"))
    assert receiver.done == {}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_step_that_nobody_awaits_fails_the_run(office: Office, receiver: Receiver) -> None:
    async def send(what: str) -> Any:
        return receiver(what)

    async def body(run: Run) -> None:
        run.once("mail", send, "mail", per="slot")

    with pytest.raises(BadInput, match=r"billing@2026-03-29T12:00:00Z/mail was never awaited, and did nothing"):
        _awaited(office, body)
    assert (receiver.done, office.record(NOON).failures) == ({}, 1)


def test_a_cancelled_step_is_in_doubt_and_the_cancellation_goes_on(office: Office) -> None:
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def body(run: Run) -> None:
        task = asyncio.ensure_future(run.once("mail", hangs, per="slot"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    with pytest.raises(SlotFailed):
        _awaited(office, body)
    assert step(office, "mail")[1].outcome is Outcome.UNKNOWN
    assert office.record(NOON).outcome is Outcome.UNKNOWN


def test_an_async_doubt_closes_the_slot_as_unknown(office: Office) -> None:
    async def fails() -> None:
        raise Boom

    async def body(run: Run) -> None:
        await run.once("mail", fails, per="slot")

    with pytest.raises(InDoubt):
        _awaited(office, body)
    assert office.record(NOON).outcome is Outcome.UNKNOWN


# --- the deadline ---------------------------------------------------------------------------------------------------


def test_the_deadline_is_the_end_of_the_timeout(office: Office) -> None:
    assert office.call(job(timeout="90s"), lambda run: run.deadline) == START.replace(minute=1, second=30)
    assert office.call(job("free"), lambda run: run.deadline) is None


def test_a_lost_lease_is_told_with_its_facts(office: Office) -> None:
    def body(run: Run) -> None:
        office.hand.turn(600)
        assert not run.trusted
        with pytest.raises(LeaseLost, match="could not be renewed in time") as lost:
            run.check()
        assert (lost.value.name, lost.value.fence, lost.value.why) == (
            NOON.key, run.fence, "it could not be renewed in time",
        )  # fmt: skip

    office.call(job(), body)


# --- a rerun by hand --------------------------------------------------------------------------------------------------


def test_a_rerun_goes_on_with_the_steps_and_settles_its_slot(office: Office, receiver: Receiver) -> None:
    def fails_once(what: str) -> str:
        if what == "b" and receiver.done["b"] == 1:
            raise Boom
        return what

    def body(run: Run) -> Any:
        return [run.once(key, receiver, key, per="slot") for key in "abc"]

    receiver.act = fails_once
    with pytest.raises(InDoubt):
        office.call(job(), body, when=NOON)
    hand = Operator(office.node.ledger, "ada")
    office.node.do(resolve_effect(hand, f"{NOON.key}/b", "retry", ""))
    asked = office.node.do(hand.rerun(NOON))
    assert office.call(job(), body, when=asked.slot) == ["a", "b", "c"]
    office.keeper.do_chores()
    record = office.record(NOON)
    assert (record.outcome, record.reason) == (Outcome.SUCCEEDED, f"resolved: by {NOON.key}#rerun-1")
    assert receiver.done == {"a": 1, "b": 2, "c": 1}


def test_a_rerun_that_fails_settles_nothing(office: Office) -> None:
    def fails(_run: Run) -> None:
        raise Boom

    with pytest.raises(Boom):
        office.call(job(), fails, when=NOON)
    asked = office.node.do(Operator(office.node.ledger, "ada").rerun(NOON))
    with pytest.raises(Boom):
        office.call(job(), fails, when=asked.slot)
    office.keeper.do_chores()
    assert office.record(NOON).outcome is Outcome.FAILED
