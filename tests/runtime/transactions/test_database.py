"""The database that a job declares: how it is named, and what is asked of it beside the body."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from cronce.errors import BadInput, BadPolicy, DatabaseUnavailable, LeaseLost
from cronce.model import Fence, slot
from cronce.runtime.transactions import Database, Transaction, read_database
from cronce.runtime.transactions.connection import POSTGRESQL, WAIT
from tests.house.wait import wait_until
from tests.runtime.transactions.site import Run, Site, file_site, next_fence, next_key
from tests.runtime.transactions.ways import django
from tests.servers.postgres import Admin, Postgres

# --- what may be declared --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "a URL"),
        ("redis://localhost", "cannot join transactions"),
        ("shop", "Django has no such database; it has"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite://shop.db", "three|four slashes|sqlite:///"),
        ("postgresql://ann:geheim@localhost:x/shop", "is not a URL"),
        ("postgresql://localhost/shop?schema=sales", "search_path"),
        ("mysql://ann:geheim@localhost", "names no database"),
        ("mysql://localhost/shop?colour=red", "knows no colour"),
    ],
)
def test_what_is_no_database_is_refused_where_it_is_declared(value: object, says: str) -> None:
    with pytest.raises(BadPolicy, match=says) as caught:
        read_database(value)
    assert "geheim" not in str(caught.value)


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    database = read_database(f"sqlite:///{tmp_path / 'shop.db'}")
    assert list(tmp_path.iterdir()) == []
    assert read_database(database) is database
    database.raise_fence(next_key(), next_fence())
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["shop.db"]


def test_a_connection_of_an_unknown_kind_is_refused_and_closed() -> None:
    class Foreign:
        is_open = True

        def close(self) -> None:
            self.is_open = False

    made: list[Foreign] = []

    def connect() -> Foreign:
        made.append(Foreign())
        return made[-1]

    with pytest.raises(BadInput, match="cannot be joined"):
        read_database(connect).raise_fence(next_key(), next_fence())
    assert [one.is_open for one in made] == [False]


def test_no_password_is_shown(postgres_site: Site) -> None:
    url = f"postgresql://ann:geheim@127.0.0.1:{postgres_site.port}/nowhere"
    for value in (url, create_engine(url.replace("postgresql", "postgresql+psycopg"))):
        database = read_database(value)
        assert "geheim" not in repr(database)
        with pytest.raises(DatabaseUnavailable) as caught:
            database.raise_fence(next_key(), next_fence())
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("kind", ["url", "engine", "function", "Django"])
def test_a_database_may_be_declared_in_many_ways(sqlite_site: Site, kind: str) -> None:
    django(sqlite_site)
    values: dict[str, Any] = {
        "url": sqlite_site.url,
        "engine": create_engine(sqlite_site.url),
        "function": lambda: sqlite3.connect(sqlite_site.path),
        "Django": "joined_sqlite",
    }
    with closing(read_database(values[kind])) as database:
        run = Run.begun(database)
        assert sqlite_site.ask("SELECT slot, step, fence, done FROM cronce_effects") == [
            (run.key, "", str(run.fence), None)
        ]


def test_a_function_that_gives_an_asynchronous_connection_is_refused(postgres_site: Site) -> None:
    async def ask() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_site.url) as conn:
            read_database(lambda: conn).raise_fence(next_key(), next_fence())

    with pytest.raises(BadPolicy, match="asynchronous"):
        asyncio.run(ask())


def test_the_file_of_the_store_is_refused(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cronce.db'}"
    with pytest.raises(BadPolicy, match="cronce's own store"):
        read_database(store, store)
    file_site(tmp_path / "cronce.db")
    (tmp_path / "alias.db").symlink_to(tmp_path / "cronce.db")
    with pytest.raises(BadPolicy, match="cronce's own store"):
        read_database(f"sqlite:///{tmp_path / 'alias.db'}", store)
    hidden = read_database(lambda: sqlite3.connect(tmp_path / "alias.db"), store)
    with pytest.raises(BadPolicy, match="cronce's own store"):
        hidden.raise_fence(next_key(), next_fence())
    with closing(read_database(f"sqlite:///{tmp_path / 'shop.db'}", store)) as database:
        Run.begun(database)


def test_a_database_in_memory_is_refused(tmp_path: Path) -> None:
    database = read_database(lambda: sqlite3.connect(":memory:"))
    with pytest.raises(BadPolicy, match="in memory"):
        database.raise_fence(next_key(), next_fence())


# --- fences ----------------------------------------------------------------------------------------------------------

EACH = pytest.mark.parametrize("site", ["postgresql", "mariadb", "sqlite"], indirect=True)


@EACH
def test_a_fence_only_rises(site: Site, database: Database) -> None:
    key, low, high = next_key(), Fence(1, 9), Fence(1, 16)  # in hexadecimal 9 and 10
    assert database.raise_fence(key, low) is False
    assert database.raise_fence(key, low) is False
    assert database.raise_fence(key, high) is False
    with pytest.raises(LeaseLost, match=str(high)):
        database.raise_fence(key, low)
    assert database.look(key).fence == str(high)


@EACH
def test_a_seal_stands_above_its_fence_and_below_every_later_one(site: Site, database: Database) -> None:
    key = next_key()
    assert database.seal(key, Fence(1, 15)) is False  # of a holder that never came to raise it
    with pytest.raises(LeaseLost):
        database.raise_fence(key, Fence(1, 15))
    assert database.raise_fence(key, Fence(1, 16)) is False
    assert database.seal(key, Fence(1, 15)) is False
    assert database.look(key).fence == str(Fence(1, 16))


@EACH
def test_what_is_older_is_purged(site: Site, database: Database) -> None:
    def at(day: int, request: str = "") -> str:
        return slot(job, datetime(2026, 3, day, tzinfo=UTC), request).key

    job = next_key().partition("@")[0]
    keys = [at(1), at(2), at(2, "by-hand"), at(3), f"{job}-b@2026-03-01T00:00:00Z"]
    for key in keys:
        database.raise_fence(key, next_fence())
    database.purge(job, datetime(2026, 3, 2, tzinfo=UTC))
    assert [key for key in keys if database.look(key).fence] == keys[1:]
    database.purge(job, datetime(2026, 3, 3, tzinfo=UTC))
    assert [key for key in keys if database.look(key).fence] == keys[3:]


@EACH
def test_many_threads_that_come_at_once_make_one_table_and_the_highest_fence_wins(site: Site) -> None:
    site.ask("DROP TABLE IF EXISTS cronce_effects")
    databases = [read_database(site.url) for _ in range(8)]
    key, fences = next_key(), [next_fence() for _ in range(8)]

    def raised(number: int) -> bool:
        try:
            return databases[number].raise_fence(key, fences[number])
        except LeaseLost:
            return True

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(raised, range(8)))
    assert outcomes[-1] is False
    assert databases[0].look(key).fence == str(fences[-1])
    for database in databases:
        database.close()


# --- connections -----------------------------------------------------------------------------------------------------


def pids(admin: Admin, name: str) -> list[int]:
    return [pid for (pid,) in admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,))]


@pytest.fixture
def named(postgres_site: Site) -> Iterator[Database]:
    database = read_database(f"{postgres_site.url}?application_name=joined")
    yield database
    database.close()


def test_a_connection_is_kept_and_one_that_was_hung_up_is_replaced(admin: Admin, named: Database) -> None:
    Run.begun(named)
    (first,) = pids(admin, "joined")
    Run.begun(named)
    assert pids(admin, "joined") == [first]
    admin.execute("SELECT pg_terminate_backend(%s, 60000)", (first,))
    Run.begun(named)
    (second,) = pids(admin, "joined")
    assert second != first
    named.close()


def test_a_forked_child_has_connections_of_its_own(postgres_site: Site, tmp_path: Path) -> None:
    opened = tmp_path / "opened"

    def connect() -> "psycopg.Connection[Any]":
        with opened.open("a") as book:
            book.write(f"{os.getpid()}\n")
        return psycopg.connect(postgres_site.url)

    with closing(read_database(connect)) as database:
        run = Run.begun(database)
        child = os.fork()
        if child == 0:
            try:
                database.raise_fence(run.key, next_fence())
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert database.look(run.key).fence > str(run.fence)
    assert opened.read_text().split() == [str(os.getpid()), str(child)]


def test_an_engines_pool_is_left_to_its_user(postgres_site: Site) -> None:
    engine = create_engine(postgres_site.alchemy_url("psycopg"), pool_size=1, max_overflow=0, pool_timeout=0.1)
    with closing(read_database(engine)) as database:
        run = Run.begun(database)
        with engine.connect() as conn, Transaction(database, run, conn):
            assert database.look(run.key).done is False
        assert database.raise_fence(run.key, next_fence()) is True
    engine.dispose()


def waits_for(monkeypatch: pytest.MonkeyPatch, span: str) -> None:
    """So long a lock is waited for."""
    limits = POSTGRESQL.limits.replace(f"{WAIT}s", span)
    monkeypatch.setattr("cronce.runtime.transactions.drivers.POSTGRESQL", POSTGRESQL._replace(limits=limits))


def test_at_most_four_lie_idle(
    admin: Admin, named: Database, postgres_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_for(monkeypatch, "60s")
    run = Run.begun(named)
    with psycopg.connect(postgres_site.url) as conn, ThreadPoolExecutor(6) as pool:
        conn.execute("SELECT FROM cronce_effects WHERE slot = %s FOR UPDATE", (run.key,))
        asked = [pool.submit(named.settled, run.key) for _ in range(6)]
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'joined'"
        wait_until(lambda: admin.execute(waiting).fetchone() == (6,))
        conn.rollback()
        assert {each.result().fence for each in asked} == {str(run.fence)}
    wait_until(lambda: len(pids(admin, "joined")) == 4)


def test_a_lock_is_not_waited_for_for_ever(
    postgres_site: Site, named: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_for(monkeypatch, "50ms")
    run = Run.begun(named)
    with psycopg.connect(postgres_site.url) as conn:
        conn.execute("SELECT FROM cronce_effects WHERE slot = %s FOR UPDATE", (run.key,))
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            named.raise_fence(run.key, next_fence())


def test_who_may_not_make_the_table_is_shown_it(postgres: Postgres, admin: Admin) -> None:
    admin.execute("CREATE DATABASE bare")
    admin.execute("CREATE ROLE clerk LOGIN")
    url = f"postgresql://clerk@127.0.0.1:{postgres.port}/bare"
    with closing(read_database(url)) as database:
        with pytest.raises(DatabaseUnavailable, match=r"permission denied|does not exist") as caught:
            database.raise_fence(next_key(), next_fence())
        table = str(caught.value).partition("DELETE on it:\n")[2]
        with psycopg.connect(url.replace("clerk", "postgres"), autocommit=True) as owner:
            owner.execute(table)
            owner.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON cronce_effects TO clerk")
        run = Run.begun(database)
        with psycopg.connect(url) as conn, Transaction(database, run, conn):
            pass
        assert database.raise_fence(run.key, next_fence()) is True


def test_where_nobody_answers_nothing_runs() -> None:
    for url in ("postgresql://127.0.0.1:1/shop", "mysql://root@127.0.0.1:1/shop", "sqlite:////nowhere/shop.db"):
        with pytest.raises(DatabaseUnavailable, match="in which the run commits, did not answer"):
            read_database(url).raise_fence(next_key(), next_fence())
