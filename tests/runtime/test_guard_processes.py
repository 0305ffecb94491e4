"""The guard beside another process."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cronce import Cronce, LeaseLost, Run
from tests.runtime.test_guard import WHEN, record

TAKES_OVER = """
import signal, sys
from cronce import Cronce
signal.alarm(100)
cron = Cronce(sys.argv[1])
ran = []
@cron.job("@daily", name="report", on_lost="rerun", lease="2s", start_within="3650d")
def report(run):
    ran.append(run.attempt)
while not ran:
    report(slot=sys.argv[2])
print(ran)
"""

PRINTS_ITS_PLACE = """
from cronce.runtime.guard import code_of
def report(): pass
print(code_of(report), flush=True)
"""

RUN_AS_CHILD = """
def run_as_child():
    from multiprocessing import get_context
    child = get_context("spawn").Process(target=report)
    child.start()
    child.join()
"""


def test_a_body_that_holds_the_gil_past_its_lease_is_taken_over_and_told(tmp_path: Path) -> None:
    """No thread of the process can run meanwhile. Another process takes over; the first learns it when it says done."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    cron = Cronce(url)

    @cron.job("@daily", name="report", on_lost="rerun", lease="2s", start_within="3650d")
    def report(run: Run) -> None:
        other = subprocess.Popen(
            [sys.executable, "-c", TAKES_OVER, url, "2026-03-29T12:00:00Z"], stdout=subprocess.PIPE, text=True
        )
        others.append(other)
        libc = ctypes.PyDLL(None)  # called with the GIL
        assert libc.waitid(os.P_PID, other.pid, None, os.WEXITED | os.WNOWAIT) == 0
        assert not run.trusted

    others: list[subprocess.Popen[str]] = []
    with pytest.raises(LeaseLost):
        report.at(WHEN)()
    assert others[0].communicate(timeout=60)[0] == "[2]\n"
    assert record(url, "report").grant == 2


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["app/jobs.py"], "app.jobs:report\n"),
        (["-m", "app.jobs"], "app.jobs:report\n"),
        (["-m", "app"], "app.__main__:report\n"),
        (["-c", "import app.jobs"], "app.jobs:report\n"),
        (["-c", "from app.jobs import run_as_child; run_as_child()"], "app.jobs:report\napp.jobs:report\n"),
        (["-c", PRINTS_ITS_PLACE], "\n"),
    ],
)
def test_a_function_has_one_place_however_its_module_was_started(tmp_path: Path, words: list[str], shown: str) -> None:
    """The program itself calls its module `__main__`, and nobody else does."""
    (tmp_path / "app").mkdir()
    for name, text in (("__init__", ""), ("__main__", PRINTS_ITS_PLACE), ("jobs", PRINTS_ITS_PLACE + RUN_AS_CHILD)):
        (tmp_path / "app" / f"{name}.py").write_text(text)
    said = subprocess.run([sys.executable, *words], cwd=tmp_path, stdout=subprocess.PIPE, check=True, text=True)
    assert said.stdout == shown
