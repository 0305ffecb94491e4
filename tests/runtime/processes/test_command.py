"""Jobs whose body is a command."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce, LeaseLost, Skipped, TimedOut
from cronce.errors import BadInput, CannotStart
from cronce.model import Slot
from cronce.protocol.commands import Queue
from cronce.protocol.record import Outcome, Record, State, decode
from cronce.runtime.declare import Policies
from cronce.runtime.keeper import LeaseEnd
from cronce.stores import open_store
from tests.house.wait import wait_until
from tests.integrations.execs import gone

WHEN = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/cronce.db"


@pytest.fixture
def cron(url: str) -> Iterator[Cronce]:
    with Cronce(url) as made:
        yield made


def record(url: str, job: str = "sync") -> Record:
    store = open_store(url)
    (cell,) = store.load([Slot(job, WHEN).cell]).cells
    store.close()
    return decode(cell.value, cell.key)


def sh(cron: Cronce, script: str, name: str = "sync", **policies: Any) -> Any:
    return cron.command(name, ["sh", "-c", script], "@daily", start_within="3650d", **policies)


def queue(cron: Cronce, command: Queue) -> None:
    """As if somebody had asked for it."""
    node = cron.at_work().node
    node.do(node.ledger.put({Slot("sync", WHEN): command._replace(first=WHEN)}))


def test_a_command_runs_once_for_its_slot_and_knows_it(cron: Cronce, url: str) -> None:
    sync = sh(cron, "echo $CRONCE_JOB $CRONCE_SLOT $CRONCE_KEY $CRONCE_ATTEMPT; cat; echo done >&2")
    assert sync.name == "sync"
    assert sync(slot=WHEN) == 0
    skipped = sync.at(WHEN)()
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "it is closed: succeeded"
    assert record(url).output == "sync 2026-03-29T12:00:00Z sync@2026-03-29T12:00:00Z 1\ndone\n"


def test_a_payload_is_told_as_json(cron: Cronce, url: str) -> None:
    sync = sh(cron, 'echo "$CRONCE_PAYLOAD"')
    queue(cron, Queue(payload='{"customer":7}'))
    assert sync.at(WHEN)() == 0
    assert record(url).output == '{"customer":7}\n'


def test_an_exit_code_is_the_answer_and_a_failure(cron: Cronce, url: str) -> None:
    assert sh(cron, "exit 3").at(WHEN)() == 3
    assert (record(url).outcome, record(url).reason) == (Outcome.FAILED, "exit code 3")


def test_a_command_that_is_not_there_says_so(cron: Cronce, url: str) -> None:
    with pytest.raises(CannotStart, match="there is no command 'no-such-thing'"):
        cron.command("sync", ["no-such-thing"], "@daily", start_within="3650d").at(WHEN)()
    assert record(url).outcome is Outcome.FAILED


def end(cron: Cronce, over: LeaseEnd) -> None:
    """End the one run that there is, from outside."""
    (lease,) = cron.at_work()._kept()
    cron.at_work().end(lease, over)


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(cron: Cronce, url: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = f"trap '' TERM; sleep 1000 & echo $! > {begun}.new; mv {begun}.new {begun}; wait"
    sync = sh(cron, script)
    with ThreadPoolExecutor() as threads:
        call = threads.submit(sync.at(WHEN))
        wait_until(begun.exists)
        end(cron, LeaseEnd("timed out", "timed out after 1h", grace=0.5))
        with pytest.raises(TimedOut, match="timed out after 1h"):
            call.result()
    wait_until(lambda: gone(int(begun.read_text())))
    assert record(url).reason == "timed out after 1h"


def test_a_command_that_is_cancelled_does_not_begin_again(cron: Cronce, url: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    sync = sh(cron, f"touch {begun}; exec sleep 1000", retries=3)
    with ThreadPoolExecutor() as threads:
        call = threads.submit(sync.at(WHEN))
        wait_until(begun.exists)
        end(cron, LeaseEnd("asked", "asked to stop: by ann"))
        with pytest.raises(LeaseLost, match="asked to stop: by ann"):
            call.result()
    assert (record(url).state, record(url).reason) == (State.CLOSED, "asked to stop: by ann")


def test_many_commands_at_once_have_outputs_of_their_own(cron: Cronce, url: str, tmp_path: Path) -> None:
    """Each waits for all the others: they do run at once."""
    wait = f"until [ $(ls {tmp_path} | grep -c begun) = 5 ]; do sleep 0.02; done"
    jobs = [sh(cron, f"echo {n}; touch {tmp_path}/begun{n}; {wait}; echo {n}", f"job{n}") for n in range(5)]
    with ThreadPoolExecutor(5) as threads:
        assert list(threads.map(lambda job: job.at(WHEN)(), jobs)) == [0] * 5
    assert [record(url, f"job{n}").output for n in range(5)] == [f"{n}\n{n}\n" for n in range(5)]


def test_where_no_bell_rings_for_a_childs_end_it_is_looked_for(cron: Cronce, monkeypatch: Any) -> None:
    """On macOS, and where a sandbox forbids it."""
    monkeypatch.delattr(os, "pidfd_open")
    assert sh(cron, "exit 4").at(WHEN)() == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("./sync.sh --all 'two words'", r"\['./sync.sh', '--all', 'two words'\]. For what only a shell can do"),
        ("it's", r"\['./sync.sh', '--all'\]"),
        ([], "a command is a list of words"),
        ([""], "a command is a list of words"),
        (None, "not None"),
        (["sync", 3], "every word of a command must be text; 3 is not"),
        (["sync", "a\0b"], "is not"),
    ],
)
def test_what_is_no_command_is_refused_where_it_is_written(cron: Cronce, words: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        cron.command("sync", words, "@daily")
    assert cron.jobs == {}


def test_a_command_has_the_policies_of_every_job(cron: Cronce) -> None:
    assert f"The policies: {', '.join(Policies.__annotations__)}." in " ".join((Cronce.job.__doc__ or "").split())
    with pytest.raises(BadInput, match="here it is start_within"):
        cron.command("sync", ["true"], "@daily", misfire_grace_time=3)  # type: ignore[call-arg]
    cron.command("sync", ["true"], "@daily", retries=2)
    assert cron.jobs["sync"].retries == 2
    assert cron.works["sync"]().is_async is False
