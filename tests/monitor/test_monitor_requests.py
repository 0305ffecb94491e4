"""What a whole `cronce run` asks an API server for while nothing happens: its scheduler, its monitor and whoever renews
for them, all on clocks that the test turns. Nothing here waits."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from cronce import Cronce
from cronce.monitor import monitor as subject
from cronce.monitor.monitor import Monitor
from cronce.runtime.keeper import LOOK, Keeper, RepeatingThread
from cronce.runtime.node import Node
from cronce.runtime.scheduling.engine import Engine
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.stores.base import Store, listen
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from tests.runtime.shelf import HandClock, Wire
from tests.servers.kubernetes import Kubernetes

MOST = 0.5
"""Requests a second."""


class Threads:
    """What threads of processes would do, each thing at its time, one after the other."""

    def __init__(self, hand: HandClock) -> None:
        self.hand, self.next = hand, dict[Any, tuple[float, Callable[[], float | None]]]()

    def wake(self, beat: RepeatingThread, by: float = 0.0) -> None:
        at, _ = self.next.get(beat, (float("inf"), None))
        self.next[beat] = (min(at, max(by, self.hand.boot())), lambda: self._looked(beat))

    def _looked(self, beat: RepeatingThread) -> float | None:
        again = beat._look()
        return None if again is None else min(again, self.hand.boot() + LOOK)

    def turn(self, seconds: float) -> None:
        until = self.hand.boot() + seconds
        while True:
            who, (at, look) = min(self.next.items(), key=lambda one: one[1][0])
            if at > until:
                break
            self.hand.turn(max(at - self.hand.boot(), 0.001))  # nothing takes no time
            del self.next[who]
            again = look()
            if again is not None:
                before, _ = self.next.get(who, (float("inf"), None))
                self.next[who] = (min(again, before), look)
        self.hand.turn(until - self.hand.boot())


class Pod:
    """A process that runs `cronce run`."""

    def __init__(self, threads: Threads, place: Kubernetes | Wire, stack: ExitStack, name: str) -> None:
        def connect() -> Store:
            if isinstance(place, Wire):
                return place
            store = KubernetesStore(read_url(place.url("jobs")), threads.hand)
            stack.callback(store.close)
            return store

        store, self._threads = connect(), threads
        node = Node(store, threads.hand, connect, lambda _event: None, f"{name}:1:0")
        self.keeper = Keeper(node)
        self.cron = Cronce(store=store)
        self.cron.job("0 0 1 1 *", name="yearly")(lambda: None)
        self.cron.job("0 0 1 7 *", name="also-yearly")(lambda: None)
        stack.enter_context(self.cron._standing_in(store, threads.hand, self.keeper))
        carry = self.cron._carry((), self.keeper)
        self.engine = Engine(self.keeper, carry, SchedulerSettings(), lambda _attempts: None)
        if listener := listen(store):
            stack.callback(listener.close)
            self.engine.is_notified = True
        self.monitor = Monitor(self.cron, log=False)
        threads.next[self.engine] = (threads.hand.boot(), self.engine.step)
        self.monitor.start()

    @property
    def leads(self) -> bool:
        return self.monitor._leader is not None and self.monitor._leader.is_leader

    def die(self) -> None:
        """As by SIGKILL."""
        monitor, keeper = self.monitor, self.keeper
        mine = {self.engine, monitor._watching, monitor._guarding, monitor._leader._beat if monitor._leader else None}
        mine |= {one for one in self._threads.next if isinstance(one, RepeatingThread) and _owner(one) is keeper}
        for one in mine:
            self._threads.next.pop(one, None)


def _owner(beat: RepeatingThread) -> object:
    return getattr(beat._look, "__self__", None)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    hand = HandClock()
    threads = Threads(hand)
    monkeypatch.setattr(RepeatingThread, "wake", lambda beat, by=0.0: threads.wake(beat, by))
    monkeypatch.setattr(subject, "SystemClock", lambda: hand)
    return threads


@pytest.fixture
def server(threads: Threads) -> Iterator[Kubernetes]:
    with Kubernetes() as server:
        server.clock = lambda: threads.hand.wall().timestamp()
        yield server


@pytest.fixture
def stack(server: Kubernetes) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("pods", [1, 3])
def test_an_idle_cronce_run_asks_at_most_once_in_two_seconds_and_never_in_vain(
    threads: Threads, server: Kubernetes, stack: ExitStack, pods: int
) -> None:
    """It asked 3.7 times a second where it led the monitor, and 2.5 times where it did not."""
    processes = [Pod(threads, server, stack, f"web-{number}") for number in range(pods)]
    threads.turn(60)
    assert [pod.leads for pod in processes].count(True) == 1
    before, statuses = server.requests.copy(), server.statuses.copy()
    threads.turn(600)
    asked = server.requests - before
    assert server.statuses - statuses == {200: asked.total()}
    assert asked.total() / 600 / pods <= MOST
    surveys, renewals, beats = 60, 80, 60 * pods  # each beat with a look, which is the same list
    assert {verb: asked[verb] for verb in ("list", "update")} == {"list": surveys + beats, "update": renewals + beats}
    assert asked.keys() == {"list", "update"} | ({"get"} if pods > 1 else set())  # candidates ask who leads


def test_where_the_one_that_leads_the_monitor_is_killed_another_leads_within_forty_seconds(
    threads: Threads, server: Kubernetes, stack: ExitStack
) -> None:
    first, second = Pod(threads, server, stack, "web-1"), Pod(threads, server, stack, "web-2")
    for _ in range(5):
        threads.turn(61.3)
        leader, other = (first, second) if first.leads else (second, first)
        assert (leader.leads, other.leads) == (True, False)
        leader.die()
        took = 0
        while not other.leads:
            threads.turn(1)
            took += 1
        assert 29 <= took <= 40
        first, second = other, Pod(threads, server, stack, f"web-{took}")


def test_a_monitor_looks_no_more_often_than_it_says(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread wakes up each second, lest it sleep through a suspend, and it looked each time, on every store."""
    looks, surveys = Counter[Monitor](), Counter[Monitor]()
    for name, counted in (("_look", looks), ("_survey_now", surveys)):
        monkeypatch.setattr(Monitor, name, counting(getattr(Monitor, name), counted))
    with ExitStack() as stack:
        store = Wire(threads.hand)
        pods = [Pod(threads, store, stack, f"web-{number}") for number in range(2)]
        threads.turn(60)
        looks.clear()
        surveys.clear()
        threads.turn(600)
        (leader,), (other,) = ([pod for pod in pods if pod.leads is leads] for leads in (True, False))
    assert surveys == {leader.monitor: 120}
    assert looks == {leader.monitor: 360, other.monitor: 60}  # at 0, 2, 4, 5, 7, 9 of each ten seconds; and at 0


def counting(call: Callable[..., None], counted: Counter[Monitor]) -> Callable[..., None]:
    def counts(monitor: Monitor, *given: object) -> None:
        counted[monitor] += 1
        call(monitor, *given)

    return counts
