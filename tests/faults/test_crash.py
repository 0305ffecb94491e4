"""After a SIGKILL, with the store there all the time: whoever stands by takes over within the lease and a second."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from cronce import Cronce, Run, Skipped
from cronce.clock import SystemClock
from tests.faults.notes import Note
from tests.house.wait import wait_until

LEASE = 5.0
"""Seconds."""

BOOT = SystemClock().boot

HOLDER = """
import os, sys, threading, time
from cronce import Cronce
url, slot = sys.argv[1:]
cron = Cronce(url)

def body():
    os.write(1, b"runs\\n")
    threading.Event().wait(60)

guards = [
    cron.job(every="1h", name=name, on_lost="rerun", overlap="allow", lease="5s")(body)
    for name in ("by-guard", "by-scheduler", "by-newcomer")
]
threads = [threading.Thread(target=guard.at(slot)) for guard in guards]
for thread in threads:
    thread.start()
"""


@contextmanager
def holder(url: str, slot: datetime) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs one slot of each job, and does not end."""
    words = [sys.executable, "-c", HOLDER, url, slot.strftime("%Y-%m-%dT%H:%M:%SZ")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(3)] == ["runs\n"] * 3
            yield process
        finally:
            process.kill()


class Bodies:
    """What ran here, and when."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def __call__(self, run: Run) -> None:
        assert run.slot.job not in self.at
        self.at[run.slot.job] = BOOT()

    def app(self, url: str, *names: str) -> Cronce:
        app = Cronce(url)
        for name in names:
            app.job(every="1h", name=name, on_lost="rerun", overlap="allow", lease="5s")(self)
        return app


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'cronce.db'}"


def test_guard_scheduler_and_newcomer_take_over_within_the_lease_and_a_second(url: str, note: Note) -> None:
    """The guard is not called again. The newcomer starts after the crash, on a machine whose other processes have seen
    the store's clock for a lease."""
    slot = SystemClock().wall().replace(minute=0, second=0, microsecond=0)
    bodies = Bodies()
    with holder(url, slot) as process, bodies.app(url, "by-scheduler") as scheduler, Cronce(url) as guarded:
        guard = guarded.job(every="1h", name="by-guard", on_lost="rerun", overlap="allow", lease="5s")(bodies)
        scheduler.start()
        assert isinstance(guard.at(slot)(), Skipped)
        threading.Event().wait(LEASE + 1)
        os.kill(process.pid, signal.SIGKILL)
        killed = BOOT()
        with bodies.app(url, "by-newcomer") as newcomer:
            newcomer.start()
            wait_until(lambda: len(bodies.at) == 3)
    took = {job: at - killed for job, at in bodies.at.items()}
    note({"lease": LEASE, "took": {job: round(seconds, 2) for job, seconds in took.items()}})
    assert {job: seconds for job, seconds in took.items() if seconds > LEASE + 1} == {}
