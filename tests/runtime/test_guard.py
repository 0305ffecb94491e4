"""The guard as users write it, on a real SQLite file: functions, coroutines, threads, forks."""

import asyncio
import inspect
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import pytest

from cronce import Cronce, Run, Skipped, TimedOut
from cronce.errors import BadInput, BadPolicy, BadSchedule, StoreError
from cronce.model import Slot
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.stores import open_store
from tests.house.wait import wait_until

WHEN = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Cronce:
    return Cronce(url)


def record(url: str, job: str, at: datetime = WHEN) -> Record:
    with closing(open_store(url)) as store:
        (cell,) = store.load([Slot(job, at).cell]).cells
    return decode(cell.value, cell.key)


# --- it stays the function it was -----------------------------------------------------------------------------------


def test_a_guard_keeps_name_signature_and_types(cron: Cronce) -> None:
    @cron.job("@daily", start_within="3650d")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert (add.__name__, add.__doc__, add.name) == ("add", "Adds.", "test_a_guard_keeps_name_signature_and_types.add")  # type: ignore[attr-defined]
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"
    result = add.at(WHEN)(3, b=4)
    assert_type(result, int | Skipped)
    assert result == 7
    assert add.fn(1, 1) == 2


def test_a_guard_fills_in_run_and_hides_it(cron: Cronce) -> None:
    @cron.job("@daily", name="sync", start_within="3650d")
    def sync(run: Run, prefix: str) -> str:
        assert run.trusted
        return f"{prefix}{run.key} {run.job} {run.at:%H:%M} {run.attempt}"

    assert str(inspect.signature(sync)) == "(prefix: str) -> str"
    result = sync.at(WHEN)("> ")
    assert_type(result, str | Skipped)
    assert result == "> sync@2026-03-29T12:00:00Z sync 12:00 1"


def test_run_may_stand_anywhere_in_the_signature(cron: Cronce) -> None:
    def first(run: Run, a: int, b: int = 0) -> tuple[int, int, int]:
        return a, run.attempt, b

    def middle(a: int, run: Run, b: int = 0) -> tuple[int, int, int]:
        return a, run.attempt, b

    def named(a: int, b: int = 0, *, run: Run) -> tuple[int, int, int]:
        return a, run.attempt, b

    for fn in (first, middle, named):
        guard: Any = cron.job("@daily", name=fn.__name__, start_within="3650d")(fn)
        assert guard(3, 4, slot=WHEN) == (3, 1, 4)
        assert guard(3, b=4, slot=WHEN + timedelta(days=1)) == (3, 1, 4)
        assert guard(a=3, b=4, slot=WHEN + timedelta(days=2)) == (3, 1, 4)


def test_a_coroutine_function_stays_one(cron: Cronce) -> None:
    @cron.job("@daily", name="sync", start_within="3650d")
    async def sync(run: Run) -> int:
        await asyncio.sleep(0)
        return run.attempt

    assert inspect.iscoroutinefunction(sync)

    async def twice() -> None:
        first = await sync.at(WHEN)()
        assert_type(first, int | Skipped)
        assert first == 1
        assert await sync.at(WHEN)() == Skipped(
            "closed", "it is closed: succeeded", "sync@2026-03-29T12:00:00Z", "succeeded"
        )

    asyncio.run(twice())


def test_a_guarded_method_is_a_method(cron: Cronce) -> None:
    class Mailer:
        def __init__(self, name: str) -> None:
            self.name = name

        @cron.job("@daily", name="mail", start_within="3650d")
        def send(self) -> str:
            return self.name

    assert Mailer("a").send(slot=WHEN) == "a"  # type: ignore[call-arg]


MODULE = Cronce("memory:")


@MODULE.job("@daily")
def in_a_module() -> int:
    return 1


def test_a_guard_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(in_a_module)) is in_a_module


def test_a_call_that_cannot_be_made_takes_no_slot(cron: Cronce, url: str) -> None:
    @cron.job("@daily", name="add", start_within="3650d")
    def add(a: int) -> int:
        return a

    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        add.at(WHEN)()  # type: ignore[call-arg]
    assert add.at(WHEN)(3) == 3


def test_the_slot_may_come_from_the_arguments(cron: Cronce) -> None:
    days: list[date] = []

    @cron.job(name="report", slot=lambda day: day)
    def report(day: date) -> None:
        days.append(day)

    for day in (date(2026, 3, 29), date(2026, 3, 29), date(2026, 3, 30)):
        report(day)
    assert days == [date(2026, 3, 29), date(2026, 3, 30)]


def test_irregular_triggers_of_a_day_run_it_once(cron: Cronce) -> None:
    ran: list[datetime] = []

    @cron.job("@daily", name="report")
    def report(run: Run) -> None:
        ran.append(run.at)

    def today() -> datetime:
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    before = today()
    for _ in range(5):
        report()
    after = today()
    assert ran in ([before], [after], [before, after])  # midnight may pass meanwhile


# --- what cannot be meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "error", "words"),
    [
        ({"schedule": "61 * * * *"}, BadSchedule, "minute"),
        ({"every": "0s"}, BadSchedule, "every"),
        ({"schedule": "@daily", "every": "1h"}, BadPolicy, "one schedule"),
        ({"every": "1h", "tz": "Europe/Berlin"}, BadPolicy, "tz, gap and fold need a cron expression"),
        ({"schedule": "@daily", "on_lost": "retry"}, BadPolicy, "on_lost must be one of 'skip', 'rerun'"),
        ({"schedule": "@daily", "missed": "some"}, BadPolicy, "missed must be one of"),
        ({"schedule": "@daily", "retries": -1}, BadPolicy, "retries must be 0 or more"),
        ({"schedule": "@daily", "retries": True}, BadPolicy, "retries must be 0 or more"),
        ({"schedule": "@daily", "timeout": "0s"}, BadPolicy, "timeout must be 1ms or more, not 0s"),
        ({"schedule": "@daily", "timeout": "soon"}, BadPolicy, "timeout: 'soon' is not a duration"),
        ({"schedule": "@daily", "lease": "1h"}, BadPolicy, "at most 5m"),
        ({"schedule": "@daily", "lease": "999ms"}, BadPolicy, "lease must be 1s or more, not 999ms"),
        ({"schedule": "@daily", "turns": 0}, BadPolicy, "turns must be 1 or more"),
        ({"schedule": "@daily", "name": "a b"}, BadInput, "cannot be a name"),
        ({"schedule": "@daily", "coalesce": True}, BadPolicy, "'coalesce'; here it is missed='latest'"),
        ({"schedule": "@daily", "max_instances": 3}, BadPolicy, "turns=2"),
        ({"schedule": "@daily", "misfire_grace_time": 3}, BadPolicy, "start_within='5m'"),
        ({"schedule": "@daily", "lockAtMostFor": "3m"}, BadPolicy, "at_most='10m'"),
        ({"schedule": "@daily", "colour": "blue"}, BadPolicy, "known: every, at, tz"),
        ({"schedule": "@daily", "onlost": "rerun"}, BadPolicy, "did you mean on_lost?"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_meant_is_refused_where_it_is_written(
    cron: Cronce, policies: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):

        @cron.job(**policies)
        def body() -> None: ...


def test_a_decorator_without_brackets_is_refused(cron: Cronce) -> None:
    with pytest.raises(BadInput, match="with the schedule in brackets"):

        @cron.job  # type: ignore[arg-type]
        def body() -> None: ...


def test_a_lambda_needs_a_name(cron: Cronce) -> None:
    with pytest.raises(BadInput, match="a lambda has no name of its own"):
        cron.job("@daily")(lambda: None)


def test_two_jobs_of_one_name_are_refused(cron: Cronce) -> None:
    def report() -> None:
        pass

    cron.job("@daily", name="report")(report)
    cron.job("@daily", name="report")(report)  # the same again: a module that is loaded twice
    cron.job("@daily", name="report", on_lost="skip")(report)  # to say what is the default is to say the same
    with pytest.raises(BadInput, match="the job report is declared twice"):
        cron.job("@hourly", name="report")(report)


def test_a_store_that_cannot_be_reached_means_that_the_body_does_not_run(tmp_path: Path) -> None:
    ran: list[int] = []
    lost = Cronce(f"sqlite:///{tmp_path}/no/such/place/cronce.db")
    job = lost.job("@daily", name="report")(lambda: ran.append(1))
    with pytest.raises(StoreError, match=r"no/such/place does not exist, or this user cannot see it; check the path"):
        job()
    assert ran == []


def test_a_password_is_never_shown() -> None:
    assert repr(Cronce("postgresql://me:secret@host/db")) == "<Cronce on postgresql://me:***@host/db>"


# --- many at once ---------------------------------------------------------------------------------------------------


def test_many_threads_of_a_process_are_many_claimants(cron: Cronce) -> None:
    ran: list[int] = []
    answers: list[Any] = []

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> int:
        ran.append(1)
        everybody_asked.wait(60)
        return 7

    everybody_asked = threading.Event()
    start = threading.Barrier(16)

    def call() -> None:
        start.wait(60)
        answers.append(report.at(WHEN)())
        if len(answers) == 15:
            everybody_asked.set()

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ran == [1]
    assert [answer for answer in answers if answer] == [7]
    assert {answer.kind for answer in answers if not answer} == {"held"}


def test_many_tasks_of_a_loop_are_many_claimants(cron: Cronce) -> None:
    ran: list[int] = []

    @cron.job("@daily", name="report", start_within="3650d")
    async def report() -> int:
        ran.append(1)
        return 7

    async def main() -> list[int | Skipped]:
        return list(await asyncio.gather(*(report.at(WHEN)() for _ in range(10))))

    answers = asyncio.run(main())
    assert ran == [1]
    assert [answer for answer in answers if answer] == [7]


# --- stopping -------------------------------------------------------------------------------------------------------


def test_a_timeout_stops_a_function_in_a_loop(cron: Cronce, url: str) -> None:
    @cron.job("@daily", name="report", start_within="3650d", timeout="500ms")
    def report() -> None:
        while True:
            pass

    with pytest.raises(TimedOut, match="report@2026-03-29T12:00:00Z timed out after 500ms"):
        report.at(WHEN)()
    assert record(url, "report").reason == "timed out after 500ms"


def test_a_timeout_stops_a_coroutine_and_leaves_the_loop_usable(cron: Cronce, url: str) -> None:
    @cron.job("@daily", name="report", start_within="3650d", timeout="500ms")
    async def report() -> None:
        await asyncio.Event().wait()

    async def main() -> str:
        with pytest.raises(TimedOut, match="timed out after 500ms"):
            await report.at(WHEN)()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0  # else the next timeout or task group around it would be confused
        await asyncio.sleep(0)
        return "still here"

    assert asyncio.run(main()) == "still here"


def test_a_cancelled_coroutine_is_recorded_and_stays_cancelled(cron: Cronce, url: str) -> None:
    @cron.job("@daily", name="report", start_within="3650d")
    async def report() -> None:
        started.set()
        await asyncio.Event().wait()

    started = asyncio.Event()

    async def main() -> None:
        task = asyncio.ensure_future(report.at(WHEN)())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (record(url, "report").outcome, record(url, "report").reason) == (Outcome.FAILED, "CancelledError")


def test_a_call_cancelled_while_it_claims_gives_the_slot_back(cron: Cronce, url: str) -> None:
    """Wherever the cancellation falls, the slot is either untouched, given back, or run once: never stuck."""
    ran: list[int] = []

    @cron.job("@daily", name="report", start_within="3650d")
    async def report() -> None:
        ran.append(1)

    async def main() -> None:
        for delay in range(12):
            task = asyncio.ensure_future(report.at(WHEN)())
            await asyncio.sleep(delay / 1000)
            task.cancel()
            await asyncio.wait([task])
        await report.at(WHEN)()

    asyncio.run(main())
    assert ran == [1]
    assert record(url, "report").outcome is Outcome.SUCCEEDED


# --- forks ----------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], object]) -> str:
    """What `work` returned in a forked child, as text."""
    listen, speak = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(speak, repr(work()).encode())
        except BaseException as error:
            os.write(speak, repr(error).encode())
        finally:
            os._exit(0)
    os.close(speak)
    with os.fdopen(listen) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_in_a_body_does_not_hold_its_parents_lease(cron: Cronce, url: str) -> None:
    said: list[str] = []

    @cron.job("@daily", name="report", start_within="3650d")
    def report(run: Run) -> str:
        said.append(in_child(lambda: (run.trusted, report.at(WHEN)().kind)))  # type: ignore[union-attr]
        said.append(in_child(run.check))
        return "mine"

    assert report.at(WHEN)() == "mine"
    assert said[0] == "(False, 'held')"
    assert said[1].startswith("LeaseLost('report@2026-03-29T12:00:00Z was granted to the process that forked this one")
    assert record(url, "report").outcome is Outcome.SUCCEEDED


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_leaves_the_body_it_was_forked_in_closes_nothing(cron: Cronce, url: str) -> None:
    """As a daemon does that forks and returns in the child."""

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> int:
        return os.fork()

    child = report.at(WHEN)()
    if child == 0:
        os._exit(0)
    assert isinstance(child, int)
    os.waitpid(child, 0)
    assert record(url, "report").outcome is Outcome.SUCCEEDED
    with cron.lock("after"):
        pass


def test_children_forked_before_the_first_call_are_claimants_of_their_own(cron: Cronce, url: str) -> None:
    """As gunicorn does: the application is imported, then the workers are forked."""
    with cron.lock("used-before-the-fork"):
        pass

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> str:
        return "ran"

    answers = [in_child(report.at(WHEN)) for _ in range(4)]
    assert [answer for answer in answers if answer == "'ran'"] == ["'ran'"]
    assert sum("it is closed: succeeded" in answer for answer in answers) == 3


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_leaves_a_lock_does_not_release_it(cron: Cronce) -> None:
    with cron.lock("reindex"):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
        else:
            os.waitpid(child, 0)
            assert in_child(lambda: cron.lock("reindex").__enter__()).startswith("LockHeld")
    if child == 0:
        os._exit(0)


def test_a_failed_slot_is_retried_from_outside(cron: Cronce, url: str) -> None:
    @cron.job("@daily", name="report", start_within="3650d", retries=1, backoff="10ms")
    def report(run: Run) -> int:
        if run.attempt == 1:
            raise ValueError("first")
        return run.attempt

    with pytest.raises(ValueError, match="first"):
        report.at(WHEN)()
    assert record(url, "report").state is State.RETRYING
    assert report.at(WHEN)() == 2


# --- found by trying to break it --------------------------------------------------------------------------------------


def test_a_process_that_changes_its_directory_or_environment_keeps_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper opens a connection of its own, and a forked child too: both long after the first."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("cronce.runtime.keeper.NOTED", 0.05)
    monkeypatch.chdir(tmp_path / "a")
    cron = Cronce("sqlite:///cronce.db")

    @cron.job("@daily", name="report", start_within="3650d")
    def report(run: Run) -> str:
        monkeypatch.chdir(tmp_path / "b")
        run.progress(1, 2)  # the keeper tells it with the next renewal
        wait_until(lambda: record(f"sqlite:///{tmp_path}/a/cronce.db", "report").progress == (1, 2))
        run.check()
        return in_child(report.at(WHEN))

    said = report.at(WHEN)()
    assert isinstance(said, str)
    assert "held" in said
    assert list((tmp_path / "b").iterdir()) == []


def test_generators_are_refused_because_nothing_of_them_would_run(cron: Cronce) -> None:
    def lines() -> Iterator[int]:
        yield 1

    with pytest.raises(BadInput, match="lines is a generator: calling it runs no code"):
        cron.job("@daily", name="lines")(lines)


def test_a_body_that_returns_a_coroutine_has_failed(cron: Cronce, url: str) -> None:
    async def later() -> None: ...

    job: Any = cron.job("@daily", name="report", start_within="3650d")(lambda: later())  # noqa: PLW0108
    with pytest.raises(BadInput, match="and none of it has run"):
        job.at(WHEN)()
    assert record(url, "report").outcome is Outcome.FAILED


def test_an_object_with_an_async_call_is_awaited(cron: Cronce) -> None:
    class Report:
        async def __call__(self) -> int:
            await asyncio.sleep(0)
            return 7

    job: Any = cron.job("@daily", name="report", start_within="3650d")(Report())
    assert asyncio.run(job.at(WHEN)()) == 7


@pytest.mark.parametrize("slot", [0, 1.5, b"2026-03-29", "0001-01-01", "9999-12-31T23:59:59-23:00"])
def test_a_slot_of_a_strange_kind_is_refused(cron: Cronce, slot: Any) -> None:
    job: Any = cron.job("@daily", name="report", tz="Asia/Tokyo")(lambda: None)
    with pytest.raises(BadInput):
        job(slot=slot)
