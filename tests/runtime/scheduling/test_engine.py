"""What an engine does when something goes wrong in the middle of a batch."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Literal, TypeVar

import pytest

from cronce import Cronce, Run
from cronce.errors import StoreUnavailable
from cronce.model import Mark, Slot, Write
from cronce.protocol.commands import Queue
from cronce.protocol.notices import Holder
from cronce.protocol.record import Job, Outcome, State
from cronce.runtime.attempt import Work
from cronce.runtime.scheduling.candidates import DueSlots
from cronce.runtime.scheduling.engine import uncollected
from cronce.runtime.scheduling.roster import Roster, digest_of
from cronce.stores.base import Loaded, Page, Scan, Swapped
from cronce.stores.memory import MemoryStore
from cronce.testing import manual, manual_time
from cronce.testing.manual_time import Manual, Ran
from tests.runtime.shelf import DURABLE

T = TypeVar("T")


def test_a_body_that_cannot_be_made_is_given_back_and_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cron = Cronce("memory:")
    for name in ("a", "b", "c"):
        cron.job(every="1m", name=name)(lambda: None)
    made = cron.works["b"]

    def unwell() -> Work:
        raise OSError("no more processes")

    cron.works["b"] = unwell
    with manual(cron, "2026-03-01T00:00:30Z") as time:
        assert [ran.job for ran in time.advance("31s")] == ["a", "c"]
        assert time.records()["b@2026-03-01T00:01:00Z"].state is State.DUE
    assert "b@2026-03-01T00:01:00Z could not be started; it was released for another process" in caplog.text
    assert made is not unwell


# --- a store that fails ---

Fate = Literal["before", "after"]


class Lossy(MemoryStore):
    """Loses one call, or from then on all for a while: before it landed, or its reply after it did."""

    def __init__(self, clock: Callable[[], datetime], *, lose: int, times: int, fate: Fate) -> None:
        super().__init__(clock, DURABLE)
        self.calls, self.lost, self._fate = 0, range(lose, lose + times), fate

    def _through(self, call: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls not in self.lost:
            return call()
        if self._fate == "after":
            call()
        raise StoreUnavailable("no answer")

    def load(self, keys: Sequence[str]) -> Loaded:
        return self._through(lambda: super(Lossy, self).load(keys))

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        return self._through(lambda: super(Lossy, self).swap(writes, seen))

    def scan(self, scan: Scan) -> Page:
        return self._through(lambda: super(Lossy, self).scan(scan))


def lived_through(monkeypatch: pytest.MonkeyPatch, lose: int, times: int, fate: Fate) -> tuple[int, Manual]:
    """Two minutes of two processes: a job that succeeds, one that is retried once, one that waits for its turn."""
    monkeypatch.setattr(manual_time, "MemoryStore", partial(Lossy, lose=lose, times=times, fate=fate))
    cron = Cronce("memory:")
    cron.job(every="1m", name="plain", start_within="1h")(lambda: None)
    cron.job(every="1m", name="waits", start_within="1h", overlap="wait")(lambda: None)

    @cron.job(every="1m", name="flaky", start_within="1h", retries=1, backoff="2s", on_lost="rerun")
    def flaky(run: Run) -> None:
        if run.attempt == 1:
            raise ValueError("the first time")

    with manual(cron, "2026-03-01T00:00:30Z", processes=2) as time:
        time.advance("2m")
        assert isinstance(time.store, Lossy)
        time.store.lost = range(0)
        time.advance("20s")
    return time.store.calls, time


def expected() -> dict[str, int]:
    slots = [f"2026-03-01T00:0{minute}:00Z" for minute in range(1, 3)]
    return {f"{job}@{slot}": runs for job, runs in (("plain", 1), ("waits", 1), ("flaky", 2)) for slot in slots}


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("times", [1, 4, 9])
def test_whichever_call_of_the_store_is_lost_each_slot_runs_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, times: int, fate: Fate
) -> None:
    caplog.set_level("CRITICAL", "cronce")
    calls, calm = lived_through(monkeypatch, 0, 0, fate)
    assert Counter(ran.slot.key for ran in calm.ran) == expected()
    for lose in range(1, calls + 1):
        _, time = lived_through(monkeypatch, lose, times, fate)
        assert Counter(ran.slot.key for ran in time.ran) == expected(), f"call {lose} was lost {fate} it landed"
        assert {record.outcome for record in time.records().values()} == {Outcome.SUCCEEDED}


# --- what else may stand in the way ---


@pytest.fixture
def cron() -> Cronce:
    cron = Cronce("memory:")
    cron.job(every="1m", name="tick", keep=3)(lambda: None)
    return cron


def minutes(ran: Sequence[Ran]) -> list[int]:
    return [one.slot.at.minute for one in ran]


def test_a_drained_process_rests_and_does_not_spin(cron: Cronce) -> None:
    with manual(cron, "2026-03-01T00:00:30Z") as time:
        cron.drain("test:1:0")
        assert time.advance("5m") == []
        cron.drain("test:1:0", off=True)
        assert minutes(time.advance("5m")) == [5, 6, 7, 8, 9, 10]  # the latest that was missed, and on


def test_thousands_of_open_runs_that_others_left_hide_nothing(cron: Cronce) -> None:
    left = Slot("other", datetime(2026, 1, 1, tzinfo=UTC))
    with manual(cron, "2026-03-01T00:00:30Z") as time:
        node = time.cron.at_work().node
        node.do(node.ledger.jobs.edit("other", lambda _job, now: Job(now)))
        for some in range(13):
            asked = {left._replace(request=f"r-{some}-{number}"): Queue(by="ada") for number in range(500)}
            node.do(node.ledger.put(asked))
        key = cron.trigger("tick")
        assert [one.slot.key for one in time.advance("1s")] == [key]


def test_a_job_that_a_newer_cronce_wrote_keeps_no_other_from_running(
    cron: Cronce, caplog: pytest.LogCaptureFixture
) -> None:
    cron.job(every="1m", name="newer")(lambda: None)
    with manual(cron, "2026-03-01T00:00:30Z") as time:
        (cell,) = time.store.load(["job/newer"]).cells
        time.store.swap([Write(cell.key, cell.version, '{"v":99}', Mark.OPEN)], time.store.load([]).epoch.seen)
        time.skip("10s")
        assert [one.job for one in time.advance("2m")] == ["tick", "tick"]
        cron.pause_all()
        cron.resume_all()
        assert [one.job for one in time.advance("1m")] == ["tick"]
    assert "newer is not run by this process: " in caplog.text


def test_who_is_superseded_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    old, new = Cronce("memory:"), Cronce("memory:")
    old.job(every="1m", name="tick")(lambda: None)
    new.job(every="2m", name="tick")(lambda: None)
    with manual(old, "2026-03-01T00:00:30Z") as time:
        node = time.cron.at_work().node
        specs = {"tick": new.jobs["tick"].spec}
        me = Holder("newer", digest_of(specs), "both", 1, {}, time.now, "")
        node.do(Roster(node.ledger.client, node.ledger.jobs).beat(me._replace(holder=node.holder), specs, 0.0))
        assert time.advance("10m") == []
    assert caplog.text.count("tick is run by another version of the job") == 1


def test_a_job_that_fires_again_is_settled_in_at_the_next_beat_if_the_store_fails(
    cron: Cronce, monkeypatch: pytest.MonkeyPatch
) -> None:
    fires_again, tries = [{"tick"}], []

    def settle_in(_self: DueSlots, names: Set[str]) -> None:
        if names:
            tries.append(set(names))
        if len(tries) == 1:
            raise StoreUnavailable("no answer")

    with manual(cron, "2026-03-01T00:00:30Z") as time:
        monkeypatch.setattr(Roster, "regained", lambda _self: fires_again.pop() if fires_again else set())
        monkeypatch.setattr(DueSlots, "settle_in", settle_in)
        time.advance("61m")
    assert tries == [{"tick"}, {"tick"}]


def test_every_failure_has_a_line_with_its_reason(cron: Cronce, caplog: pytest.LogCaptureFixture) -> None:
    @cron.job(every="1m", name="broken", retries=1, on_lost="skip")
    def broken() -> None:
        raise ValueError("no printer")

    with manual(cron, "2026-03-01T00:00:30Z") as time:
        time.advance("1m")
    assert "broken@2026-03-01T00:01:00Z failed, attempt 1 of 2: ValueError: no printer" in caplog.text
    assert "broken@2026-03-01T00:01:00Z failed, attempt 2 of 2: ValueError: no printer" in caplog.text


def test_that_the_store_answers_again_is_said_when_it_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cronce")
    calls, _ = lived_through(monkeypatch, 0, 0, "before")
    caplog.clear()
    lived_through(monkeypatch, calls // 2, 9, "before")
    assert caplog.text.count("does not answer") == caplog.text.count("answers again")
    assert caplog.text.count("answers again") in (1, 2)  # of each process at most one


def test_the_garbage_collector_is_put_back_when_the_last_of_several_engines_is_done() -> None:
    assert gc.isenabled()
    with uncollected:
        with uncollected:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    first, second = ExitStack(), ExitStack()
    first.enter_context(uncollected)
    second.enter_context(uncollected)
    first.close()
    assert not gc.isenabled()
    second.close()
    assert gc.isenabled()


def forked_child_collects() -> bool:
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() and not uncollected._inside else 1)
    return os.waitpid(child, 0)[1] == 0


def test_a_child_that_is_forked_while_nothing_is_collected_has_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child forked by another thread between turning the collector off and counting that had none, for ever."""
    found = list[bool]()

    def forking(turn: Callable[[], None]) -> Callable[[], None]:
        def turned() -> None:
            turn()
            if os.getpid() == parent:
                with ThreadPoolExecutor(1) as beside:
                    found.append(beside.submit(forked_child_collects).result())

        return turned

    parent = os.getpid()
    turns = SimpleNamespace(isenabled=gc.isenabled, disable=forking(gc.disable), enable=forking(gc.enable))
    monkeypatch.setattr("cronce.runtime.scheduling.engine.gc", turns)
    with uncollected:
        assert forked_child_collects()
        assert not gc.isenabled()
    assert (found, gc.isenabled()) == ([True, True], True)
