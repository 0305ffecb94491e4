"""A call, written once as a generator of steps; a thread or an event loop takes them.

A step is a flow for the store, a nap, or the body. Whether the body is a function or a coroutine, and whether a nap
blocks, is the driver's business, so that guards and locks have no sync and async twins.
"""

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cronce.runtime.flow import driven, driven_async
from cronce.runtime.interrupt import Interrupt, TaskGate, ThreadGate, here
from cronce.value import NamedTuple

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class StoreStep(NamedTuple):
    """Ask the store; `flow` is what the node can run: a flow, or another call that takes its time."""

    flow: Any


class TakesStoreSteps(Protocol):
    """Runs the flow of a `StoreStep`: a node."""

    def do(self, flow: Any) -> Any: ...


class WaitStep(NamedTuple):
    """Wait. `in_hand`: the call holds something, so a stop does not cut this short."""

    seconds: float
    in_hand: bool = False


class BodyStep:
    """The job function. `stop` stops it from another thread, before it begins or while it runs."""

    started = False
    stopped = False
    _gate: ThreadGate | TaskGate | None = None

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def enter(self, gate: ThreadGate | TaskGate) -> None:
        self.started, self._gate = True, gate
        gate.enter()
        if self.stopped:
            gate.stop()

    def stop(self) -> None:
        self.stopped = True
        if self._gate is not None:
            self._gate.stop()


Steps = Generator[StoreStep | WaitStep | BodyStep, Any, T]


def sleep(nap: WaitStep) -> None:
    threading.Event().wait(nap.seconds)


def take(steps: Steps[T], node: TakesStoreSteps, sleep: Callable[[WaitStep], None] = sleep) -> T:
    """Take the steps in this thread. Only the body may be stopped; the rest is shielded."""
    stack, on_its_way = here(), False
    stack.shield()
    try:
        return driven(steps, lambda step: taken(step, node, sleep))
    except Interrupt:
        on_its_way = True
        raise
    finally:
        stack.unshield(on_its_way=on_its_way)


def taken(step: StoreStep | WaitStep | BodyStep, node: TakesStoreSteps, sleep: Callable[[WaitStep], None]) -> Any:
    """One step."""
    match step:
        case BodyStep():
            return _unshielded(step.enter, step.work)
        case StoreStep(flow):
            return node.do(flow)
        case WaitStep():
            return _slept(step, sleep)


def _slept(nap: WaitStep, sleep: Callable[[WaitStep], None]) -> None:
    """A stop cuts it short, unless the call holds something."""
    if nap.in_hand:
        sleep(nap)
    else:
        _unshielded(ThreadGate.enter, lambda: sleep(nap))


def _unshielded(enter: Callable[[ThreadGate], None], work: Callable[[], T]) -> T:
    """Do what may be stopped."""
    gate = ThreadGate(shields=1)
    try:
        try:
            enter(gate)
            return work()
        finally:
            gate.leave()
    finally:
        gate.leave()  # again: what was thrown may have arrived right before the first could begin


async def take_async(steps: Steps[T], node: TakesStoreSteps) -> T:
    """Take the steps on the event loop; the store is asked in a thread."""
    return await _TaskSteps(steps, node).walk()


class _TaskSteps(Generic[T]):
    """A cancellation does not cut a question to the store in two: it arrives with the next nap or body, when the steps
    know what they hold, or at the end."""

    def __init__(self, steps: Steps[T], node: TakesStoreSteps) -> None:
        self._steps, self._node = steps, node
        self._cancelled: BaseException | None = None

    async def walk(self) -> T:
        result = await driven_async(self._steps, self._taken)
        self._deliver()
        return result

    async def _taken(self, step: StoreStep | WaitStep | BodyStep) -> Any:
        import asyncio  # noqa: PLC0415  45 ms, and not every caller needs it

        match step:
            case StoreStep(flow):
                return await self._whole(asyncio.ensure_future(asyncio.to_thread(self._node.do, flow)))
            case WaitStep(seconds):
                self._deliver()
                return await asyncio.sleep(seconds)
            case BodyStep():
                self._deliver()
                return await _awaited(step)

    async def _whole(self, asked: "asyncio.Future[Any]") -> Any:
        import asyncio  # noqa: PLC0415

        while not asked.done():
            try:
                await asyncio.wait([asked])
            except asyncio.CancelledError as error:
                self._cancelled = error
        return asked.result()

    def _deliver(self) -> None:
        if self._cancelled is not None:
            error, self._cancelled = self._cancelled, None
            raise error


async def _awaited(body: BodyStep) -> Any:
    import asyncio  # noqa: PLC0415

    task = asyncio.current_task()
    assert task is not None
    gate = TaskGate(task)
    body.enter(gate)
    try:
        return await body.work()
    except asyncio.CancelledError:
        if gate.stopped:
            task.uncancel()
        raise
    finally:
        gate.leave()
