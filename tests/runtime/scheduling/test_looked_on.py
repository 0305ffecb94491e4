"""What a scheduler leaves for whoever looks on: its beat, how its clock stands, and what it was refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from cronce import Cronce
from cronce.model import FREE, LOOKED_ON, Mark, Slot, Write
from cronce.protocol.notices import Holder, decode_holder
from cronce.protocol.terms import Terms
from cronce.runtime.keeper import Keeper, RepeatingThread
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.node import Node
from cronce.runtime.scheduling.engine import Engine
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.stores.base import Scan
from cronce.stores.memory import MemoryStore
from cronce.testing.manual_time import ManualClock

START = datetime(2026, 3, 1, 0, 0, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Ahead(ManualClock):
    """A machine whose clock is ahead of the store's."""

    def wall(self) -> datetime:
        return super().wall() + timedelta(milliseconds=400)


class NoBeat(RepeatingThread):
    def wake(self, by: float = 0.0) -> None:
        pass


class Scene:
    """One engine, whose bodies never end, on a clock that is turned by hand."""

    def __init__(self) -> None:
        self.clock = Ahead(START)
        self.store = MemoryStore(lambda: self.clock.wall() - timedelta(milliseconds=400))
        self.cron = Cronce("memory:")
        self.cron.job(every="1m", name="tick")(lambda: None)
        self.refused: list[tuple[Slot, str]] = []
        self.keeper = Keeper(self.node("web-1:1:a"), NoBeat)
        self.engine = Engine(
            self.keeper,
            self.cron._carry((), self.keeper),
            SchedulerSettings(),
            lambda _attempts: None,
            refused=lambda slot, why, _keeper: self.refused.append((slot, why)),
        )

    def node(self, holder: str) -> Node:
        return Node(self.store, self.clock, lambda: self.store, lambda _event: None, holder)

    def advance(self, span: timedelta, see: Callable[[], object] = lambda: None) -> None:
        until = self.clock.boot() + span.total_seconds()
        upcoming = 0.0
        while upcoming <= until:
            self.clock.turn_to(upcoming)
            upcoming = self.engine.step()
            see()
        self.clock.turn_to(until)

    def holder(self) -> Holder:
        (cell,) = self.store.scan(Scan("holder/")).cells
        return decode_holder(cell.value, cell.key)

    def beats(self, span: timedelta) -> list[timedelta]:
        """For each beat within the span: how soon it says the next will come."""
        seen: dict[int, timedelta] = {}

        def see() -> None:
            (cell,) = self.store.scan(Scan("holder/")).cells
            seen[cell.version] = decode_holder(cell.value, cell.key).every

        self.advance(SECOND)
        see()
        before = set(seen)
        self.advance(span, see)
        return [every for version, every in seen.items() if version not in before]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_scheduler_beats_every_second_while_somebody_looks_on(scene: Scene) -> None:
    assert scene.beats(20 * SECOND) == [10 * SECOND] * 2
    write = Write(LOOKED_ON, FREE, "", Mark.FREE, ttl=10 * SECOND)
    scene.store.swap([write], scene.store.load([]).epoch.seen)
    scene.advance(2 * SECOND)  # a look later it knows
    assert scene.beats(5 * SECOND) == [SECOND] * 5
    scene.advance(5 * SECOND)
    assert scene.beats(19 * SECOND) == [10 * SECOND] * 2


def test_a_beat_says_how_the_clock_stands_and_how_much_runs(scene: Scene) -> None:
    scene.advance(SECOND)
    assert (scene.holder().skew, scene.holder().running) == (timedelta(milliseconds=400), 0)
    scene.advance(45 * SECOND)
    assert (scene.holder().skew, scene.holder().running) == (timedelta(milliseconds=400), 1)


def test_a_slot_that_another_had_is_noted_once(scene: Scene) -> None:
    scene.advance(SECOND)
    other = scene.node("web-2:2:b")
    tick = Slot("tick", datetime(2026, 3, 1, 0, 1, tzinfo=UTC))
    scene.clock.turn_to(30.0)
    (grant,) = other.do(other.ledger.claim([Wanted(tick, Terms(timedelta(minutes=5)))]))
    assert isinstance(grant, Grant)
    scene.advance(20 * SECOND)
    assert scene.refused == [(tick, "web-2:2:b runs it, until 2026-03-01T00:06:00Z at least")]
