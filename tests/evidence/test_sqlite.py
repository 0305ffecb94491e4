"""Duplicate rows in SQLite: times that are none, and files that are none."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce.evidence.search import connect
from tests.evidence.shops import SqliteShop, brief, seen


@pytest.mark.parametrize("never", ["9e999", "-9e999", "'infinity'", "'9999-12-31 23:59:59'"])
@pytest.mark.parametrize("now", ["strftime('%Y-%m-%d %H:%M:%f', 'now')", "strftime('%s', 'now') + 0"])
def test_a_time_that_is_none_is_not_looked_at(tmp_path: Path, now: str, never: str) -> None:
    shop = SqliteShop(tmp_path / "shop.db")
    orders = [(1, "a", 1), (1, "b", 1), (1, "c", 0)]
    shop.take("order_id int, kind text, made", f"CASE WHEN {{}} > 0 THEN {now} ELSE {never} END", orders)
    found = seen(shop, tz="America/New_York", since=600)
    assert ([row[:2] for row in brief(found)], found.extent.rows) == ([(1, 2)], 2)


def test_a_file_that_is_not_there_and_one_that_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no file .*shop.db"):
        connect(f"sqlite:///{tmp_path}/shop.db", timedelta(seconds=1))
    (tmp_path / "shop.db").write_text("a letter " * 200)
    with (
        pytest.raises(BadInput, match="file is not a database"),
        closing(connect(f"sqlite:///{tmp_path}/shop.db", timedelta(seconds=1))) as database,
    ):
        database.tables()
    with pytest.raises(BadInput, match=r"dupes reads postgresql://, mysql:// and sqlite:///, and no 'redis'"):
        connect("redis://me:secret@h/0", timedelta(seconds=1))
