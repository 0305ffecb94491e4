"""Bodies that do to their thread, their loop or their process what they should not: it costs them, and nobody else."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cronce import Cronce
from cronce.protocol.commands import Release
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.runtime.attempt import Attempt, End, Ending, Work
from cronce.runtime.declare import declare
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.operations import Operator
from cronce.runtime.queries import slot_named
from cronce.runtime.scheduling.exchange import UNWELL, word_of
from cronce.runtime.scheduling.pool import GIVE_BACK_AFTER, WorkerPool
from cronce.runtime.scheduling.scheduler import Scheduler
from cronce.runtime.scheduling.settings import SchedulerSettings
from cronce.stores.base import Loaded, Scan
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.runtime.office import Office
from tests.runtime.shelf import HandClock, Wire

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cron() -> Iterator[Cronce]:
    with Cronce(store=MemoryStore()) as cron:
        yield cron


def closed(cron: Cronce, key: str) -> Record:
    """The record of a run, once it is closed."""
    node, found = cron.at_work().node, list[Record]()

    def is_closed() -> bool:
        (seen,) = node.do(Operator(node.ledger, "ann").look([slot_named(key)]))
        assert seen is not None
        assert seen.record is not None
        found.append(seen.record)
        return seen.record.state is State.CLOSED

    wait_until(is_closed)
    return found[-1]


class Watched(WorkerPool):
    """A pool of which all is seen that was told."""

    def __init__(self, office: Office) -> None:
        self.told: list[Attempt] = []
        super().__init__(office.node, self.told.append)

    def ends(self, number: int) -> dict[Attempt, End]:
        """As soon as so many are over; each once."""
        wait_until(lambda: len(self.told) >= number)
        assert len(self.told) == number
        ends = {attempt: attempt.end for attempt in self.told}
        assert len(ends) == number
        return ends


@pytest.fixture
def office() -> Office:
    return Office(Wire(HandClock()))


@pytest.fixture
def pool(office: Office) -> Iterator[Watched]:
    pool = Watched(office)
    yield pool
    pool.close()
    wait_until(lambda: not {"cronce-worker", "cronce-loop"} & {thread.name for thread in threading.enumerate()})


def attempts(office: Office, *works: Work, first: int = 0) -> list[Attempt]:
    made = []
    for number, work in enumerate(works, first):
        job = declare(f"job{number}", every="1h", start_within="3650d")
        slot = job.slot_at(office.hand.wall())
        (grant,) = office.node.do(office.node.ledger.claim([Wanted(slot, job.terms(slot, inferred=False))]))
        assert isinstance(grant, Grant)
        made.append(Attempt(office.keeper, job, work, grant))
    return made


def awaited(body: Callable[..., Any], *args: Any) -> Work:
    return Work(lambda _run: body(*args), is_async=True)


# --- what they raise --------------------------------------------------------------------------------------------------


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Number(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


RAISED = {
    Mute: "Mute",
    Number: "Number",
    GeneratorExit: "RuntimeError: the job function raised GeneratorExit",
    SystemExit: "SystemExit",
    KeyboardInterrupt: "KeyboardInterrupt",
    StopIteration: "StopIteration",
    asyncio.CancelledError: "CancelledError",
}


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
@pytest.mark.parametrize(("error", "why"), RAISED.items(), ids=[error.__name__ for error in RAISED])
def test_whatever_it_raises_is_a_failure_and_its_worker_goes_on(
    cron: Cronce, error: type[BaseException], why: str, is_async: bool
) -> None:
    def bad() -> None:
        raise error

    async def bad_async() -> None:
        raise error

    cron.job(name="bad")(bad_async if is_async else bad)
    cron.job(name="good")(lambda: None)
    scheduler = cron.start(workers=1)
    record = closed(cron, cron.trigger("bad"))
    assert record.outcome is Outcome.FAILED
    assert record.reason == why.replace(
        "StopIteration", "RuntimeError: coroutine raised StopIteration" if is_async else "StopIteration"
    )
    assert closed(cron, cron.trigger("good")).outcome is Outcome.SUCCEEDED
    assert scheduler.stop()


def test_a_guard_whose_body_raises_what_closes_a_generator_is_on_record_as_failed(cron: Cronce) -> None:
    @cron.job(every="1h", name="bad")
    def bad() -> None:
        raise GeneratorExit

    with pytest.raises(RuntimeError, match="the job function raised GeneratorExit"):
        bad()
    store = cron.at_work().node.store
    (cell,) = store.scan(Scan("run/bad/")).cells
    record = decode(cell.value, cell.key)
    assert (record.outcome, record.reason) == (Outcome.FAILED, "RuntimeError: the job function raised GeneratorExit")


# --- what they do to the loop -----------------------------------------------------------------------------------------


async def _leaves() -> None:
    sys.exit(4)


async def leaves_in_a_task() -> None:
    task = asyncio.create_task(_leaves())
    with suppress(SystemExit):
        await task


async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@pytest.mark.parametrize("unruly", [leaves_in_a_task, stops_the_loop])
def test_who_stops_the_loop_stops_no_other_coroutine(cron: Cronce, unruly: Callable[..., Any]) -> None:
    begun, release = threading.Event(), threading.Event()

    @cron.job(name="other")
    async def other() -> None:
        begun.set()
        while not release.is_set():  # noqa: ASYNC110  it is set from another thread
            await asyncio.sleep(0.01)

    cron.job(name="unruly")(unruly)
    scheduler = cron.start()
    before = cron.trigger("other")
    assert begun.wait(60)
    assert closed(cron, cron.trigger("unruly")).outcome is Outcome.SUCCEEDED
    release.set()
    assert closed(cron, before).outcome is Outcome.SUCCEEDED
    assert closed(cron, cron.trigger("other")).outcome is Outcome.SUCCEEDED
    assert scheduler.stop()


def test_one_that_is_cancelled_before_its_first_step_is_given_back(office: Office, pool: "Watched") -> None:
    """By another that cancels all tasks of the loop."""
    began, release = threading.Event(), threading.Event()

    async def cancels_all() -> None:
        began.set()
        release.wait(60)  # until another stands behind it
        asyncio.get_running_loop().call_soon(lambda: [task.cancel() for task in asyncio.all_tasks()])

    first, second = attempts(office, awaited(cancels_all), awaited(asyncio.sleep, 0))
    pool.submit([first])
    assert began.wait(60)
    pool.submit([second])
    release.set()
    ends = pool.ends(2)
    assert ends[first].ending == Ending(Outcome.SUCCEEDED)
    assert ends[second].ending is None


def test_what_the_loop_refuses_is_given_back(office: Office, pool: "Watched", caplog: pytest.LogCaptureFixture) -> None:
    async def breaks_the_factory() -> None:
        asyncio.get_running_loop().set_task_factory(lambda *_: 1 / 0)  # type: ignore[arg-type]

    first, second = attempts(office, awaited(breaks_the_factory), awaited(asyncio.sleep, 0))
    pool.submit([first])
    pool.ends(1)
    pool.submit([second])
    assert pool.ends(2)[second].ending is None
    assert caplog.messages == ["job1@2026-03-29T12:00:00Z could not be started; it was released for another process"]


# --- what cannot be begun ---------------------------------------------------------------------------------------------


@contextmanager
def no_new_threads() -> Iterator[None]:
    """The system has no room for another thread. Not for real: on Python 3.11 a start that fails leaves a state behind
    that goes by the number of this thread, and nothing could be thrown into it any more, for all tests to come. A
    keeper that an earlier test left behind may start what it likes: it would break down, and this test with it."""
    right = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if threading.current_thread().name != "cronce-keeper":
            raise RuntimeError("can't start new thread")
        right(thread)

    with patch.object(threading.Thread, "start", start):
        yield


def test_what_cannot_be_begun_is_given_back_for_a_while_and_the_others_begin(
    office: Office, pool: "Watched", caplog: pytest.LogCaptureFixture
) -> None:
    first, function, coroutine, later = attempts(
        office, awaited(asyncio.sleep, 0), Work(lambda _run: None), awaited(asyncio.sleep, 0), Work(lambda _run: None)
    )
    pool.submit([first])  # so that there is a loop, and no thread
    pool.ends(1)
    with no_new_threads():
        pool.submit([function, coroutine])
    pool.submit([later])
    ends = pool.ends(4)
    assert [attempt for attempt, end in ends.items() if end.ending is None] == [function]
    assert caplog.messages == ["job1@2026-03-29T12:00:00Z could not be started; it was released for another process"]
    assert word_of(function) == Release(function.lease.grant.fence, timedelta(seconds=10))


def test_where_there_is_no_room_for_more_threads_a_free_one_runs_them_all(office: Office, pool: "Watched") -> None:
    """A batch of two was given back although a worker was idle: for as long as threads were short, nothing ran."""
    first, *more = attempts(office, *[Work(lambda _run: None)] * 4)
    pool.submit([first])
    assert first in pool.ends(1)
    wait_until(lambda: pool._idle == 1)
    with no_new_threads():
        pool.submit(more)
    assert [end.ending is not None for end in pool.ends(4).values()] == [True] * 4


def test_what_no_thread_can_be_had_for_is_given_back_after_a_minute(office: Office, pool: "Watched") -> None:
    """Its lease is renewed while it waits: it would be so for ever, and nobody else could have it."""
    begun, release = threading.Event(), threading.Event()

    def work(_run: object) -> None:
        begun.set()
        release.wait(60)

    def given_back() -> bool:
        office.hand.turn(GIVE_BACK_AFTER)
        return len(pool.told) == 3

    long, *waiting = attempts(office, Work(work), *[Work(lambda _run: None)] * 3)
    office.keeper.keep(*[attempt.lease for attempt in (long, *waiting)])
    pool.submit([long])
    assert begun.wait(60)
    with patch.object(pool, "_make_thread", side_effect=RuntimeError("can't start new thread")):
        pool.submit(waiting)
        wait_until(given_back)
        pool.ends(3)
    assert [word_of(attempt) for attempt in waiting] == [
        Release(attempt.lease.grant.fence, UNWELL) for attempt in waiting
    ]
    assert office.keeper._kept() == {long.lease}
    release.set()
    assert long in pool.ends(4)
    assert office.keeper._kept() == set()


def test_a_scheduler_that_is_stopped_lets_go_of_what_it_is_granted_too_late(office: Office) -> None:
    """It was renewed for ever where it never began."""
    scheduler = Scheduler(office.keeper, dict, SchedulerSettings(), grace=1.0)
    late = attempts(office, *[Work(lambda _run: None)] * 2)
    office.keeper.keep(*[attempt.lease for attempt in late])
    scheduler._stopping = True
    scheduler.submit(late)
    assert not office.keeper.busy


def test_none_waits_for_another_to_end(office: Office, pool: "Watched") -> None:
    begun, release, done = threading.Event(), threading.Event(), Work(lambda _run: None)

    def work(_run: object) -> None:
        begun.set()
        release.wait(60)

    long, short, *more = attempts(office, Work(work), *[done] * 6)
    pool.submit([long])
    assert begun.wait(60)
    pool.submit([short])
    assert short in pool.ends(1)
    pool.submit(more)
    assert long not in pool.ends(6)
    release.set()
    assert long in pool.ends(7)
    meet = threading.Barrier(3)
    pool.submit(attempts(office, *[Work(lambda _run: meet.wait(60))] * 3, first=7))
    assert sum(end.error is None for end in pool.ends(10).values()) == 10


def test_what_could_begin_only_after_its_lease_never_does(office: Office, pool: "Watched") -> None:
    """Where there is no thread for it, it waits; meanwhile another may have been given it."""
    ran = list[object]()
    (late,) = attempts(office, Work(ran.append))
    office.hand.turn(3600)
    pool.submit([late])
    assert pool.ends(1)[late].ending is None
    assert ran == []


# --- what they do to the process --------------------------------------------------------------------------------------

FORKS = """
import os, sys
from cronce import Cronce

cron = Cronce("memory://")

def fork(how):
    pid = os.fork()
    if pid == 0:
        if how == "raises":
            raise LookupError
        return sys.exit(7) if how == "exits" else None
    print(how, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

def declare(how):
    @cron.job(name=how)
    def body():
        fork(how)

    @cron.job(name=f"{how}-async")
    async def body():
        fork(how)

for how in ("returns", "raises", "exits"):
    declare(how)
scheduler = cron.start(workers=1)
for name in cron.jobs:
    cron.trigger(name)
sys.stdin.read()
print(scheduler.stop())
"""


def test_a_child_that_a_body_forked_and_that_comes_back_from_it_ends() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            lines = sorted(process.stdout.readline() for _ in range(6))
            assert process.communicate(timeout=60)[0] == "True\n"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert lines == ["exits 7\n"] * 2 + ["raises 1\n"] * 2 + ["returns 0\n"] * 2


# --- what they do to the scheduler ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_a_body_may_stop_its_own_scheduler_and_ends_before_it(cron: Cronce, is_async: bool) -> None:
    told, gone = list[bool](), threading.Event()

    def stops() -> None:
        told.append(cron.stop())

    async def stops_async() -> None:
        stops()
        await asyncio.sleep(0.01)

    cron.job(name="stops")(stops_async if is_async else stops)
    scheduler = cron.start(grace="50s")
    scheduler.when_gone(lambda _scheduler: gone.set())
    key = cron.trigger("stops")
    assert gone.wait(40)
    assert (told, scheduler.recorded) == ([False], True)
    assert closed(cron, key).outcome is Outcome.SUCCEEDED


def test_whatever_fails_while_it_stops_it_is_gone_in_the_end(cron: Cronce, caplog: pytest.LogCaptureFixture) -> None:
    told = list[str]()

    def fails(_scheduler: object) -> None:
        raise LookupError

    scheduler = cron.start()
    assert scheduler.wait_ready(60)
    scheduler.when_gone(fails)
    scheduler.when_gone(lambda _scheduler: told.append("gone"))
    assert not scheduler.stop()
    assert told == ["gone"]
    assert caplog.messages == ["the scheduler hit an unexpected error while stopping, and goes on"]


TIDIES = "trap 'sleep 1; touch clean; exit' TERM; touch begun; while :; do sleep 0.01; done"


def test_a_command_has_what_is_left_of_the_grace_to_clean_up(
    cron: Cronce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cron.command("tidies", ["sh", "-c", TIDIES])
    scheduler = cron.start()
    key = cron.trigger("tidies")
    wait_until((tmp_path / "begun").exists)
    scheduler.hurry()
    assert scheduler.stop(25)
    assert (tmp_path / "clean").exists()
    assert closed(cron, key).reason == "the scheduler was stopped"


class Interrupted(MemoryStore):
    """Raises once what nobody expects of a store, and what is no Exception."""

    times = 1

    def load(self, keys: Sequence[str]) -> Loaded:
        if threading.current_thread().name == "cronce-scheduler" and self.times:
            self.times = 0
            raise KeyboardInterrupt
        return super().load(keys)


def test_the_thread_that_everything_hangs_on_does_not_die(caplog: pytest.LogCaptureFixture) -> None:
    store = Interrupted()
    with Cronce(store=store) as cron:
        assert cron.start().wait_ready(60)
    assert (store.times, caplog.messages) == (0, ["the scheduler hit an unexpected error, and goes on"])
