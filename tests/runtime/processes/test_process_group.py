"""The process that ends groups when we cannot, for many of them at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cronce.clock import SystemClock
from cronce.errors import CannotStart
from cronce.runtime.processes.process_group import Watchdog, find_command
from tests.house.wait import wait_until
from tests.integrations.execs import gone

CLOCK = SystemClock()
STAYS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1e6)"


@contextmanager
def groups(count: int, script: str = "print(flush=True); import time; time.sleep(1e6)") -> Iterator[list[int]]:
    command = [sys.executable, "-S", "-c", script]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) for _ in range(count)]
    try:
        for process in started:
            assert process.stdout
            process.stdout.readline()
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    one = Watchdog.spawn(grace=1.0)
    yield one
    one.close()


def test_each_group_has_a_deadline_of_its_own(watchdog: Watchdog) -> None:
    with groups(3) as (soon, moved, late):
        boot = CLOCK.boot()
        watchdog.guard(soon, boot + 1)
        watchdog.guard(moved, boot + 1)
        watchdog.guard(late, boot + 1000)
        watchdog.move(moved, boot + 1000)
        watchdog.move(late + 1, boot)  # nobody's, if it came late
        wait_until(lambda: gone(soon))
        assert CLOCK.boot() >= boot + 1
        assert (gone(moved), gone(late)) == (False, False)
        watchdog.move(moved, 0.0)
        wait_until(lambda: gone(moved))
        assert not gone(late)


def test_with_us_end_all_that_it_still_guards_and_no_others() -> None:
    watchdog = Watchdog.spawn(grace=0.3)
    with groups(2) as (guarded, done), groups(1, STAYS) as [stays]:
        for group in (guarded, done, stays):
            watchdog.guard(group)
        watchdog.done(done)
        boot = CLOCK.boot()
        watchdog.close()
        assert CLOCK.boot() - boot >= 0.3  # the grace, for one that stays
        wait_until(lambda: gone(guarded) and gone(stays))
        assert not gone(done)


def test_a_signal_to_our_group_does_not_reach_it(watchdog: Watchdog) -> None:
    assert os.getpgid(watchdog.pid) == watchdog.pid
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(watchdog.pid, number)
    with groups(1) as [group]:
        watchdog.guard(group, CLOCK.boot())
        wait_until(lambda: gone(group))
    assert not watchdog.gone


def test_a_command_in_quotes_is_told_to_be_one_word() -> None:
    """It was told to write its full path."""
    with pytest.raises(CannotStart, match=r"^there is no command 'echo hi': this is one word; drop the quotes, or use"):
        find_command("echo hi", os.environ)
