"""The tables of a MySQL store: who may make them, newer ones, copies, and the view for people."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronce.errors import (
    StoreCopied,
    StoreCorrupt,
    StoreForgot,
    StoreNewer,
    StoreUnavailable,
    StoreUnusable,
)
from cronce.model import Origin, slot
from cronce.protocol.record import Outcome, Record, State, encode
from cronce.stores.base import Scan
from cronce.stores.mysql import MysqlStore, adopt, ddl, init
from cronce.stores.mysql.schema import prepare
from cronce.stores.mysql.server import MySqlConnection, locate
from cronce.testing.contract import cell_of, claim, keys_of, put, refusals, swap, win
from tests.stores.forks import Child
from tests.stores.mysql.opening import opened, refused, with_user


def test_a_user_that_may_not_make_tables_uses_those_that_an_administrator_made(url: str, sql: Any) -> None:
    name = f"u{os.getpid()}"
    sql.execute(f"DROP USER IF EXISTS {name}@'%'")
    sql.execute(f"CREATE USER {name}@'%' IDENTIFIED BY 'sécret'")
    theirs = with_user(url, name, "s%C3%A9cret")
    assert "may not be used by this user; let an administrator run GRANT SELECT" in refused(theirs, StoreUnusable)
    sql.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {locate(url).database}.* TO {name}@'%'")
    assert "let an administrator run what `cronce store sql` prints" in refused(theirs, StoreUnusable)
    sql.execute(ddl(url))
    while sql.nextset():
        pass
    with opened(theirs) as store:
        (cell,) = win(store, claim("run/a"))
        assert keys_of(store.scan(Scan("run/")).cells) == ["run/a"]
        assert store.purge(store.load([cell.key]).cells) == 1
        assert {check.verdict for check in store.checks() if check.name == "writable"} == {"ok"}
    sql.execute(f"DROP USER {name}@'%'")


def test_processes_that_make_the_store_together_make_one(url: str) -> None:
    def start(me: Child) -> Any:
        me.wait()
        with opened(url) as store:
            return [store.load([]).epoch.birth, refusals(swap(store, claim("first"))) == [None]]

    children = [Child(start) for _ in range(6)]
    for child in children:
        child.go()
    answers = [child.end()[-1] for child in children]
    with opened(url) as store:
        assert {birth for birth, _ in answers} == {store.load([]).epoch.birth}
    assert [won for _, won in answers].count(True) == 1


def test_tables_that_were_made_half_are_made_whole(url: str, sql: Any) -> None:
    sql.execute(ddl(url).partition(";")[0])
    with opened(url) as store:
        win(store, claim("a"))
    sql.execute("SELECT COUNT(*) FROM cronce_runs")
    assert sql.fetchone() == (0,)


def test_a_newer_store_is_refused_even_by_those_that_have_it_open(url: str, store: MysqlStore, sql: Any) -> None:
    seen = store.load([]).epoch.seen
    sql.execute("UPDATE cronce_meta SET `schema` = 2")
    assert "its tables are version 2, this one knows 1" in refused(url, StoreNewer)
    with pytest.raises(StoreNewer):
        store.swap([claim("a")], seen)
    sql.execute("SELECT tally, (SELECT COUNT(*) FROM cronce_cells) FROM cronce_meta")
    assert sql.fetchone() == (0, 0)


def test_tables_that_vanish_in_use_are_missed(store: MysqlStore, sql: Any) -> None:
    win(store, claim("a"))
    sql.execute("DELETE FROM cronce_meta")
    with pytest.raises(StoreCorrupt, match="lost the row"):
        store.load(["a"])
    sql.execute("DROP TABLE cronce_meta, cronce_cells")
    for call in (lambda: store.load(["a"]), lambda: store.swap([claim("a")], (1, 1))):
        with pytest.raises(StoreForgot, match="lost its tables"):
            call()


def test_a_copy_under_another_name_is_refused_until_it_is_adopted(url: str, store: MysqlStore, sql: Any) -> None:
    (cell,) = win(store, claim("a"))
    copy = url + "_copy"
    name = locate(copy).database
    sql.execute(f"CREATE DATABASE {name}")
    for table in ("cronce_cells", "cronce_meta"):
        sql.execute(f"CREATE TABLE {name}.{table} LIKE {table}")
        sql.execute(f"INSERT INTO {name}.{table} SELECT * FROM {table}")
        sql.nextset()
    assert f"copy of the database '{locate(url).database}'" in refused(copy, StoreCopied)
    epoch = adopt(copy)
    assert (epoch.origin, epoch.base) == (Origin.RESTORED, cell.version)
    with opened(copy) as other:
        assert other.load([]).epoch == epoch
        assert cell_of(other, "a") == cell
    sql.execute(f"DROP DATABASE {name}")


def test_a_store_that_is_written_to_while_it_is_adopted_is_not(url: str, store: MysqlStore) -> None:
    class Slow(MySqlConnection):
        def tell(self, statement: str, **values: Any) -> int:
            win(store, claim("a"))
            return super().tell(statement, **values)

    epoch, connection = store.load([]).epoch, Slow(locate(url), None)
    with pytest.raises(StoreUnavailable, match="not adopted; try again"):
        prepare(connection, store.traits, on_purpose=False, adopt=True)
    connection.close()
    assert store.load([]).epoch == epoch._replace(tally=epoch.tally + 1)


def test_init_begins_a_store_once(url: str) -> None:
    epoch = init(url)
    assert epoch.origin is Origin.MADE
    assert init(url) == epoch


def test_people_read_runs_in_a_view(store: MysqlStore, sql: Any) -> None:
    at = datetime(2026, 3, 29, 1, tzinfo=UTC)
    started, finished = at + timedelta(seconds=1, microseconds=5), at + timedelta(seconds=2)
    record = Record(
        State.CLOSED, 2, holder='web "7"', started=started, finished=finished, outcome=Outcome.FAILED, reason="ü"
    )
    (cell,) = win(store, claim(slot("billing", at).cell, encode(record), at=at))
    win(store, put(slot("billing", at, "again").cell, value=encode(Record(State.DUE))), put("job/billing"))
    sql.execute("SET time_zone = '+05:00'")
    sql.execute("SELECT * FROM cronce_runs ORDER BY request")
    columns = "job slot request state outcome reason holder fence grant started finished due until"
    assert [column[0] for column in sql.description] == columns.split()
    first, second = sql.fetchall()
    plain = [instant.replace(tzinfo=None) for instant in (started, finished, at, cell.until) if instant]
    texts = ("billing", "2026-03-29T01:00:00Z", "", "closed", "failed", "ü", 'web "7"', str(cell.fence), 2)
    assert first == (*texts, *plain)
    assert second == ("billing", texts[1], "again", "due", None, None, None, None, 0, None, None, None, None)
