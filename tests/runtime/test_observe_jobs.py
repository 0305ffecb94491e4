"""Jobs with mode="observe": whoever triggers them runs them as before, and what the guard would refuse is noted."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce, Run, Skipped
from cronce.errors import BadInput, BadPolicy, CronceError
from cronce.model import Slot
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.runtime.keeper import Lease
from cronce.runtime.operations import Operator
from cronce.stores import open_store
from tests.house.wait import wait_until
from tests.runtime.test_observe import NOBODY, noted

pytestmark = pytest.mark.usefixtures("patient_farewell")

WHEN = datetime(2026, 3, 29, 12, tzinfo=UTC)
NEXT = WHEN + timedelta(days=1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Iterator[Cronce]:
    with Cronce(url) as cron:
        yield cron


def observed(cron: Cronce, fn: Any, name: str = "sync", **policies: Any) -> Any:
    return cron.job("@daily", name=name, start_within="3650d", mode="observe", **policies)(fn)


def record(url: str, job: str = "sync", at: datetime = WHEN) -> Record:
    (cell,) = open_store(url).load([Slot(job, at).cell]).cells
    return decode(cell.value, cell.key)


def claimed(cron: Cronce) -> Lease:
    """What the shadow of the one body that runs holds, as soon as it does."""
    wait_until(lambda: cron.at_work()._leases)
    (lease,) = cron.at_work()._leases
    return lease


# --- it runs as before ----------------------------------------------------------------------------------------------


def test_a_job_that_is_only_observed_runs_each_time_and_the_second_is_noted(cron: Cronce, url: str) -> None:
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    sync = observed(cron, add)
    assert (sync.at(WHEN)(1), sync(1, b=4, slot=WHEN), sync.at(NEXT)(2)) == (3, 5, 4)
    assert (str(inspect.signature(sync)), sync.__doc__, sync.name, sync.fn) == (
        "(a: int, b: int = 2) -> int", "Adds.", "sync", add
    )  # fmt: skip
    cron.close()
    assert (record(url).state, record(url).outcome, record(url).grant) == (State.CLOSED, Outcome.SUCCEEDED, 1)
    seen = noted(url)
    assert (seen.window, seen.times, seen.doubled) == (None, 3, 1)
    (one,) = seen.recent
    assert (one.slot, one.why) == (
        "sync@2026-03-29T12:00:00Z", f"though it is closed: succeeded, by {record(url).holder}"
    )  # fmt: skip


def test_while_another_runs_it_it_runs_here_too_and_who_has_it_is_noted(url: str) -> None:
    started, go_on = threading.Event(), threading.Event()

    def long() -> None:
        started.set()
        go_on.wait()

    crons = [Cronce(url), Cronce(url)]
    first = observed(crons[0], long)
    second = observed(crons[1], lambda: "ran")
    thread = threading.Thread(target=first.at(WHEN))
    thread.start()
    started.wait()
    wait_until(lambda: noted(url).times == 1)
    assert second.at(WHEN)() == "ran"
    crons[1].close()
    go_on.set()
    thread.join()
    for one in crons:
        one.close()
    (found,) = noted(url).recent
    assert found.why.startswith(f"though {record(url).holder} runs it, until ")
    assert (noted(url).times, noted(url).doubled, record(url).outcome) == (2, 1, Outcome.SUCCEEDED)


def test_the_slot_may_be_that_of_the_schedule_or_come_from_the_arguments(cron: Cronce, url: str) -> None:
    sync = cron.job(name="report", slot=lambda day: day, mode="observe")(lambda day: day)
    assert [sync(day) for day in ("2026-03-29", "2026-03-30", "2026-03-29")] == [
        "2026-03-29", "2026-03-30", "2026-03-29"
    ]  # fmt: skip
    cron.close()
    assert (noted(url, "report").times, noted(url, "report").doubled) == (3, 1)
    yearly = cron.job("@yearly", name="yearly", mode="observe")(lambda: "ran")
    assert (yearly(), yearly()) == ("ran", "ran")
    cron.close()
    assert (noted(url, "yearly").times, noted(url, "yearly").doubled) == (2, 1)


def test_the_very_exception_of_a_body_reaches_its_caller_and_is_on_record(cron: Cronce, url: str) -> None:
    error = KeyError("mine")

    def fails() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        observed(cron, fails, retries=3).at(WHEN)()
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    cron.close()
    assert (record(url).outcome, record(url).reason) == (Outcome.FAILED, "KeyError: 'mine'")


def test_what_failed_and_may_be_retried_would_not_be_refused(cron: Cronce, url: str) -> None:
    for name, retries in (("once", 0), ("often", 3)):
        sync = observed(cron, lambda: 1 / 0, name, retries=retries)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                sync.at(WHEN)()
    cron.close()
    assert (noted(url, "once").doubled, noted(url, "often").doubled) == (1, 0)


def test_a_coroutine_function_stays_one_and_its_loop_goes_on(cron: Cronce, url: str) -> None:
    async def sync(a: int) -> int:
        await asyncio.sleep(0)
        if a > 1:
            raise KeyError(a)
        return a

    guard = observed(cron, sync)

    async def all_of_it() -> list[Any]:
        return await asyncio.gather(*(guard.at(WHEN)(a) for a in (0, 1, 2)), return_exceptions=True)

    assert inspect.iscoroutinefunction(guard)
    zero, one, error = asyncio.run(all_of_it())
    assert (zero, one, error.args) == (0, 1, (2,))
    cron.close()
    assert (noted(url).times, noted(url).doubled) == (3, 2)


def test_a_command_that_is_only_observed_runs_each_time(cron: Cronce, url: str, tmp_path: Path) -> None:
    words = ["sh", "-c", f"echo x >> {tmp_path}/out; exit 3"]
    sync = cron.command("sync", words, "@daily", start_within="3650d", mode="observe")
    assert (sync(slot=WHEN), sync.at(WHEN)(), sync.name) == (3, 3, "sync")
    assert (tmp_path / "out").read_text() == "x\nx\n"
    cron.close()
    assert (record(url).reason, noted(url).doubled) == ("exit code 3", 1)
    assert cron.command("kill", ["sh", "-c", "kill -9 $$"], "@daily", start_within="3650d", mode="observe")() == 137


# --- nothing that befalls the lease reaches the body ----------------------------------------------------------------


def test_no_timeout_stops_a_body_that_is_only_observed(cron: Cronce, url: str) -> None:
    def long() -> str:
        lease = claimed(cron)
        threading.Event().wait(0.2)  # it is kept, and renewed, as long as the body goes on
        return "ended" if lease.trusted else "lost"

    assert observed(cron, long, timeout="50ms").at(WHEN)() == "ended"
    cron.close()
    assert record(url).outcome is Outcome.SUCCEEDED


def test_who_asks_it_to_stop_is_not_heard(cron: Cronce, url: str) -> None:
    """And its lease is renewed to the end, though it is told to stop with the first renewal."""
    told = threading.Event()

    def body() -> str:
        lease, node = claimed(cron), cron.at_work().node
        node.do(Operator(node.ledger, "ada", ["sync"]).cancel(Slot("sync", WHEN), "enough"))
        cron.at_work()._renew([lease], cron.at_work()._connection.current)
        assert lease.over is not None
        told.set()
        return "ended"

    assert observed(cron, body).at(WHEN)() == "ended"
    assert told.is_set()


def test_a_slot_that_another_took_over_meanwhile_does_not_stop_the_body(
    cron: Cronce, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def body() -> str:
        lease, node = claimed(cron), cron.at_work().node
        node.do(node.ledger.finish(lease.grant, Outcome.LOST))
        return "ended"

    assert observed(cron, body).at(WHEN)() == "ended"
    cron.close()
    assert record(url).outcome is Outcome.LOST
    assert "a call of sync ran" in caplog.text


def test_without_a_store_it_runs_at_once_and_one_warning_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with Cronce(NOBODY) as cron:
        sync = observed(cron, lambda number: number)
        assert [sync(number) for number in range(5)] == [0, 1, 2, 3, 4]
        wait_until(lambda: caplog.records)
    (line,) = caplog.records
    assert "cannot be recorded: redis at 127.0.0.1:1 cannot be reached" in line.getMessage()


def test_where_there_can_be_no_more_threads_it_runs(
    cron: Cronce, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    job, function = observed(cron, lambda: "ran"), cron.observe("other")(lambda: "ran")
    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", full)
        assert (job(), function()) == ("ran", "ran")
        cron.heartbeat("beat")
    (line,) = caplog.messages
    assert line.endswith("cannot be recorded: can't start new thread")


def test_a_call_that_means_no_slot_runs_and_is_warned_of(cron: Cronce, caplog: pytest.LogCaptureFixture) -> None:
    assert cron.job(name="bare", mode="observe")(lambda: "ran")() == "ran"
    cron.close()
    assert "a call of bare ran, and has no slot: BadInput: the job bare has no schedule" in caplog.text
    assert observed(cron, lambda: "ran").at(WHEN + timedelta(days=36_500))() == "ran"


# --- and nothing is left behind -------------------------------------------------------------------------------------


def test_it_waits_for_no_turn_asks_nobody_to_stop_and_leaves_nothing_to_be_run(url: str) -> None:
    """While one slot runs the next would wait, or take its place. Here both run, and the second is on record as
    skipped: once the word is left out, nothing comes back."""
    for overlap in ("wait", "replace", "skip"):
        name, started, go_on = f"{overlap}.1", threading.Event(), threading.Event()

        def long() -> None:
            started.set()  # noqa: B023
            go_on.wait()  # noqa: B023

        with Cronce(url) as cron:
            thread = threading.Thread(target=observed(cron, long, name, on_lost="rerun").at(WHEN))
            thread.start()
            started.wait()
            wait_until(lambda: noted(url, name).times == 1)  # noqa: B023
            with Cronce(url) as another:
                policies: Any = {"overlap": overlap, "on_lost": "rerun", "retries": 3}
                assert observed(another, lambda: "ran", name, **policies).at(NEXT)() == "ran"
            go_on.set()
            thread.join()
        assert (record(url, name).outcome, record(url, name).ask) == (Outcome.SUCCEEDED, "")
        assert (record(url, name, NEXT).state, record(url, name, NEXT).outcome) == (State.CLOSED, Outcome.SKIPPED)
        assert (noted(url, name).times, noted(url, name).doubled) == (2, 0)
        with Cronce(url) as cron:
            node = cron.at_work().node
            assert node.do(node.ledger.overdue(name)) == []


def test_one_guards_and_another_observes_the_same_job(url: str) -> None:
    """The word is no part of a job's version: it can be left out machine by machine."""
    with Cronce(url) as before, Cronce(url) as after:
        old = observed(before, lambda: "old")
        new = after.job("@daily", name="sync", start_within="3650d")(lambda: "new")
        assert old.at(WHEN)() == "old"
        before.close()
        assert new.at(NEXT)() == "new"
        assert isinstance(new.at(WHEN)(), Skipped)
        assert old.at(NEXT)() == "old"
    assert (noted(url).times, noted(url).doubled) == (2, 1)
    (one,) = noted(url).recent
    assert one.slot == "sync@2026-03-30T12:00:00Z"


# --- what cannot be meant -------------------------------------------------------------------------------------------


def test_a_scheduler_of_ours_refuses_what_another_one_calls(cron: Cronce) -> None:
    observed(cron, lambda: None)
    for start in (cron.start, cron.run):
        with pytest.raises(BadInput, match="sync: mode='observe' is for functions that another scheduler calls"):
            start()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"mode": "watch"}, "mode must be one of 'guard', 'observe', not 'watch'"),
        ({"mode": "observe", "isolate": True}, "leave out isolate"),
        ({"mode": "observe", "transaction": "sqlite:///x.db"}, "leave out transaction"),
    ],
)
def test_policies_that_do_not_go_with_it_are_refused(cron: Cronce, how: Any, message: str) -> None:
    with pytest.raises(BadPolicy, match=message):
        cron.job("@daily", name="sync", **how)(test_policies_that_do_not_go_with_it_are_refused)


def test_a_body_that_asks_for_its_run_is_refused(cron: Cronce) -> None:
    def body(run: Run) -> None:
        raise AssertionError(run)

    with pytest.raises(BadInput, match="sync takes a run as its argument"):
        observed(cron, body)


def test_a_job_that_lives_in_the_store_cannot_be_only_observed(cron: Cronce) -> None:
    from cronce.runtime.stored_jobs import define  # noqa: PLC0415

    with pytest.raises(CronceError, match="mode is for jobs that another scheduler calls"):
        define("sync", {"schedule": "@daily", "command": ["true"], "mode": "observe"})


def test_apscheduler_is_protected_or_left_alone() -> None:
    from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415

    from cronce.integrations.apscheduler import protect  # noqa: PLC0415

    with pytest.raises(BadPolicy, match=r"leave out protect and put @cron.observe\('name'\) above its function"):
        protect(BackgroundScheduler(), Cronce("memory:"), mode="observe")


# --- in a pod of a Kubernetes Job -----------------------------------------------------------------------------------


def test_in_a_pod_the_slot_is_that_of_the_cronjob_and_a_job_made_by_hand_is_no_duplicate(
    cron: Cronce, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = observed(cron, lambda: "ran")
    for name in ("sync-29579040", "sync-29579040", "sync-again"):  # 2026-03-29T00:00Z, in minutes
        monkeypatch.setenv("CRONCE_JOB_NAME", name)
        assert sync() == "ran"
    cron.close()
    assert record(url, at=datetime(2026, 3, 29, tzinfo=UTC)).outcome is Outcome.SUCCEEDED
    assert (noted(url).times, noted(url).doubled) == (3, 1)
