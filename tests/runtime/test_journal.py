"""What could not be told to the store, on this machine's own disk."""

from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import NotRecorded
from cronce.model import Slot
from cronce.protocol.record import Outcome
from cronce.runtime.journal import Journal, UnaskedCall, UnsaidEnd
from cronce.runtime.run import Run
from tests.runtime.office import Office, job
from tests.runtime.shelf import START, HandClock, ReadOnly

SLOT = Slot("billing", START)


@pytest.fixture
def store(clock: HandClock) -> ReadOnly:
    return ReadOnly(clock)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "journal")


@pytest.fixture
def office(store: ReadOnly, folder: str) -> Office:
    return Office(store, journal=folder)


def test_an_end_reads_as_it_was_written(office: Office, store: ReadOnly, folder: str) -> None:
    def body(_run: Run) -> None:
        store.refuses = True
        raise ValueError("ünreadable\n" * 3)

    with pytest.raises(ValueError, match="readable"):
        office.call(job(retries=2, backoff="1m", lease="30s"), body)
    (end,) = Journal(folder).all()
    assert isinstance(end, UnsaidEnd)
    assert end in office.keeper.unsaid._ends.values()
    assert end.at == START


def test_a_disk_that_takes_nothing_is_told_of_once_and_stops_nobody(
    store: ReadOnly, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    office = Office(store, journal=str(tmp_path / "file" / "journal"))

    def body(_run: Run) -> None:
        store.refuses = True

    with pytest.raises(NotRecorded):
        office.call(job(), body)
    store.refuses = False
    assert office.keeper.renew() is None
    assert office.record(SLOT).outcome is Outcome.SUCCEEDED
    assert len([line for line in caplog.messages if line.startswith("the journal in ")]) == 1


def test_a_file_that_cannot_be_read_is_left_where_it_is(office: Office, folder: str) -> None:
    Path(folder).mkdir(parents=True)
    strange = Path(folder) / "7-1-1.jsonl"
    strange.write_text('{"v": 2, "of a later version": true}\n')
    office.call(job(), lambda _run: None)
    assert strange.exists()


def test_of_calls_no_more_than_so_many_files_are_kept(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronce.runtime.journal.MOST", 3)
    journal = Journal(folder)
    for number in range(5):
        journal.write([UnaskedCall(SLOT.key, "no answer", "web-1", START + timedelta(seconds=number))])
    assert len(journal.all()) == 3
