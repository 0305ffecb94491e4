"""Several schedulers in one process, each with a Cronce of its own, on one store: each slot runs once."""

import asyncio
import logging
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_SUBMITTED,
)
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from cronce import Cronce
from cronce.clock import Clock
from cronce.errors import BadInput, BadPolicy, StoreUnavailable
from cronce.integrations import apscheduler as protection
from cronce.integrations.apscheduler import GuardedExecutor, protect
from cronce.protocol.record import Outcome, State
from cronce.runtime.run import Run
from cronce.runtime.run_lists import runs
from cronce.stores.memory import MemoryStore
from cronce.testing.manual_time import ManualClock
from tests.house.wait import wait_until
from tests.servers.valkey import Valkey

TOLD = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
NEVER = CronTrigger(year=2099, timezone=UTC)
"""What fires by itself only when nobody reads this any more."""

ran: list[datetime] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    ran.clear()


def work(run: Any = None) -> None:
    ran.append(run.at)


def mail(_to: str) -> None:
    ran.append(datetime.now(UTC))


def second() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class Machine:
    """A process that has a scheduler, as far as one process can play many."""

    def __init__(self, store: Any, scheduler: Any = None, clock: Clock | None = None, **policies: Any) -> None:
        self.cron = Cronce(store=store, clock=clock)
        self.scheduler = scheduler or BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
        self.events: list[Any] = []
        self.rounds = 0
        self.scheduler.add_listener(self.events.append, TOLD)
        self.scheduler.add_listener(self._submitted, EVENT_JOB_SUBMITTED | EVENT_JOB_MAX_INSTANCES)
        protect(self.scheduler, self.cron, **policies)

    def _submitted(self, _event: Any) -> None:
        self.rounds += 1

    def codes(self) -> Counter[int]:
        return Counter(event.code for event in self.events)

    def fire(self, fn: Callable[..., Any], *instants: datetime, **options: Any) -> None:
        """Let the job fire now, for the instants: they are past due, and its trigger says that they were meant."""
        job = self.scheduler.add_job(fn, Listed(instants), **{"id": "job", "replace_existing": True, **options})
        wait_until(lambda: self.rounds)
        assert job is not None

    def close(self) -> None:
        if self.scheduler.running:
            self.scheduler.shutdown()  # waits for bodies
        self.cron.close()


class Listed(CronTrigger):  # type: ignore[misc]
    """A trigger for the instants that it is given, and one that is far: leases are as long as they come."""

    def __init__(self, instants: tuple[datetime, ...]) -> None:
        super().__init__(year=2099, timezone=UTC)
        self.instants = instants

    def get_next_fire_time(self, previous_fire_time: datetime | None, _now: datetime) -> datetime | None:
        instants = (*self.instants, datetime(2099, 1, 1, tzinfo=UTC))
        return next((at for at in instants if previous_fire_time is None or at > previous_fire_time), None)


@pytest.fixture
def shelf() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def machines(shelf: MemoryStore) -> Iterator[list[Machine]]:
    machines = [Machine(shelf) for _ in range(3)]
    for machine in machines:
        machine.scheduler.start()
    yield machines
    for machine in machines:
        machine.close()


def states(cron: Cronce, name: str = "job") -> list[State]:
    return [run.record.state for run in cron.at_work().node.do(runs(name, None, 20)) if run.record]


def outcomes(cron: Cronce, name: str = "job") -> list[Outcome | None]:
    return [run.record.outcome for run in cron.at_work().node.do(runs(name, None, 20)) if run.record]


# --- slots, events ---------------------------------------------------------------------------------------------------


def test_a_slot_runs_once_and_only_the_winner_says_so(
    machines: list[Machine], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="apscheduler.executors.default")
    slot = second()
    for machine in machines:
        machine.fire(work, slot)
    for machine in machines:
        machine.close()
    assert ran == [slot]
    assert sum((machine.codes() for machine in machines), Counter()) == {EVENT_JOB_EXECUTED: 1}
    said = [message for message in caplog.messages if "Running job" in message or "executed successfully" in message]
    assert len(said) == 2


def test_a_failure_is_an_error_event_where_it_failed_and_closes_the_slot(machines: list[Machine]) -> None:
    def fails() -> None:
        raise RuntimeError("no paper")

    slot = second()
    for machine in machines:
        machine.fire(fails, slot, id="job")
    for machine in machines:
        machine.scheduler.shutdown()
    events = [event for machine in machines for event in machine.events]
    assert [(event.code, str(event.exception)) for event in events] == [(EVENT_JOB_ERROR, "no paper")]
    assert outcomes(machines[0].cron) == [Outcome.FAILED]


def test_what_is_later_than_the_grace_time_is_missed_as_before(machines: list[Machine]) -> None:
    on_shared, _ = shared(machines[0].cron.at_work().node.store)
    on_shared.scheduler.start()
    for machine in (machines[0], on_shared):
        machine.fire(work, second() - timedelta(seconds=30), misfire_grace_time=5)
        machine.close()
        assert (ran, machine.codes()) == ([], {EVENT_JOB_MISSED: 1})


def test_late_slots_are_coalesced_as_before(machines: list[Machine], shelf: MemoryStore) -> None:
    first, last = second() - timedelta(seconds=20), second()
    on_shared, _ = shared(shelf)
    on_shared.scheduler.start()
    for machine in (on_shared, *machines):
        machine.fire(work, first, first + timedelta(seconds=10), last, misfire_grace_time=None)
    for machine in (on_shared, *machines):
        machine.scheduler.shutdown()
    assert (ran, outcomes(machines[0].cron)) == ([last], [Outcome.SUCCEEDED])
    on_shared.close()


def test_without_coalescing_each_late_slot_runs_once_and_no_two_at_a_time(machines: list[Machine]) -> None:
    slots = [second() - timedelta(seconds=10 * number) for number in (3, 2, 1, 0)]
    at_work, most = [0], [0]

    def counted(run: Any = None) -> None:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        threading.Event().wait(0.02)
        at_work[0] -= 1
        work(run)

    for machine in machines:
        machine.fire(counted, *slots, coalesce=False)
    for machine in machines:
        machine.close()
    assert sorted(ran) == slots
    assert most == [1]


def held() -> tuple[threading.Event, threading.Event, Callable[..., None]]:
    """A body, that it began, and what lets it end."""
    began, go_on = threading.Event(), threading.Event()

    def long(run: Any = None) -> None:
        work(run)
        began.set()
        assert go_on.wait(60)

    return began, go_on, long


def test_max_instances_holds_for_all_schedulers_together(machines: list[Machine]) -> None:
    began, go_on, long = held()
    one, other, _ = machines
    first = second() - timedelta(seconds=2)
    one.fire(long, first)
    assert began.wait(60)
    other.fire(long, first + timedelta(seconds=1))
    other.scheduler.shutdown()
    go_on.set()
    one.close()
    assert (ran, other.codes()) == ([first], {})
    assert outcomes(other.cron) == [Outcome.SKIPPED, Outcome.SUCCEEDED]


def test_a_coroutine_is_guarded_on_its_event_loop(shelf: MemoryStore) -> None:
    slot = second()

    async def main() -> list[Machine]:
        machines = [Machine(shelf, AsyncIOScheduler(timezone=UTC)) for _ in range(3)]
        for machine in machines:
            machine.scheduler.start()
            machine.scheduler.add_job(body, Listed((slot,)), id="job", misfire_grace_time=None)
        await asyncio.to_thread(
            wait_until, lambda: all(machine.rounds and not _pending(machine) for machine in machines)
        )
        for machine in machines:
            machine.scheduler.shutdown()
        await asyncio.sleep(0)
        return machines

    async def body(run: Any = None) -> None:
        await asyncio.sleep(0)
        work(run)

    machines = asyncio.run(main())
    for machine in machines:
        machine.cron.close()
    assert ran == [slot]
    assert sum((machine.codes() for machine in machines), Counter()) == {EVENT_JOB_EXECUTED: 1}


def _pending(machine: Machine) -> bool:
    return bool(machine.scheduler._executors["default"].executor._pending_futures)


def test_an_executor_can_be_guarded_alone(shelf: MemoryStore) -> None:
    slot = second()
    with closing(Cronce(store=shelf)) as cron:
        schedulers = [
            BackgroundScheduler(timezone=UTC, executors={"default": GuardedExecutor(cron, ThreadPoolExecutor(2))})
            for _ in range(2)
        ]
        for scheduler in schedulers:
            scheduler.add_job(work, Listed((slot,)), id="job", misfire_grace_time=None, next_run_time=slot)
            scheduler.start()
        wait_until(lambda: all(scheduler.get_job("job").next_run_time.year == 2099 for scheduler in schedulers))
        for scheduler in schedulers:
            scheduler.shutdown()
    assert ran == [slot]


def test_it_takes_up_what_was_left_before_its_own_slot(shelf: MemoryStore) -> None:
    slot = second() - timedelta(seconds=5)
    attempts: list[tuple[datetime, int]] = []

    def fails_once(_argument: str, run: Any = None) -> None:
        attempts.append((run.at, run.attempt))
        if len(attempts) == 1:
            raise RuntimeError("try again")

    with closing(Cronce(store=shelf)) as cron:
        guarded, node = GuardedExecutor(cron, ThreadPoolExecutor(1), retries=1, backoff="1ms"), cron.at_work().node
        scheduler = BackgroundScheduler(timezone=UTC, executors={"default": guarded})
        ended: list[Any] = []
        scheduler.add_listener(ended.append, EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)
        scheduler.start()
        for later in (0, 1):
            trigger = Listed((slot + timedelta(seconds=later),))
            scheduler.add_job(fails_once, trigger, args=["x"], id="job", misfire_grace_time=None, replace_existing=True)
            wait_until(partial(lambda ends: len(ended) == ends, later + 1))
            wait_until(partial(lambda left: len(node.do(node.ledger.overdue())) == left, 1 - later))
        scheduler.shutdown()
    assert attempts == [(slot, 1), (slot, 2), (slot + timedelta(seconds=1), 1)]


def test_a_process_pool_is_refused(shelf: MemoryStore) -> None:
    scheduler = BackgroundScheduler(executors={"default": ProcessPoolExecutor(1)})
    with closing(Cronce(store=shelf)) as cron, pytest.raises(BadInput, match="isolate=True"):
        protect(scheduler, cron)


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_job_without_an_id_goes_by_what_it_calls(machines: list[Machine]) -> None:
    slot = second()
    for machine in machines:
        machine.fire(work, slot, id=None)
    for machine in machines:
        machine.close()
    assert ran == [slot]


def test_two_jobs_that_nobody_could_tell_apart_are_refused(machines: list[Machine]) -> None:
    scheduler = machines[0].scheduler
    scheduler.add_job(mail, NEVER, args=["ann"])
    scheduler.add_job(mail, NEVER, args=["bob"])
    with pytest.raises(BadInput, match="give each an id"):
        scheduler.add_job(mail, "interval", minutes=5, args=["bob"])
    with pytest.raises(BadInput, match="add_job"):
        scheduler.add_job(lambda: None, "interval", minutes=5)
    with pytest.raises(BadInput, match="from its arguments"):
        scheduler.add_job(mail, "interval", minutes=5, args=[object()])


def test_what_a_process_asks_of_itself_runs_there(machines: list[Machine], shelf: MemoryStore) -> None:
    for machine in machines:
        machine.scheduler.add_job(mail, args=["ann"])
        machine.scheduler.add_job(mail, args=["ann"])
    wait_until(lambda: all(machine.codes()[EVENT_JOB_EXECUTED] == 2 for machine in machines))
    assert len(ran) == 6
    assert machines[0].cron.at_work().node.do(runs(None, None, 20)) == []


def test_an_errand_with_an_id_is_none_the_less_done_each_time_it_is_asked_for(machines: list[Machine]) -> None:
    """Two within a second would be one slot, and the second dropped."""
    for times in (1, 2):
        machines[0].scheduler.add_job(mail, args=["ann"], id="refresh", replace_existing=True)
        wait_until(partial(lambda done: machines[0].codes() == {EVENT_JOB_EXECUTED: done}, times))
    assert (len(ran), outcomes(machines[0].cron, "refresh")) == (2, [])


def test_on_a_shared_job_store_a_date_waits_for_its_whole_second_so_that_the_next_replaces_it(
    shelf: MemoryStore,
) -> None:
    machine, _ = shared(shelf)
    machine.scheduler.start(paused=True)
    before = second()
    for said in ("first", "last"):
        now = datetime.now(UTC).replace(microsecond=400_000)
        options = {"id": "refresh", "replace_existing": True, "misfire_grace_time": None}
        job = machine.scheduler.add_job(mail, "date", run_date=now, args=[said], **options)
        assert (job.next_run_time - now, job.next_run_time.microsecond) == (timedelta(microseconds=600_000), 0)
    at = before + timedelta(seconds=30)
    machine.scheduler.add_job(mail, "date", run_date=at, args=["later"], id="whole")
    assert machine.scheduler.get_job("whole").next_run_time == at
    machine.scheduler.remove_job("whole")
    machine.scheduler.resume()
    wait_until(lambda: ran)
    machine.close()
    assert (len(ran), machine.codes()) == (1, {EVENT_JOB_EXECUTED: 1})


def test_a_date_does_not_wait_for_another_of_the_same_id(machines: list[Machine]) -> None:
    began, go_on, long = held()
    one, other, _ = machines
    first = second() - timedelta(seconds=2)
    one.scheduler.add_job(long, "date", run_date=first, id="job")
    assert began.wait(60)
    other.scheduler.add_job(work, "date", run_date=first + timedelta(seconds=1), id="job")
    wait_until(lambda: len(ran) == 2)
    go_on.set()


def test_a_date_before_the_first_that_the_id_had_is_not_dropped_in_silence(
    machines: list[Machine], caplog: pytest.LogCaptureFixture
) -> None:
    first = second()
    machines[0].scheduler.add_job(work, "date", run_date=first, id="job")
    wait_until(lambda: machines[0].codes() == {EVENT_JOB_EXECUTED: 1})
    machines[0].scheduler.add_job(work, "date", run_date=first - timedelta(minutes=1), id="job")
    wait_until(lambda: machines[0].rounds == 2)
    machines[0].close()
    assert ran == [first]
    assert "was not run: it is too old" in caplog.text


# --- what it survives ------------------------------------------------------------------------------------------------


class Shared(MemoryJobStore):  # type: ignore[misc]
    """A job store that counts as shared, since it is no plain memory, and that can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Exception] = []
        self.update: Callable[[Any], object] = lambda _job: None
        self.restarts, self.asked = 0, list[datetime]()

    def get_due_jobs(self, now: datetime) -> Any:
        self.asked.append(now)
        if len(self.asked) <= self.restarts:
            raise ConnectionError("the server restarts")
        return super().get_due_jobs(now)

    def update_job(self, job: Any) -> None:
        self.update(job)
        if self.errors:
            raise self.errors.pop()
        super().update_job(job)


def shared(shelf: Any, **policies: Any) -> tuple[Machine, Shared]:
    jobs = Shared()
    scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": jobs}, jobstore_retry_interval=0.05)
    machine = Machine(shelf, scheduler, **policies)
    return machine, jobs


def test_a_job_store_that_fails_in_the_middle_of_a_round_loses_and_repeats_nothing(shelf: MemoryStore) -> None:
    """APScheduler's own thread would end here, and nothing would fire any more."""
    machine, jobs = shared(shelf)
    slot = second()
    for name in ("a", "b", "c"):
        trigger = Listed((slot,))
        machine.scheduler.add_job(work, trigger, id=name, misfire_grace_time=None)
    jobs.errors = [ConnectionError("the server restarts")] * 2
    machine.scheduler.start()
    wait_until(lambda: machine.scheduler.get_job("c").next_run_time.year == 2099)
    machine.close()
    assert ran == [slot] * 3
    assert machine.codes() == {EVENT_JOB_EXECUTED: 3}
    assert jobs.errors == []


def test_a_job_store_that_was_away_for_a_moment_is_asked_again_before_its_jobs_are_too_late(shelf: MemoryStore) -> None:
    """APScheduler asks again after 10 s: 4 of 10 slots were lost in a restart of 0.25 s, and on no record."""
    machine, jobs = shared(shelf)
    machine.scheduler.jobstore_retry_interval = 600
    slot, jobs.restarts = second(), 3
    machine.scheduler.add_job(work, Listed((slot,)), id="job", misfire_grace_time=300)
    machine.scheduler.start()
    wait_until(lambda: ran)
    machine.close()
    assert (ran, machine.codes()) == ([slot], {EVENT_JOB_EXECUTED: 1})
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(jobs.asked[:4])]
    assert [pause > least for pause, least in zip(pauses, (0.2, 0.4, 0.9), strict=True)] == [True] * 3


@pytest.mark.parametrize(("coalesce", "begun"), [(True, 1), (False, 2)])
def test_what_apscheduler_passes_over_on_a_shared_job_store_is_on_record(
    shelf: MemoryStore, coalesce: bool, begun: int
) -> None:
    machine, _ = shared(shelf)
    now = second()
    slots = tuple(now - timedelta(seconds=late) for late in (90, 80, 1, 0))
    machine.scheduler.add_job(work, Listed(slots[:1]), id="job", misfire_grace_time=None)  # it is known since then
    machine.scheduler.start()
    wait_until(lambda: len(ran) == 1)
    machine.fire(work, *slots[1:], misfire_grace_time=60, coalesce=coalesce)
    wait_until(lambda: len(ran) == 1 + begun)
    machine.close()
    seen = [(run.slot.at, run.record) for run in machine.cron.at_work().node.do(runs("job", None, 20))]
    passed = {at: record.reason for at, record in seen if record and record.outcome is Outcome.SKIPPED}
    why = f"APScheduler passed it over: coalesce={coalesce}, misfire_grace_time=60"
    assert passed == dict.fromkeys(slots[1 : 4 - begun], why)
    assert sorted(ran) == [slots[0], *slots[4 - begun :]]


def test_a_slot_is_claimed_before_a_shared_job_store_is_written_and_kept_while_it_waits(shelf: MemoryStore) -> None:
    """Whoever dies in between would take it along. The only thread is busy until the lease was renewed."""
    machine, jobs = shared(shelf, lease="5s")
    machine.scheduler.add_executor(ThreadPoolExecutor(1))
    began, go_on = threading.Event(), threading.Event()

    def busy() -> None:
        began.set()
        assert go_on.wait(60)

    machine.scheduler.start()
    machine.fire(busy, second(), id="busy")
    assert began.wait(60)
    written: list[int] = []
    jobs.update = lambda job: written.append(len(outcomes(machine.cron, job.id)))
    machine.scheduler.add_job(work, Listed((second(),)), id="job", misfire_grace_time=None)
    wait_until(lambda: written)
    jobs.lookup_job("job").misfire_grace_time = 0  # it was claimed in time, and is not too late for a thread

    def until() -> datetime:
        (waiting,) = machine.cron.at_work().node.do(runs("job", None, 5))
        assert waiting.cell.until is not None
        return waiting.cell.until

    claimed = until()
    wait_until(lambda: until() > claimed)
    go_on.set()
    machine.close()
    assert written == [1]
    assert (len(ran), machine.codes()) == (1, {EVENT_JOB_EXECUTED: 2})
    assert [run.record.grant for run in machine.cron.at_work().node.do(runs("job", None, 5)) if run.record] == [1]


def test_what_was_claimed_for_a_call_that_cannot_be_made_is_kept_no_longer(shelf: MemoryStore) -> None:
    machine, jobs = shared(shelf)
    machine.scheduler.add_job(work, Listed((second(),)), id="job", misfire_grace_time=None)
    machine.scheduler.start(paused=True)
    jobs.lookup_job("job").args = (1, 2, 3)
    machine.scheduler.resume()
    wait_until(lambda: machine.codes() == {EVENT_JOB_ERROR: 1})
    assert not machine.cron.at_work().busy
    machine.close()


def test_what_was_claimed_in_a_round_that_failed_is_free_for_others(shelf: MemoryStore) -> None:
    slot = second()
    machine, jobs = shared(shelf)
    machine.scheduler.jobstore_retry_interval = 1000
    jobs.errors = [ConnectionError("the server restarts")]
    jobs.update = lambda _job: machine.scheduler.pause()  # or it would look after the other itself
    for name in ("a", "b"):
        machine.scheduler.add_job(work, Listed((slot,)), id=name, misfire_grace_time=None)
    machine.scheduler.start()
    wait_until(lambda: machine.codes() == {EVENT_JOB_EXECUTED: 1} and states(machine.cron, "b") == [State.DUE])
    other = Machine(shelf)
    other.scheduler.start(paused=True)
    other.scheduler.add_job(work, Listed((slot,)), id="b", misfire_grace_time=None)
    other.scheduler._cronce._poll()  # a look right before the round: its own turn is not one instance too many
    other.scheduler.resume()
    wait_until(lambda: len(ran) == 2)
    for one in (other, machine):
        one.close()
    assert (ran, other.codes()) == ([slot] * 2, {EVENT_JOB_EXECUTED: 1})


def test_what_was_claimed_for_an_executor_that_does_not_take_it_is_free_for_others(shelf: MemoryStore) -> None:
    class Full(ThreadPoolExecutor):  # type: ignore[misc]
        def _do_submit_job(self, _job: Any, _run_times: Any) -> None:
            raise RuntimeError("no room")

    slot = second()
    machine, _ = shared(shelf)
    machine.scheduler.add_executor(Full(1))
    machine.scheduler.add_job(work, Listed((slot,)), id="job", misfire_grace_time=None)
    machine.scheduler.start()
    wait_until(lambda: machine.scheduler.get_job("job").next_run_time.year == 2099)
    assert (machine.cron.at_work().busy, states(machine.cron)) == (False, [State.DUE])
    other = Machine(shelf)
    other.scheduler.start()
    other.fire(work, slot)
    for one in (other, machine):
        one.close()
    assert ran == [slot]


def test_what_was_granted_is_not_refused_by_its_executor(shelf: MemoryStore) -> None:
    """Of what runs in all processes together the store keeps count, by the policies."""
    machine, _ = shared(shelf, overlap="allow")
    machine.scheduler.start()
    both = threading.Barrier(2)
    first = second() - timedelta(seconds=1)
    for later in (0, 1):
        machine.rounds = 0
        machine.fire(lambda: both.wait(60), first + timedelta(seconds=later), misfire_grace_time=None)
    machine.close()
    assert machine.codes() == {EVENT_JOB_EXECUTED: 2}


def test_jitter_that_is_in_a_job_store_already_is_left_out_from_then_on(shelf: MemoryStore) -> None:
    jobs = Shared()
    scheduler = BackgroundScheduler(timezone=UTC, jobstores={"default": jobs})
    scheduler.start(paused=True)
    trigger = IntervalTrigger(hours=1, jitter=600, start_date=second(), timezone=UTC)
    scheduler.add_job(work, trigger, id="job", misfire_grace_time=None, next_run_time=second())
    machine = Machine(shelf, scheduler)
    scheduler.resume()
    wait_until(lambda: ran)
    wait_until(lambda: scheduler.get_job("job").next_run_time > datetime.now(UTC))
    assert scheduler.get_job("job").next_run_time.microsecond == 0
    machine.close()


def test_a_date_job_that_another_removed_is_no_trouble(shelf: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    """APScheduler's own thread would end here, too."""
    machine, jobs = shared(shelf)
    machine.scheduler.jobstore_retry_interval = 1000
    slot = second()
    machine.scheduler.add_job(work, "date", run_date=slot, id="a date", misfire_grace_time=None)
    machine.scheduler.add_job(work, Listed((slot,)), id="later", misfire_grace_time=None)
    remove, jobs.remove_job = jobs.remove_job, lambda job_id: (remove(job_id), remove(job_id))  # another was faster
    machine.scheduler.start()
    wait_until(lambda: machine.scheduler.get_job("later").next_run_time.year == 2099)
    machine.close()
    assert ran == [slot] * 2
    assert "the job store failed" not in caplog.text


class Moody(MemoryStore):
    """A store that does not answer for a while."""

    away = 0

    def swap(self, *args: Any, **named: Any) -> Any:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("nobody answers")
        return super().swap(*args, **named)


def test_while_the_store_does_not_answer_a_shared_job_store_is_not_written() -> None:
    shelf = Moody()
    machine, jobs = shared(shelf)
    slot = second()
    machine.scheduler.add_job(work, Listed((slot,)), id="job", misfire_grace_time=None)
    shelf.away = 3
    seen: list[Any] = []
    jobs.get_next_run_time = lambda: seen.append(shelf.away)
    machine.scheduler.start()
    wait_until(lambda: ran)
    machine.close()
    assert ran == [slot]
    assert machine.codes() == {EVENT_JOB_EXECUTED: 1}
    assert set(seen) == {0}


def test_nor_is_it_for_one_slot_of_which_the_store_did_not_say() -> None:
    """That another ran the first it can be read; the second cannot be claimed."""
    moody, slot = Moody(), second()
    other = Machine(moody)
    other.scheduler.start()
    other.fire(work, slot, id="a")
    other.close()
    machine, jobs = shared(moody)
    for name in ("a", "b"):
        machine.scheduler.add_job(work, Listed((slot,)), id=name, misfire_grace_time=None)
    seen: list[int] = []
    jobs.update = lambda _job: seen.append(moody.away)
    moody.away = 6
    machine.scheduler.start()
    wait_until(lambda: len(ran) == 2)
    machine.close()
    assert seen == [0, 0]


def test_what_lapsed_while_it_waited_for_a_thread_is_claimed_anew() -> None:
    shelf, slot, go_on = Moody(), second(), threading.Event()
    machine, jobs = shared(shelf, lease="1s")
    only = ThreadPoolExecutor(1)
    machine.scheduler.add_executor(only)
    machine.scheduler.start()
    only._pool.submit(go_on.wait, 60)
    written: list[Any] = []
    jobs.update = written.append
    machine.scheduler.add_job(work, Listed((slot,)), id="job", misfire_grace_time=None)
    wait_until(lambda: written)
    shelf.away = 10**6
    wait_until(lambda: not machine.cron.at_work()._leases)
    shelf.away = 0
    go_on.set()
    machine.close()
    assert (ran, machine.codes()) == ([slot], {EVENT_JOB_EXECUTED: 1})


def test_a_body_that_has_begun_is_not_begun_again(machines: list[Machine], caplog: pytest.LogCaptureFixture) -> None:
    """Though what it raised is what a store that is away raises. The log says where it did."""

    def fails() -> None:
        raise StoreUnavailable("another store")

    machines[0].fire(fails, second())
    machines[0].close()
    assert [str(event.exception) for event in machines[0].events] == ["another store"]
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert said.exc_info
    assert said.exc_info[1] is machines[0].events[0].exception


def test_a_body_waits_for_the_store_for_as_long_as_it_may_be_late() -> None:
    shelf = Moody()
    machine = Machine(shelf)
    machine.scheduler.start()
    shelf.away = 3
    slot = second()
    machine.fire(work, slot, misfire_grace_time=30)
    wait_until(lambda: ran)
    machine.close()
    assert (ran, machine.codes()) == ([slot], {EVENT_JOB_EXECUTED: 1})


def test_a_scheduler_that_shuts_down_does_not_wait_for_the_store() -> None:
    """Each of its bodies waited for as long as it might be late, one after the other, and the process did not end."""
    shelf = Moody()
    machine = Machine(shelf)
    machine.scheduler.start()
    shelf.away = 10**6
    machine.fire(work, second(), misfire_grace_time=3600)
    wait_until(lambda: shelf.away < 10**6)
    ending = threading.Thread(target=machine.scheduler.shutdown)
    ending.start()
    try:
        wait_until(lambda: not ending.is_alive())
    finally:
        shelf.away = 0
    machine.close()
    assert (ran, machine.codes()) == ([], {EVENT_JOB_ERROR: 1})


def test_what_cannot_be_claimed_is_not_run(caplog: pytest.LogCaptureFixture) -> None:
    """It is an error event as any other, and one line of the log: it is no fault of the function's."""
    clock = ManualClock(second())

    class Slow(Moody):
        def swap(self, *args: Any, **named: Any) -> Any:
            clock.turn_to(clock.boot() + 10)
            return super().swap(*args, **named)

    shelf = Slow(clock.wall)
    machine = Machine(shelf, clock=clock)
    machine.scheduler.start()
    shelf.away = 10**6
    machine.fire(work, second(), misfire_grace_time=30)
    machine.close()
    assert (ran, machine.codes()) == ([], {EVENT_JOB_ERROR: 1})
    assert isinstance(machine.events[0].exception, StoreUnavailable)
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (said.getMessage().endswith("was not run: nobody answers"), said.exc_info) == (True, None)


def test_a_failure_with_attempts_left_is_tried_again_by_somebody(shelf: MemoryStore) -> None:
    machine = Machine(shelf, retries=1, backoff="10ms")
    machine.scheduler.start()
    attempts: list[int] = []

    def fails_once(run: Any = None) -> None:
        assert isinstance(run, Run)
        attempts.append(run.attempt)
        if run.attempt == 1:
            raise RuntimeError("try again")

    machine.fire(fails_once, second(), id="job")
    wait_until(lambda: machine.codes() == {EVENT_JOB_ERROR: 1, EVENT_JOB_EXECUTED: 1})
    machine.close()
    assert attempts == [1, 2]


def test_a_run_can_be_asked_for_by_hand(machines: list[Machine]) -> None:
    slot = second() - timedelta(seconds=5)
    for machine in machines:
        machine.fire(work, slot)
    wait_until(lambda: ran)
    machines[0].cron.trigger("job")
    wait_until(lambda: len(ran) == 2)
    for machine in machines:
        machine.close()
    assert len(ran) == 2


def test_while_it_is_paused_nothing_is_taken_up(shelf: MemoryStore) -> None:
    machine = Machine(shelf)
    machine.scheduler.start()
    slot, protection = second(), machine.scheduler._cronce
    machine.fire(work, slot)
    wait_until(lambda: ran)
    machine.scheduler.pause()
    machine.cron.trigger("job")
    assert len(protection._left_by_others()) == 1
    machine.scheduler.pause_job("job")
    assert protection._left_by_others() == {}
    machine.scheduler.resume_job("job")
    protection._left_slots = protection._left_by_others()
    machine.scheduler._process_jobs()
    machine.close()
    assert ran == [slot]


def test_what_is_taken_up_waits_while_all_instances_are_at_work(
    shelf: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(shelf)
    machine.scheduler.start()
    began, go_on, long = held()
    machine.fire(long, second())
    assert began.wait(60)
    machine.cron.trigger("job")
    machine.scheduler._cronce._left_slots = machine.scheduler._cronce._left_by_others()
    machine.scheduler._process_jobs()
    assert "the job store failed" not in caplog.text
    go_on.set()
    wait_until(lambda: len(ran) == 2)
    machine.close()


# --- job stores ------------------------------------------------------------------------------------------------------


def test_a_job_is_stored_as_a_scheduler_without_cronce_can_read_it(shelf: MemoryStore) -> None:
    machine = Machine(shelf)
    machine.scheduler.start()
    job = machine.scheduler.add_job(work, "interval", minutes=5, jitter=3, id="job")
    machine.close()
    state = pickle.dumps(job.__getstate__())
    assert b"cronce" not in state
    assert pickle.loads(state)["trigger"].jitter is None


def test_schedulers_on_one_redis_job_store(shelf: MemoryStore, valkey: Valkey) -> None:
    port = int(valkey.url.rpartition(":")[2].partition("/")[0])
    machines = []
    slot = second()
    for _ in range(3):
        jobs = RedisJobStore(jobs_key="aps.jobs", run_times_key="aps.times", host="127.0.0.1", port=port)
        machines.append(Machine(shelf, BackgroundScheduler(timezone=UTC, jobstores={"default": jobs})))
    machines[0].scheduler.start(paused=True)
    machines[0].scheduler.add_job(
        work, "cron", year=2099, id="redis", next_run_time=slot, misfire_grace_time=None, replace_existing=True
    )
    machines[0].scheduler.resume()
    for machine in machines[1:]:
        machine.scheduler.start()
    wait_until(lambda: machines[2].scheduler.get_job("redis").next_run_time.year == 2099)
    machines[0].scheduler.remove_job("redis")
    for machine in machines:
        machine.close()
    assert ran == [slot]


# --- the line itself -------------------------------------------------------------------------------------------------


def test_policies_that_say_when_are_refused(shelf: MemoryStore) -> None:
    scheduler = BackgroundScheduler()
    with closing(Cronce(store=shelf)) as cron:
        with pytest.raises(BadPolicy, match="APScheduler decides when"):
            protect(scheduler, cron, every="5m")
        with pytest.raises(BadPolicy, match="on_lost"):
            protect(scheduler, cron, jobs={"billing": {"on_lost": "sometimes"}})  # type: ignore[typeddict-item]
        protect(scheduler, cron)
        with pytest.raises(BadInput, match="already"):
            protect(scheduler, cron)


def test_what_is_no_scheduler_and_what_is_no_cronce_are_refused(shelf: MemoryStore) -> None:
    scheduler: Any = BackgroundScheduler()
    with closing(Cronce(store=shelf)) as cron:
        wrong: Any
        for wrong in ("redis://:secret@x", scheduler):
            with pytest.raises(
                BadInput, match=r"not a Cronce but of type \w+: write protect\(scheduler, Cronce\(url\)\)$"
            ):
                protect(scheduler, wrong)
            with pytest.raises(BadInput, match="not a Cronce"):
                GuardedExecutor(wrong, ThreadPoolExecutor(1))
        with pytest.raises(BadInput, match="not a Cronce but of type BackgroundScheduler"):
            protect(cron, scheduler)
        with pytest.raises(BadInput, match="not a scheduler of APScheduler 3 but of type Cronce"):
            protect(cron, cron)
        protect(scheduler, cron)  # nothing was done to it


@pytest.mark.parametrize("is_started", [False, True])
def test_policies_for_a_job_that_there_is_not_are_said(
    shelf: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_started: bool
) -> None:
    """Once, when others had a moment to add theirs; a date that has gone by then was there. The moment is as long here
    as it takes."""
    settled, tell = threading.Event(), protection.Protection._warn_of_unknown_jobs

    def waits(protected: protection.Protection) -> None:
        assert protected._warn_after is None or settled.wait(60)
        tell(protected)

    def said() -> list[str]:
        return [message for message in caplog.messages if message.startswith("jobs= names")]

    monkeypatch.setattr(protection, "TAKEOVER_POLL", 1.0)
    monkeypatch.setattr(protection.Protection, "_warn_of_unknown_jobs", waits)
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    if is_started:
        scheduler.start()
        scheduler.add_job(work, NEVER, id="billing")
        wait_until(lambda: not scheduler._event.is_set())  # it sleeps, until 2099
    with closing(Cronce(store=shelf)) as cron:
        protect(
            scheduler, cron, jobs={name: {"retries": 1} for name in ("once", "billing", "biling", "mail", "theirs")}
        )
        theirs = BackgroundScheduler(timezone=UTC)
        theirs.start(paused=True)
        if not is_started:
            scheduler.add_job(work, "date", run_date=second(), id="once")
            scheduler.start()
            wait_until(lambda: ran)
            scheduler.add_job(work, NEVER, id="billing")
        scheduler._jobstores["default"].add_job(theirs.add_job(work, NEVER, id="theirs"))  # as if it were shared
        settled.set()
        wait_until(lambda: not scheduler._cronce._unknown_ids)  # all has been said
        scheduler.add_job(work, NEVER, id="mail")
        scheduler._cronce._poll()
        scheduler.shutdown()
        theirs.shutdown()
    about = ["'biling', but no job here has that id; did you mean 'billing'?"]
    about += ["'mail', but no job here has that id; these policies apply to no job until one with that id is added"]
    about += [
        "'once', but no job here has that id; these policies apply to no job until one with that id is added"
    ] * is_started
    assert said() == [f"jobs= names {line}" for line in about]


def test_the_options_of_a_job_say_its_policies(shelf: MemoryStore) -> None:
    """A run that died is noticed before the next slot. More instances than can be counted are any number."""
    with closing(Cronce(store=shelf)) as cron:
        scheduler = BackgroundScheduler(timezone=UTC)
        protect(scheduler, cron)
        scheduler.start(paused=True)
        minutely = scheduler.add_job(work, "interval", minutes=1, id="minutely", max_instances=3)
        crowd = scheduler.add_job(work, NEVER, id="crowd", max_instances=10**6)
        one, many = map(scheduler._cronce._guards.declaration, (minutely, crowd))
        assert (one.lease, one.overlap, one.turns) == (timedelta(seconds=40), "skip", 3)
        assert many.overlap == "allow"
        scheduler.shutdown()


def test_executors_and_job_stores_that_come_later_are_protected_too(machines: list[Machine]) -> None:
    slot = second()
    for machine in machines:
        machine.scheduler.add_executor(ThreadPoolExecutor(1), "other")
        machine.scheduler.add_jobstore(MemoryJobStore(), "more")
        machine.fire(work, slot, executor="other", jobstore="more")
    for machine in machines:
        machine.close()
    assert ran == [slot]
