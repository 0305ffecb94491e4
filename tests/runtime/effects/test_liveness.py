"""Whether who began an effect is still there: here that is seen, of another machine a person is told what to check."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.clock import SystemClock
from cronce.protocol.record import Maker, Outcome, Record, State
from cronce.runtime.effects.liveness import (
    HolderProcess,
    RetryRefused,
    holding,
    refuse_unless_gone,
    unsure_of,
    whether_there,
)
from cronce.runtime.node import holder_name, host_name
from cronce.runtime.run import Run
from tests.house.wait import wait_until
from tests.runtime.office import Office, dies, job, watch
from tests.runtime.shelf import START, Wire

HERE = host_name()


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as started:
        yield started
        started.kill()


def named(pid: int) -> str:
    return f"{HERE}:{pid}:{int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1_000_000):x}"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_name_says_where_which_and_since_when() -> None:
    found = holding(holder_name(SystemClock()))
    assert found is not None
    assert (found.host, found.pid) == (HERE, os.getpid())
    assert [holding(name) for name in ("web-1", "", "a:b:c", "a:1:zz")] == [None] * 4
    assert holding("web:1:f4240") == HolderProcess("web", 1, 1.0)


def test_a_process_of_this_machine_is_seen_to_run_to_be_stopped_and_to_be_gone(
    process: "subprocess.Popen[bytes]",
) -> None:
    holder = named(process.pid)
    assert whether_there(holder) == "running"
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(process.pid) == "T")
    assert whether_there(holder) == "stopped"
    with pytest.raises(RetryRefused, match=f"Process {process.pid} on this machine is paused, not dead: when it"):
        refuse_unless_gone("charge/invoice:7", holder)
    process.send_signal(signal.SIGCONT)
    process.kill()
    wait_until(lambda: state(process.pid) == "Z")
    assert whether_there(holder) == "gone"
    process.wait()
    assert whether_there(holder) == "gone"
    refuse_unless_gone("charge/invoice:7", holder)


def test_a_number_that_another_process_has_by_now_is_not_the_one_that_is_meant() -> None:
    assert whether_there(f"{HERE}:{os.getpid()}:1") == "gone"


def test_of_another_machine_a_person_is_told_what_to_check() -> None:
    for holder, where in (
        ("web-7:12:f4240", "on web-7: `ps -o pid,stat,lstart,cmd -p 12`"),
        ("web-1", "where web-1 runs"),
    ):
        with pytest.raises(RetryRefused) as refused:
            refuse_unless_gone("charge/invoice:7", holder)
        assert where in (words := str(refused.value))
        assert words.endswith("When you are sure that it has ended: `cronce resolve charge/invoice:7 retry --force`")


@pytest.mark.parametrize(
    ("record", "unsure"),
    [
        (Record(State.CLOSED, holder="web-1", outcome=Outcome.UNKNOWN), ""),
        (Record(State.CLOSED, holder="web-1", outcome=Outcome.LOST), "web-1"),
        (Record(State.RUNNING, holder="web-1"), "web-1"),
    ],
)
def test_who_said_itself_how_it_ended_is_not_in_the_middle_of_it(office: Office, record: Record, unsure: str) -> None:
    assert office.node.do(unsure_of(record)) == unsure


@pytest.mark.parametrize("says", [True, False])
def test_of_a_run_that_was_taken_over_nobody_knows_unless_it_ended_by_itself(store: Wire, says: bool) -> None:
    first, other = Office(store), Office(store)
    other.call(job("other"), lambda _run: None)
    grants: list[Maker] = []

    def body(run: Run) -> None:
        grants.append(Maker(run.grant.key, run.fence))
        if not says:
            dies(first)

    try:
        first.call(job(lease="10s"), body, when=START)
    except Exception:
        assert not says
    watch(other, 12)
    other.call(job(lease="10s"), lambda _run: None, when=START)  # it is closed as lost, or was closed before
    begun = Record(State.RUNNING, holder="web-1", under=grants[0])
    assert other.node.do(unsure_of(begun)) == ("" if says else "web-1")
