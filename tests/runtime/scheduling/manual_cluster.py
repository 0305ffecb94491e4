"""Several schedulers on one store and one clock that a test turns: real engines, at the pace of real schedulers.

An engine comes round when it said that it would, no sooner and no later, so that whatever happens has one instant.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from cronce import Cronce
from cronce.events import Event
from cronce.runtime.attempt import Attempt
from cronce.runtime.keeper import Keeper, RepeatingThread
from cronce.runtime.node import Node
from cronce.runtime.scheduling.engine import Engine
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.runtime.steps import take
from cronce.stores.memory import MemoryStore
from cronce.testing.manual_time import ManualClock

START = datetime(2026, 3, 1, tzinfo=UTC)


class ExactClock(ManualClock):
    """Is turned to the very microsecond, also to the one that it shows."""

    def turn_to(self, boot: float) -> None:
        self._us = max(self._us, round(boot * 1e6))


class NoBeat(RepeatingThread):
    """The keeper renews nothing by itself."""

    def wake(self, by: float = 0.0) -> None:
        pass


class Begun(NamedTuple):
    """An attempt that a scheduler began, in milliseconds since the clock's beginning."""

    at: int
    process: str
    slot: int
    """Seconds since the clock's beginning."""
    attempt: int
    payload: Any


class Process:
    """One scheduler. Its bodies run at once, in no time, unless they are held back."""

    def __init__(self, cluster: "ManualCluster", name: str, allow: Sequence[str], post: SchedulerSettings) -> None:
        self.name, self.held = name, list[Attempt]()
        self._cluster = cluster
        self.keeper = Keeper(cluster.node(name), NoBeat)
        carry = cluster.cron._carry(allow, self.keeper)
        self.engine = Engine(self.keeper, carry, post, self._begin)
        self.next = cluster.clock.boot()

    def step(self) -> None:
        again, now = self.engine.step(), self._cluster.clock.boot()
        self.next = max(again, now + 1e-6) if again > now else now

    def end(self, attempt: Attempt) -> None:
        """Let its body run, and end."""
        take(attempt.steps(), self.keeper.node)
        self.engine.endings.add(attempt)
        if not self.engine.lacks_workers:
            self.next = self._cluster.clock.boot()

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            run = attempt.run
            slot = round((run.slot.at - START).total_seconds())
            self._cluster.begun.append(Begun(self._cluster.now, self.name, slot, run.attempt, run.payload))
            self.held.append(attempt)
            if not self._cluster.holds_back:
                self.end(self.held.pop())


class ManualCluster(ExitStack):
    """`notifies`: whether the store tells of news, as PostgreSQL and Redis do; else schedulers only look."""

    def __init__(self, cron: Cronce, *, notifies: bool = False, holds_back: bool = False) -> None:
        super().__init__()
        self.cron, self.clock = cron, ExactClock(START)
        self.store = MemoryStore(self.clock.wall)
        self.processes: list[Process] = []
        self.begun: list[Begun] = []
        self.told: list[Event] = []
        self.holds_back = holds_back
        self._notifies, self._heard = notifies, self.store.news

    def __enter__(self) -> Self:
        person = Keeper(self.node("person:1:0"), NoBeat)
        self.enter_context(self.cron._standing_in(self.store, self.clock, person))
        return self

    def node(self, holder: str) -> Node:
        return Node(self.store, self.clock, lambda: self.store, self.told.append, holder)

    @property
    def now(self) -> int:
        """Milliseconds since the clock's beginning."""
        return round(1000 * self.clock.boot())

    def join(self, name: str, allow: Sequence[str] = (), workers: int = SchedulerSettings().workers) -> Process:
        """A scheduler starts now."""
        self.processes.append(process := Process(self, name, allow, SchedulerSettings(workers=workers)))
        self.turn_to(self.now)
        return process

    def kill(self, process: Process) -> None:
        self.processes.remove(process)

    def turn_to(self, now: int, see: Callable[[], object] = lambda: None) -> None:
        """Let time pass up to this millisecond; `see` looks on after each step of a scheduler."""
        until = now / 1000
        while self.processes:
            self._tell_news()
            process = min(self.processes, key=lambda one: one.next)
            if process.next > until:
                break
            self.clock.turn_to(process.next)
            process.step()
            see()
        self.clock.turn_to(until)

    def _tell_news(self) -> None:
        if self._notifies and self.store.news != self._heard:
            for process in self.processes:
                process.engine.look_soon()
                process.next = self.clock.boot()
        self._heard = self.store.news
