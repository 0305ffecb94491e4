"""Flows: what a process does with a store, written once as generators; a driver does the talking.

A flow yields a request and is sent the reply with the readings of the boot clock around it. Whether the call was
made by a thread, awaited, or played by the simulator is the driver's business, so there are no sync and async twins.
A call that got no answer is thrown into the flow as `StoreUnavailable`: the flow knows how to read back.
"""

from collections.abc import Generator, Sequence
from typing import TypeVar, assert_never

from cronce.clock import Clock
from cronce.errors import StoreError
from cronce.model import Boot, Cell, Write
from cronce.stores.base import Loaded, Page, Scan, Store, Swapped
from cronce.value import NamedTuple

T = TypeVar("T")


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
    try:
        request = next(flow)
        while True:
            began = clock.boot()
            try:
                reply = perform(store, request)
            except StoreError as error:
                request = flow.throw(error)
            else:
                request = flow.send(Timed(reply, began, clock.boot()))
    except StopIteration as stop:
        result: T = stop.value
        return result
