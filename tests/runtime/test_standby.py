"""Standing by for a run of another process, on a clock that is turned by hand; bodies run in threads of their own."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cronce.model import Slot
from cronce.policy import OnLost
from cronce.protocol.record import Outcome, State
from cronce.protocol.terms import Terms
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.run import Run, Skipped
from cronce.runtime.standby import Standby
from cronce.runtime.steps import take, take_async
from tests.house.wait import wait_until
from tests.runtime.office import Office, StillBeat, job, watch
from tests.runtime.shelf import START, Wire

NOON = Slot("billing", START)


class Guarded:
    """A guard in a process that lives on: its calls, and its beat."""

    def __init__(self, store: Wire, **policies: Any) -> None:
        self.office = Office(store)
        self.job = job(**{"on_lost": "rerun", "lease": "10s", "overlap": "allow", **policies})
        self.standby = Standby(store.clock, StillBeat)
        self.ran: list[str] = []

    def call(self, body: Callable[[Run], Any] | None = None, *, take_over: bool = True, is_async: bool = False) -> Call:
        work = Work(body or (lambda run: self.ran.append(run.key)), is_async=is_async)
        return Call(self.office.keeper, self.job, work, take_over=take_over, standby=self.standby)

    def __call__(self) -> Any:
        return take(self.call().steps(NOON), self.office.node)

    def live_on(self, seconds: float) -> list[float]:
        """Look whenever it is time, for so long; when it looked."""
        clock, looked = self.office.hand, []
        end = clock.seconds + seconds
        while (again := self.standby.look()) is not None and again - clock.boot() + clock.seconds <= end:
            clock.turn(max(again - clock.boot(), 0.0))
            looked.append(clock.seconds)
        clock.seconds = end
        return looked


class Other:
    """Another process, in the middle of the slot."""

    def __init__(self, store: Wire, on_lost: OnLost = "rerun", lease: float = 10.0, slot: Slot = NOON) -> None:
        self.office = Office(store)
        terms = Terms(timedelta(seconds=lease), on_lost, "allow", outside=True)
        (grant,) = self.office.node.do(self.office.node.ledger.claim([Wanted(slot, terms)]))
        assert isinstance(grant, Grant)
        self.grant = grant

    def renew(self) -> None:
        (grant,) = self.office.node.do(self.office.node.ledger.renew([self.grant]))
        assert isinstance(grant, Grant)
        self.grant = grant


def record(store: Wire) -> Any:
    return Office(store).record(NOON)


def test_it_takes_over_at_the_end_of_the_lease_without_another_call(store: Wire) -> None:
    Other(store)
    guarded = Guarded(store)
    assert isinstance(guarded(), Skipped)
    guarded.live_on(9.9)
    assert guarded.ran == []
    guarded.live_on(0.8)
    wait_until(lambda: record(store).outcome)
    assert guarded.ran == [NOON.key]
    assert (record(store).outcome, record(store).grant) == (Outcome.SUCCEEDED, 2)
    assert guarded.standby.look() is None


def test_who_asks_again_and_again_takes_over_by_that_and_has_the_result(store: Wire) -> None:
    Other(store)
    guarded, answers = Guarded(store), []
    for _ in range(30):
        answers.append(take(guarded.call(lambda run: run.key).steps(NOON), guarded.office.node))
        if not isinstance(answers[-1], Skipped):
            break
        guarded.live_on(0.9)
    assert answers[-1] == NOON.key
    assert record(store).grant == 2


def test_under_skip_it_closes_the_slot_as_lost(store: Wire) -> None:
    Other(store, "skip")
    guarded = Guarded(store, on_lost="skip")
    assert isinstance(guarded(), Skipped)
    guarded.live_on(11)
    assert guarded.ran == []
    assert record(store).outcome is Outcome.LOST


def test_while_the_holder_renews_it_asks_seldom_and_takes_nothing(store: Wire) -> None:
    other = Other(store)
    guarded = Guarded(store)
    guarded()
    calls: list[int] = []
    for _ in range(10):
        store.calls.clear()
        guarded.live_on(4)
        calls.append(len(store.calls))
        other.renew()
    assert guarded.ran == []
    assert max(calls) <= 6
    assert record(store).state is State.RUNNING


def test_a_call_whose_older_slot_fails_stands_by_for_its_own(store: Wire) -> None:
    """It raised before it did, and its own slot was left to the next call."""
    Other(store, slot=Slot("billing", START - timedelta(minutes=15)))
    other, guarded = Other(store), Guarded(store)
    for _ in range(5):
        watch(guarded.office, 5)
        other.renew()
    with pytest.raises(ZeroDivisionError):
        guarded.office.play(guarded.call(lambda _run: 1 / 0).steps(NOON), other.renew)
    assert guarded.standby.look() is not None


def test_what_is_closed_is_looked_at_no_more(store: Wire) -> None:
    other = Other(store)
    guarded = Guarded(store)
    guarded()
    other.office.node.do(other.office.node.ledger.finish(other.grant, Outcome.SUCCEEDED))
    guarded.live_on(11)
    assert guarded.standby.look() is None
    assert guarded.ran == []


def test_a_call_with_arguments_does_not_stand_by(store: Wire) -> None:
    Other(store)
    guarded = Guarded(store)
    take(guarded.call(take_over=False).steps(NOON), guarded.office.node)
    assert guarded.standby.look() is None


def test_a_store_that_is_away_is_asked_again(store: Wire) -> None:
    Other(store)
    guarded = Guarded(store)
    guarded()
    store.lose = lambda _call: "before"
    guarded.live_on(20)
    store.lose = lambda _call: ""
    assert guarded.ran == []
    guarded.live_on(6)
    wait_until(lambda: guarded.ran == [NOON.key])


def test_a_process_that_closes_stands_by_for_nobody(store: Wire) -> None:
    Other(store)
    guarded = Guarded(store)
    guarded()
    guarded.standby.close()
    assert guarded.standby.look() is None


def test_a_coroutine_runs_on_the_event_loop_that_its_guard_was_called_on(store: Wire) -> None:
    Other(store)
    guarded = Guarded(store)
    ran: list[threading.Thread] = []
    ended = asyncio.Event()

    async def body(run: Run) -> None:
        ran.append(threading.current_thread())
        ended.set()

    async def main() -> None:
        call = guarded.call(body, is_async=True)
        assert isinstance(await take_async(call.steps(NOON), guarded.office.node), Skipped)
        await asyncio.to_thread(guarded.live_on, 11)
        await asyncio.wait_for(ended.wait(), 60)

    asyncio.run(main())
    assert ran == [threading.current_thread()]


def test_where_the_event_loop_has_ended_a_coroutine_runs_on_one_of_its_own(store: Wire) -> None:
    """Each call of an async guard may come by `asyncio.run`: the slot was given back, and nobody took it any more."""
    Other(store)
    guarded = Guarded(store)

    async def body(run: Run) -> None:
        guarded.ran.append(run.key)

    async def main() -> None:
        await take_async(guarded.call(body, is_async=True).steps(NOON), guarded.office.node)

    asyncio.run(main())
    guarded.live_on(11)
    wait_until(lambda: record(store).outcome)
    assert (guarded.ran, record(store).outcome) == ([NOON.key], Outcome.SUCCEEDED)


def test_it_stands_by_for_hours_and_over_a_pause(store: Wire) -> None:
    other = Other(store, lease=300.0)
    guarded = Guarded(store, lease="5m")
    guarded()
    for _ in range(80):
        guarded.live_on(100)
        other.renew()
    node = guarded.office.node
    operator = Operator(node.ledger, "ada", {"billing": guarded.job})
    node.do(operator.pause("billing"))
    guarded.live_on(400)
    assert (guarded.ran, record(store).state) == ([], State.RUNNING)
    node.do(operator.resume("billing"))
    guarded.live_on(60)
    wait_until(lambda: record(store).outcome)
    assert guarded.ran == [NOON.key]
