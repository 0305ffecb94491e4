"""The suite is green however it is started: in the background of a script, or by nohup."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORED = """
import signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
from tests.conftest import pytest_configure
pytest_configure()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
signal.raise_signal(signal.SIGHUP)
signal.raise_signal(signal.SIGQUIT)
child = "import signal; print(*[signal.getsignal(n).name for n in (signal.SIGQUIT, signal.SIGHUP)])"
child += "; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
print("alive", flush=True)
subprocess.run([sys.executable, "-S", "-c", child], check=True)
"""


def test_what_tests_start_ignores_no_signal_although_the_suite_was_started_to_ignore_some() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("alive\nSIG_DFL SIG_DFL\nTrue\n", "")
