"""Children in process groups of their own, and the watchdog that they share. What becomes of a command, signal by
signal, is in tests/integrations/test_command_process.py."""

import ctypes
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cronce.clock import SystemClock
from cronce.runtime.processes.child import Ended, NotStarted, Supervisor
from tests.house.wait import wait_until

CLOCK = SystemClock()


def test_one_that_was_stopped_before_its_start_never_starts() -> None:
    supervisor = Supervisor(CLOCK)
    child = supervisor.child(["true"], os.environ)
    child.stop("its lease ended")
    assert child.run() == NotStarted("its lease ended", 0)
    supervisor.close()


def test_one_that_was_killed_is_replaced_before_the_next_child() -> None:
    supervisor = Supervisor(CLOCK)
    assert supervisor.watchdog is None  # whoever has no child has none
    supervisor.child(["true"], os.environ)
    first: Any = supervisor.watchdog
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: first.gone)
    ended = supervisor.child(["sh", "-c", "exit 3"], os.environ).run()
    assert ended == Ended(3, "", 0, "")
    second: Any = supervisor.watchdog
    assert (second.pid != first.pid, second.gone) == (True, False)
    with pytest.raises(ProcessLookupError):
        os.kill(first.pid, 0)  # and buried
    supervisor.close()


def test_as_process_1_of_a_container_a_stop_does_not_wait_for_zombies() -> None:
    """What the leader leaves behind becomes ours to bury; a subreaper is left them as process 1 is."""
    reaper = 36  # PR_SET_CHILD_SUBREAPER
    libc = ctypes.CDLL(None)
    supervisor = Supervisor(CLOCK, grace=50.0)
    child = supervisor.child(["sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait"], os.environ)
    libc.prctl(reaper, 1, 0, 0, 0)
    try:
        with ThreadPoolExecutor() as threads:
            run = threads.submit(child.run)
            wait_until(lambda: child._tail.text() == "ready\n")
            boot = CLOCK.boot()
            child.stop("asked")
            ended = run.result()
    finally:
        libc.prctl(reaper, 0, 0, 0, 0)
        supervisor.close()
    assert ended == Ended(143, "asked", 0, "ready\n")
    assert CLOCK.boot() - boot < 25
