"""Locks as users write them: `with`, `async with`, `@cron.single`."""

import asyncio
import pickle
import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import assert_type

import pytest

from cronce import Cronce, LeaseLost, LockHeld, Skipped
from cronce.errors import BadInput, BadPolicy, BadRecord, StoreUnavailable
from cronce.model import Mark, Write, lock_cell
from cronce.protocol.record import Record, State, decode
from cronce.runtime.keeper import Keeper
from cronce.runtime.lock import Lock, limits
from tests.runtime.office import Office
from tests.runtime.shelf import Ahead, HandClock, Wire


@pytest.fixture
def ahead() -> Ahead:
    return Ahead()


@pytest.fixture
def cron(tmp_path: Path, ahead: Ahead) -> Cronce:
    return Cronce(f"sqlite:///{tmp_path}/cronce.db", clock=ahead)


def record(cron: Cronce, name: str) -> Record:
    (cell,) = cron.at_work().node.store.load([lock_cell(name)]).cells
    return decode(cell.value, cell.key)


def test_a_lock_is_held_by_one_and_says_by_whom_and_until_when(cron: Cronce, tmp_path: Path) -> None:
    other = Cronce(f"sqlite:///{tmp_path}/cronce.db")
    with cron.lock("reindex") as lock:
        assert lock.trusted
        with pytest.raises(LockHeld, match=r"the lock reindex is held by \S+ until [-0-9]+ [:0-9]+ UTC") as held:
            other.lock("reindex").__enter__()
        assert held.value.by == record(cron, "reindex").holder
        assert held.value.until is not None
    with other.lock("reindex") as again:
        assert again.fence > lock.fence


def test_a_lock_is_not_reentrant(cron: Cronce) -> None:
    lock = cron.lock("reindex")
    with lock:
        for again in (lock, cron.lock("reindex")):
            with pytest.raises(LockHeld):
                again.__enter__()
    with lock:
        pass


def test_a_lock_remembers_who_held_it(cron: Cronce) -> None:
    for _ in range(3):
        with cron.lock("reindex"):
            pass
    history = record(cron, "reindex")
    assert history.state is State.DUE
    assert [past.end for past in history.past] == ["released"] * 3
    assert all(past.started and past.ended and past.started <= past.ended for past in history.past)
    assert len({past.fence for past in history.past}) == 3


def test_an_exception_in_the_block_releases_the_lock_and_goes_on(cron: Cronce) -> None:
    with pytest.raises(ValueError, match="boom"), cron.lock("reindex"):
        raise ValueError("boom")
    with cron.lock("reindex"):
        pass


def test_a_lock_can_be_waited_for(cron: Cronce) -> None:
    inside, order = threading.Event(), []

    def first() -> None:
        with cron.lock("reindex"):
            inside.set()
            waiting.wait(60)
            order.append("first")

    waiting = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.2, waiting.set).start()
    with cron.lock("reindex", wait="1m"):
        order.append("second")
    thread.join(60)
    assert order == ["first", "second"]


def test_many_threads_that_wait_are_never_in_the_block_together(cron: Cronce) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with cron.lock("reindex", wait="2m"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(110)
    assert most == [1] * 20


def test_a_block_that_outlasts_at_most_is_stopped_and_is_an_error(cron: Cronce, ahead: Ahead) -> None:
    def endless() -> None:
        with cron.lock("reindex", at_most="30s"):
            ahead.put_forward(cron, 30)
            while True:
                pass

    with pytest.raises(LeaseLost, match=r"the lock reindex ended before its block did: it reached its at_most"):
        endless()
    with cron.lock("reindex", wait="1m"):
        pass


def test_an_async_block_that_outlasts_at_most_is_stopped_and_is_an_error(cron: Cronce, ahead: Ahead) -> None:
    async def endless() -> None:
        async with cron.lock("reindex", at_most="30s"):
            ahead.put_forward(cron, 30)
            await asyncio.Event().wait()

    async def main() -> str:
        with pytest.raises(LeaseLost, match="it reached its at_most"):
            await endless()
        await asyncio.sleep(0)
        return "still here"

    assert asyncio.run(main()) == "still here"


def test_tasks_share_a_lock_object_and_not_the_lock(cron: Cronce) -> None:
    lock = cron.lock("reindex", wait="1m")
    inside: list[int] = []
    most: list[int] = []

    async def work() -> None:
        async with lock:
            inside.append(1)
            await asyncio.sleep(0.01)
            most.append(len(inside))
            inside.pop()

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(main())
    assert most == [1] * 4


def test_a_task_cancelled_while_it_acquires_leaves_no_lock_behind(cron: Cronce) -> None:
    async def hold() -> None:
        async with cron.lock("reindex"):
            await asyncio.Event().wait()

    async def main() -> None:
        for delay in range(8):
            task = asyncio.ensure_future(hold())
            await asyncio.sleep(delay / 1000)
            task.cancel()
            await asyncio.wait([task])
            async with cron.lock("reindex"):
                pass

    asyncio.run(main())


def test_at_least_keeps_the_lock_after_release(cron: Cronce) -> None:
    with cron.lock("reindex", at_least="1m"):
        pass
    with pytest.raises(LockHeld, match=r"the lock reindex cannot be taken until [-0-9]+ [:0-9]+ UTC") as rests:
        cron.lock("reindex").__enter__()
    assert (rests.value.by, rests.value.name) == ("", "reindex")


@pytest.mark.parametrize(
    ("at_most", "says"),
    [
        (None, "UTC unless it is renewed"),
        ("10m", "UTC unless it is renewed"),
        ("20s", "UTC"),  # it ends then: no renewal goes past the limit
    ],
)
def test_who_is_refused_is_told_whether_the_lock_may_go_on(cron: Cronce, at_most: str | None, says: str) -> None:
    with cron.lock("reindex", at_most=at_most), pytest.raises(LockHeld) as held:
        cron.lock("reindex", at_most=at_most).__enter__()
    assert re.fullmatch(rf"the lock reindex is held by \S+ until [-0-9]+ [:0-9]+ {says}", str(held.value))
    assert str(pickle.loads(pickle.dumps(held.value))) == str(held.value)


@pytest.mark.parametrize(("at_most", "stops"), [("10s", 8), ("30s", 24)])
def test_the_block_is_stopped_a_fifth_before_its_limit_as_the_page_says(
    cron: Cronce, ahead: Ahead, at_most: str, stops: int
) -> None:
    with cron.lock("reindex", at_most=at_most) as lock:
        ahead.seconds += stops - 1.5
        lock.check()
        ahead.seconds += 1.5
        with pytest.raises(LeaseLost):
            lock.check()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"at_most": "0s"}, "at_most must be 1s or more"),
        ({"at_most": "999ms"}, "at_most must be 1s or more"),
        ({"at_most": "1s", "at_least": "1m"}, "at_least .1m. is more than at_most .1s."),
        ({"at_most": "soon"}, "'soon' is not a duration"),
        ({"ttl": 30}, "there is no option 'ttl'; here it is lease"),
        ({"blocking_timeout": 3}, "wait='5s'"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(cron: Cronce, options: dict[str, str], words: str) -> None:
    with pytest.raises((BadPolicy, BadInput), match=words):
        cron.lock("reindex", **options)  # type: ignore[arg-type]


# --- single ---------------------------------------------------------------------------------------------------------


def test_a_single_function_is_skipped_while_it_runs_elsewhere(cron: Cronce) -> None:
    @cron.single("reindex")
    def reindex(part: int) -> int:
        return part

    @cron.single("reindex")
    def meanwhile() -> int | Skipped:
        return reindex(1)

    result = reindex(3)
    assert_type(result, int | Skipped)
    assert result == 3
    skipped = meanwhile()
    assert not skipped
    assert isinstance(skipped, Skipped)
    assert skipped.kind == "held"


def test_a_single_coroutine_is_skipped_while_it_runs_elsewhere(cron: Cronce) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    @cron.single("reindex")
    async def reindex() -> int:
        begun.set()
        await release.wait()
        return 1

    async def main() -> list[int | Skipped]:
        first = asyncio.ensure_future(reindex())
        await begun.wait()
        others = await asyncio.gather(reindex(), reindex())
        release.set()
        return [await first, *others]

    answers = asyncio.run(main())
    assert answers[0] == 1
    assert [type(answer) for answer in answers[1:]] == [Skipped, Skipped]


def test_a_lock_held_error_of_the_body_is_its_own(cron: Cronce) -> None:
    @cron.single("outer")
    def body() -> None:
        with cron.lock("inner"):
            cron.lock("inner").__enter__()

    with pytest.raises(LockHeld, match="inner"):
        body()


def test_a_single_without_a_name_is_refused(cron: Cronce) -> None:
    with pytest.raises(BadInput, match="with the name of the lock in brackets"):
        cron.single(lambda: None)  # type: ignore[arg-type]


# --- on a clock that is turned by hand ------------------------------------------------------------------------------


class Rented:
    """A lock of a process at work on hand-turned clocks."""

    def __init__(self, store: Wire, **spans: str) -> None:
        self.office = Office(store)
        self._lock = Lock("reindex", limits(spans.get("at_most"), "0s", spans.get("wait", "0s")), self.keeper)

    def keeper(self) -> Keeper:
        return self.office.keeper

    def acquire(self) -> object:
        return self.office.play(self._lock._acquire(self.office.node, None))  # type: ignore[arg-type]


def test_the_lock_of_a_dead_holder_comes_free_after_its_lease() -> None:
    clock = HandClock()
    store = Wire(clock)
    Rented(store).acquire()
    waiting = Rented(store, wait="1m")
    waiting.acquire()
    assert 30 <= clock.seconds <= 31


def test_the_lock_of_a_dead_holder_with_a_short_limit_comes_free_then() -> None:
    clock = HandClock()
    store = Wire(clock)
    Rented(store, at_most="5s").acquire()
    Rented(store, wait="1m").acquire()
    assert 5 <= clock.seconds <= 6


def test_waiting_ends_with_who_has_it() -> None:
    store = Wire(HandClock())
    Rented(store).acquire()
    with pytest.raises(LockHeld):
        Rented(store, wait="10s").acquire()
    assert timedelta(seconds=store.clock.seconds) == pytest.approx(timedelta(seconds=10), abs=timedelta(seconds=0.3))


def test_a_store_that_answers_too_slowly_gives_no_lock() -> None:
    store = Wire(HandClock())
    store.slow = 31
    with pytest.raises(StoreUnavailable, match="answers too slowly for the lock reindex"):
        Rented(store, wait="1m").acquire()


def test_a_lock_that_cannot_be_read_is_nobodys_here() -> None:
    store = Wire(HandClock())
    store.swap([Write(lock_cell("reindex"), 0, '{"v":99}', Mark.OPEN)], store.load([]).epoch.seen)
    with pytest.raises(BadRecord, match=r"the cell 'lock/reindex' has format 99, .* upgrade cronce"):
        Rented(store, wait="1m").acquire()


def test_a_store_that_does_not_answer_gives_no_lock() -> None:
    store = Wire(HandClock())
    store.lose = lambda _call: "before"
    with pytest.raises(StoreUnavailable):
        Rented(store).acquire()
