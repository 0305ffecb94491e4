"""The life of a scheduler: how it starts, shares, drains, stops and dies, as real processes under real signals."""

import fcntl
import gc
import json
import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import main
from cronce.errors import BadInput, StoreUnavailable
from cronce.model import Write
from cronce.protocol.notices import decode_holder
from cronce.protocol.record import Outcome, State
from cronce.runtime.scheduling.engine import BURST
from cronce.runtime.scheduling.roster import JOBS_PER_CELL
from cronce.runtime.scheduling.scheduler import SAME, Orders, Scheduler, see_through
from cronce.runtime.scheduling.waitlist import CLAIMS_PER_SWAP
from cronce.stores.base import Loaded, Scan, Swapped
from cronce.stores.memory import MemoryStore
from cronce.stores.redis import init
from tests.house.needs import needs
from tests.house.wait import wait_until
from tests.integrations.execs import gone
from tests.runtime.scheduling.life.town import APP, Town, children, ended

Found = Callable[..., Town]


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Found]:
    """Towns, each with a book of its own."""
    towns: list[Town] = []

    def make(url: str = "", **how: Any) -> Town:
        folder = tmp_path / f"town{len(towns)}"
        folder.mkdir()
        towns.append(Town(folder, url, **{"start_within": "1m"} | how))  # on a busy machine a slot may come late
        return towns[-1]

    yield make
    for town in towns:
        town.close()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own on each kind of server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.db"
    server, name = request.getfixturevalue(request.param).url, f"life{os.getpid()}_{time.monotonic_ns()}"
    if request.param == "postgres":
        return f"{server}?schema={name}"
    init(f"{server}?namespace={name}")  # begun on purpose: else a store that can forget grants nothing for a while
    return f"{server}?namespace={name}"


def slots_pass(seconds: float) -> None:
    """Nothing is to happen, and that takes its time to see."""
    time.sleep(seconds)


def stop_now(process: subprocess.Popen[str]) -> None:
    """Two signals: there is no more grace, and with one of 25 s or more there are five to stop what runs."""
    process.terminate()
    process.send_signal(signal.SIGINT)


def assert_each_once(town: Town) -> None:
    """Each slot from the first to the last that was started: none twice, none missed."""
    assert set(town.starts().values()) == {1}
    assert town.gaps() == []


# --- cronce run -----------------------------------------------------------------------------------------------------


def test_three_processes_share_the_work_and_each_slot_runs_once(found: Found) -> None:
    town = found(jobs=40, overlap="allow", missed="all")
    foreman = town.run("-n", "3", "--grace", "10s")
    town.wait_until_there(3)
    already = len(town.lines("start"))
    crew = children(foreman.pid)
    town.wait_for("start", already + 80)

    def shares() -> Counter[int]:
        return Counter(line.pid for line in town.lines("start")[already:])

    wait_until(lambda: min(shares()[pid] for pid in crew) > 10)  # 27 of 80, unless one was kept waiting
    foreman.terminate()
    code, out = ended(foreman)
    assert code == 0, out
    assert_each_once(town)
    assert shares().keys() == set(crew)
    assert all(gone(pid) for pid in crew)
    assert town.holders() == {}
    assert out.count(f"on sqlite:///{town.folder}/cronce.db, 40 jobs, role both, as ") == 3


def test_one_that_dies_is_replaced_and_no_slot_is_missed(found: Found) -> None:
    town = found(on_lost="rerun", lease="3s", overlap="allow")
    foreman = town.run("-n", "2")
    town.wait_until_there(2)
    town.wait_for("end")
    first = children(foreman.pid)
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: len(set(children(foreman.pid)) - set(first)) == 1)
    town.wait_for("end", len(town.lines("end")) + 2)
    wait_until(lambda: town.gaps() == [])  # what it had claimed and not begun is begun when its lease is over
    foreman.terminate()
    code, out = ended(foreman)
    assert code == 0, out
    assert f"process {first[0]} ended (SIGKILL); another starts in 0.5 s" in out
    attempts = Counter((line.job, line.slot, line.attempt) for line in town.lines("start"))
    assert set(attempts.values()) == {1}  # and what it died with may have a second one
    assert town.gaps() == []


def test_when_the_foreman_is_killed_the_others_drain(found: Found) -> None:
    town = found(body="long")
    foreman = town.run("-n", "2")
    town.wait_until_there(2)
    town.wait_for("start")
    crew = children(foreman.pid)
    foreman.kill()
    wait_until(lambda: sum(map(gone, crew)) == 1)  # the one that runs nothing
    wait_until(lambda: town.draining() == [True])  # so that it begins no other
    town.release.touch()
    wait_until(lambda: all(map(gone, crew)))
    assert [line.what for line in town.lines()] == ["start", "end"]
    assert town.record(town.lines()[0]).outcome is Outcome.SUCCEEDED


def test_as_process_1_it_reaps_orphans_and_drains(found: Found) -> None:
    unshare = shutil.which("unshare")
    probe = [unshare or "", "--pid", "--fork", "--mount-proc", "true"]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        needs("unshare with the right to make a PID namespace", "run as root, on Linux")
    town = found(body="orphan")
    before = (unshare, "--pid", "--fork", "--mount-proc")
    outer = town.run("--grace", "10s", before=before)
    town.wait_for("end")
    (first,) = children(outer.pid)
    wait_until(lambda: len(children(first)) == 1)  # its one worker: what was left behind is gone, and no zombie
    os.kill(first, signal.SIGTERM)
    code, out = ended(outer)
    assert code == 0, out
    assert town.record(town.lines("end")[-1]).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("number", ["1", "2"])
def test_ctrl_c_in_a_terminal_drains_and_a_second_one_stops_now(found: Found, number: str) -> None:
    """It reaches the whole group by itself: nobody takes it for two."""
    town = found(body="long")
    terminal, side = pty.openpty()
    try:
        streams: dict[str, Any] = {"stdin": side, "stdout": side, "stderr": side}
        process = town.run("-n", number, "--grace", "50s", **streams, start_new_session=True, preexec_fn=_take_terminal)
        (start,) = town.wait_for("start")
        os.write(terminal, b"\x03")
        said = b""
        while b"takes no new work" not in said:
            said += os.read(terminal, 10_000)
        wait_until(lambda: town.draining() == [True])  # with two, the other has gone, and this one has heard it, too
        assert town.lines("cut") == []
        time.sleep(2 * SAME)
        os.write(terminal, b"\x03")
        assert process.wait(60) == 0
        assert [line.what for line in town.lines()] == ["start", "cut"]
        assert town.record(start).reason == "stopped: the scheduler was stopped"
    finally:
        os.close(terminal)
        os.close(side)


def _take_terminal() -> None:
    """In the child: what it has as its stdin is the terminal of its session, whose keys reach its group."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "tests"], "write MODULE:OBJECT, such as app:cron for `cron = Cronce(…)` in app.py, not 'tests'"),
        (["run", "no_such:cron"], "there is no module no_such, in "),
        (["run", "tests.no_such:cron"], "there is no module tests.no_such, in "),
        (["run", "tests.house.wait:cron"], "tests.house.wait has no 'cron'; write cron = Cronce(…) to create one"),
        (["run", "tests.house.wait:PATIENCE"], "tests.house.wait has a float as 'PATIENCE'; write cron = "),
        (
            ["run", "tests:cron", "--label", "blue"],
            "a label must be NAME=VALUE, each name once, such as --label colour=blue",
        ),
        (["run", "tests:cron", "--grace", "soon"], "soon"),
        (["run", "tests:cron", "-n", "0"], "-n must be from 1 to 1,000, not 0"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(
    words: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import nobody_has_this", ['app.py", line 1, in <module>', "ModuleNotFoundError: No module named 'nobody"]),
        ("1 / 0", ['app.py", line 1, in <module>', "ZeroDivisionError", "cronce run: faulty_app cannot be imported"]),
        (
            "from cronce import Cronce\ncron = Cronce()\ncron.job('* *')(print)",
            ["faulty_app.py:3: cannot read this schedule"],
        ),
        ("from cronce import Cronce\ncron = Cronce()\ncron.run()", ["starts its scheduler when it is imported"]),
        (
            "from cronce import Cronce\ncron = Cronce()\ncron.job('@daily', name='tick')(print)()",
            ["faulty_app calls tick when it is imported"],
        ),
        ("from cronce import Cronce\nother = Cronce()", ["has no 'cron'; there is faulty_app:other"]),
    ],
)
def test_what_is_wrong_with_an_application_is_shown_where_it_is(code: str, says: Sequence[str], found: Found) -> None:
    town = found()
    (town.folder / "faulty_app.py").write_text(code)
    words = ["-m", "cronce", "run", "faulty_app:cron"]
    status, out = ended(town.start(sys.executable, *words, env={"PYTHONPATH": str(town.folder)}))
    assert (status, [text for text in says if text not in out]) == (2, []), out
    assert "src/cronce" not in out


def test_a_store_that_nobody_shares_is_not_for_several_processes(found: Found) -> None:
    """And what makes no sense in one of them is not started again."""
    code, out = ended(found("memory://").run("-n", "2"))
    assert code == 2
    assert "memory:// exists only in one process, so each of 2 would run everything; name another" in out


def test_a_store_that_cannot_be_reached_is_an_exit_code_of_its_own(found: Found) -> None:
    assert ended(found("redis://127.0.0.1:1/").run())[0] == 75


# --- how it stops ---------------------------------------------------------------------------------------------------


def test_term_lets_what_runs_come_to_its_end_and_claims_no_more(found: Found) -> None:
    town = found(body="long", overlap="allow", jobs=3)
    process = town.run("--grace", "50s")
    before = town.wait_for("start", 3)
    process.terminate()
    wait_until(lambda: town.draining() == [True])
    wait_until(lambda: town.states("running") == len(town.lines("start")))  # what was claimed before it has begun
    running = len(town.lines("start"))
    slots_pass(1.2)
    town.release.touch()
    code, out = ended(process)
    assert code == 0, out
    assert len(town.lines("start")) == len(town.lines("end")) == running
    assert {town.record(line).outcome for line in before} == {Outcome.SUCCEEDED}
    assert town.holders() == {}


LONG_END = f"""
from cronce.cli import main
from cronce.runtime.scheduling import scheduler
scheduler.STOP_SECONDS = scheduler.MIN_GRACE = 59.0
raise SystemExit(main(["run", "{APP}", "--grace", "1m"]))
"""
"""Of its grace, all but one second are for stopping what runs and for saying so, however busy the machine is."""


def test_what_still_runs_at_the_end_of_the_grace_is_stopped_and_failed(found: Found) -> None:
    town = found(body="long")
    process = town.script(LONG_END)
    (start,) = town.wait_for("start")
    began = time.monotonic()
    process.terminate()
    code, out = ended(process)
    assert (code, 1 <= time.monotonic() - began < 30) == (0, True), out
    record = town.record(start)
    assert (record.state, record.outcome, record.reason) == (
        State.CLOSED, Outcome.FAILED, "stopped: the scheduler was stopped",
    )  # fmt: skip


def test_under_rerun_another_process_takes_it_over_at_once(found: Found, url: str) -> None:
    """Its lease of 30 s does not have to lapse. To the millisecond: `test_takeover.py`. It is asked for by hand: a slot
    that falls due just when the turn is given back may have it."""
    town = found(url, body="long", on_lost="rerun", every="365d")
    both = [town.run("--grace", "50s") for _ in range(2)]
    town.wait_until_there(2)
    town.cli("trigger", "job0", "--id", "once")
    (start,) = town.wait_for("start")
    first, second = sorted(both, key=lambda one: one.pid != start.pid)
    stop_now(first)
    code, out = ended(first)
    assert code == 0, out
    again = town.wait_for("start", pid=second.pid)[0]
    assert len(town.lines("cut")) == 1
    assert (again.slot, again.attempt) == (start.slot, 2)
    town.release.touch()
    town.wait_for("end")
    second.terminate()
    assert ended(second)[0] == 0
    record = town.record(again._replace(slot=f"{again.slot}#once"))
    assert record.outcome is Outcome.SUCCEEDED
    assert [past.end for past in record.past] == ["failed: stopped: the scheduler was stopped"]


@pytest.mark.parametrize(
    ("kind", "on_lost"),
    [("function", "skip"), ("async", "skip"), ("isolated", "skip"), ("command", "skip"), ("command", "rerun")],
)
def test_every_kind_of_body_is_stopped_when_there_is_no_more_grace(found: Found, kind: str, on_lost: str) -> None:
    town = found(body="long", kind=kind, on_lost=on_lost)
    process = town.run("--grace", "50s")
    (start,) = town.wait_for("start")
    stop_now(process)
    code, out = ended(process)
    assert code == 0, out
    assert [line.what for line in town.lines()] == ["start", "cut"]
    record = town.record(start)
    assert record.state is (State.RETRYING if on_lost == "rerun" else State.CLOSED)
    reason = record.past[0].end if on_lost == "rerun" else record.reason
    assert reason.endswith("the scheduler was stopped")
    assert "Task was destroyed" not in out


def test_a_second_signal_stops_now(found: Found) -> None:
    town = found(body="long")
    process = town.run("--grace", "1h")
    (start,) = town.wait_for("start")
    process.terminate()
    wait_until(lambda: town.draining() == [True])
    assert town.lines("cut") == []
    time.sleep(2 * SAME)
    process.terminate()
    code, out = ended(process)
    assert code == 0, out
    assert town.record(start).reason == "stopped: the scheduler was stopped"


@pytest.mark.parametrize(("grace", "waits"), [(0, [0, 1]), (1, [0, 1]), (4, [3, 1]), (10, [8, 2]), (100, [95, 5])])
def test_a_fifth_of_the_grace_one_to_five_seconds_is_for_what_was_told_to_stop(
    grace: float, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[float]()
    monkeypatch.setattr(Scheduler, "_await_idle", lambda _self, seconds, **_how: waited.append(seconds))
    with Cronce("memory://") as cron:
        cron.start().stop(grace)
    assert waited == waits


@pytest.mark.parametrize("number", ["1", "2"])
def test_a_body_that_cannot_be_stopped_is_reported_and_lapses_and_the_process_ends_in_time(
    found: Found, number: str
) -> None:
    town = found(body="stuck", on_lost="rerun", lease="3s")
    process = town.run("--grace", "1s", "-n", number)
    (start,) = town.wait_for("start")
    began = time.monotonic()
    process.terminate()
    code, out = ended(process)
    assert (code, time.monotonic() - began < 30) == (1, True), out
    assert (
        f"{start.job}@{start.slot} is still running and cannot be stopped; its effects are refused, and it keeps" in out
    )
    assert town.record(start).state is State.RUNNING
    if number == "2":
        return  # what becomes of it is the same
    town.release.touch()
    town.run()
    wait_until(lambda: (start.slot, 2) in {(line.slot, line.attempt) for line in town.lines("end")})


def test_what_could_not_be_recorded_is_an_exit_code(found: Found) -> None:
    """The store takes no word when the body has ended."""
    town = found(body="long")
    process = town.run("--grace", "0s")
    town.wait_for("start")
    with closing(sqlite3.connect(town.folder / "cronce.db", timeout=60, isolation_level=None)) as hog:
        hog.execute("BEGIN IMMEDIATE")
        town.release.touch()
        town.wait_for("end")
        began = time.monotonic()
        process.terminate()
        code, out = ended(process)
    assert (code, time.monotonic() - began < 60) == (1, True), out  # it tries for 10 s, and so does its last word
    assert "still runs" not in out


# --- by hand --------------------------------------------------------------------------------------------------------


def test_pause_all_is_the_kill_switch(found: Found) -> None:
    town = found(missed="all", overlap="allow")  # however late they come
    process = town.run()
    town.wait_for("end", 1)
    town.cli("pause", "--all", "--reason", "stop it")
    paused = time.time() + 2  # so long it may take
    slots_pass(3.2)
    assert [line for line in town.lines("start") if line.at > paused] == []
    town.cli("resume", "--all")
    resumed = time.time() + 2
    wait_until(lambda: [line for line in town.lines("end") if line.at > paused])
    assert (
        min(line.at for line in town.lines("end") if line.at > paused) < resumed + 1
    )  # two seconds, and the next slot
    process.terminate()
    assert ended(process)[0] == 0


def test_blue_is_drained_while_it_lives_and_green_runs_every_slot(found: Found) -> None:
    town = found(overlap="allow", jobs=10, missed="all")
    blue, green = (town.run("--label", f"colour={colour}") for colour in ("blue", "green"))
    town.wait_until_there(2)
    town.wait_for("start", pid=blue.pid)
    town.cli("drain", "--label", "colour=blue")
    wait_until(lambda: town.holders()[blue.pid].holder.draining)  # it has heard of it
    drained = time.time()
    wait_until(lambda: sum(line.at > drained for line in town.lines("start")) >= 10)
    assert blue.poll() is None
    assert {line.pid for line in town.lines("start") if line.at > drained} == {green.pid}
    town.cli("drain", "--label", "colour=blue", "--off")
    back = len([line for line in town.lines("start") if line.pid == blue.pid])
    town.wait_for("start", back + 1, pid=blue.pid)
    for process in (blue, green):
        process.terminate()
        assert ended(process)[0] == 0
    assert_each_once(town)


def test_after_an_edit_of_the_timeout_an_old_process_goes_on_when_the_newer_one_is_killed(found: Found) -> None:
    """Nothing fired until the beat of the newer one had lapsed, for 28 s, and then its slots were passed over."""
    policies = {"missed": "all", "overlap": "allow", "on_lost": "rerun", "lease": "3s", "start_within": "1m"}
    town = found(**policies, timeout="2m")
    old = town.run()
    town.wait_for("start")
    newer = town.run(env={"LIFE_POLICIES": json.dumps({**policies, "timeout": "3m"})})
    town.wait_for("start", pid=newer.pid)
    newer.kill()
    killed = time.time()
    wait_until(lambda: sum(line.at > killed for line in town.lines("start")) >= 3)
    wait_until(lambda: town.gaps() == [])  # what it had claimed and not begun is begun when its lease is over
    old.terminate()
    assert ended(old)[0] == 0
    assert time.time() - killed < 25
    attempts = Counter((line.job, line.slot, line.attempt) for line in town.lines("start"))
    assert set(attempts.values()) == {1}
    assert {line.pid for line in town.lines("start") if line.at > killed} == {old.pid}


# --- roles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)  # one that is looked at, one that tells
def test_a_scheduler_hands_out_to_workers_elsewhere(found: Found, url: str) -> None:
    town = found(url, jobs=10, overlap="allow", missed="all")
    schedulers = [town.run("--role", "schedule") for _ in range(2)]
    town.wait_until_there(2)
    wait_until(lambda: town.states("due") >= 10)
    assert town.lines() == []  # it runs nothing itself, and what is due can be seen
    due = town.states("due")
    listed = json.loads(town.cli("runs", "--state", "due", "-n", "1000", "--json"))["runs"]
    assert due <= len(listed) <= town.states("due")
    assert {run["state"] for run in listed} == {"due"}
    workers = [town.run("--role", "work") for _ in range(2)]
    town.wait_until_there(4)
    town.wait_for("start", len(town.lines("start")) + 10)
    wait_until(lambda: {line.pid for line in town.lines()} == {worker.pid for worker in workers})
    for scheduler in schedulers:
        scheduler.terminate()
        assert ended(scheduler)[0] == 0
    wait_until(lambda: town.states("due") == town.states("running") == 0)
    ran = len(town.lines("start"))
    slots_pass(1.2)
    assert len(town.lines("start")) == ran  # who only works fires nothing
    for worker in workers:
        worker.terminate()
        assert ended(worker)[0] == 0
    assert_each_once(town)


# --- inside other programs --------------------------------------------------------------------------------------------

START = """
from tests.runtime.scheduling.life.app import cron
scheduler = cron.start(grace="20s")
assert scheduler.wait_ready(60)
"""


def test_a_program_that_ends_lets_what_runs_come_to_its_end(found: Found) -> None:
    town = found(body="long")
    process = town.script(
        f"{START}import os, time\nwhile not os.path.exists(os.environ['LIFE_BOOK']): time.sleep(0.01)"
    )
    (start,) = town.wait_for("start")
    wait_until(lambda: town.draining() == [True])
    town.release.touch()
    code, out = ended(process)
    assert code == 0, out
    assert [line.what for line in town.lines()] == ["start", "end"]
    assert town.record(start).outcome is Outcome.SUCCEEDED
    assert town.holders() == {}


FORKS = {
    "fork": "import os\nchild = os.fork()\nif not child: BODY\nelse: assert os.waitpid(child, 0)[1] == 0\n",
    "multiprocessing": """
import multiprocessing
def main(): BODY
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=main)
    child.start(); child.join()
    assert child.exitcode == 0
""",
    "daemon": """
import os
child = os.fork()
if not child:
    os.setsid()
    if os.fork(): os._exit(0)
    BODY
else: os.waitpid(child, 0)
""",
}
"""How a child comes to be that was forked from a process with a scheduler."""

SILENT = "assert cron.scheduler is None; scheduler.stop(); wait()"
OWN = "own = cron.start(); wait(); own.stop()"
WAIT = """
import os, time
def wait():
    while not os.path.exists(os.environ["LIFE_RELEASE"]): time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("how", "child"), [("fork", SILENT), *((how, OWN) for how in FORKS)], ids=["silent fork", *FORKS]
)
def test_a_forked_child_has_no_scheduler_until_it_starts_one_and_its_parent_goes_on(
    found: Found, how: str, child: str
) -> None:
    town = found(jobs=10, overlap="allow")
    process = town.script(START + WAIT + FORKS[how].replace("BODY", child) + "\nwait()\n")
    if child == OWN:
        wait_until(lambda: len({line.pid for line in town.lines()}) == 2)
    if how == "fork":
        town.wait_for("start", 20)
    assert len({line.pid for line in town.lines()}) == (2 if child == OWN else 1)
    assert process.pid in {line.pid for line in town.lines()}
    town.release.touch()
    code, out = ended(process)
    assert code == 0, out
    wait_until(lambda: town.holders() == {})
    assert_each_once(town)


# --- the parts --------------------------------------------------------------------------------------------------------


class Slow(MemoryStore):
    """Holds back one of the swaps in which runs are written, until it is let go."""

    def __init__(self, which: int) -> None:
        super().__init__()
        self.held, self.let_go = threading.Event(), threading.Event()
        self._which, self._swaps = which, 0

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        self._swaps += any(write.key.startswith("run/") for write in writes)
        if self._swaps == self._which:
            self.held.set()
            assert self.let_go.wait(60)
        return super().swap(writes, seen)


@pytest.mark.parametrize("which", [1, 2], ids=["claim", "finish"])
def test_what_is_on_its_way_to_the_store_is_waited_for(which: int) -> None:
    """Else a body would begin in a process that believes itself idle, or its end would never be said."""
    store, ran = Slow(which), list[str]()
    with Cronce(store=store) as cron:
        cron.job(every="1s", name="tick", start_within="1m")(lambda run: ran.append(run.key))
        scheduler = cron.start(grace="100s")
        assert store.held.wait(60)
        stopper = threading.Thread(target=scheduler.stop)
        stopper.start()
        stopper.join(0.3)
        assert (stopper.is_alive(), scheduler.idle) == (True, False)
        store.let_go.set()
        stopper.join(60)
        assert (len(ran), scheduler.recorded, scheduler.idle) == (1, True, True)


def test_what_is_granted_after_the_end_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store took longer than the grace; nobody would say how it ended."""
    monkeypatch.setattr("cronce.runtime.scheduling.scheduler.MIN_GRACE", 0.1)
    store, ran = Slow(1), list[str]()
    with Cronce(store=store) as cron:
        cron.job(every="1s", name="tick", start_within="1m")(lambda run: ran.append(run.key))
        scheduler = cron.start()
        assert store.held.wait(60)
        assert scheduler.stop(0) is False
        store.let_go.set()
        wait_until(lambda: scheduler.engine.running)
        slots_pass(0.2)
        assert ran == []


class Registering(Slow):
    """Holds back the first swap that puts jobs on record."""

    def __init__(self) -> None:
        super().__init__(0)

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        if any(write.key.startswith("job/") for write in writes):
            self.held.set()
            assert self.let_go.wait(60)
        return MemoryStore.swap(self, writes, seen)


def test_one_that_still_registers_its_jobs_breaks_off_and_leaves() -> None:
    """A hundred thousand jobs take a minute to be put on record. A stop waited for that, until it was killed; then for
    half a minute the other processes took it for alive, and left its versions of the jobs to it."""
    store = Registering()
    with Cronce(store=store) as cron:
        for number in range(3 * JOBS_PER_CELL):
            cron.job(every="1h", name=f"job-{number:05}")(lambda: None)
        scheduler = cron.start(grace="100s")
        assert store.held.wait(60)
        stopper = threading.Thread(target=scheduler.stop)
        stopper.start()
        wait_until(lambda: scheduler.engine.leaving)
        store.let_go.set()
        stopper.join(60)
        registered = [cell for cell in store.scan(Scan("job/", limit=10_000)).cells if cell.version]
        (mine,) = [cell for cell in store.scan(Scan("holder/")).cells if cell.key.endswith(scheduler.holder)]
        assert (len(registered), scheduler.recorded) == (JOBS_PER_CELL, True)
        assert decode_holder(mine.value, mine.key).gone


class BrokenOff(MemoryStore):
    """The first time that somebody leaves, the connection turns out to be gone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def load(self, keys: Sequence[str]) -> Loaded:
        if len(keys) == 1 and keys[0].startswith("holder/"):
            self.asked += 1
            if self.asked == 1:
                raise StoreUnavailable("broke off")
        return super().load(keys)


class Overtaken(BrokenOff):
    """The first time that somebody leaves, a beat of its own comes in between, which a network had held back."""

    def load(self, keys: Sequence[str]) -> Loaded:
        loaded = MemoryStore.load(self, keys)
        if len(keys) == 1 and keys[0].startswith("holder/"):
            self.asked += 1
            if self.asked == 1:
                (cell,) = loaded.cells
                self.swap([Write(cell.key, cell.version, cell.value, cell.mark)], loaded.epoch.seen)
        return loaded


@pytest.mark.parametrize("kind", [BrokenOff, Overtaken])
def test_who_leaves_says_so_again_if_that_failed(kind: type[BrokenOff]) -> None:
    """Else its version of the jobs would count as alive for half a minute, and a roll-back would wait for that."""
    store = kind()
    with Cronce(store=store) as cron:
        cron.job(every="1h", name="tick")(lambda: None)
        scheduler = cron.start()
        assert scheduler.wait_ready(60)
        scheduler.stop()
    (cell,) = store.scan(Scan("holder/")).cells
    assert (store.asked, decode_holder(cell.value).gone) == (2, True)


def test_what_is_ordered_twice_counts_once_and_two_signals_count_as_two() -> None:
    heard = []
    with Orders() as orders:
        orders.give("drain")  # as a foreman says it who got the signal, too
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        heard = [orders.next(), orders.next()]
        orders.give("gone")
        assert orders.next() == "gone"
    assert heard == ["drain", "stop now"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", ["1", "2"])
def test_the_same_signal_twice_in_a_moment_is_one_as_timeout_sends_it(found: Found, number: str) -> None:
    """To the process that it started, and then to the group of both: what runs comes to its end."""
    town = found(body="long")
    process = town.run("-n", number, "--grace", "1h", before=("timeout", "1h"))
    town.wait_for("start")
    process.terminate()  # which it passes on as it would its own
    wait_until(lambda: all(town.draining()))
    time.sleep(2 * SAME)
    assert town.lines("cut") == []
    (child,) = children(process.pid)
    os.kill(child, signal.SIGTERM)
    ended(process)
    assert len(town.lines("cut")) == 1


def test_a_signal_that_another_thread_caught_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel gives a process's signal to any of its threads: to another than the main one where that is just being
    woken, as after SIGCONT. Python runs handlers in the main thread only, which then must not sleep for ever."""
    monkeypatch.setattr("cronce.runtime.scheduling.scheduler.AWAKE", 0.3)
    with Orders() as orders:
        another = threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        another.start()
        assert orders.next() == "drain"
        another.join()


def test_a_scheduler_in_the_foreground_ends_with_whoever_stops_it() -> None:
    with Cronce("memory://") as cron, Orders() as orders:
        scheduler = cron.start()
        assert scheduler.wait_ready(60)
        threading.Thread(target=scheduler.stop).start()
        assert see_through(scheduler, orders)


def test_one_process_has_one_scheduler_and_may_start_another_after_it() -> None:
    with Cronce("memory://") as cron:
        with cron.start(), pytest.raises(BadInput, match="is already running in this process; stop it first"):
            cron.start()
        cron.start().stop()


def test_while_more_slots_are_due_no_garbage_is_collected_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first of them it was: of ten thousand slots for 20 ms, while all but 250 waited."""
    at, bursts, collects, sleep = int(time.time()) + 2, threading.Semaphore(0), list[bool](), Scheduler._sleep

    def seen(scheduler: Scheduler, until: float) -> None:
        if scheduler.engine._due_slots.behind:
            collects.append(gc.isenabled())
        sleep(scheduler, until)

    monkeypatch.setattr(Scheduler, "_sleep", seen)
    monkeypatch.setattr("cronce.runtime.scheduling.scheduler.UNCOLLECTED", 60.0)
    with Cronce("memory://") as cron:
        for number in range(3 * CLAIMS_PER_SWAP):
            cron.job(at=datetime.fromtimestamp(at, UTC), name=f"job-{number}")(bursts.release)
        with cron.start():
            assert all(bursts.acquire(timeout=60) for _ in range(3 * CLAIMS_PER_SWAP))
    assert collects
    assert not any(collects)


def test_after_a_burst_of_claims_garbage_is_collected_again_though_what_was_claimed_still_runs() -> None:
    at, go, bursts = int(time.time()) + 2, threading.Event(), threading.Semaphore(0)

    def body() -> None:
        bursts.release()
        go.wait(60)

    with Cronce("memory://") as cron:
        for number in range(BURST):
            cron.job(at=datetime.fromtimestamp(at, UTC), name=f"job-{number}")(body)
        with cron.start(workers=BURST) as scheduler:
            assert all(bursts.acquire(timeout=60) for _ in range(BURST))
            wait_until(gc.isenabled)
            assert len(scheduler.engine.running) == BURST
            go.set()
    assert gc.isenabled()
