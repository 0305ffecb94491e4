"""A process at work on a store and clocks that a test turns by hand: calls are taken step by step, naps turn the clock,
and the keeper looks only when it is told to."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar

import pytest

from cronce.errors import SlotFailed, StoreUnavailable
from cronce.events import Event
from cronce.model import Slot
from cronce.protocol.record import Record, decode
from cronce.runtime.attempt import Work
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, When, declare
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import Keeper, RepeatingThread
from cronce.runtime.node import Node
from cronce.runtime.run import Run
from cronce.runtime.steps import Steps, WaitStep, take
from tests.runtime.shelf import HandClock, Wire

T = TypeVar("T")


class HostClock:
    """The clock of a host that is off by some seconds; its boot clock is not."""

    def __init__(self, hand: HandClock, off: float = 0.0) -> None:
        self._hand, self.off = hand, off

    def boot(self) -> float:
        return self._hand.boot()

    def wall(self) -> datetime:
        return self._hand.wall() + timedelta(seconds=self.off)

    def synchronised(self) -> bool:
        return self._hand.synchronised()


class StillBeat(RepeatingThread):
    """Looks when the test says so, never by itself."""

    def wake(self, by: float = 0.0) -> None:
        pass


class Office:
    _numbers = count(1)

    def __init__(self, store: Wire, off: float = 0.0, journal: str = "") -> None:
        self.store, self.hand = store, store.clock
        self.events: list[Event] = []
        host = HostClock(store.clock, off)
        self.node = Node(store, host, lambda: store, self.events.append, f"web-{next(self._numbers)}")
        self.keeper = Keeper(self.node, StillBeat, Journal(journal))
        self.refused: list[tuple[str, str]] = []
        self.naps: list[float] = []

    def call(self, job: Declaration, body: Callable[[Run], Any], *, when: When | None = None, **more: Any) -> Any:
        return self.play(self.call_steps(job, body, when=when, **more))

    def call_failing(self, job: Declaration, body: Callable[[Run], Any], *, when: When | None = None) -> str:
        """A call whose job function returns although something is not done: what the caller is told."""
        with pytest.raises(SlotFailed) as told:
            self.call(job, body, when=when)
        return str(told.value)

    def call_steps(self, job: Declaration, body: Callable[[Run], Any], *, when: When | None = None, **more: Any) -> Any:
        def refused(slot: Slot, why: str, _keeper: Keeper) -> None:
            self.refused.append((slot.key, why))

        return Call(self.keeper, job, Work(body), refused=refused, **more).steps(when)

    def play(self, steps: Steps[T], meanwhile: Callable[[], object] = lambda: None) -> T:
        """Take the steps; a nap turns the clock, and `meanwhile` is what the others do in it."""

        def nap(step: WaitStep) -> None:
            self.naps.append(step.seconds)
            self.hand.turn(step.seconds)
            meanwhile()

        return take(steps, self.node, nap)

    def record(self, slot: Slot) -> Record:
        (cell,) = self.store.load([slot.cell]).cells
        return decode(cell.value, cell.key)


def watch(office: Office, seconds: int) -> None:
    """The process goes on looking at the store, so that it knows how its clock ran, and that it could be written to."""
    for _ in range(seconds):
        office.hand.turn(1)
        office.node.do(office.node.ledger.overdue("another"))
        office.node.do(office.node.ledger.client.probe())


def dies(office: Office) -> None:
    """Nothing of what this process says from now on reaches the store."""

    def do(_flow: Any) -> Any:
        raise StoreUnavailable("this process is dead")

    office.node.do = do  # type: ignore[method-assign, assignment]


def job(name: str = "billing", schedule: str = "*/15 * * * *", **policies: Any) -> Declaration:
    return declare(name, schedule, **policies)
