"""What could not be told to the store, on this machine's own disk."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import NotRecorded
from cronce.model import Fence, Slot
from cronce.protocol.commands import Release
from cronce.protocol.record import Outcome
from cronce.runtime.journal import Journal, PendingEnd, UnaskedCall
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
    assert isinstance(end, PendingEnd)
    assert end in office.keeper.pending_ends._ends.values()
    assert end.at == START


def test_what_is_said_together_is_taken_off_together(folder: str) -> None:
    ends = [PendingEnd(SLOT.cell, Release(Fence(1, number)), "me", START) for number in range(4)]
    journal = Journal(folder)
    journal.write(ends[:3])
    journal.write(ends[3:])
    journal.recorded([Fence(1, 0), Fence(1, 1), Fence(1, 3)])
    assert journal.all() == ends[:3]  # a file goes when all of it is said
    journal.recorded([Fence(1, 2), Fence(1, 7)])
    assert journal.all() == []


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
    monkeypatch.setattr("cronce.runtime.journal.MAX_FILES", 3)
    journal = Journal(folder)
    for number in range(5):
        journal.write([UnaskedCall(SLOT.key, "no answer", "web-1", START + timedelta(seconds=number))])
    assert len(journal.all()) == 3


@pytest.mark.parametrize(
    "text",
    [
        "null\n",
        "5\n",
        '"x"\n',
        '{"v":1,"slot":"a@2026-03-29T12:00:00Z","why":[],"holder":"w","at":0}\n',
        '{"v":1,"slot":"a@2026-03-29T12:00:00Z","why":"","holder":"w","at":1e300}\n',
        "[" * 100_000,
    ],
)
def test_whatever_stands_in_the_journal_keeps_nobody_from_reading_the_rest(tmp_path: Path, text: str) -> None:
    journal = Journal(str(tmp_path))
    journal.write([UnaskedCall(SLOT.key, "no answer", "web-1", START)])
    (tmp_path / "0.jsonl").write_text(text)
    os.mkfifo(tmp_path / "1.jsonl")
    assert [entry.holder for entries in journal.left().values() for entry in entries] == ["web-1"]


def test_what_a_full_disk_did_not_take_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, end = Journal(str(tmp_path)), PendingEnd(SLOT.cell, Release(Fence(1, 7)), "web-1", START)
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", full)
    journal.write([end])
    assert [*tmp_path.iterdir()] == []
    monkeypatch.undo()
    journal.write([end])
    assert journal.all() == [end]
