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
