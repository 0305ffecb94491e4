"""gevent and eventlet replace threads: there a job function that computes starved whoever renews its lease, and a
second process began the same run. Such a process is refused before it holds anything, with the reason."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house.needs import needs

PATCH = {
    "gevent": "from gevent import monkey; monkey.patch_all({how})",
    "eventlet": "import eventlet; eventlet.monkey_patch({how})",
}

APP = """
from cronce import Cronce
cron = Cronce("sqlite:///cronce.db")

@cron.job("@hourly")
def report():
    print("ran")

def tried(what):
    try:
        what()
    except ValueError as error:
        print(error)

tried(report)
tried(lambda: cron.start().stop(0))
tried(lambda: cron.lock("reindex"))
tried(lambda: cron.leader("group"))
print(cron.trigger("report"))
"""


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
def test_a_process_without_real_threads_holds_nothing_and_may_ask_for_a_run(kind: str, tmp_path: Path) -> None:
    if find_spec(kind) is None:
        needs(kind, f"pip install {kind}")

    def lines(how: str) -> list[str]:
        command = [sys.executable, "-W", "ignore", "-c", PATCH[kind].format(how=how) + APP]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()

    (ran, asked) = lines("thread=False")  # with the threads left as they are it works
    assert (ran, asked.partition("@")[0]) == ("ran", "report")
    *told, asked = lines("")
    assert asked.partition("@")[0] == "report"
    assert told == [told[0]] * 4
    assert told[0].startswith(
        f"{kind} has replaced this process's threads: while a job function computes, cronce could"
    )
    assert told[0].endswith("monkey_patch(thread=False)" if kind == "eventlet" else "monkey.patch_all(thread=False)")
