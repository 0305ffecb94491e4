"""What is only observed is noted beside the body: neither a slow store, nor who cancels, nor a slip of the user's own
functions for keys and slots comes between a call and its body, nor between the body's end and its caller."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial, wraps
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.events import Event, What
from cronce.model import Slot, Write
from cronce.runtime.call import Call
from cronce.runtime.declare import declare
from cronce.runtime.log import EventLog
from cronce.runtime.observe import ObservedCall
from cronce.runtime.operations import Operator
from cronce.stores.base import Loaded, Swapped
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.runtime.shelf import START, HandClock
from tests.runtime.test_observe import Shut, noted
from tests.runtime.test_observe_jobs import NEXT, WHEN, observed
from tests.servers.valkey import Valkey

pytestmark = pytest.mark.usefixtures("patient_farewell")

Make = Callable[[Cronce, Callable[..., Any]], Any]
MOMENT = 30.0
"""Seconds: less than any of the waits that there must not be, and plenty for a machine that is busy."""


def as_function(cron: Cronce, fn: Callable[..., Any]) -> Any:
    return cron.observe("sync", window="1h")(fn)


def as_job(cron: Cronce, fn: Callable[..., Any]) -> Any:
    return observed(cron, fn).at(WHEN)


both = pytest.mark.parametrize("make", [as_function, as_job])


class Slow(MemoryStore):
    """Answers late."""

    def __init__(self, seconds: float) -> None:
        super().__init__(SystemClock().wall)
        self.late: Callable[[], object] = partial(threading.Event().wait, seconds)

    def load(self, keys: Sequence[str]) -> Loaded:
        self.late()
        return super().load(keys)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self.late()
        return super().swap(writes, seen)


@pytest.fixture
def shut() -> Iterator[Shut]:
    store = Shut(waits=True)
    yield store
    store.open.set()


# --- nothing comes between ------------------------------------------------------------------------------------------


@both
def test_a_body_begins_though_its_caller_has_less_patience_than_the_store_needs(shut: Shut, make: Make) -> None:
    cron, ran = Cronce(store=shut), []

    async def body() -> None:
        ran.append(1)
        await asyncio.sleep(60)

    sync = make(cron, body)

    async def impatient() -> list[Any]:
        calls = (asyncio.wait_for(sync(), 0.05) for _ in range(16))
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(impatient())
    assert [type(one) for one in answers] == [TimeoutError] * 16
    assert len(ran) == 16
    shut.open.set()
    wait_until(lambda: noted(shut).times == 16)
    cron.close()


@both
def test_a_call_that_never_began_is_on_no_record(make: Make) -> None:
    store = MemoryStore(SystemClock().wall)
    cron = Cronce(store=store)

    async def body(a: int) -> int:
        return a

    sync, plain = make(cron, body), make(Cronce(store=store), lambda a: a)

    async def cancelled_at_once() -> int:
        task = asyncio.ensure_future(sync(1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(TypeError, match="missing 1 required"):
            await sync()
        with pytest.raises(TypeError, match="missing 1 required"):
            plain()
        return await sync(2)  # type: ignore[no-any-return]

    assert asyncio.run(cancelled_at_once()) == 2
    cron.close()
    assert noted(store).times == 1


@both
def test_a_call_of_what_is_wrapped_is_on_record_though_its_wrapper_takes_less(make: Make) -> None:
    def body(session: str, a: int) -> str:
        return f"{session} {a}"

    @wraps(body)
    def with_session(a: int) -> str:
        return body("session", a)

    store = MemoryStore(SystemClock().wall)
    with Cronce(store=store) as cron:
        assert make(cron, with_session)(1) == "session 1"
    assert noted(store).times == 1


@both
def test_a_process_of_multiprocessing_writes_down_what_it_called_before_it_ends(make: Make, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    child = get_context("fork").Process(target=make(Cronce(url), os.getpid))
    child.start()
    child.join(60)
    assert (child.exitcode, noted(url).times) == (0, 1)


@both
def test_a_store_that_hangs_delays_nobody_neither_before_nor_after(shut: Shut, make: Make) -> None:
    cron = Cronce(store=shut)
    began: list[float] = []
    sync = make(cron, lambda: began.append(time.monotonic()))
    called, threads = time.monotonic(), threading.active_count()
    for _ in range(10):
        sync()
    assert (len(began), began[0] - called < MOMENT, time.monotonic() - called < MOMENT) == (10, True, True)
    assert threading.active_count() <= threads + 1  # no matter how many are called meanwhile
    shut.open.set()
    wait_until(lambda: noted(shut).times == 10)
    assert noted(shut).doubled == 9
    cron.close()


@both
def test_a_store_that_hangs_delays_no_coroutine_neither_before_nor_after(shut: Shut, make: Make) -> None:
    cron = Cronce(store=shut)
    began: list[float] = []

    async def body() -> None:
        began.append(time.monotonic())
        await asyncio.sleep(0)

    sync = make(cron, body)

    async def ten() -> tuple[float, float]:
        called = time.monotonic()
        for _ in range(10):
            await sync()
        return began[0] - called, time.monotonic() - called

    before, whole = asyncio.run(ten())
    assert (len(began), before < MOMENT, whole < MOMENT) == (10, True, True)
    shut.open.set()
    wait_until(lambda: noted(shut).times == 10)
    cron.close()


@both
def test_a_slow_store_delays_nobody_and_what_ran_is_on_record_after_close(make: Make) -> None:
    store, answers = Slow(0.0), threading.Event()
    store.late = answers.wait
    cron = Cronce(store=store)
    make(cron, lambda: None)()  # it comes back, and the store has not answered yet
    threading.Timer(0.1, answers.set).start()
    cron.close()
    assert noted(store).times == 1


def test_at_the_end_a_store_that_hangs_is_waited_for_for_a_while_only(
    shut: Shut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronce.runtime.background.WRITER_CLOSE_WAIT", 0.2)
    cron = Cronce(store=shut)
    as_job(cron, lambda: None)()
    as_function(cron, lambda: None)()
    began = time.monotonic()
    cron._in_background().close()
    assert 0.2 <= time.monotonic() - began < MOMENT


@both
def test_who_closes_does_not_wait_for_a_thread_that_opens_a_silent_server(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes held the lock under which a store is opened: after its 3 s, close waited for that, too."""
    monkeypatch.setattr("cronce.runtime.background.WRITER_CLOSE_WAIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and says nothing
        cron = Cronce(f"redis://127.0.0.1:{silent.getsockname()[1]}/0?timeout=120")
        make(cron, lambda: None)()
        began = time.monotonic()
        cron.close()
        assert 0.2 <= time.monotonic() - began < MOMENT


def test_two_calls_one_after_the_other_claim_in_that_order() -> None:
    """The second would be refused because the first is done, not because it still runs; and what failed and may be
    tried again would be granted, though its end was still on its way to the store."""
    store = Slow(0.02)
    cron = Cronce(store=store)
    done, fails = observed(cron, lambda: None), observed(cron, lambda: 1 / 0, "fails", retries=3)
    for _ in range(2):
        done.at(WHEN)()
        with pytest.raises(ZeroDivisionError):
            fails.at(WHEN)()
    cron.close()
    (one,) = noted(store).recent
    assert one.why.startswith("though it is closed: succeeded")
    assert (noted(store, "fails").times, noted(store, "fails").doubled) == (2, 0)


def test_one_job_does_not_wait_until_another_has_its_answer() -> None:
    store, patient = MemoryStore(SystemClock().wall), threading.Event()

    class Waits(ObservedCall):
        def ask(self) -> None:
            patient.wait()

    with Cronce(store=store) as cron:
        job = declare("another", "* * * * *", mode="observe")
        background = cron._in_background()
        background.start_shadow(Waits(job, None, background, cron.at_work, SystemClock()))
        as_job(cron, lambda: None)()
        wait_until(lambda: noted(store).times == 1)
        patient.set()


def test_however_late_a_shadow_asks_its_slot_is_that_of_the_call(clock: HandClock) -> None:
    cron = Cronce(store=MemoryStore(clock.wall), clock=clock)
    job, keeper = declare("sync", "* * * * *", mode="observe"), cron.at_work()
    clock.turn(5)
    shadow = ObservedCall(job, None, cron._in_background(), cron.at_work, clock)
    clock.turn(60)
    call = Call(keeper, job, shadow, fired=shadow._fired, only_noted=True)
    next(call.steps(shadow._meant()[0]))
    assert call.slot == Slot("sync", START)


# --- the user's own functions ---------------------------------------------------------------------------------------


def test_a_slot_is_computed_by_the_thread_that_calls_before_the_body_begins() -> None:
    store = MemoryStore(SystemClock().wall)
    seen: list[Any] = []

    def meant(day: list[str]) -> str:
        seen.append(threading.current_thread())
        return day[0]

    with Cronce(store=store) as cron:
        report = cron.job(name="report", slot=meant, mode="observe")(lambda day: day.clear())
        report(["2026-03-29"])
        report(["2026-03-29"])
    assert seen == [threading.current_thread()] * 2
    assert [one.slot for one in noted(store, "report").recent] == ["report@2026-03-29T00:00:00Z"]


def test_a_slot_that_cannot_be_computed_is_no_reason_not_to_run(caplog: pytest.LogCaptureFixture) -> None:
    with Cronce("memory:") as cron:
        report = cron.job(name="report", slot=lambda day: day["x"], mode="observe")(lambda day: f"ran {day}")
        assert [report({}), report({})] == ["ran {}", "ran {}"]
    assert caplog.messages == ["a call of report ran, and has no slot: KeyError: 'x'"]


def test_keywords_that_a_body_takes_are_its_own_also_one_named_slot() -> None:
    store = MemoryStore(SystemClock().wall)
    with Cronce(store=store) as cron:
        takes_all = observed(cron, lambda *args, **named: (args, named))
        assert takes_all.at(WHEN)(1, slot="abc") == ((1,), {"slot": "abc"})
        assert takes_all.at(WHEN)(b=2) == ((), {"b": 2})
        assert takes_all(1, slot="abc", b=2) == ((1,), {"slot": "abc", "b": 2})
    assert (noted(store).times, noted(store).doubled) == (3, 1)
    assert noted(store).recent[0].slot == "sync@2026-03-29T12:00:00Z"


# --- what is a duplicate, and what the guard would only not have run ------------------------------------------------


def test_what_is_paused_or_too_old_or_skipped_for_another_slot_is_no_duplicate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "cronce")
    store = MemoryStore(SystemClock().wall)
    started, go_on = threading.Event(), threading.Event()

    def long() -> None:
        started.set()
        go_on.wait()

    with Cronce(store=store) as first, Cronce(store=store) as second:
        first.job("@daily", name="old", start_within="1m", mode="observe")(lambda: None).at(WHEN)()
        paused = observed(first, lambda: None, "paused")
        paused.at(WHEN)()
        first.close()
        node = first.at_work().node
        node.do(Operator(node.ledger, "ada", ["paused"]).pause("paused", ""))
        paused.at(NEXT)()
        thread = threading.Thread(target=observed(first, long, "busy").at(WHEN))
        thread.start()
        started.wait()
        wait_until(lambda: noted(store, "busy").times == 1)
        observed(second, lambda: None, "busy").at(NEXT)()
        wait_until(lambda: noted(store, "busy").times == 2)
        go_on.set()
        thread.join()
    counts = {name: (noted(store, name).times, noted(store, name).doubled) for name in ("old", "paused", "busy")}
    assert counts == {"old": (1, 0), "paused": (2, 0), "busy": (2, 0)}
    said = [line for line in caplog.messages if "the guard would not have run it" in line]
    assert len(said) == 3
    assert "paused@2026-03-30T12:00:00Z ran; the guard would not have run it: the job is paused" in said


def test_the_first_call_ever_on_a_fresh_store_is_no_duplicate() -> None:
    """One that was found empty may have forgotten a run, so the guard would wait; nobody called twice."""
    with Valkey() as server, Cronce(server.url) as cron:
        observed(cron, lambda: None).at(WHEN)()
        cron.job("* * * * *", name="minutely", mode="observe")(lambda: None)()
        for name in ("sync", "minutely"):  # a moment before the full minute, the guard waits for it
            wait_until(lambda: noted(server.url, name).times)  # noqa: B023
            seen = noted(server.url, name)
            assert (seen.times, seen.doubled) == (1, 0)


# --- warnings -------------------------------------------------------------------------------------------------------


def test_of_many_duplicates_one_a_minute_is_warned_of_with_how_many_there_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = EventLog()
    for seconds in (0, 1, 59, 60, 61, 200):
        for name in ("sync", "mail"):
            at = START + timedelta(seconds=seconds)
            log.hear(Event(What.DOUBLED, f"observed/{name}", "web-1", at, detail=f"at {seconds}"))
    assert [line for line in caplog.messages if line.startswith("sync")] == [
        "sync doubled: at 0",
        "sync doubled: at 60 (3 since the last warning)",
        "sync doubled: at 200 (2 since the last warning)",
    ]
    assert len(caplog.messages) == 6


def test_a_burst_of_duplicates_leaves_one_warning_and_is_told_and_counted_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore(SystemClock().wall)
    heard: list[Event] = []
    with Cronce(store=store) as cron:
        cron.on_event(heard.append)
        sync = as_function(cron, lambda: None)
        for _ in range(30):
            sync()
    assert sum(one.what is What.DOUBLED for one in heard) == 29
    assert sum("doubled" in line for line in caplog.messages) == 1
    assert noted(store).doubled == 29
