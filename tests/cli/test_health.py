"""/healthz and /readyz of `cronce run`: what is judged, and real processes that are asked, killed and told to end."""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import cronce.cli.health
from cronce import Cronce
from cronce.cli.health import ANSWER_FRESH, STUCK_AFTER, ProcessHealth, hangs, not_ready
from cronce.clock import SystemClock
from cronce.runtime.scheduling.scheduler import SchedulerHealth
from cronce.stores.base import Loaded
from cronce.stores.memory import MemoryStore
from tests.house.needs import needs
from tests.house.wait import PATIENCE, wait_until
from tests.integrations.execs import gone
from tests.runtime.scheduling.life.town import Town, children, ended

WELL = SchedulerHealth(1000.0, 1000.0, joined=True, claims=True)
NOBODY = SchedulerHealth(0.0, 0.0, joined=False, claims=False)

# --- what is judged -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crew", "alive", "ready"),
    [
        ([WELL], "", ""),
        ([WELL._replace(ticked=1010.0 - STUCK_AFTER)], "", ""),
        (
            [WELL, WELL._replace(ticked=1009.0 - STUCK_AFTER)],
            "1 of 2 processes have hung, for 61 s",
            "1 of 2 processes have hung, for 61 s",
        ),
        ([WELL._replace(answered=1010.0 - ANSWER_FRESH)], "", ""),
        ([WELL, WELL._replace(answered=1009.0 - ANSWER_FRESH)], "", "the store has not answered for 16 s"),
        ([WELL, WELL._replace(joined=False)], "", "not registered yet"),
        ([WELL._replace(claims=False), WELL], "", "takes no new work"),
        (
            [WELL, WELL._replace(no_worker=True)],
            "",
            "no worker is free: each is busy with a run that was told to stop and still runs",
        ),
        ([WELL, WELL._replace(doubts=True)], "", "the store's clock is not trusted"),
        ([WELL, NOBODY], "", "a process has died, and will be replaced"),
        ([NOBODY._replace(ticked=1010.0)], "", "not registered yet"),
        (
            [NOBODY._replace(ticked=949.0)],
            "1 of 1 processes have hung, for 61 s",
            "1 of 1 processes have hung, for 61 s",
        ),
    ],
)
def test_what_is_alive_and_what_is_ready(crew: Sequence[SchedulerHealth], alive: str, ready: str) -> None:
    assert (hangs(crew, 1010.0), not_ready(crew, 1010.0)) == (alive, ready)


def test_each_has_a_place_of_its_own() -> None:
    health = ProcessHealth(3)
    assert health.read() == [NOBODY] * 3
    health.note(2, WELL)
    before = SystemClock().boot()
    health.begin(0)
    first, *others = health.read()
    assert others == [NOBODY, WELL]
    assert before <= first.ticked <= SystemClock().boot()
    assert first._replace(ticked=0.0) == NOBODY
    health.clear(2)
    assert health.read()[2] == NOBODY


class Stubborn(MemoryStore):
    """A store that gives no answer at all while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.waits = threading.Event(), threading.Event()
        self.answers.set()

    def load(self, *args: Any, **named: Any) -> Loaded:
        if not self.answers.is_set() and threading.current_thread().name == "cronce-scheduler":
            self.waits.set()
        self.answers.wait(60)
        return super().load(*args, **named)


def test_a_scheduler_that_goes_round_says_so_and_one_that_hangs_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cronce.cli.health, "PULSE", 0.01)
    store, health = Stubborn(), ProcessHealth(1)
    cron = Cronce(store=store)
    cron.job(every="1h", name="hourly")(lambda: None)
    begin = health.watch(0, cron)
    with cron:
        scheduler = cron.start()
        assert scheduler.wait_ready(60)
        first = scheduler.vitals
        wait_until(lambda: scheduler.vitals.ticked > first.ticked and scheduler.vitals.answered > first.answered)
        begin(scheduler)
        wait_until(lambda: health.read()[0].joined and health.read()[0].claims)
        store.answers.clear()
        assert store.waits.wait(60)
        hung = scheduler.vitals
        scheduler.drain()
        wait_until(lambda: not health.read()[0].claims)  # it is noted all the same, by another thread
        assert health.read() == [hung._replace(claims=False)]
        assert hangs(health.read(), hung.ticked + STUCK_AFTER + 1)
        store.answers.set()
        wait_until(lambda: scheduler.vitals.ticked > hung.ticked)


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path, body="long")
    yield town
    town.close()


def door(process: subprocess.Popen[str]) -> str:
    """Where it says that it answers."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if found := re.fullmatch(
            r"cronce run: (http://\S+)/healthz and /readyz report their health, /metrics .*\n", line
        ):
            return found[1]
    raise AssertionError("it never said")


def ask(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_foreman_answers_for_all_from_the_start_to_the_end(town: Town) -> None:
    foreman = town.run("-n", "2", "--health", "0", "--grace", "60s", start_new_session=True)
    url = door(foreman)
    assert ask(url, "/healthz") == (200, "ok\n")
    wait_until(lambda: ask(url, "/readyz") == (200, "ok\n"))
    assert [ask(url, "/readyz", "HEAD"), ask(url, "/"), ask(url, "/readyz", "POST")[0]] == [
        (200, ""),
        (404, "not found; try /healthz, /readyz or /metrics\n"),
        501,
    ]
    (working,) = {line.pid for line in town.wait_for("start")}
    doorkeeper = children(foreman.pid)[0]
    said = {""}

    def is_ready() -> bool:
        status, text = ask(url, "/readyz")
        said.add(text)
        return status == 200

    def have_one_replaced() -> None:
        (other,) = set(children(foreman.pid)) - {doorkeeper, working}
        os.kill(other, signal.SIGKILL)
        wait_until(lambda: not is_ready() or other not in children(foreman.pid))  # it may be replaced unseen
        assert ask(url, "/healthz") == (200, "ok\n")
        wait_until(lambda: is_ready() and len(children(foreman.pid)) == 3)

    while "a process has died, and will be replaced\n" not in said:  # for half a second, then a second, then two …
        have_one_replaced()
    os.killpg(foreman.pid, signal.SIGTERM)  # as systemd stops a service: all of them hear it
    wait_until(lambda: ask(url, "/readyz")[0] == 503)
    assert ask(url, "/healthz") == (200, "ok\n")
    town.release.touch()
    assert ended(foreman)[0] == 0
    assert gone(doorkeeper)
    assert [line.what for line in town.lines()] == ["start", "end"]


def test_as_process_1_of_a_container_it_answers_drains_and_exits_with_0(town: Town) -> None:
    before = (shutil.which("unshare") or "unshare", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        needs("unshare with the right to make a PID namespace", "run as root, on Linux")
    outer = town.run("--health", "0", before=before)
    url = door(outer)
    town.wait_for("start")
    wait_until(lambda: ask(url, "/readyz") == (200, "ok\n"))
    (first,) = children(outer.pid)
    os.kill(first, signal.SIGTERM)
    wait_until(lambda: ask(url, "/readyz") == (503, "takes no new work\n"))
    town.release.touch()
    assert ended(outer)[0] == 0
    assert [line.what for line in town.lines()] == ["start", "end"]


def test_whoever_kills_the_foreman_ends_the_doorkeeper_too(town: Town) -> None:
    foreman = town.run("--health", "0")
    url = door(foreman)
    town.wait_for("start")
    doorkeeper, *_ = children(foreman.pid)
    foreman.kill()
    wait_until(lambda: ask(url, "/readyz") == (503, "takes no new work\n"))
    town.release.touch()
    wait_until(lambda: gone(doorkeeper))
