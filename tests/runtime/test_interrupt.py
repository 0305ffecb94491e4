"""Stopping bodies from outside: nested, shielded, lost on the way, in threads that start threads."""

import asyncio
import ctypes
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from cronce import Cronce, LeaseLost, Run, TimedOut
from cronce.clock import SystemClock
from cronce.model import Write
from cronce.runtime.interrupt import Interrupt, TaskGate, ThreadGate, here, is_starting_another
from cronce.runtime.keeper import NOT_RENEWED, Lease
from cronce.stores.base import Swapped
from cronce.stores.memory import MemoryStore
from tests.house.wait import PATIENCE, wait_until

CLOCK = SystemClock()


def spin(seconds: float = 60.0) -> None:
    """Run Python, so that whatever was thrown arrives."""
    until = CLOCK.boot() + seconds
    while CLOCK.boot() < until:
        pass


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_is_thrown_arrives_in_the_gate_and_not_after_it() -> None:
    gate = ThreadGate()
    gate.enter()
    with pytest.raises(Interrupt):  # noqa: PT012
        in_thread(gate.stop)
        spin()
    gate.leave()
    in_thread(gate.stop)
    spin(0.05)


def test_what_was_thrown_and_has_not_arrived_is_taken_back() -> None:
    """The body may end just when it is stopped; nothing may hit whatever the thread does next."""
    for _ in range(300):
        gate = ThreadGate()
        stopper = threading.Thread(target=gate.stop)
        try:
            try:
                gate.enter()
                stopper.start()
            finally:
                gate.leave()
        except Interrupt:
            gate.leave()
        stopper.join()
        spin(0.0005)


def test_nothing_arrives_under_a_shield_and_it_does_when_the_shield_is_put_down() -> None:
    gate, stack = ThreadGate(), here()
    gate.enter()
    stack.shield()
    in_thread(gate.stop)
    spin(0.05)
    with pytest.raises(Interrupt):  # noqa: PT012
        stack.unshield()
        spin()
    gate.leave()


def test_a_gate_around_another_hears_it_again_when_the_inner_one_is_left() -> None:
    outer, inner, stack = ThreadGate(), ThreadGate(), here()
    outer.enter()
    inner.enter()
    stack.shield()
    in_thread(inner.stop)
    in_thread(outer.stop)
    with pytest.raises(Interrupt):  # noqa: PT012
        stack.unshield()
        spin()
    with pytest.raises(Interrupt):  # noqa: PT012
        inner.leave()
        spin()
    outer.leave()
    spin(0.01)


def test_a_thread_that_is_being_born_does_not_get_what_is_meant_for_its_parent() -> None:
    """On Python 3.11 a newborn carries its parent's number until it runs; the parent would wait for it for ever."""
    for _ in range(40):
        gate = ThreadGate()
        stopper = threading.Timer(0.002, gate.stop)

        def starts_threads() -> None:
            while True:
                threading.Thread(target=int).start()

        stopper.start()
        try:
            try:
                gate.enter()
                starts_threads()
            finally:
                gate.leave()
        except Interrupt:
            gate.leave()
        stopper.join()


def test_a_start_of_a_thread_that_somebody_else_cut_short_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps it among those that are being born for ever."""
    never = threading.Thread()
    monkeypatch.setitem(threading._limbo, never, never)  # type: ignore[attr-defined]
    gate = ThreadGate()
    gate.enter()
    with pytest.raises(Interrupt):  # noqa: PT012
        threading.Thread(target=gate.stop, daemon=True).start()
        spin()
    gate.leave()


def test_a_thread_is_not_stopped_between_saying_that_it_starts_another_and_doing_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would leave one behind that is never born. Whoever throws may have to wait in the middle of it, and the other
    comes to start a thread meanwhile."""
    gate, thrown, born = ThreadGate(), threading.Event(), threading.Event()
    real = ctypes.pythonapi.PyThreadState_SetAsyncExc
    me = threading.get_ident()

    def slow(number: ctypes.c_ulong, what: object) -> int:
        if not thrown.is_set():
            thrown.set()
            wait_until(lambda: is_starting_another(me))
        return int(real(number, what))

    monkeypatch.setattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", slow)
    stopper = threading.Thread(target=gate.stop)
    gate.enter()
    stopper.start()
    thrown.wait()
    with pytest.raises(Interrupt):  # noqa: PT012
        threading.Thread(target=born.set).start()
        spin()
    gate.leave()
    stopper.join()
    assert born.wait(PATIENCE)
    assert threading._limbo == {}  # type: ignore[attr-defined]


def test_tasks_that_nest_are_each_told() -> None:
    async def main() -> list[str]:
        task = asyncio.current_task()
        assert task is not None
        said: list[str] = []
        outer, inner = TaskGate(task), TaskGate(task)
        outer.enter()
        inner.enter()
        inner.stop()
        outer.stop()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            task.uncancel()
            said.append("inner")
        inner.leave()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            task.uncancel()
            said.append("outer")
        outer.leave()
        await asyncio.sleep(0)
        return said

    assert asyncio.run(main()) == ["inner", "outer"]


# --- the same, as users meet it -------------------------------------------------------------------------------------


@pytest.fixture
def cron() -> Cronce:
    return Cronce(store=MemoryStore())


def end_all(cron: Cronce) -> None:
    for lease in cron.at_work()._kept():
        cron.at_work()._end(lease, NOT_RENEWED)


def test_a_job_that_catches_the_end_of_its_lock_is_stopped_all_the_same(cron: Cronce) -> None:
    """Both leases end at once; the inner one is an exception that a body may catch, the outer one is not."""
    went_on: list[int] = []

    @cron.job("@daily", name="report")
    def report() -> None:
        try:
            with cron.lock("reindex"):
                in_thread(lambda: end_all(cron))
                spin()
        except LeaseLost:
            went_on.append(1)
        spin()
        went_on.append(2)

    with pytest.raises(LeaseLost, match=r"report@.* was stopped: it could not be renewed in time"):
        report()
    assert 2 not in went_on


def test_an_outer_stop_does_not_cut_the_inner_guards_own_writes(cron: Cronce) -> None:
    """Whenever the outer job times out, the inner slots are closed or given back: none is left running."""
    seconds = count()

    @cron.job(name="inner", slot=lambda: datetime(2026, 3, 29, tzinfo=UTC) + timedelta(seconds=next(seconds)))
    def inner() -> None:
        pass

    @cron.job("@daily", name="outer", timeout="300ms", retries=20, backoff="1ms")
    def outer() -> None:
        while True:
            inner()

    for _ in range(3):
        with pytest.raises(TimedOut):
            outer()
    cells = cron._given._cells  # type: ignore[union-attr]
    assert not [key for key, cell in cells.items() if '"running"' in cell.value and "/inner/" in key]


def test_a_body_that_is_stopped_while_it_says_how_far_it_is_leaves_its_keeper_at_work(cron: Cronce) -> None:
    """What was thrown arrived behind the acquisition of the keeper's lock and before the block that gives it back:
    nothing was renewed in that process from then on."""
    keeper, mine = cron.at_work(), threading.current_thread()

    class Turn(threading.Condition):
        def __enter__(self) -> bool:
            taken = super().__enter__()
            if threading.current_thread() is mine and not stopped.is_set():
                stopped.set()
                end_all(cron)
                spin(0.05)
            return taken

    def may_turn() -> None:
        free.append(keeper._connection.thread._turn.acquire(timeout=10))

    stopped, free = threading.Event(), list[bool]()

    @cron.job("@daily", name="report")
    def report(run: Run) -> None:
        keeper._connection.thread._turn = Turn()
        run.progress(1, 2)
        spin()

    with pytest.raises(LeaseLost, match=r"report@.* was stopped"):
        report()
    assert stopped.is_set()
    in_thread(may_turn)
    assert free == [True]


def test_a_body_that_swallows_a_timeout_and_returns_has_still_timed_out(cron: Cronce) -> None:
    @cron.job("@daily", name="report", timeout="200ms")
    def report() -> str:
        try:
            spin()
        except BaseException:  # noqa: BLE001, RUF100
            return "done all the same"
        return "never"

    with pytest.raises(TimedOut, match="timed out after 200ms"):
        report()


def test_a_lock_may_be_taken_again_by_the_thread_whose_lease_of_it_ended(cron: Cronce) -> None:
    lock = cron.lock("reindex")

    def nested() -> None:
        with lock:
            in_thread(lambda: end_all(cron))
            spin()

    for _ in range(2):
        with pytest.raises(LeaseLost, match="the lock reindex ended before its block did"):
            nested()


def test_close_while_a_body_runs_lets_it_end(cron: Cronce) -> None:
    @cron.job("@daily", name="report")
    def report() -> str:
        cron.close()
        return "done"

    assert report() == "done"
    assert not report()


def test_close_while_the_end_of_a_run_is_recorded_lets_it_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed the store between the end of the function and the record of it: the thread asked the closed store again
    and again, and under rerun the slot ran once more, elsewhere."""
    cron = Cronce(f"sqlite:///{tmp_path}/cronce.db")

    @cron.job("@daily", name="report")
    def report() -> str:
        store = cron.at_work().node.store
        swap = store.swap

        def close_first(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
            monkeypatch.setattr(store, "swap", swap)
            in_thread(cron.close)
            return swap(writes, seen)

        monkeypatch.setattr(store, "swap", close_first)
        return "done"

    with cron:
        assert report() == "done"
        assert not report()


def test_a_lock_whose_trust_is_over_before_its_block_begins_is_an_error_and_is_given_back(cron: Cronce) -> None:
    keeper = cron.at_work()
    keep = keeper.keep

    def keep_and_end(*leases: Lease) -> None:
        keep(*leases)
        in_thread(lambda: keeper._end(leases[0], NOT_RENEWED))

    keeper.keep = keep_and_end  # type: ignore[method-assign]
    with pytest.raises(LeaseLost, match="the lock reindex ended before its block did"):
        cron.lock("reindex").__enter__()
    keeper.keep = keep  # type: ignore[method-assign]
    with cron.lock("reindex"):
        pass


def test_an_outer_stop_reaches_whoever_waits_for_a_lock(cron: Cronce) -> None:
    @cron.job("@daily", name="report", timeout="300ms")
    def report() -> None:
        with cron.lock("reindex", wait="1m"):
            pass

    with cron.lock("reindex"), ThreadPoolExecutor(1) as pool, pytest.raises(TimedOut):
        pool.submit(report).result(60)
