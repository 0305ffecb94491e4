"""How far a job has come: under the fence, on clocks that are turned by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest

from cronce.errors import BadInput, InDoubt, InProgress, LeaseLost, SlotFailed
from cronce.protocol.notices import decode_position
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.effects.review import effects, resolve_effect
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run
from cronce.runtime.steps import take_async
from tests.runtime.office import Office, job
from tests.runtime.shelf import HandClock, Wire

RERUN = {"on_lost": "rerun", "lease": "10s"}


def test_the_next_slot_goes_on_where_the_last_one_stopped(office: Office, clock: HandClock) -> None:
    seen: list[Any] = []

    def body(run: Run) -> None:
        seen.append(run.cursor.get(0))
        run.cursor.set(seen[-1] + 10)
        seen.append(run.cursor.get())

    for _ in range(3):
        office.call(job(), body)
        clock.turn(15 * 60)
    assert seen == [0, 10, 10, 20, 20, 30]


def test_it_does_not_move_past_an_item_whose_effect_was_refused(office: Office, clock: HandClock) -> None:
    """An item without an id was refused, the error was caught, and the position went past it: it was never done."""
    done: list[int] = []

    def body(run: Run) -> None:
        for order in run.cursor.over([1, 2, 3], at=lambda order: order):
            with suppress(BadInput):
                run.on("order", None if order == 2 else order).once("send", done.append, order)

    with pytest.raises(SlotFailed, match="None cannot be the key of an effect"):
        office.call(job(), body)
    clock.turn(15 * 60)
    assert (done, office.call(job(), lambda run: run.cursor.get())) == ([1, 3], 1)


def test_it_is_the_jobs_own(office: Office) -> None:
    office.call(job("a"), lambda run: run.cursor.set({"id": 7}))
    assert office.call(job("b"), lambda run: run.cursor.get("none")) == "none"


def test_a_run_that_was_taken_over_does_not_set_it_back(store: Wire) -> None:
    paused, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)

    def body(run: Run) -> None:
        for _ in range(12):
            other.hand.turn(1)
            other.node.do(other.node.ledger.overdue())
        other.call(job(**RERUN), lambda later: later.cursor.set(100), when=run.slot)
        lease = run._lease
        lease.check = lambda: None  # type: ignore[method-assign]  # it was paused right after it had asked
        run.cursor.set(50)

    with pytest.raises(LeaseLost, match="was taken over, so it does not move the cursor"):
        paused.call(job(**RERUN), body)
    other.hand.turn(15 * 60)
    assert other.call(job(**RERUN), lambda run: run.cursor.get()) == 100


def test_a_run_that_lapsed_does_not_move_it_even_if_nobody_took_over(office: Office) -> None:
    def body(run: Run) -> None:
        office.hand.turn(11)
        run._lease.check = lambda: None  # type: ignore[method-assign]
        run.cursor.set(50)

    with pytest.raises(LeaseLost):
        office.call(job(**RERUN), body)
    (cell,) = office.store.load(["cursor/billing"]).cells
    assert cell.version == 0


def test_a_write_that_comes_after_the_lease_does_not_move_it(office: Office) -> None:
    """By the store's clock, whatever the run thinks."""

    def body(run: Run) -> None:
        def late(name: str) -> str:
            if name == "swap":
                office.store.lose = lambda _name: ""
                office.hand.turn(11)
            return ""

        office.store.lose = late
        run.cursor.set(50)

    with pytest.raises(LeaseLost, match="does not move the cursor"):
        office.call(job(**RERUN), body)
    (cell,) = office.store.load(["cursor/billing"]).cells
    assert cell.version == 0


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("call", ["load", "swap"])
def test_a_lost_call_is_made_again(office: Office, call: str, fate: str) -> None:
    def body(run: Run) -> Any:
        if call == "swap":
            office.store.lose_next(call, fate, times=2)
        run.cursor.set(7)
        return run.cursor.get()

    assert office.call(job(), body) == 7


@pytest.mark.parametrize("position", [object(), float("inf"), "x" * 70_000], ids=["object", "inf", "long"])
def test_what_json_cannot_say_is_refused(office: Office, position: Any) -> None:
    with pytest.raises(BadInput, match="a cursor must be"):
        office.call(job(), lambda run: run.cursor.set(position))


@pytest.mark.parametrize("policies", [{"overlap": "allow"}, {"turns": 2}])
def test_runs_that_go_on_at_the_same_time_have_no_common_cursor(office: Office, policies: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="would overwrite each other's cursor"):
        office.call(job(**policies), lambda run: run.cursor.get())


# --- over items -------------------------------------------------------------------------------------------------------


class Boom(Exception):
    """What a step raises."""


ORDERS = range(1, 6)


def forwarded(done: list[int], lost: set[int], *, goes_on: bool = False) -> Callable[[Run], None]:
    """Forward each order after the cursor; those that are `lost` end in an error."""

    def forward(order: int) -> None:
        done.append(order)
        if order in lost:
            raise Boom

    def body(run: Run) -> None:
        last = run.cursor.get(0)
        for order in run.cursor.over([order for order in ORDERS if order > last], at=lambda order: order):
            with suppress(InDoubt) if goes_on else nullcontext():
                run.on("order", order).once("forward", forward, order)

    return body


def position(office: Office) -> Any:
    (cell,) = office.store.load(["cursor/billing"]).cells
    return json.loads(decode_position(cell.value, cell.key).value) if cell.version else None


def test_it_moves_past_what_is_done_and_stops_at_what_is_in_doubt(office: Office, clock: HandClock) -> None:
    """Of the issue: the next slot went on behind an order that nobody knew of."""
    done: list[int] = []
    for expected in (2, 2):
        with pytest.raises(InDoubt):
            office.call(job(), forwarded(done, {3}))
        assert position(office) == expected
        clock.turn(15 * 60)
    assert done == [1, 2, 3]
    office.node.do(resolve_effect(Operator(office.node.ledger, "ann"), "forward/order:3", "done"))
    office.call(job(), forwarded(done, {3}))
    assert (done, position(office)) == ([1, 2, 3, 4, 5], 5)


def test_a_loop_that_goes_on_past_a_doubt_leaves_the_position_before_it(office: Office, clock: HandClock) -> None:
    done: list[int] = []
    for _ in range(2):
        office.call_failing(job(), forwarded(done, {3}, goes_on=True))
        assert position(office) == 2
        clock.turn(15 * 60)
    assert done == [1, 2, 3, 4, 5]  # the second slot came by all of 3 to 5 again, and did none of them
    office.node.do(resolve_effect(Operator(office.node.ledger, "ann"), "forward/order:3", "retry"))
    office.call(job(), forwarded(done, set(), goes_on=True))
    assert (done, position(office)) == ([1, 2, 3, 4, 5, 3], 5)


def test_what_is_skipped_on_purpose_is_passed_and_stays_listed(office: Office, clock: HandClock) -> None:
    done: list[int] = []

    def forward(order: int) -> None:
        done.append(order)
        if order == 3:
            raise Boom

    def body(run: Run) -> None:
        last = run.cursor.get(0)
        for order in run.cursor.over([order for order in ORDERS if order > last], at=lambda order: order):
            run.on("order", order).once("forward", forward, order, unsure="skip")

    for _ in range(2):
        office.call(job(), body)
        assert (done, position(office)) == ([1, 2, 3, 4, 5], 5)
        clock.turn(15 * 60)
    found = office.node.do(effects(None, 10)).effects
    assert [(one.name, one.state) for one in found] == [("forward/order:3", "in doubt")]


def test_a_loop_that_ends_in_an_error_or_a_break_leaves_the_item_to_the_next_slot(
    office: Office, clock: HandClock
) -> None:
    seen: list[int] = []

    def body(run: Run, way: str) -> None:
        last = run.cursor.get(0)
        for order in run.cursor.over([order for order in ORDERS if order > last], at=lambda order: order):
            seen.append(order)
            if order == last + 2:
                if way == "break":
                    break
                raise Boom

    for way in ("raise", "break", "raise"):
        with suppress(Boom):
            office.call(job(), partial(body, way=way))
        clock.turn(15 * 60)
    assert (seen, position(office)) == ([1, 2, 2, 3, 3, 4], 3)


def test_it_is_not_set_by_hand_past_what_is_not_done(office: Office) -> None:
    def fails() -> None:
        raise Boom

    def body(run: Run) -> None:
        with suppress(InDoubt):
            run.on("order", 3).once("forward", fails)
        run.cursor.set(3)

    with pytest.raises(InDoubt, match="forward/order:3"):
        office.call(job(), body)
    assert position(office) is None


def test_what_another_run_is_at_holds_it_too(store: Wire) -> None:
    first, other = Office(store), Office(store)

    def body(run: Run) -> None:
        for order in run.cursor.over([3, 4], at=lambda order: order):
            with suppress(InProgress):
                run.on("order", order).once("forward", lambda: None)

    first.call(job("billing2"), lambda run: run.on("order", 3).once("forward", lambda: other.call(job(), body)))
    assert position(other) is None


@pytest.mark.parametrize("items", [[1, 3, 2], [1, 1], ["b", "a"]])
def test_items_out_of_order_are_refused(office: Office, items: list[Any]) -> None:
    seen: list[Any] = []

    def body(run: Run) -> None:
        seen.extend(run.cursor.over(items, at=lambda item: item))

    with pytest.raises(BadInput, match="would skip items"):
        office.call(job(), body)
    assert seen == items[:-1]


async def _stream() -> AsyncIterator[int]:
    for order in ORDERS:
        yield order


def test_in_an_async_for(office: Office) -> None:
    async def body(run: Run) -> list[int]:
        seen = [order async for order in run.cursor.over(_stream(), at=lambda order: order)]
        return seen + [order async for order in run.cursor.over([6, 7], at=lambda order: order)]

    call = Call(office.keeper, job(), Work(body, is_async=True))
    assert asyncio.run(take_async(call.steps(None), office.node)) == [1, 2, 3, 4, 5, 6, 7]
    assert position(office) == 7


@pytest.mark.parametrize(
    ("items", "at", "words"), [([1], "id", "at='id' is not a function of an item"), (_stream(), str, "use `async for`")]
)
def test_what_cannot_be_passed_over_is_refused(office: Office, items: Any, at: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        office.call(job(), lambda run: list(run.cursor.over(items, at=at)))
