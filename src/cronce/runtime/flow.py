"""Flows: what a process does with a store, written once as generators; a driver does the talking.

A flow yields a request and is sent the reply with the readings of the boot clock around it. Whether the call was
made by a thread, awaited, or played by the simulator is the driver's business, so there are no sync and async twins.
A call that got no answer is thrown into the flow as `StoreUnavailable`: the flow knows how to read back.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar, assert_never

from cronce.clock import Clock
from cronce.model import Boot, Cell, Write
from cronce.stores.base import Loaded, Page, Scan, Store, Swapped
from cronce.value import NamedTuple

T = TypeVar("T")
Y = TypeVar("Y")


class Load(NamedTuple):
    keys: Sequence[str]


class Swap(NamedTuple):
    writes: Sequence[Write]
    seen: tuple[int, int]


class Purge(NamedTuple):
    cells: Sequence[Cell]


Request = Load | Swap | Scan | Purge
Reply = Loaded | Swapped | Page | int


class Timed(NamedTuple):
    """A reply, and the boot clock when the call began and ended."""

    reply: Reply
    began: Boot
    ended: Boot


Flow = Generator[Request, Timed, T]


def perform(store: Store, request: Request) -> Reply:
    """One request as one call of the store."""
    match request:
        case Load(keys):
            return store.load(keys)
        case Swap(writes, seen):
            return store.swap(writes, seen)
        case Scan():
            return store.scan(request)
        case Purge(cells):
            return store.purge(cells)
        case _:
            assert_never(request)


def drive(flow: Flow[T], store: Store, clock: Clock) -> T:
    """Run a flow to its end in this thread."""

    def timed(request: Request) -> Timed:
        began = clock.boot()
        return Timed(perform(store, request), began, clock.boot())

    return driven(flow, timed)


# --- any generator that asks, and is sent the answer ----------------------------------------------------------------


def driven(steps: Generator[Y, Any, T], answer: Callable[[Y], Any]) -> T:
    """Take a generator to its end: each thing it yields is answered. What answering raises is raised in it."""
    try:
        step = next(steps)
        while True:
            try:
                answered = answer(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answered)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def driven_async(steps: Generator[Y, Any, T], answer: Callable[[Y], Awaitable[Any]]) -> T:
    """The same where answers are awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answered = await answer(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answered)
    except StopIteration as stop:
        result: T = stop.value
        return result
