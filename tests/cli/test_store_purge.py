"""cronce purge from the command line, on an SQLite file with a history."""

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.cli import main
from cronce.clock import SystemClock
from cronce.model import Mark, Slot, Write, job_cell, once_cell
from cronce.protocol.record import Job, Outcome, Record, State, encode
from cronce.runtime import jobs
from cronce.runtime.flow import drive
from cronce.runtime.ledger import Ledger
from cronce.stores import open_store
from cronce.stores.base import Scan

NOW = SystemClock().wall().replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job with six runs that succeeded and two that failed, hours apart; a purge waits for a moment only."""
    monkeypatch.setattr(jobs, "PURGE_DELAY", timedelta(milliseconds=300))
    url, clock = f"sqlite:///{tmp_path}/cronce.db", SystemClock()
    store = open_store(url)
    drive(Ledger(store.traits, clock, "web-1").jobs.edit("billing", lambda *_: Job(NOW - 99 * HOUR)), store, clock)
    writes = []
    for hours in range(2, 10):
        slot = Slot("billing", NOW - hours * HOUR)
        outcome = Outcome.FAILED if hours in (4, 7) else Outcome.SUCCEEDED
        writes.append(Write(slot.cell, 0, encode(Record(State.CLOSED, outcome=outcome)), Mark.CLOSED, slot.at))
    store.swap(writes, store.load([]).epoch.seen)
    store.close()
    return url


def left(url: str) -> list[int]:
    """How many hours ago those were due that are left."""
    store = open_store(url)
    cells = store.scan(Scan("run/", newest_first=True)).cells
    store.close()
    return [int((NOW - cell.at) / HOUR) for cell in cells if cell.at]


def test_a_purge_waits_until_it_may_and_says_what_went(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", "--keep", "succeeded=2", "--keep", "failed=1", "--store", url]) == 0
    assert capsys.readouterr().out == "billing: 5 purged\n"
    assert left(url) == [2, 3, 4]


def test_a_dry_run_changes_nothing(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", "--keep", "1", "--dry-run", "--store", url]) == 0
    assert capsys.readouterr().out == "billing: 6 would be purged\n"
    assert left(url) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_the_document_for_programs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", "billing", "--keep", "3h55m", "--json", "--store", url]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "jobs": [{"job": "billing", "found": 6, "purged": 6}],
        "swept": 0,
    }
    assert left(url) == [2, 3]


def test_keys_that_are_long_past_their_time_go_when_the_clock_was_watched(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RQ's work horses live too short to do it, and there may be no job at all beside them."""
    monkeypatch.setattr(jobs, "LOCK_LEASE", timedelta(seconds=1))
    store, done = open_store(url), encode(Record(State.CLOSED, outcome=Outcome.SUCCEEDED))
    keys = {hours: once_cell("report", f"{hours}") for hours in (1, 23, 25, 99)}
    writes = [Write(key, 0, done, Mark.CLOSED, ttl=-hours * HOUR) for hours, key in keys.items()]
    store.swap(writes, store.load([]).epoch.seen)

    assert main(["purge", "billing", "--store", url]) == 0
    assert main(["purge", "--dry-run", "--store", url]) == 0
    assert capsys.readouterr().out == "nothing to purge\n" * 2
    assert all(cell.version for cell in store.load(list(keys.values())).cells)
    store.purge(store.load([job_cell("billing")]).cells)
    assert main(["purge", "--store", url]) == 0
    assert capsys.readouterr().out == "2 old records of keys, locks and processes deleted\n"
    assert [bool(cell.version) for cell in store.load(list(keys.values())).cells] == [True, True, False, False]

    store.swap([Write("holder/gone", 0, "", Mark.OPEN, ttl=-99 * HOUR)], store.load([]).epoch.seen)
    store.close()
    assert main(["purge", "--json", "--store", url]) == 0
    assert json.loads(capsys.readouterr().out) == {"jobs": [], "swept": 1}


def test_what_comes_to_be_too_much_meanwhile_is_not_waited_for(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a job that is due every second there was always one more, and the command never ended; a run by hand of an old
    slot, which is younger than those of its age, is no reason to go on."""
    minutes = iter(range(1, 50))
    again = Slot("billing", NOW - 9 * HOUR, "r-0badcafe")  # of an old slot, an hour ago
    store, record = open_store(url), encode(Record(State.CLOSED, outcome=Outcome.SUCCEEDED))
    store.swap([Write(again.cell, 0, record, Mark.CLOSED, NOW - HOUR)], store.load([]).epoch.seen)
    store.close()

    def sleep(seconds: float) -> None:
        slot = Slot("billing", NOW - 2 * HOUR + timedelta(minutes=next(minutes)))
        store, record = open_store(url), encode(Record(State.CLOSED, outcome=Outcome.SUCCEEDED))
        store.swap([Write(slot.cell, 0, record, Mark.CLOSED, slot.at)], store.load([]).epoch.seen)
        store.close()
        threading.Event().wait(seconds)

    monkeypatch.setattr("cronce.cli.store.time.sleep", sleep)
    assert main(["purge", "--keep", "5", "--store", url]) == 0
    assert capsys.readouterr().out == "billing: 3 purged\n"  # two were found, and one had come by then


def test_what_another_purged_meanwhile_is_not_waited_for(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(_seconds: float) -> None:
        store = open_store(url)
        store.purge(store.scan(Scan("run/")).cells)
        store.close()

    monkeypatch.setattr(jobs, "PURGE_DELAY", timedelta(hours=1))
    monkeypatch.setattr("cronce.cli.store.time.sleep", sleep)
    assert main(["purge", "--keep", "1", "--store", url]) == 0
    assert capsys.readouterr().out == "billing: 0 purged\n"


def test_by_default_nothing_of_this_is_too_much(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["purge", "--store", url]) == 0
    assert capsys.readouterr().out == "nothing to purge\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--keep", "5", "--keep", "6"], "--keep 5: name the outcome, as in --keep succeeded=5"),
        (["--keep", "sucess=5"], "keep: 'sucess' is not an outcome of a run"),
        (["biling"], "no job is called 'biling'; did you mean 'billing'?"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["purge", *arguments, "--store", url]) != 0
    assert says in capsys.readouterr().err
    assert left(url) == [2, 3, 4, 5, 6, 7, 8, 9]
