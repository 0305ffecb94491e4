"""What is done to a store's file is undone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cronce.testing.crew import Crew
from cronce.torture.faults import Faults
from cronce.torture.means import Props
from cronce.torture.plan import Fault
from tests.runtime.shelf import HandClock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE t (x)")
    return path


def is_free(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def test_a_file_is_locked_by_one_fault_at_a_time_and_free_when_it_ends(file: Path, clock: HandClock) -> None:
    """A second lock that fell due during the first once took its place, and the first was never let go."""
    crew = Crew("cronce.torture.worker", file.with_name)  # a lock needs nobody
    faults = Faults(["w1"], Props(crew, {}, lambda _name: None, {}, str(file)), clock)
    faults.begin([Fault("lock", 0.0, 2.0), Fault("lock", 1.0, 2.0)], clock.boot())
    free = []
    for _ in range(7):
        faults.look([])
        free.append(is_free(file))
        clock.turn(1)
    assert free[0] is False
    assert free[-1] is True
    assert [deed.kind for deed in faults.deeds] == ["lock"]
