"""The statements of the SQLite store: scans go along an index, and people read runs in a view."""

import sqlite3
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.model import Mark
from cronce.runtime.node import host_name
from cronce.stores.base import By, Scan
from cronce.stores.sql import bounds
from cronce.stores.sqlite import AFTER_ALL_TEXT, SqliteStore
from cronce.stores.sqlite.statements import scan_statement
from cronce.testing.contract import DAY, HOUR, put, win
from tests.stores.sqlite.files import raw

# --- finding without reading the shelf ------------------------------------------------------------------------------


QUICK = [
    ("key", None, "SEARCH cronce_cells USING INDEX cronce_by_key (key>? AND key<?)"),
    ("at", None, "SEARCH cronce_cells USING INDEX cronce_by_at ((at,key)>(?,?) AND at<?)"),
    ("until", Mark.OPEN, "SEARCH cronce_cells USING INDEX cronce_open ((until,key)>(?,?) AND until<?)"),
    ("at", Mark.ATTENTION, "SEARCH cronce_cells USING INDEX cronce_attention ((at,key)>(?,?) AND at<?)"),
]


@pytest.mark.parametrize(("by", "mark", "plan"), QUICK)
def test_a_scan_goes_along_its_index_and_sorts_nothing(
    store: SqliteStore, path: Path, by: By, mark: Mark | None, plan: str
) -> None:
    statement = scan_statement(by, mark, newest_first=False)
    db = raw(path)
    steps = db.execute("EXPLAIN QUERY PLAN " + statement, bounds(Scan("x"), AFTER_ALL_TEXT)).fetchall()
    assert [step[3] for step in steps if "cronce_cells" in step[3] or "B-TREE" in step[3]] == [plan]
    db.close()


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(
    ("by", "mark"), [(by, mark) for by, mark, _ in QUICK] + [("key", Mark.OPEN), ("at", Mark.OPEN)]
)
def test_a_scan_costs_what_it_finds_not_what_is_there(
    store: SqliteStore, by: By, mark: Mark | None, newest_first: bool
) -> None:
    """Counted in steps of SQLite's machine, a thousand at a time: one step more per cell would be three thousand."""
    win(store, *(put(f"run/{number:04}", at=DAY + number * HOUR, ttl=HOUR) for number in range(3000)))
    win(store, put("run/o", Mark.OPEN, at=DAY, ttl=HOUR), put("run/x", Mark.ATTENTION, at=DAY, ttl=HOUR))
    assert store._connection is not None
    thousands: list[None] = []
    store._connection.db.set_progress_handler(lambda: thousands.append(None), 1000)
    assert len(store.scan(Scan("run/", by=by, mark=mark, newest_first=newest_first, limit=2)).cells) == (
        1 if mark else 2
    )
    assert len(thousands) <= 1


def test_a_scan_back_from_an_instant_enters_its_index_there(store: SqliteStore) -> None:
    """It walked to it over all that came after: an hour of a month ago took seconds among a million runs."""
    win(store, *(put(f"run/{number:04}", at=DAY + number * HOUR, ttl=HOUR) for number in range(3000)))
    assert store._connection is not None
    thousands: list[None] = []
    store._connection.db.set_progress_handler(lambda: thousands.append(None), 1000)
    page = store.scan(Scan("run/", "at", upto=DAY + 5 * HOUR, newest_first=True, limit=2))
    assert [cell.key for cell in page.cells] == ["run/0005", "run/0004"]
    assert len(thousands) <= 1
    rest = store.scan(Scan("run/", "at", upto=DAY + 5 * HOUR, newest_first=True, after=page.next))
    assert [cell.key for cell in rest.cells] == ["run/0003", "run/0002", "run/0001", "run/0000"]


# --- the view for people --------------------------------------------------------------------------------------------


def test_runs_can_be_read_in_plain_sql(path: Path, tmp_path: Path) -> None:
    cron = Cronce(f"sqlite:///{path}")

    @cron.job("@daily", name="report", start_within="3650d")
    def report() -> None:
        raise RuntimeError("no paper")

    with pytest.raises(RuntimeError, match="no paper"):
        report.at("2026-03-29")()
    cron.close()
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    (row,) = map(dict, db.execute("SELECT * FROM cronce_runs"))
    db.close()
    assert row.pop("holder").startswith(host_name())
    assert row.pop("started") <= row.pop("finished")
    assert len(row.pop("fence")) == len("00000000000000-000000000000")
    assert row.pop("until").endswith("Z")
    assert row == {
        "job": "report",
        "slot": "2026-03-29T00:00:00Z",
        "request": "",
        "state": "closed",
        "outcome": "failed",
        "reason": "RuntimeError: no paper",
        "grant": 1,
        "due": "2026-03-29T00:00:00.000Z",
    }
