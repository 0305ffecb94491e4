"""Calls that are only observed: the body runs as before whatever the store does, and what came twice is counted."""

import asyncio
import inspect
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce import Cronce
from cronce.clock import SystemClock
from cronce.errors import BadInput, BadPolicy, StoreUnavailable
from cronce.events import Event, What
from cronce.model import Mark, Write, observed_cell
from cronce.protocol.notices import Doubled, LastBeat, Observed, decode_observed, encode_notice
from cronce.runtime.background import MAX_PENDING_WRITES, BackgroundWriter, write_notes
from cronce.runtime.flow import drive
from cronce.runtime.observe import CALLS_KEPT, EXTRA_CALLS_KEPT, Observation, doubles, observations
from cronce.stores import open_store
from cronce.stores.base import Loaded, Store, Swapped
from cronce.stores.memory import MemoryStore
from tests.house.wait import wait_until
from tests.runtime.shelf import START, HandClock, HandNode, Wire

pytestmark = pytest.mark.usefixtures("patient_farewell")

WINDOW = timedelta(seconds=10)
NOTHING = Observed(None, (), 0, 0, ())
NOBODY = "redis://127.0.0.1:1/0"


def at(seconds: float, by: str = "web-1", key: str = "") -> LastBeat:
    return LastBeat(START + timedelta(seconds=seconds), by, key)


def seconds_of(found: Sequence[Doubled]) -> list[float]:
    return [(one.at - START).total_seconds() for one in found]


# --- which calls are too many ---------------------------------------------------------------------------------------


def test_two_calls_on_either_side_of_a_grid_line_are_one() -> None:
    """The seeds put calls into boxes of 10 s, and 09.9 and 10.1 are in two."""
    (found,) = doubles([at(9.9, "web-1")], [at(10.1, "web-2")], WINDOW)
    assert found == Doubled("2026-03-29T12:00:09.900Z", at(10.1).at, "web-2", "200ms after a call by web-1")


@pytest.mark.parametrize(("gap", "count"), [(0.0, 1), (9.999999, 1), (10.0, 1), (10.000001, 0)])
def test_the_window_is_as_long_as_it_says_and_its_end_is_in_it(gap: float, count: int) -> None:
    assert len(doubles([at(3.3)], [at(3.3 + gap, "web-2")], WINDOW)) == count


def test_of_a_bunch_all_but_one_are_too_many_and_each_is_told_after_the_first() -> None:
    found = doubles([], [at(0.0, "web-1"), at(0.1, "web-2"), at(0.2, "web-3")], WINDOW)
    assert [(one.slot, one.by) for one in found] == [("2026-03-29T12:00:00.000Z", name) for name in ("web-2", "web-3")]


def test_calls_for_different_keys_are_never_one() -> None:
    assert seconds_of(doubles([at(0, key="a"), at(1, key="b")], [at(2, key="b"), at(3, key="c")], WINDOW)) == [2.0]


def test_one_that_is_written_down_late_makes_the_next_one_too_many() -> None:
    """0 and 18 were far enough apart, until 9 turned up: it is too near to 0, and 18 to it."""
    assert seconds_of(doubles([at(0), at(18)], [at(9)], WINDOW)) == [9.0, 18.0]
    assert seconds_of(doubles([at(0), at(5)], [at(2)], WINDOW)) == [2.0]


def test_in_whatever_order_calls_are_written_down_as_many_are_too_many() -> None:
    calls = [at(0), at(6), at(13), at(30), at(41)]
    for order in permutations(calls):
        known: list[LastBeat] = []
        found: list[Doubled] = []
        for call in order:
            found += doubles(known, [call], WINDOW)
            known = sorted((*known, call))
        assert sorted(seconds_of(found)) == [6.0, 13.0]


@given(st.lists(st.integers(0, 200), max_size=CALLS_KEPT), st.integers(0, CALLS_KEPT))
def test_all_at_once_or_in_two_parts_is_the_same(instants: list[int], cut: int) -> None:
    """Against the definition: a call is too many if another came at most a window before it."""
    calls = [at(second + place / 1000) for place, second in enumerate(sorted(instants))]
    bad = [call for place, call in enumerate(calls) if place and call.at - calls[place - 1].at <= WINDOW]
    assert len(doubles([], calls, WINDOW)) == len(bad)
    parts = doubles([], calls[cut:], WINDOW) + doubles(calls[cut:], calls[:cut], WINDOW)
    assert len(parts) == len(bad)


def test_what_is_older_than_all_that_is_kept_is_compared_to_none_of_it() -> None:
    """Whether the first that is kept was too many nobody knows any more."""
    kept = [at(100 + 20 * place) for place in range(CALLS_KEPT)]
    assert doubles(kept, [at(95)], WINDOW) == []
    assert len(doubles(kept[1:], [at(115)], WINDOW)) == 1


# --- as users write it ----------------------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Iterator[Cronce]:
    with Cronce(url) as cron:
        yield cron


def noted(store: str | Store, name: str = "sync") -> Observed:
    if isinstance(store, str):
        with closing(open_store(store)) as opened:
            return noted(opened, name)
    _, seen = drive(observations(name), store, SystemClock())
    return seen[0].observed or NOTHING if seen else NOTHING


def test_an_observed_function_is_the_function_it_was(cron: Cronce, url: str) -> None:
    @cron.observe("sync", window="10s")
    def add(a: int, *more: int, b: int = 2) -> int:
        """Adds."""
        return a + sum(more) + b

    assert (add(1), add(1, 2, b=3), add.__name__, add.__doc__) == (3, 6, "add", "Adds.")
    assert str(inspect.signature(add)) == "(a: int, *more: int, b: int = 2) -> int"
    with pytest.raises(TypeError, match="missing 1 required"):
        add()  # type: ignore[call-arg]
    cron.close()
    record = noted(url)
    assert (record.window, record.times, record.doubled, len(record.calls), len(record.recent)) == (WINDOW, 2, 1, 2, 1)


def test_the_very_exception_of_a_body_reaches_its_caller(cron: Cronce) -> None:
    error = KeyError("mine")

    @cron.observe("sync")
    def fails() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        fails()
    assert caught.value is error
    assert not hasattr(error, "__notes__")


def test_coroutine_functions_methods_and_generators_are_what_they_were(cron: Cronce, url: str) -> None:
    class Mailer:
        @cron.observe("sync")
        async def send(self, to: str) -> str:
            await asyncio.sleep(0)
            return f"{self.__class__.__name__} to {to}"

        @cron.observe("numbers")
        def numbers(self) -> Iterator[int]:
            yield from (1, 2)

    async def both() -> tuple[str, str]:
        return await asyncio.gather(Mailer().send("ada"), Mailer().send("bob"))

    assert inspect.iscoroutinefunction(Mailer.send)
    assert list(asyncio.run(both())) == ["Mailer to ada", "Mailer to bob"]
    assert list(Mailer().numbers()) == [1, 2]
    cron.close()
    assert (noted(url).times, noted(url).doubled, noted(url, "numbers").times) == (2, 1, 1)


def test_a_duplicate_is_warned_of_with_the_count_and_both_callers(url: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []
    crons = [Cronce(url), Cronce(url)]
    crons[1].on_event(heard.append)
    for one in crons:
        with one:
            one.observe("sync", window="1h")(lambda: None)()
    first, second = (call.by for call in noted(url).calls)
    assert first != second
    (event,) = (one for one in heard if one.what is What.DOUBLED)
    assert (event.key, event.holder) == ("observed/sync", second)
    (line,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    gap = noted(url).recent[0].why.partition(" after ")[0]
    assert line.getMessage() == (
        f"sync doubled: {second} ran it, {gap} after a call by {first}; extra runs so far: 1 of 2 calls"
    )


def test_with_a_key_only_calls_for_the_same_are_compared_and_the_key_is_nowhere_to_be_read(
    cron: Cronce, url: str
) -> None:
    @cron.observe("mail", window="1h", key=lambda order, **_: order)
    def mail(order: str, title: str = "") -> str:
        return f"{order}{title}"

    for order in ("ada@example.org", "bob@example.org", "ada@example.org"):
        assert mail(order, title="!") == f"{order}!"
    cron.close()
    record = noted(url, "mail")
    assert (record.times, record.doubled) == (3, 1)
    assert "ada" not in encode_notice(record)


def test_a_key_that_cannot_be_told_is_no_reason_not_to_run(
    cron: Cronce, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = cron.observe("mail", key=lambda order: order["id"])(lambda order: f"sent {order}")
    assert (sent({}), sent({"id": 1}), sent({"id": 2.5})) == ("sent {}", "sent {'id': 1}", "sent {'id': 2.5}")
    cron.close()
    assert noted(url, "mail").times == 1
    assert caplog.text.count("the key of a call of mail is unknown, so the call is not recorded: KeyError: 'id'") == 1


def test_the_record_does_not_grow(cron: Cronce, url: str) -> None:
    sync = cron.observe("sync", window="1h")(lambda: None)
    for _ in range(CALLS_KEPT + 30):
        sync()
    cron.close()
    record = noted(url)
    assert (record.times, record.doubled) == (CALLS_KEPT + 30, CALLS_KEPT + 29)
    assert (len(record.calls), len(record.recent)) == (CALLS_KEPT, EXTRA_CALLS_KEPT)


def test_many_threads_at_once_are_counted_each_and_once(cron: Cronce, url: str) -> None:
    sync = cron.observe("sync", window="1h")(lambda: ran.append(1))
    ran: list[int] = []
    threads = [threading.Thread(target=sync) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cron.close()
    assert (len(ran), noted(url).times, noted(url).doubled) == (20, 20, 19)


def test_a_forked_child_observes_for_itself(cron: Cronce, url: str) -> None:
    sync = cron.observe("sync", window="1h")(os.getpid)
    parent = sync()
    cron.close()
    child = os.fork()
    if not child:
        try:
            same = sync() == parent
            cron.close()
            os._exit(int(same))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert {call.by.split(":")[1] for call in noted(url).calls} == {str(parent), str(child)}
    assert noted(url).doubled == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"name": len}, "write @cron.observe('order_sync', window='10s')"),
        ({"name": "a/b"}, "cannot be a name"),
        ({"window": "0s"}, "window is the time within which two calls count as one: more than zero"),
        ({"window": "10"}, "add the unit"),
        ({"key": "order"}, "key is a function of the call's arguments"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(cron: Cronce, how: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        cron.observe(**{"name": "sync"} | how)
    assert message in str(refused.value)
    with pytest.raises(BadPolicy, match="did you mean window"):
        cron.observe("sync", windows="10s")  # type: ignore[arg-type]


# --- whatever the store does ----------------------------------------------------------------------------------------


def test_without_a_store_the_body_runs_and_one_warning_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with Cronce(NOBODY) as cron:
        sync = cron.observe("sync")(lambda number: number)
        assert [sync(number) for number in range(5)] == [0, 1, 2, 3, 4]
    (line,) = caplog.records
    assert line.getMessage().startswith("observed calls and signs of life cannot be recorded: redis at 127.0.0.1")


def test_on_a_store_that_was_copied_the_body_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Cronce(f"sqlite:///{tmp_path}/cronce.db") as cron:
        cron.observe("sync")(lambda: None)()
    shutil.copy(tmp_path / "cronce.db", tmp_path / "copy.db")
    with Cronce(f"sqlite:///{tmp_path}/copy.db") as cron:
        assert cron.observe("sync")(lambda: "ran")() == "ran"
        wait_until(lambda: "copy" in caplog.text)


class Shut(MemoryStore):
    """Answers while `open` is set, waits for that otherwise, or fails."""

    def __init__(self, *, waits: bool) -> None:
        super().__init__(SystemClock().wall)
        self.open, self._waits = threading.Event(), waits
        self.asked = threading.Semaphore(0)

    def load(self, keys: Sequence[str]) -> Loaded:
        self.asked.release()
        if self._waits:
            self.open.wait()
        elif not self.open.is_set():
            raise StoreUnavailable("it is shut")
        return super().load(keys)


def test_what_could_not_be_written_is_written_with_what_comes_next() -> None:
    store = Shut(waits=False)
    cron = Cronce(store=store)
    sync = cron.observe("sync", window="1h")(lambda: None)
    sync()
    store.asked.acquire()
    store.open.set()
    sync()
    wait_until(lambda: noted(store).times == 2)
    cron.close()


def test_what_is_written_late_has_the_time_at_which_it_happened(clock: HandClock, store: Wire, node: HandNode) -> None:
    note = Observation("sync", clock.boot(), WINDOW)
    clock.turn(7)
    node.do(write_notes(node.ledger.client, [note, Observation("sync", clock.boot(), WINDOW)], clock.boot))
    assert [one.at for one in noted(store).calls] == [START, START + timedelta(seconds=7)]


def test_no_more_wait_to_be_written_than_so_many() -> None:
    store = Shut(waits=True)
    cron = Cronce(store=store)
    sync = cron.observe("sync", window="1h")(lambda: None)
    for _ in range(MAX_PENDING_WRITES + 50):
        sync()
    assert store.asked.acquire(timeout=60)
    store.open.set()
    wait_until(lambda: noted(store).times == MAX_PENDING_WRITES)
    cron.close()


def lose_a_reply(store: Wire, then: Callable[[], object]) -> None:
    """The next write lands, nobody says so, and before anybody can look, this happens."""
    swap = store.swap

    def lost(writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        store.swap = swap  # type: ignore[method-assign]
        swap(writes, seen)
        then()
        raise StoreUnavailable("the reply was lost")

    store.swap = lost  # type: ignore[method-assign]


def test_a_call_whose_reply_was_lost_is_counted_once(
    clock: HandClock, store: Wire, node: HandNode, other: HandNode
) -> None:
    def call(who: HandNode) -> None:
        who.do(write_notes(who.ledger.client, [Observation("sync", clock.boot(), WINDOW)], clock.boot))

    def another() -> None:
        clock.turn(1)
        call(other)

    lose_a_reply(store, another)
    call(node)
    record = noted(store)
    assert (record.times, record.doubled) == (2, 1)
    assert [one.by for one in record.calls] == ["web-1", "web-2"]


def test_two_threads_that_call_at_one_moment_are_two(clock: HandClock, store: Wire, node: HandNode) -> None:
    for _ in range(2):
        both = [Observation("sync", clock.boot(), WINDOW) for _ in range(2)]
        node.do(write_notes(node.ledger.client, both, clock.boot))
    assert (noted(store).times, noted(store).doubled) == (4, 3)


def test_a_person_is_told_once_a_minute(clock: HandClock, caplog: pytest.LogCaptureFixture) -> None:
    background = BackgroundWriter(lambda: pytest.fail("it is not asked"), clock)
    for seconds in (0, 30, 29, 1, 1):
        clock.turn(seconds)
        background.failed(StoreUnavailable(f"{clock.seconds:g}"))
        background.warn("mail", "another matter")
    assert [line.rpartition(" ")[2] for line in caplog.messages] == ["0", "matter", "60", "matter"]


def test_what_could_not_be_written_has_one_more_try_at_the_end() -> None:
    store = Shut(waits=False)
    cron = Cronce(store=store)
    cron.observe("sync")(lambda: None)()
    assert store.asked.acquire(timeout=60)
    store.open.set()
    cron.close()
    assert noted(store).times == 1


def test_a_record_that_nobody_can_read_is_begun_anew(clock: HandClock, store: Wire, node: HandNode) -> None:
    store.swap([Write(observed_cell("sync"), 0, "{}", Mark.FREE)], store.load([]).epoch.seen)
    _, (seen,) = drive(observations(), store, clock)
    assert (seen.name, seen.observed) == ("sync", None)
    node.do(write_notes(node.ledger.client, [Observation("sync", clock.boot(), WINDOW)], clock.boot))
    assert noted(store).times == 1


def test_a_record_is_swept_when_nothing_was_observed_for_long(clock: HandClock, store: Wire, node: HandNode) -> None:
    node.do(write_notes(node.ledger.client, [Observation("sync", clock.boot(), WINDOW)], clock.boot))
    gone = []
    for days in (29, 3):
        clock.turn(days * 86_400)
        for _ in range(60):
            clock.turn(1)
            node.do(node.ledger.client.load([]))
        gone.append(node.do(node.ledger.jobs.sweep()))
    assert gone == [0, 1]


def test_a_record_is_read_as_it_was_written() -> None:
    record = Observed(WINDOW, (at(1, key="ab"),), 7, 1, (Doubled("x", START, "web-1", "why"),))
    assert decode_observed(encode_notice(record)) == record
    assert decode_observed(encode_notice(record._replace(window=None))) == record._replace(window=None)
