"""Isolated bodies: real children, that are really killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce, LeaseLost, Skipped, TimedOut
from cronce.errors import BadInput, BodyFailed, NotRecorded, SlotFailed, StoreUnavailable
from cronce.model import Cell, Slot, unspell
from cronce.protocol.commands import Queue
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.runtime.keeper import LeaseEnd
from cronce.runtime.processes.isolated import StdinChannel
from cronce.stores import open_store
from cronce.stores.base import Scan
from cronce.stores.sqlite import SqliteStore
from tests.house.wait import wait_until
from tests.integrations.execs import gone
from tests.runtime.processes import tasks

WHEN = datetime(2026, 3, 29, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[3]


class Place:
    """A store, a book that bodies write into, and a broom."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.book = folder, folder / "book"
        self.url = f"sqlite:///{folder}/cronce.db"
        self.cron = Cronce(self.url)
        self.threads = ThreadPoolExecutor()

    def job(self, fn: Callable[..., Any], name: str = "job", **policies: Any) -> Any:
        policies = {"start_within": "3650d", "isolate": True, **policies}
        return self.cron.job("@daily", name=name, **policies)(fn).at(WHEN)

    def start(self, fn: Callable[..., Any], **policies: Any) -> Future[Any]:
        """Call it in a thread; returns when the body has begun."""
        call = self.threads.submit(self.job(fn, **policies), str(self.book))
        wait_until(lambda: self.book.exists() or call.done())
        return call

    def begun(self) -> list[int]:
        wait_until(self.book.exists)
        return [int(pid) for pid in self.book.read_text().split()]

    def end(self, over: LeaseEnd) -> None:
        """What the keeper does when it learns that."""
        keeper = self.cron.at_work()
        (lease,) = keeper._kept()
        keeper._end(lease, over)

    def cell(self, name: str = "job") -> Cell:
        store = open_store(self.url)
        try:
            (cell,) = store.load([Slot(name, WHEN).cell]).cells
            return cell
        finally:
            store.close()

    def record(self, name: str = "job") -> Record:
        cell = self.cell(name)
        return decode(cell.value, cell.key)

    def sweep(self) -> None:
        if self.book.exists():
            for pid in self.begun():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.threads.shutdown()
        self.cron.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.sweep()


Places = Callable[..., None]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    """Something is done for each case, in a place of its own, for all at once."""
    made: list[Place] = []

    def each(work: Callable[..., None], *cases: tuple[Any, ...]) -> None:
        for number in range(len(cases)):
            (folder := tmp_path / f"{number}").mkdir()
            made.append(Place(folder))
        with ThreadPoolExecutor(len(cases)) as pool:
            for done in [pool.submit(work, place, *case) for place, case in zip(made, cases, strict=True)]:
                done.result()

    yield each
    for one in made:
        one.sweep()


# --- it runs like any other body ------------------------------------------------------------------------------------


def test_a_body_in_a_child_knows_its_run_and_what_a_command_would_know(place: Place) -> None:
    told = place.job(tasks.tells, timeout="1h")()
    fence = told["run"][4]
    assert told["run"] == ["job", str(WHEN), str(WHEN), "job@2026-03-29T12:00:00Z", fence, 1]
    assert told["env"] == {
        "CRONCE_ATTEMPT": "1",
        "CRONCE_DEADLINE": told["env"]["CRONCE_DEADLINE"],
        "CRONCE_FENCE": fence,
        "CRONCE_JOB": "job",
        "CRONCE_KEY": "job@2026-03-29T12:00:00Z",
        "CRONCE_SCOPE": "job",
        "CRONCE_SLOT": "2026-03-29T12:00:00Z",
    }
    left = unspell(told["env"]["CRONCE_DEADLINE"]) - datetime.now(UTC)
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
    assert (told["payload"], told["stdin"], told["group"], told["main thread"]) == (None, "", True, True)
    assert place.record().outcome is Outcome.SUCCEEDED


def test_a_body_in_a_child_has_its_payload(place: Place) -> None:
    body = place.job(tasks.tells)
    node = place.cron.at_work().node
    asked = Queue(by="ann", payload='{"customer":7}', key="job@special")
    node.do(node.ledger.put({Slot("job", WHEN): asked._replace(first=WHEN)}))
    told = body()
    assert (told["payload"], told["run"][3]) == ({"customer": 7}, "job@special")
    assert (told["env"]["CRONCE_PAYLOAD"], told["env"]["CRONCE_KEY"]) == ('{"customer":7}', "job@special")


def test_arguments_and_the_result_travel_as_json_and_the_second_caller_is_skipped(place: Place) -> None:
    add = place.job(tasks.adds)
    with pytest.raises(BadInput, match="as JSON: Object of type object is not JSON serializable"):
        add(object())
    with pytest.raises(TypeError):
        add(1, 2, 3)
    assert add(40) == 42
    assert isinstance(add(40), Skipped)


def test_arguments_may_be_larger_than_a_pipe(place: Place) -> None:
    assert place.job(tasks.length)("ä" * 200_000 + "end") == [200_003, "end"]


def test_a_coroutine_function_is_awaited_here_and_runs_there(place: Place) -> None:
    assert asyncio.run(place.job(tasks.adds_async)(1, b=1)) == 2


def test_a_result_that_json_cannot_say_is_no_failure(place: Place) -> None:
    assert place.job(tasks.returns_what_json_cannot_say)() is None
    assert place.record().outcome is Outcome.SUCCEEDED


def test_a_result_that_is_too_long_is_the_caller_s_trouble_and_no_failure(place: Place) -> None:
    assert place.job(tasks.repeats, name="most")(65_534) == "r" * 65_534
    with pytest.raises(BadInput, match="job@2026-03-29T12:00:00Z succeeded, but its result is 65,537 bytes of JSON;"):
        place.job(tasks.repeats)(65_535)
    assert place.record().outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_words_are_heard_whole_and_in_order_however_they_arrive(chunk: int) -> None:
    heard = list[Any]()
    line = StdinChannel("{}", heard.append)
    line.open()
    said = b"".join(b'{"word":"%s"}\n' % (b"x" * length) for length in (0, 9, 3000))
    with socket.socket(fileno=line.inlet) as theirs:
        for begin in range(0, len(said), chunk):
            theirs.sendall(said[begin : begin + chunk])
            line.read()
    line.close()
    assert [len(word["word"]) for word in heard] == [0, 9, 3000]


def test_a_body_is_trusted_for_as_long_as_its_lease_is_renewed(place: Place) -> None:
    assert place.job(tasks.outlives, lease="4s")() == [True, True]


def test_an_effect_after_a_lease_without_a_check_is_made_since_the_lease_was_renewed(place: Place) -> None:
    """It raised `LeaseLost`: what the parent had told of renewals was not heard before the effect was begun."""
    place.job(tasks.charges_after_a_lease, lease="2s")(str(place.book.with_suffix(".charged")))
    assert (place.book.with_suffix(".charged").read_text(), place.record().outcome) == ("charged", Outcome.SUCCEEDED)


def test_what_a_child_left_undone_or_forgot_is_no_success(place: Place) -> None:
    with pytest.raises(SlotFailed, match="charge/invoice:8 is not done: OSError: no answer"):
        place.job(tasks.swallows, name="swallows")()
    record = place.record("swallows")
    assert (record.outcome, record.reason) == (
        Outcome.FAILED, "charge/invoice:8 is not done: OSError: no answer",
    )  # fmt: skip
    with pytest.raises(BodyFailed, match="was never entered, and committed nothing: write `with` before it"):
        place.job(tasks.forgets_with, name="forgets")(str(place.folder / "forgot"))


def test_progress_comes_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.runtime.keeper.NOTED", 0.3)
    release = place.folder / "release"
    call = place.threads.submit(place.job(tasks.counts), str(place.book), str(release))
    place.begun()
    wait_until(lambda: place.record().progress == (1, 7))  # the first is told at once; seven in a row are one word
    release.touch()
    assert call.result() is None


def test_many_at_once_each_have_an_output_of_their_own(place: Place) -> None:
    words = ["one", "two", "three"]
    calls = [place.threads.submit(place.job(tasks.prints, name=word), word, 1000) for word in words]
    assert [call.result() for call in calls] == [None] * 3
    for word in words:  # what it prints on stderr is the end, however late stdout is read
        assert place.record(word).output == (f"{word}\n" * 1000 + f"{word}!\n")[-2000:]


# --- how it fails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "args", "why", "output"),
    [
        (tasks.raises, (), "LookupError: no such customer: \ufffd ?", "LookupError: no such customer"),
        (tasks.leaves, (0,), "the process ended with exit code 0 before the job function returned", "half a li"),
        (tasks.leaves, (7,), "exit code 7", "half a li"),
        (tasks.exits, (), "SystemExit: 0", "SystemExit: 0"),
        (tasks.crashes, (), "ended by SIGSEGV", ""),
        (tasks.kills_itself, (), "ended by SIGKILL", ""),
        (tasks.returns_a_generator, (), "NothingRan: the body returned", "NothingRan: the body returned"),
    ],
)
def test_how_it_failed_is_on_record_and_reaches_the_caller(
    place: Place, body: Any, args: tuple[Any, ...], why: str, output: str
) -> None:
    with pytest.raises(BodyFailed) as caught:
        place.job(body)(*args)
    record = place.record()
    assert str(caught.value) == f"job@2026-03-29T12:00:00Z failed: {record.reason}"
    assert record.reason.startswith(why)
    assert (record.state, record.outcome) == (State.CLOSED, Outcome.FAILED)
    assert output in record.output


def test_what_a_body_forks_does_not_speak_for_it(place: Place) -> None:
    assert place.job(tasks.forks)() == 1
    assert place.record().outcome is Outcome.SUCCEEDED


# --- it is killed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [tasks.spins, tasks.sleeps, tasks.has_children])
def test_a_body_that_took_too_long_is_gone_with_all_that_it_started(place: Place, body: Any) -> None:
    call = place.start(body)
    place.end(LeaseEnd("timed out", "timed out after 1h", grace=0.5))
    with pytest.raises(TimedOut, match="job@2026-03-29T12:00:00Z timed out after 1h"):
        call.result()
    wait_until(lambda: all(map(gone, place.begun())))
    assert (place.record().outcome, place.record().reason) == (Outcome.FAILED, "timed out after 1h")


def test_the_keeper_ends_a_body_whose_time_is_up(place: Place) -> None:
    with pytest.raises(TimedOut):
        place.job(tasks.spins, timeout="300ms")(str(place.book))
    assert place.record().reason == "timed out after 300ms"


@pytest.mark.parametrize("body", [tasks.cleans_up, tasks.awaits])
def test_a_body_that_is_asked_to_stop_can_clean_up(place: Place, body: Any) -> None:
    """Cancelled, it does not begin again."""
    job = place.job(body, retries=3, on_lost="rerun")
    run = (lambda: asyncio.run(job(str(place.book)))) if body is tasks.awaits else (lambda: job(str(place.book)))
    call = place.threads.submit(run)
    wait_until(lambda: place.book.exists() or call.done())
    place.end(LeaseEnd("asked", "asked to stop: by ann"))
    with pytest.raises(LeaseLost, match="was stopped: asked to stop: by ann"):
        call.result()
    assert Path(f"{place.book}.clean").exists()
    record = place.record()
    assert (record.state, record.outcome, record.reason) == (State.CLOSED, Outcome.FAILED, "asked to stop: by ann")


def test_a_body_can_see_that_it_was_told_to_stop(place: Place) -> None:
    call = place.start(tasks.asks, retries=3)
    place.end(LeaseEnd("asked", "asked to stop: by ann"))
    with pytest.raises(LeaseLost, match="was stopped: asked to stop: by ann"):
        call.result()
    assert "lost its lease: asked to stop: by ann" in place.record().output
    assert place.record().state is State.CLOSED


def test_a_task_that_is_cancelled_takes_its_child_along(place: Place) -> None:
    async def cancel() -> None:
        task = asyncio.ensure_future(place.job(tasks.awaits)(str(place.book)))
        await asyncio.to_thread(place.begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert gone(*place.begun())
    assert place.record().outcome is Outcome.FAILED


def test_a_body_that_is_stopped_takes_the_isolated_one_along_that_it_waits_for(place: Place) -> None:
    inner = place.job(tasks.sleeps, name="inner")
    outer = place.job(lambda: inner(str(place.book)), name="outer", isolate=False)
    call = place.threads.submit(outer)
    place.begun()
    keeper = place.cron.at_work()
    (lease,) = [lease for lease in keeper._kept() if lease.name.startswith("outer")]
    keeper._end(lease, LeaseEnd("timed out", "timed out after 1h"))
    with pytest.raises(TimedOut):
        call.result()
    assert gone(*place.begun())
    assert place.record("inner").outcome is Outcome.FAILED


# --- before its lease lapses ----------------------------------------------------------------------------------------


class Cut(SqliteStore):
    """A store that can be out of reach."""

    away = False

    def load(self, keys: Any) -> Any:
        self._reach()
        return super().load(keys)

    def swap(self, writes: Any, seen: Any) -> Any:
        self._reach()
        return super().swap(writes, seen)

    def _reach(self) -> None:
        if self.away:
            raise StoreUnavailable("out of reach")


def spare(place: Place) -> timedelta:
    """How long before the end of its lease the body gave its last sign of life."""
    (pid,) = place.begun()
    wait_until(lambda: gone(pid))
    until = place.cell().until
    assert until is not None
    return until - datetime.fromtimestamp(place.book.stat().st_mtime, UTC)


def test_when_the_store_is_gone_the_body_is_dead_before_its_lease_lapses(places: Places) -> None:
    """Each in a process of its own with a store of its own, all at once: it is their leases that take time."""

    def live(place: Place, body: Any, on_lost: str) -> None:
        store = Cut(place.folder / "cronce.db")
        place.cron = Cronce(store=store)
        call = place.start(body, lease="3s", on_lost=on_lost)
        store.away = True
        assert timedelta(0) < spare(place)
        assert place.record().state is State.RUNNING
        with pytest.raises(NotRecorded):
            call.result()
        store.away = False
        place.cron.close()
        store.close()

    places(live, (tasks.ignores_term, "skip"), (tasks.ignores_term, "rerun"), (tasks.asks, "rerun"))


APP = """
import sys
from cronce import Cronce
from tests.runtime.processes import tasks

cron = Cronce(sys.argv[1])
policies = dict(name="job", start_within="3650d", on_lost=sys.argv[4], lease="3s", isolate=True)
job = cron.job("@daily", **policies)(getattr(tasks, sys.argv[3])).at("2026-03-29T12:00:00Z")
"""


def test_under_rerun_a_body_is_dead_before_its_lease_lapses_whatever_became_of_its_parent(places: Places) -> None:
    def live(place: Place, how: signal.Signals) -> None:
        command = [sys.executable, "-c", f"{APP}job(sys.argv[2])", place.url, str(place.book), "ignores_term", "rerun"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
            place.begun()
            parent.send_signal(how)
            left = spare(place)
            parent.kill()
        assert timedelta(0) < left
        assert place.record().state is State.RUNNING

    places(live, (signal.SIGKILL,), (signal.SIGSTOP,))


FORKS = """
import os, pathlib, threading, time

threading.Thread(target=job, args=[sys.argv[2]], daemon=True).start()
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(1e6)
"""


def test_a_forked_child_does_not_keep_the_watchdog_from_seeing_its_parent_end(place: Place) -> None:
    command = [sys.executable, "-W", "ignore", "-c", APP + FORKS, place.url, str(place.book), "sleeps", "skip"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        forked = int(parent.stdout.readline())
        parent.kill()
        try:
            wait_until(lambda: gone(*place.begun()))
        finally:
            os.kill(forked, signal.SIGKILL)


# --- where it is found ----------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys
from cronce import Cronce

cron = Cronce(sys.argv[1])


@cron.job("@daily", start_within="3650d", isolate=True)
def report(run):
    return [os.getpid(), __name__, sys.argv[1:], sys.modules["__main__"] is sys.modules[__name__]]

"""
BEGIN = 'print(report(slot="2026-03-29T12:00:00Z"), os.getpid())\nprint("after", __name__)'


@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__': "])
def test_a_script_is_loaded_in_the_child_and_does_not_begin_again(place: Place, guard: str) -> None:
    script = place.folder / "app.py"
    script.write_text(PROGRAM + "\n".join(f"{guard}{line}" for line in BEGIN.splitlines()))
    done = subprocess.run([sys.executable, script, place.url], capture_output=True, text=True, check=True)
    told, after = done.stdout.splitlines()
    assert f"'__cronce_child__', ['{place.url}'], True]" in told
    assert after == "after __main__"


SCHEDULER = """
import sys
from cronce import Cronce
from tests.runtime.processes import tasks

cron = Cronce(sys.argv[1])


@cron.job("* * * * * *", isolate=True)
def report():
    tasks.sleeps(sys.argv[2])


cron.run(grace="50s")
print("after", __name__)
"""


def test_a_scheduler_that_goes_away_ends_its_children_and_says_so(place: Place) -> None:
    script = place.folder / "app.py"
    script.write_text(SCHEDULER)
    command = [sys.executable, str(script), place.url, str(place.book)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as scheduler:
        wait_until(lambda: place.book.exists() or scheduler.poll() is not None)
        scheduler.terminate()
        scheduler.send_signal(signal.SIGINT)  # a second signal: there is no more grace
        assert scheduler.communicate(timeout=60)[0] == "after __main__\n"
    assert gone(*place.begun())
    store = open_store(place.url)
    reasons = [decode(cell.value).reason for cell in store.scan(Scan("run/report/", limit=100)).cells]
    store.close()
    assert reasons.count("the scheduler was stopped") == 1


def test_a_program_that_is_run_as_a_module_keeps_its_package(place: Place) -> None:
    package = place.folder / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "words.py").write_text("WORD = 'here'")
    (package / "app.py").write_text(
        f"from .words import WORD\n{PROGRAM}    return WORD\n".replace("return [", "[") + BEGIN
    )
    command = [sys.executable, "-m", "shop.app", place.url]
    done = subprocess.run(command, cwd=place.folder, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "here"


def test_a_module_that_begins_to_work_when_it_is_imported_says_so(place: Place) -> None:
    (place.folder / "busy.py").write_text(PROGRAM + "report(slot='2026-03-29T12:00:00Z')")
    command = [sys.executable, "-c", "import busy", place.url]
    done = subprocess.run(command, cwd=place.folder, capture_output=True, text=True, check=False)
    assert "BadInput: the module busy starts work when it is imported; put that under `if __name__" in done.stderr


def test_a_function_is_found_under_other_decorators_and_in_classes(place: Place) -> None:
    assert place.job(tasks.Nested.body)() == "found"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("cron.job('@daily', name='x', isolate=True)(lambda: 1)", "<lambda> cannot be found that way"),
        ("def f():\n def g(): pass\n return g\ncron.job('@daily', isolate=True)(f())", "f.<locals>.g cannot be found"),
        ("def f(): pass\ncron.job('@daily', isolate=True)(f)", "put it in a file"),
        ("import functools\ncron.job('@daily', name='x', isolate=True)(functools.partial(print))", "cannot be found"),
    ],
)
def test_what_no_child_could_find_is_refused_where_it_is_declared(place: Place, code: str, why: str) -> None:
    script = f"from cronce import Cronce\ncron = Cronce({place.url!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert why in done.stderr.splitlines()[-1]


# --- what a scheduler gets ------------------------------------------------------------------------------------------


def test_a_job_that_needs_no_arguments_has_one_work_for_all_its_runs_unless_it_is_isolated(
    place: Place,
) -> None:
    place.job(tasks.tells, name="needs-nothing")
    place.job(tasks.adds, name="needs-a-number")
    place.job(tasks.adds, name="needs-another", isolate=False)
    place.job(tasks.adds_async, name="awaited", isolate=False)

    async def nothing() -> None:
        """Done."""

    place.job(nothing, name="async", isolate=False)
    works = place.cron.works
    assert list(works) == ["needs-nothing", "async"]
    assert [works["needs-nothing"]().is_async, works["async"]().is_async] == [False, True]
    assert works["async"]() is works["async"]()
    assert works["needs-nothing"]() is not works["needs-nothing"]()
