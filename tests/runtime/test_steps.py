"""The steps of a call, as a thread and an event loop take them."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from cronce import Cronce
from cronce.model import Write
from cronce.runtime.interrupt import Interrupt
from cronce.runtime.steps import BodyStep, Steps, StoreStep, WaitStep, take, take_async
from cronce.stores.base import Swapped
from cronce.stores.memory import MemoryStore
from tests.runtime.test_interrupt import spin


class Doer:
    """Asks nobody: what it is to do is a word, and that is the answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def do(self, flow: str) -> str:
        self.asked.append(flow)
        if flow == "fails":
            raise RuntimeError(flow)
        return flow.upper()


def call(slept: list[float]) -> Steps[list[object]]:
    said: list[object] = [(yield StoreStep("first"))]
    try:
        yield StoreStep("fails")
    except RuntimeError as error:
        said.append(str(error))
    yield WaitStep(0.0)
    said.append((yield BodyStep(lambda: "done")))
    slept.append(1.0)
    return said


def test_each_step_is_answered_where_it_was_asked_and_so_is_its_error() -> None:
    doer, slept = Doer(), list[float]()
    naps: list[float] = []
    assert take(call(slept), doer, lambda nap: naps.append(nap.seconds)) == ["FIRST", "fails", "done"]
    assert (doer.asked, naps, slept) == (["first", "fails"], [0.0], [1.0])


def test_an_event_loop_takes_the_same_steps() -> None:
    async def done() -> str:
        return "done"

    def steps() -> Steps[list[object]]:
        said: list[object] = [(yield StoreStep("first"))]
        yield WaitStep(0.0)
        said.append((yield BodyStep(done)))
        return said

    assert asyncio.run(take_async(steps(), Doer())) == ["FIRST", "done"]


def test_with_something_in_hand_a_wait_is_not_cut_short() -> None:
    """Whoever is to be stopped is stopped at the next step that may be."""
    seen: list[str] = []

    def steps() -> Steps[None]:
        yield WaitStep(0.0, in_hand=True)
        seen.append("waited")
        yield body

    body = BodyStep(spin)
    body.stop()
    with pytest.raises(Interrupt):
        take(steps(), Doer())
    assert seen == ["waited"]


class Slow(MemoryStore):
    """A store that takes its time to hear of an end."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if any('"succeeded"' in write.value for write in writes):
            self.asked.set()
            self.answer.wait(60)
        return super().swap(writes, seen)


def test_a_cancellation_while_the_end_is_recorded_does_not_undo_it_and_is_not_lost() -> None:
    store = Slow()
    cron = Cronce(store=store)

    @cron.job("@daily", name="report")
    async def report() -> None: ...

    async def main() -> None:
        task = asyncio.ensure_future(report())
        assert await asyncio.to_thread(store.asked.wait, 60)
        task.cancel()
        await asyncio.sleep(0.05)
        store.answer.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [cell for key, cell in store._cells.items() if key.startswith("run/") and '"succeeded"' in cell.value]


def test_a_body_that_was_stopped_before_it_began_does_not_get_far() -> None:
    body = BodyStep(spin)
    body.stop()

    def steps() -> Steps[None]:
        yield body

    with pytest.raises(Interrupt):
        take(steps(), Doer())
