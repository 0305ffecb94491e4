"""What becomes of a slot that falls due while one before it runs: to the millisecond, as two schedulers live it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

import pytest

from cronce import Cronce
from cronce.events import What
from cronce.model import Slot, Write, slot_of_cell
from cronce.protocol.record import Record, State, decode
from cronce.runtime.interrupt import shielded
from cronce.schedule import At
from cronce.stores.base import Scan, Swapped
from tests.runtime.scheduling.manual_cluster import START, ManualCluster

SUCCEEDED = ("succeeded", "")


def slot(second: int) -> Slot:
    return Slot("haul", START + timedelta(seconds=second))


class Hauling(ManualCluster):
    """A job with slots at these seconds, whose bodies go on until they are let go, or stopped."""

    def __init__(self, *seconds: int, **policies: Any) -> None:
        cron = Cronce("memory:")
        cron.job(At(*[slot(second).at for second in seconds]), name="haul", start_within="1h", **policies)(self._haul)
        super().__init__(cron, holds_back=True)
        self._goes_on = False

    def __enter__(self) -> Self:
        super().__enter__()
        self.join("web-1:1:0")
        self.turn_to(500)
        self.join("web-2:1:0")
        return self

    def _haul(self) -> None:
        while self._goes_on:
            with shielded():
                self.turn_to(self.now + 10)

    def end(self, second: int) -> None:
        """The body for the slot of that second ends now."""
        for process in self.processes:
            for attempt in [one for one in process.held if one.run.slot == slot(second)]:
                process.held.remove(attempt)
                process.end(attempt)

    def go_on_until_stopped(self, second: int) -> None:
        self._goes_on = True
        self.end(second)
        self._goes_on = False

    def began(self) -> list[tuple[int, int]]:
        """Which slots did, and at which millisecond."""
        return [(begun.slot, begun.at) for begun in self.begun]

    def records(self) -> dict[int, Record]:
        cells = self.store.scan(Scan("run/")).cells
        return {(slot_of_cell(cell.key).at - START).seconds: decode(cell.value, cell.key) for cell in cells}

    def states(self) -> dict[int, State]:
        return {second: record.state for second, record in self.records().items()}

    def outcomes(self) -> dict[int, tuple[str, str]]:
        return {second: (f"{one.outcome}", one.reason) for second, one in self.records().items()}

    def overruns(self) -> list[str]:
        return [event.key for event in self.told if event.what is What.OVERRUN]


def still_ran(second: int) -> tuple[str, str]:
    return "skipped", f"{slot(second).key} had not ended"


def test_skip_closes_what_falls_due_meanwhile_and_an_overrun_is_told_once() -> None:
    with Hauling(10, 11, 12, 13, 16) as cluster:
        cluster.turn_to(15_900)
        assert cluster.began() == [(10, 10_000)]
        cluster.end(10)
        cluster.turn_to(20_000)
        cluster.end(16)
        cluster.turn_to(30_000)
        assert cluster.began() == [(10, 10_000), (16, 16_000)]
        assert cluster.outcomes() == {10: SUCCEEDED, **dict.fromkeys((11, 12, 13), still_ran(10)), 16: SUCCEEDED}
        assert cluster.overruns() == [slot(10).cell]


def test_wait_runs_all_of_them_one_after_the_other() -> None:
    with Hauling(10, 11, 12, overlap="wait") as cluster:
        cluster.turn_to(14_000)
        assert cluster.states() == {10: State.RUNNING, 11: State.WAITING, 12: State.WAITING}
        for second in (10, 11, 12):
            cluster.end(second)
            cluster.turn_to(cluster.now + 500)
        assert cluster.began() == [(10, 10_000), (11, 14_000), (12, 14_500)]
        assert cluster.outcomes() == dict.fromkeys((10, 11, 12), SUCCEEDED)
        assert cluster.overruns() == [slot(10).cell]


def test_replace_stops_the_one_before() -> None:
    """Who runs it hears of that when it looks next, and the other has its turn as soon as it has ended."""
    with Hauling(10, 12, 15, overlap="replace") as cluster:
        cluster.turn_to(10_500)
        cluster.go_on_until_stopped(10)
        stopped = [cluster.now]
        cluster.turn_to(14_500)
        cluster.go_on_until_stopped(12)
        stopped += [cluster.now]
        cluster.turn_to(20_000)
        cluster.end(15)
        cluster.turn_to(30_000)
        assert stopped == [13_110, 15_910]
        assert cluster.began() == [(10, 10_000), (12, 13_110), (15, 15_910)]
        assert cluster.outcomes() == {
            10: ("failed", f"stopped: asked to stop: replaced by {slot(12).cell}"),
            12: ("failed", f"stopped: asked to stop: replaced by {slot(15).cell}"),
            15: SUCCEEDED,
        }


def test_allow_lets_them_run_at_the_same_time() -> None:
    with Hauling(10, 11, 12, overlap="allow") as cluster:
        cluster.turn_to(12_000)
        assert cluster.began() == [(10, 10_000), (11, 11_000), (12, 12_000)]
        assert cluster.states() == dict.fromkeys((10, 11, 12), State.RUNNING)


def test_with_two_turns_two_run_and_a_third_does_not() -> None:
    with Hauling(10, 11, 12, 13, 16, turns=2) as cluster:
        cluster.turn_to(15_000)
        assert cluster.began() == [(10, 10_000), (11, 11_000)]
        cluster.end(11)
        cluster.turn_to(17_000)
        assert cluster.began() == [(10, 10_000), (11, 11_000), (16, 16_000)]
        cluster.end(10)
        cluster.end(16)
        cluster.turn_to(20_000)
        skipped = dict.fromkeys((12, 13), still_ran(10))
        assert cluster.outcomes() == {10: SUCCEEDED, 11: SUCCEEDED, **skipped, 16: SUCCEEDED}


def test_a_run_that_ended_while_the_next_slot_was_asked_for_does_not_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store was silent: the claim of the next slot hung in it, and the run before ended meanwhile. When the store
    came back the slot was closed, since the run \"still ran\"."""
    with Hauling(10, 11) as cluster:
        cluster.turn_to(10_500)
        cluster.kill(next(process for process in cluster.processes if not process.held))
        swap, asked = cluster.store.swap, list[str]()

        def hangs(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            if slot(11).cell in [write.key for write in writes] and not asked:
                asked.append("once")
                cluster.end(10)
            return swap(writes, seen)

        monkeypatch.setattr(cluster.store, "swap", hangs)
        cluster.turn_to(13_000)
        assert asked == ["once"]
        cluster.end(11)
        cluster.turn_to(14_000)
        assert cluster.outcomes() == {10: SUCCEEDED, 11: SUCCEEDED}


def test_one_that_claims_no_more_tells_the_others_that_its_turn_is_free() -> None:
    """It does not look for what waits, and the others are told of news: they began when they looked next."""
    with Hauling(10, 11, overlap="wait") as cluster:
        cluster.turn_to(13_000)
        (busy,) = [process for process in cluster.processes if process.held]
        busy.engine.leaving = True
        before = cluster.store.news
        cluster.end(10)
        cluster.turn_to(13_000)
        assert cluster.store.news == before + 1
        assert cluster.states() == {10: State.CLOSED, 11: State.WAITING}
