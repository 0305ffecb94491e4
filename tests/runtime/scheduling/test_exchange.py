"""Ends wait for starts, but not for long; those that the store did not take are written down."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast
from unittest.mock import patch

import pytest

from cronce import Cronce, Run
from cronce.errors import StoreUnavailable
from cronce.events import What
from cronce.model import Mark, Write
from cronce.protocol.record import Outcome, State, decode
from cronce.runtime.attempt import Attempt, End
from cronce.runtime.journal import Journal
from cronce.runtime.keeper import LeaseEnd
from cronce.runtime.scheduling.engine import LOOKS_WAIT, Engine
from cronce.runtime.scheduling.exchange import ENDS_PER_SWAP, ENDS_WAIT, Endings
from cronce.stores.base import Scan, Swapped
from tests.runtime.office import Office
from tests.runtime.scheduling.manual_cluster import START, ManualCluster


def said(number: int) -> Attempt:
    attempt: Any = SimpleNamespace(job=SimpleNamespace(name=f"job-{number}"), end=End(None))
    return cast(Attempt, attempt)


def take(endings: Endings, boot: float, *starting: str) -> list[str]:
    """The jobs whose ends are recorded while slots of these are claimed."""
    taken = endings.take(boot, starting, claims_first=bool(starting))
    return [attempt.job.name for attempt in taken]


def test_while_slots_are_claimed_ends_wait_for_a_moment_and_not_without_claims(office: Office) -> None:
    endings = Endings(office.keeper)
    take(endings, 10.0, "sync")
    endings.keep(list(map(said, range(200))))
    assert take(endings, 10.01, "sync") == []
    assert len(take(endings, 10.02)) == 200


def test_while_slots_wait_for_workers_ends_wait_too(office: Office) -> None:
    """They were recorded in between, and the slots waited for that swap."""
    endings = Endings(office.keeper)
    endings.take(10.0, [], claims_first=True)
    endings.keep(list(map(said, range(200))))
    assert endings.take(10.01, [], claims_first=True) == []
    assert len(endings.take(10.0 + ENDS_WAIT, [], claims_first=True)) == 200


def test_what_waited_is_said_however_many_there_are(office: Office) -> None:
    """After the first five hundred the others waited once more: 0.6 s until all of ten thousand were on record."""
    endings = Endings(office.keeper)
    take(endings, 10.0, "sync")
    endings.keep(list(map(said, range(ENDS_PER_SWAP * 2 + 100))))
    waited = 10.0 + ENDS_WAIT
    assert [len(take(endings, waited, "sync")) for _ in range(4)] == [ENDS_PER_SWAP, ENDS_PER_SWAP, 100, 0]
    endings.keep(list(map(said, range(200))))
    assert take(endings, waited + ENDS_WAIT / 2, "sync") == []


def test_few_ends_beside_a_burst_of_claims_wait_no_longer(office: Office) -> None:
    """They waited until three thousand slots were claimed: three seconds, in which a crash loses them."""
    endings = Endings(office.keeper)
    take(endings, 10.0, "sync")
    endings.keep(list(map(said, range(40))))
    many = [f"sync-{number}" for number in range(250)]
    assert [len(take(endings, 10.0 + late, *many)) for late in (0.01, 0.99 * ENDS_WAIT, ENDS_WAIT)] == [0, 0, 40]


def test_the_end_of_an_earlier_slot_is_said_before_its_job_is_tried_again(office: Office) -> None:
    endings = Endings(office.keeper)
    take(endings, 10.0, "sync")
    endings.keep(list(map(said, range(200))))
    assert take(endings, 10.01, "job-150") == ["job-150"]
    assert take(endings, 10.02) == [f"job-{number}" for number in range(200) if number != 150]


def test_so_it_is_after_an_outage_when_thousands_have_ended(office: Office) -> None:
    """Behind the first five hundred it was not said, and its next slot was skipped because it "still ran"."""
    endings = Endings(office.keeper)
    endings.keep(list(map(said, range(ENDS_PER_SWAP + 300))))
    assert take(endings, 10.0, "job-750")[ENDS_PER_SWAP - 1 :] == [f"job-{ENDS_PER_SWAP - 1}", "job-750"]


class Written(Journal):
    """Counts what is written to a file, each time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.counts: list[int] = []

    def _write(self, _name: str, text: str) -> None:
        self.counts.append(len(text.splitlines()))


def many_jobs() -> Cronce:
    cron = Cronce("memory:")
    for number in range(400):
        cron.job(every="1m", name=f"job-{number}")(lambda: None)
    return cron


def test_ends_that_are_only_put_off_are_not_written_down(tmp_path: Path) -> None:
    """After each exchange whatever was not said yet went to the disk, and each time the disk was waited for."""
    with ManualCluster(many_jobs()) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        journal = process.keeper.pending_ends.journal = Written(tmp_path)
        put_off = set[int]()
        cluster.turn_to(61_000, lambda: put_off.add(len(process.engine._exchange.endings)))
        assert len(cluster.begun) == 400
        assert max(put_off) > 0
        assert journal.counts == []


def test_ends_that_got_no_answer_are_written_down_at_once_and_together(tmp_path: Path) -> None:
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=400)
        journal = process.keeper.pending_ends.journal = Written(tmp_path)
        cluster.turn_to(60_000)
        while process.held:
            process.end(process.held.pop())
        swap, lost = cluster.store.swap, list[int]()

        def away(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            lost.append(len(writes))
            raise StoreUnavailable("the call was lost")

        cluster.store.swap = away  # type: ignore[method-assign]
        process.step()
        cluster.store.swap = swap  # type: ignore[method-assign]
        assert lost
        assert journal.counts == [400]
        cluster.turn_to(70_000)
        assert len(process.engine._exchange.endings) == 0
        assert journal.counts == [400]


def test_how_long_runs_took_is_the_same_after_an_outage() -> None:
    """Two seconds were on record as six to ten: as long as it took until the store heard that they had ended."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=400)
        cluster.turn_to(62_000)
        while process.held:
            process.end(process.held.pop())
        swap, lost = cluster.store.swap, list[int]()

        def hangs(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            if len(lost) < 4:
                lost.append(cluster.now)
                cluster.clock.turn_to(cluster.clock.boot() + 1.5)
                raise StoreUnavailable("no answer")
            return swap(writes, seen)

        cluster.store.swap = hangs  # type: ignore[method-assign]
        cluster.turn_to(75_000)
        assert lost == [62_000, 64_000, 66_000, 68_000]
        records = [decode(cell.value) for cell in cluster.store.scan(Scan("run/")).cells]
        assert {(record.outcome, record.took()) for record in records} == {(Outcome.SUCCEEDED, timedelta(seconds=2))}
        assert len(records) == 400


# --- granted slots that wait for a thread -----------------------------------------------------------------------------


class Waiting(ManualCluster):
    """A process whose threads are all busy since second 60, and another that would close what lapses. The keeper of
    the first looks twice a second."""

    def __init__(self, jobs: int, **policies: Any) -> None:
        cron = Cronce("memory:")
        self.ran: list[tuple[str, int]] = []
        self.names = [f"job-{number}" for number in range(jobs)]
        for name in self.names:
            cron.job(at=START.replace(minute=1), name=name, on_lost="skip", lease="30s", **policies)(self._body)
        super().__init__(cron, holds_back=True)

    def __enter__(self) -> Self:
        super().__enter__()
        self.busy = self.join("web-1:1:0", workers=300)
        self.turn_to(61_000)
        assert len(self.busy.held) == len(self.names)
        self.join("web-2:1:0", workers=300)
        return self

    def _body(self, run: Run) -> None:
        self.ran.append((run.job, run.attempt))

    def wait(self, seconds: int) -> None:
        for _ in range(2 * seconds):
            self.turn_to(self.now + 500)
            self.busy.keeper.watch()
            self.busy.keeper.renew()

    def threads_are_free(self) -> None:
        self.holds_back = False
        while self.busy.held:
            self.busy.end(self.busy.held.pop())
        self.wait(5)

    @property
    def outcomes(self) -> Counter[Outcome | None]:
        return Counter(decode(cell.value).outcome for cell in self.store.scan(Scan("run/")).cells)


def test_a_granted_slot_that_waits_for_a_thread_keeps_its_lease() -> None:
    """It was renewed from when a thread took it on: on a busy machine 81 of 300 lapsed before they began, and were
    closed as lost."""
    with Waiting(30) as cluster:
        cluster.wait(120)
        assert cluster.outcomes == {None: 30}
        cluster.threads_are_free()
        assert cluster.outcomes == {Outcome.SUCCEEDED: 30}
        assert sorted(cluster.ran) == sorted((name, 1) for name in cluster.names)


def test_one_whose_lease_cannot_be_renewed_while_it_waits_is_given_back_and_runs_once() -> None:
    """And that is its first attempt: nothing has run before. It said that it was the second."""
    with Waiting(30) as cluster:
        swap = cluster.store.swap

        def refuses(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            raise StoreUnavailable("this store is read-only")

        cluster.store.swap = refuses  # type: ignore[method-assign]
        cluster.wait(60)
        cluster.store.swap = swap  # type: ignore[method-assign]
        cluster.wait(60)
        assert cluster.outcomes == {None: 30}
        cluster.threads_are_free()
        assert cluster.outcomes == {Outcome.SUCCEEDED: 30}
        assert sorted(cluster.ran) == sorted((name, 1) for name in cluster.names)


def test_the_time_of_a_run_counts_from_when_it_begins() -> None:
    with Waiting(1, timeout="20s") as cluster:
        cluster.wait(60)
        cluster.threads_are_free()
        assert cluster.outcomes == {Outcome.SUCCEEDED: 1}
        assert cluster.ran == [("job-0", 1)]


def test_what_waits_for_a_thread_is_not_said_to_be_running(caplog: pytest.LogCaptureFixture) -> None:
    """It was told to stop, and there is nothing that could."""
    with Waiting(1) as cluster:
        (waiting,) = cluster.busy.engine.running
        cluster.busy.keeper.end(waiting.lease, LeaseEnd("drained", "the scheduler was stopped"))
        cluster.wait(10)
        (cell,) = cluster.store.scan(Scan("run/")).cells
        assert decode(cell.value).overdue == ""
        assert not cluster.busy.engine.no_worker
        assert caplog.messages == []


def test_a_coroutine_that_waits_for_a_blocked_loop_lapses() -> None:
    """Nobody could end what blocks the loop: whoever else is there runs what waits for it."""

    async def body() -> None: ...

    cron = Cronce("memory:")
    cron.job(at=START.replace(minute=1), name="waits", on_lost="rerun", lease="30s")(body)
    with ManualCluster(cron, holds_back=True) as cluster:
        blocked = cluster.join("web-1:1:0")
        cluster.turn_to(61_000)
        assert (len(blocked.held), blocked.keeper._leases) == (1, set())


def test_where_no_thread_can_be_had_for_the_keeper_what_is_granted_is_still_begun() -> None:
    cron = Cronce("memory:")
    cron.job(at=START.replace(minute=1), name="waits", on_lost="rerun", lease="30s")(lambda: None)
    with ManualCluster(cron, holds_back=True) as cluster:
        process = cluster.join("web-1:1:0")
        with patch.object(process.keeper._watching, "wake", side_effect=RuntimeError("can't start new thread")):
            cluster.turn_to(61_000)
        assert (len(process.held), process.keeper._leases) == (1, set())


def claims(process: Any) -> Counter[int]:
    """How many slots have begun at which millisecond."""
    return Counter(one.at for one in process._cluster.begun)


def test_slots_that_wait_for_workers_are_claimed_together() -> None:
    """Each end woke the engine: a thousand slots were claimed in nine swaps, some of them of one slot."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(60_000)
        assert claims(process) == {60_000: 100}
        ended(process, 10)
        cluster.turn_to(60_002)
        assert (claims(process), process.engine.lacks_workers) == ({60_000: 100}, True)
        cluster.turn_to(60_003)
        assert claims(process) == {60_000: 100, 60_003: 10}


def test_they_are_claimed_as_soon_as_enough_workers_are_free_and_no_end_before_wakes_the_engine() -> None:
    """It slept for three milliseconds, whatever ended meanwhile."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(60_000)
        ended(process, 60)
        cluster.turn_to(60_001)
        steps = list[int]()
        ended(process, 6)
        cluster.turn_to(60_002, see=lambda: steps.append(cluster.now))
        assert (claims(process), process.engine.lacks_workers, steps) == ({60_000: 100}, True, [])
        ended(process, 1)
        cluster.turn_to(60_002)
        assert claims(process) == {60_000: 100, 60_002: 67}


@pytest.mark.parametrize("given_up", [False, True])
def test_an_end_that_is_not_known_is_not_reported(given_up: bool) -> None:
    """Whether its transaction was committed is asked by the process that finds its lease expired: until then the slot
    may not be given back."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=1)
        cluster.turn_to(60_000)
        attempt = process.held.pop()
        grant = attempt.lease.grant
        attempt.end = End(None, open=True)
        process.engine.endings.add(attempt)
        if given_up:
            process.engine.endings.hand_over()
        process.next = cluster.clock.boot()
        cluster.turn_to(60_100)
        (cell,) = process.keeper.node.store.load([grant.key]).cells
        assert (cell.fence, decode(cell.value, cell.key).state) == (grant.fence, State.RUNNING)
        assert (len(process.engine._exchange.endings), len(process.keeper.pending_ends)) == (0, 0)


def test_once_the_wait_is_over_the_first_end_wakes_the_engine() -> None:
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(60_100)
        ended(process, 1)
        assert not process.engine.lacks_workers
        cluster.turn_to(60_100)
        assert claims(process) == {60_000: 100, 60_100: 1}


def test_enough_ends_in_the_middle_of_a_step_are_not_slept_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were compared with how many were lacking before, and woke nobody: for up to three milliseconds."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(60_000)
        ended(process, 40)
        cluster.turn_to(60_001)
        exchange, claims_at = process.engine._exchange, process.engine._exchange._claims_at

        def late(boot: float) -> Any:
            if len(process.held) == 60:
                ended(process, 30)
            return claims_at(boot)

        monkeypatch.setattr(exchange, "_claims_at", late)
        process.next = cluster.clock.boot()
        cluster.turn_to(60_002)
        assert claims(process) == {60_000: 100, 60_001: 70}


def ended(process: Any, number: int) -> None:
    for _ in range(number):
        process.end(process.held.pop())


def test_the_last_slots_do_not_wait_for_more_workers_than_they_need() -> None:
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=300)
        cluster.turn_to(60_003)
        assert claims(process) == {60_000: 250, 60_003: 50}
        ended(process, 100)
        cluster.turn_to(60_003)
        assert claims(process) == {60_000: 250, 60_003: 150}


def test_a_beat_and_a_look_wait_for_a_burst_of_claims_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a thousand claims a beat and a look came first: a tenth of a second on a busy server."""
    with ManualCluster(many_jobs()) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(61_000)
        monkeypatch.setattr(Engine, "in_burst", property(lambda _engine: True))
        process.engine.look_soon()
        process.next = cluster.clock.boot()
        looks, look = list[int](), process.engine._look

        def seen(boot: float) -> None:
            looks.append(cluster.now)
            look(boot)

        process.engine._look = seen  # type: ignore[method-assign]
        for _ in range(400):
            process.next = cluster.clock.boot()
            cluster.turn_to(cluster.now + 1)
        assert looks == [61_000 + round(1000 * LOOKS_WAIT)]


def test_news_waits_while_slots_wait_for_workers() -> None:
    """A look came first, and the slots were claimed after it."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=100)
        cluster.turn_to(60_000)
        looks, look = list[int](), process.engine._look

        def seen(boot: float) -> None:
            looks.append(cluster.now)
            look(boot)

        process.engine._look = seen  # type: ignore[method-assign]
        ended(process, 10)
        process.engine.look_soon()
        process.next = cluster.clock.boot()
        cluster.turn_to(60_002)
        assert (looks, claims(process)) == ([], {60_000: 100})
        cluster.turn_to(60_004)
        assert (looks[:1], claims(process)) == ([60_003], {60_000: 100, 60_003: 10})


# --- ends ---------------------------------------------------------------------------------------------------------


def test_what_is_retried_begins_again_when_its_backoff_is_over() -> None:
    """Without news of it the scheduler found it at its next look, at 61.6 s."""
    cron = Cronce("memory:")

    @cron.job(at=START + timedelta(seconds=61), name="flaky", retries=1, backoff="500ms")
    def flaky(run: Run) -> None:
        if run.attempt == 1:
            raise ValueError("the first time")

    with ManualCluster(cron) as cluster:
        cluster.join("web-1:1:0")
        cluster.turn_to(70_000)
        assert [(one.attempt, one.at) for one in cluster.begun] == [(1, 61_000), (2, 61_390)]


def test_a_run_whose_end_got_no_answer_keeps_its_lease_until_that_is_on_record() -> None:
    """Called recorded, it was renewed no more, and another scheduler ran it again."""
    cron = Cronce("memory:")
    cron.job(at=START.replace(minute=1), name="job", on_lost="rerun", lease="30s")(lambda: None)
    with ManualCluster(cron, holds_back=True) as cluster:
        process = cluster.join("web-1:1:0")
        cluster.turn_to(60_000)
        cluster.join("web-2:1:0")
        swap = cluster.store.swap

        def loses_ends(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            if any(write.mark is Mark.CLOSED for write in writes):
                raise StoreUnavailable("no answer")
            return swap(writes, seen)

        cluster.store.swap = loses_ends  # type: ignore[method-assign]
        ended(process, 1)
        for _ in range(2 * 45):
            cluster.turn_to(cluster.now + 500)
            process.keeper.watch()
            process.keeper.renew()
        cluster.store.swap = swap  # type: ignore[method-assign]
        cluster.turn_to(cluster.now + 2_000)
        (cell,) = cluster.store.scan(Scan("run/")).cells
        record = decode(cell.value)
        assert (record.outcome, record.grant, claims(process)) == (Outcome.SUCCEEDED, 1, {60_000: 1})


def test_an_end_that_hangs_in_the_store_is_written_down_after_the_first_call(tmp_path: Path) -> None:
    """After three, each of which took as long as the store is patient: for half a minute a crash lost it, and nothing
    was said."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=400)
        journal = process.keeper.pending_ends.journal = Written(tmp_path)
        cluster.turn_to(60_000)
        cluster.turn_to(60_001)
        ended(process, 2)
        hung = list[int]()

        def hangs(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            hung.append(cluster.now)
            cluster.clock.turn_to(cluster.clock.boot() + 10)
            raise StoreUnavailable("locked")

        cluster.store.swap = hangs  # type: ignore[method-assign]
        process.step()
        assert (hung, journal.counts, process.keeper.outage.lasts) == ([60_001], [2], True)


def test_a_store_that_only_answers_reads_does_not_answer_again(tmp_path: Path) -> None:
    """Each look ended the outage that renewals had found, and the next end was not written down at once."""
    with ManualCluster(many_jobs(), holds_back=True) as cluster:
        process = cluster.join("web-1:1:0", workers=400)
        journal = process.keeper.pending_ends.journal = Written(tmp_path)
        cluster.turn_to(61_000)
        process.keeper.outage.unanswered(cluster.clock.boot(), "locked")
        cluster.turn_to(64_000)
        assert process.keeper.outage.lasts
        ended(process, 1)
        assert journal.counts == [1]
        cluster.turn_to(64_001)
        told = [event.what for event in cluster.told if event.what in (What.SILENT, What.ANSWERS)]
        assert told == [What.SILENT, What.ANSWERS]
