"""When a slot that is due is tried: at its instant, or as much later as its jitter says; and what of a backlog is."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import pytest

from cronce import Cronce
from cronce.errors import StoreUnavailable
from cronce.model import SWITCH, Write, job_cell
from cronce.policy import Missed
from cronce.protocol.record import Outcome, Record, decode, decode_job
from cronce.runtime.scheduling import candidates
from cronce.stores.base import Scan, Swapped
from cronce.testing import manual
from tests.runtime.scheduling.manual_cluster import START, ManualCluster

T = TypeVar("T")


def test_jitter_delays_each_slot_by_its_own_measure_to_the_millisecond() -> None:
    """The delay is made of the slot, so that it is the same in every process, and in every run of this test."""
    cron = Cronce("memory:")
    cron.job("* * * * * *", name="spread", jitter="900ms", overlap="allow")(lambda: None)
    cron.job("* * * * * *", name="plain")(lambda: None)
    with manual(cron, "2026-03-01T00:00:00Z", processes=2) as time:
        began = time.now
        time.advance("5s")
    started = {
        name: [round(1000 * (ran.at - began).total_seconds()) for ran in time.ran if ran.job == name]
        for name in ("spread", "plain")
    }
    assert started == {"spread": [1290, 2889, 3588, 4899], "plain": [1000, 2000, 3000, 4000, 5000]}


# --- a backlog of which each is wanted ---


class Backlog(ManualCluster):
    """A job with a slot at each second from 1 to 8, of which those that fell due while nobody looked all run."""

    def __init__(self) -> None:
        cron = Cronce("memory:")
        first, last = "2026-03-01T00:00:01Z", "2026-03-01T00:00:08Z"
        cron.job(every="1s", start=first, end=last, name="haul", missed="all", on_lost="skip", lease="2500ms")(
            lambda: None
        )
        super().__init__(cron, holds_back=True)

    def ran(self) -> list[int]:
        return sorted(begun.slot for begun in self.begun)

    def records(self) -> dict[int, Record]:
        """By the second of the slot."""
        cells = self.store.scan(Scan("run/")).cells
        return {int(cell.key[-3:-1]): decode(cell.value, cell.key) for cell in cells}


def test_a_slot_that_falls_due_while_a_backlog_waits_for_its_turn_waits_behind_it() -> None:
    """Slots 1 to 5 are the backlog. While 1 runs 6 falls due: it is wanted as they are, though overlap is "skip"."""
    with Backlog() as cluster:
        cluster.kill(cluster.join("web-1:1:0"))
        cluster.turn_to(5_500)
        process = cluster.join("web-2:1:0")
        cluster.turn_to(6_200)
        assert cluster.ran() == [1]
        cluster.holds_back = False
        process.end(process.held.pop())
        cluster.turn_to(60_000)
        assert cluster.ran() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert {record.outcome for record in cluster.records().values()} == {Outcome.SUCCEEDED}


def test_of_slots_that_fell_due_in_a_pause_of_seconds_each_waits_for_its_turn() -> None:
    """It is no gap: they were tried as if they had just fallen due, all but the first gave way to it, and were closed
    as *still ran*: 8 of 9 slots were lost."""
    with Backlog() as cluster:
        process = cluster.join("web-1:1:0")
        cluster.clock.turn_to(7.5)  # it was stopped, and goes on
        cluster.turn_to(7_600)
        assert cluster.ran() == [1]
        cluster.turn_to(8_200)
        cluster.holds_back = False
        process.end(process.held.pop())
        cluster.turn_to(60_000)
        assert cluster.ran() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert {record.outcome for record in cluster.records().values()} == {Outcome.SUCCEEDED}


@pytest.mark.parametrize("schedulers", [1, 2, 8])
def test_a_run_that_was_lost_takes_nothing_along_of_the_backlog_behind_it(schedulers: int) -> None:
    """Slot 1 ran when all schedulers were killed, and who comes after the last slot finds 2 to 8, and the lease of 1:
    that has lapsed, but until they have watched the clock for as long they may not say so, and ask again and again."""
    with Backlog() as cluster:
        killed = cluster.join("web-0:1:0")
        cluster.turn_to(1_500)
        assert cluster.ran() == [1]
        cluster.kill(killed)
        cluster.turn_to(8_500)
        cluster.holds_back = False
        for number in range(schedulers):
            cluster.join(f"web-{number + 1}:1:0")
            cluster.turn_to(8_500 + 100 * number)
        cluster.turn_to(60_000)
        assert cluster.ran() == [1, 2, 3, 4, 5, 6, 7, 8]
        succeeded = dict.fromkeys(range(2, 9), Outcome.SUCCEEDED)
        assert {second: record.outcome for second, record in cluster.records().items()} == {1: Outcome.LOST} | succeeded


# --- a scheduler that was paused, at a store that fails ---


class Paused(ManualCluster):
    """A scheduler that stood still from second 30 to 330, of a job with a slot in each minute up to 300; from then on
    one call of the store gets no answer, before it landed."""

    def __init__(self, missed: Missed, lose: int) -> None:
        cron = Cronce("memory:")
        cron.job(every="1m", end="2026-03-01T00:05:00Z", name="haul", missed=missed, start_within="1h")(lambda: None)
        super().__init__(cron)
        self.calls, self._lose = 0, lose

    def ran(self) -> list[int]:
        """Which slots did, once it has gone on for a minute."""
        self.join("web-1:1:0")
        self.turn_to(30_000)
        self.clock.turn_to(330.0)
        for name in ("load", "swap", "scan"):
            setattr(self.store, name, self._through(getattr(self.store, name)))
        self.turn_to(390_000)
        return sorted(begun.slot for begun in self.begun)

    def _through(self, call: Callable[..., T]) -> Callable[..., T]:
        def through(*given: object) -> T:
            self.calls += 1
            if self.calls == self._lose:
                raise StoreUnavailable("no answer")
            return call(*given)

        return through


@pytest.mark.slow
@pytest.mark.parametrize(("missed", "runs"), [("latest", [300]), ("all", [60, 120, 180, 240, 300])])
def test_whichever_call_is_lost_while_it_catches_up_what_was_missed_runs(missed: Missed, runs: list[int]) -> None:
    with Paused(missed, lose=0) as calm:
        assert calm.ran() == runs
    for lose in range(1, calm.calls + 1):
        with Paused(missed, lose) as cluster:
            assert cluster.ran() == runs, f"call {lose} of {calm.calls} was lost"


# --- all jobs are resumed, at a store that is slow ---


def test_what_falls_due_while_all_jobs_are_being_resumed_runs_or_is_on_record() -> None:
    """The floors of the jobs rise at 3.5 s, and the switch goes back five seconds later. What a scheduler gave up in
    between had neither run nor left a record. (Of the pause at 1.5 s it hears when it looks next, after slot 2.)"""
    cron = Cronce("memory:")
    cron.job(every="1s", end="2026-03-01T00:00:12Z", name="haul", start_within="1h")(lambda: None)
    with ManualCluster(cron) as cluster:
        cluster.join("web-1:1:0")
        cluster.turn_to(1_500)
        cron.pause_all("fire", by="ann")
        cluster.turn_to(3_500)
        swap = cluster.store.swap

        def slow(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            if any(write.key == SWITCH for write in writes):
                cluster.turn_to(8_500)
            return swap(writes, seen)

        cluster.store.swap = slow  # type: ignore[method-assign]
        cron.resume_all(by="bob")
        cluster.turn_to(60_000)
        (cell,) = cluster.store.load([job_cell("haul")]).cells
        job = decode_job(cell.value)
        assert sorted(begun.slot for begun in cluster.begun) == [1, 2, 9, 10, 11, 12]
        assert [(span.end, span.reason) for span in job.spans] == [
            (START + timedelta(seconds=8.5), "paused by ann at 2026-03-01T00:00:01Z (fire), resumed by bob")
        ]


@pytest.mark.parametrize("lost", range(1, 12))
def test_what_is_passed_over_is_counted_once_though_the_reply_is_lost(lost: int) -> None:
    """A scheduler stands still from second 30 to 359.8, and one call from then on lands, but its reply is lost."""
    cron = Cronce("memory:")
    cron.job(every="1m", name="haul", missed="latest", start_within="1h")(lambda: None)
    with ManualCluster(cron) as cluster:
        cluster.join("web-1:1:0")
        cluster.turn_to(30_000)
        cluster.clock.turn_to(359.8)
        calls = 0

        def through(call: Callable[..., T]) -> Callable[..., T]:
            def unheard(*given: object) -> T:
                nonlocal calls
                calls += 1
                answer = call(*given)
                if calls == lost:
                    raise StoreUnavailable("no answer")
                return answer

            return unheard

        for name in ("load", "swap", "scan"):
            setattr(cluster.store, name, through(getattr(cluster.store, name)))
        cluster.turn_to(450_000)
        (cell,) = cluster.store.load([job_cell("haul")]).cells
        passed = sum(span.slots or 0 for span in decode_job(cell.value).spans)
        assert passed + len(cluster.begun) == 7
        assert cluster.begun[-1].slot == 420


def test_however_many_are_due_at_once_their_jobs_are_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand only the first thousand were, and each batch of claims waited for the facts of its jobs."""
    monkeypatch.setattr(candidates, "JOBS_READ_AHEAD", 20)
    cron = Cronce("memory:")
    names = [f"job-{number}" for number in range(50)]
    for name in names:
        cron.job(every="1m", name=name)(lambda: None)
    with ManualCluster(cron) as cluster:
        know = cluster.join("web-1:1:0", workers=100).keeper.node.ledger.know
        cluster.turn_to(119_900)
        assert [name for name in names if know.fresh_until(name) < 120.0] == []


def test_a_job_that_never_ran_and_that_no_scheduler_is_remembered_for_catches_up_from_its_floor() -> None:
    cron = Cronce("memory:")
    cron.job(every="1s", name="new")(lambda: None)
    with ManualCluster(cron) as cluster:
        cluster.kill(cluster.join("web-1:1:0"))
        cluster.turn_to(2_000)
        cluster.join("web-2:1:0")
        cluster.turn_to(3_500)
        assert [(one.slot, one.at) for one in cluster.begun] == [(2, 2_000), (3, 3_060)]  # the other may be alive
