"""A scheduler's own thread: what wakes it, what it does not sleep on, and when garbage is collected. The test takes its
steps."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from cronce import Cronce
from cronce.model import Boot
from cronce.runtime.attempt import Attempt
from cronce.runtime.keeper import Keeper
from cronce.runtime.scheduling.engine import Engine
from cronce.runtime.scheduling.scheduler import UNCOLLECTED, Scheduler
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.runtime.steps import take
from tests.runtime.scheduling.manual_cluster import ManualCluster, NoBeat


class Stepped(Scheduler):
    """It has no thread: its steps are taken by hand, and what it begins ends when the test says so."""

    def __init__(self, cluster: ManualCluster, workers: int) -> None:
        self.held: list[Attempt] = []
        self._cluster = cluster
        keeper = Keeper(cluster.node("web-1:1:0"), NoBeat)
        super().__init__(keeper, cluster.cron._carry((), keeper), SchedulerSettings(workers=workers), grace=1.0)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        self.held += attempts

    def step_at(self, boot: Boot) -> Boot:
        self._cluster.clock.turn_to(boot)
        return self._come_round()

    def end(self) -> bool:
        """One run ends. Whether the scheduler is awake then."""
        attempt = self.held.pop()
        take(attempt.steps(), self._keeper.node)
        self._done(attempt)
        return self._awake


@contextmanager
def stepped(jobs: int, workers: int) -> Iterator[Stepped]:
    cron = Cronce("memory:")
    for number in range(jobs):
        cron.job(every="1m", name=f"job-{number}")(lambda: None)
    with ManualCluster(cron) as cluster:
        scheduler = Stepped(cluster, workers)
        scheduler.step_at(0.0)
        yield scheduler


def test_while_slots_wait_for_more_workers_only_the_last_end_that_is_needed_wakes_it() -> None:
    """Each end woke it, for a step that could claim nothing."""
    with stepped(jobs=200, workers=100) as scheduler:
        scheduler.step_at(60.0)
        assert len(scheduler.held) == 100
        assert [scheduler.end() for _ in range(10)] == [True] * 10
        assert scheduler.step_at(60.0) == pytest.approx(60.003)
        assert [scheduler.end() for _ in range(57)] == [False] * 56 + [True]


def test_what_woke_it_before_it_sleeps_is_not_slept_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end between a step and the sleep after it was recorded a second later."""
    with stepped(jobs=1, workers=1) as scheduler:
        slept = list[float]()
        monkeypatch.setattr(scheduler._turn, "wait", slept.append)
        scheduler.step_at(60.0)
        scheduler._sleep(61.0)
        assert slept == [1.0]
        assert scheduler.end()
        scheduler._sleep(61.0)
        assert slept == [1.0]
        scheduler.step_at(60.5)
        scheduler._sleep(61.0)
        assert slept == [1.0, 0.5]


def test_in_a_burst_that_goes_on_garbage_is_collected_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not collected before the burst was over."""
    monkeypatch.setattr(Engine, "in_burst", True)
    with stepped(jobs=1, workers=1) as scheduler:
        clock, slept = scheduler._cluster.clock, list[tuple[bool, float]]()

        def sleep(until: Boot) -> None:
            slept.append((gc.isenabled(), round(until - clock.boot(), 1)))
            clock.turn_to(clock.boot() + 0.2)
            scheduler._stopping = len(slept) >= 8

        monkeypatch.setattr(scheduler, "_sleep", sleep)
        monkeypatch.setattr(scheduler.engine, "step", lambda: clock.boot() + 10.0)
        scheduler._run()
        assert UNCOLLECTED == 0.5
        assert slept == 2 * [(False, 0.5), (False, 0.3), (False, 0.1), (True, 10.0)]
