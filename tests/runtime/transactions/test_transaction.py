"""The block itself: which connections it takes, how it leaves them, and what may not happen inside it."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import psycopg2
import pytest
from asgiref.local import Local
from django.db import connection as django_connection
from django.db import connections, transaction
from psycopg.rows import dict_row
from psycopg2.extras import RealDictCursor
from pymysql.cursors import DictCursor
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from cronce.errors import AlreadyDone, BadInput, LeaseLost
from cronce.runtime.transactions import Database, Transaction, read_database
from tests.runtime.transactions.site import Run, Site, file_site, put
from tests.runtime.transactions.ways import django
from tests.servers.postgres import PgBouncer


@pytest.fixture
def database(postgres_site: Site) -> Iterator[Database]:
    found = read_database(postgres_site.url)
    yield found
    found.close()


@pytest.fixture
def engine(postgres_site: Site) -> Engine:
    return create_engine(postgres_site.alchemy_url("psycopg"), poolclass=NullPool)


def enter(database: Database, run: Run, conn: Any, step: str = "") -> None:
    with Transaction(database, run, conn, step):
        pytest.fail("the block was entered")


def commit(database: Database, run: Run, conn: Any, inside: Callable[[Any], object]) -> None:
    with Transaction(database, run, conn) as tx:
        inside(tx)


# --- which connections -----------------------------------------------------------------------------------------------


def test_inside_a_block_of_psycopg_it_is_refused(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    for autocommit in (False, True):
        with (
            psycopg.connect(postgres_site.url, autocommit=autocommit) as conn,
            conn.transaction(),
            pytest.raises(BadInput, match="inside a transaction block"),
        ):
            enter(database, run, conn)
    with psycopg.connect(postgres_site.url) as conn, conn.pipeline(), pytest.raises(BadInput, match="pipeline mode"):
        enter(database, run, conn)


def test_a_transaction_that_was_begun_by_hand_is_refused(
    postgres_site: Site, mariadb_site: Site, sqlite_site: Site
) -> None:
    with psycopg.connect(postgres_site.url, autocommit=True) as one:
        _refused_after_begin(postgres_site, one)
    with closing(psycopg2.connect(postgres_site.url)) as two:
        two.autocommit = True
        _refused_after_begin(postgres_site, two)
    with closing(mariadb_site.pymysql(autocommit=True)) as three:
        _refused_after_begin(mariadb_site, three)
    with closing(sqlite3.connect(sqlite_site.path, isolation_level=None)) as four:
        _refused_after_begin(sqlite_site, four)


def _refused_after_begin(site: Site, conn: Any) -> None:
    with closing(read_database(site.url)) as database:
        run = Run.begun(database)
        conn.cursor().execute("BEGIN")
        with pytest.raises(BadInput, match="inside a transaction"):
            enter(database, run, conn)


def test_a_transaction_that_failed_is_refused(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    with closing(psycopg.connect(postgres_site.url)) as one, closing(psycopg2.connect(postgres_site.url)) as two:
        for conn in (one, two):
            with pytest.raises((psycopg.Error, psycopg2.Error)):
                conn.cursor().execute("SELECT 1 / 0")
            with pytest.raises(BadInput, match="failed"):
                enter(database, run, conn)


def test_inside_a_block_of_sqlalchemy_it_is_refused(database: Database, engine: Engine) -> None:
    run = Run.begun(database)
    with engine.begin() as conn, pytest.raises(BadInput, match="begin"):
        enter(database, run, conn)
    with engine.connect() as conn, conn.begin(), conn.begin_nested(), pytest.raises(BadInput, match="begin"):
        enter(database, run, conn)
    with Session(engine) as session, session.begin(), pytest.raises(BadInput, match="begin"):
        enter(database, run, session)
    with engine.begin() as conn, Session(conn) as session, pytest.raises(BadInput, match="bound to a connection"):
        enter(database, run, session)


def test_in_autocommit_of_sqlalchemy_it_is_refused(mariadb_site: Site, database: Database, engine: Engine) -> None:
    run = Run.begun(database)
    with (
        engine.execution_options(isolation_level="AUTOCOMMIT").connect() as conn,
        pytest.raises(BadInput, match="is in AUTOCOMMIT"),
    ):
        enter(database, run, conn)
    with (
        Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session,
        pytest.raises(BadInput, match="is in AUTOCOMMIT"),
    ):
        enter(database, run, session)
    mysql = create_engine(mariadb_site.alchemy_url("pymysql"), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with (
        mysql.connect() as conn,
        closing(read_database(mariadb_site.url)) as its,
        pytest.raises(BadInput, match="is in AUTOCOMMIT"),
    ):
        enter(its, Run.begun(its), conn)


def test_inside_an_atomic_block_of_django_it_is_refused(sqlite_site: Site) -> None:
    way = django(sqlite_site)
    with closing(read_database("joined_sqlite")) as database, way.open() as conn:
        with transaction.atomic(using="joined_sqlite"), pytest.raises(BadInput, match="atomic"):
            enter(database, Run.begun(database), conn)
        conn.set_autocommit(False)
        with pytest.raises(BadInput, match="out of autocommit"):
            enter(database, Run.begun(database), conn)


def test_djangos_own_name_for_its_connection_will_do(sqlite_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    way = django(sqlite_site)
    monkeypatch.setitem(connections.settings, "default", connections.settings["joined_sqlite"])
    monkeypatch.setattr(connections, "_connections", Local())
    told: list[str] = []
    with way.open(), closing(read_database(django_connection)) as database:
        run = Run.begun(database)
        with Transaction(database, run, django_connection):
            transaction.on_commit(lambda: told.append("committed"))
            with transaction.atomic(), django_connection.cursor() as cursor:
                cursor.execute(put(run.key))
            assert told == []
        assert told == ["committed"]
        connections["default"].close()
    assert sqlite_site.written(run.key) == [run.key]


def test_behind_a_pooler_that_lends_a_session_for_a_transaction_it_is_all_the_same(
    pgbouncer: PgBouncer, postgres_site: Site
) -> None:
    with closing(read_database(pgbouncer.url)) as database, psycopg.connect(pgbouncer.url) as conn:
        conn.prepare_threshold = None
        run, stale = Run.begun(database), Run.begun(database)
        commit(database, run, conn, lambda tx: tx.execute(put(run.key)))
        with pytest.raises(LeaseLost):
            commit(database, stale, conn, lambda _: database.seal(stale.key, stale.fence))
    assert postgres_site.written(run.key) == [run.key]


def test_a_scoped_session_is_the_session_behind_it(postgres_site: Site, database: Database, engine: Engine) -> None:
    run = Run.begun(database)
    scope = scoped_session(sessionmaker(engine))
    with Transaction(database, run, scope):
        scope.execute(text(put(run.key)))
    scope.remove()
    assert postgres_site.written(run.key) == [run.key]


class Base(DeclarativeBase):
    pass


class Written(Base):
    __tablename__ = "written"
    who: Mapped[str] = mapped_column(primary_key=True)


def test_what_a_session_kept_back_is_written_before_the_check(
    postgres_site: Site, database: Database, engine: Engine
) -> None:
    run = Run.begun(database)
    said: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _c, _r, statement, *_: said.append(statement))
    with Session(engine, autoflush=False) as session, Transaction(database, run, session):
        session.add(Written(who=run.key))
    assert [statement.split()[0] for statement in said] == [
        "SAVEPOINT", "INSERT", "RELEASE", "SELECT", "SELECT", "UPDATE",
    ]  # fmt: skip
    assert "FOR UPDATE" in said[-2]
    assert postgres_site.written(run.key) == [run.key]


def test_what_is_no_connection_is_refused(database: Database) -> None:
    with pytest.raises(BadInput, match=r"a builtins\.dict cannot be joined; give a connection of psycopg"):
        enter(database, Run.begun(database), {})


async def _enter_async(database: Database, run: Run, conn: Any) -> None:
    async with Transaction(database, run, conn):
        pytest.fail("the block was entered")


def test_with_and_async_with_are_told_apart(postgres_site: Site, database: Database) -> None:
    async def both() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_site.url) as conn:
            with pytest.raises(BadInput, match="`async with"):
                enter(database, Run.begun(database), conn)
        with psycopg.connect(postgres_site.url) as plain, pytest.raises(BadInput, match="`with"):
            await _enter_async(database, Run.begun(database), plain)

    asyncio.run(both())


def test_a_connection_to_another_database_is_refused_and_rolled_back(sqlite_site: Site, tmp_path: Path) -> None:
    other = file_site(tmp_path / "other.db")
    with (
        closing(read_database(sqlite_site.url)) as database,
        closing(read_database(other.url)) as its,
        closing(sqlite3.connect(other.path)) as conn,
    ):
        Run.begun(its)
        run = Run.begun(database)
        with pytest.raises(BadInput, match="this connection is to another database than the job's transaction="):
            commit(database, run, conn, lambda tx: tx.execute(put(run.key)))
        assert other.written(run.key) == []


@pytest.mark.parametrize("step", [7, "a\0b", "é" * 501])
def test_a_step_has_a_name_that_every_database_can_keep(database: Database, step: Any) -> None:
    with pytest.raises(BadInput, match="at most 1000 bytes"):
        Transaction(database, Run("billing@2026-03-29T01:00:00Z", None), None, step)  # type: ignore[arg-type]


# --- how it leaves them ----------------------------------------------------------------------------------------------


def test_autocommit_is_as_it_was(postgres_site: Site, database: Database) -> None:
    with (
        psycopg.connect(postgres_site.url, autocommit=True) as one,
        closing(psycopg2.connect(postgres_site.url)) as two,
    ):
        two.autocommit = True
        for conn in (one, two):
            commit(database, Run.begun(database), conn, lambda _: None)
            assert conn.autocommit is True
            with pytest.raises(ZeroDivisionError):
                commit(database, Run.begun(database), conn, lambda _: 1 // 0)
            assert conn.autocommit is True
            with pytest.raises(LeaseLost):
                commit(database, run := Run.begun(database), conn, lambda _: database.seal(run.key, run.fence))
            assert conn.autocommit is True


def test_the_limits_of_a_session_of_mysql_are_as_they_were(mariadb_site: Site) -> None:
    with closing(read_database(mariadb_site.url)) as database, closing(mariadb_site.pymysql()) as conn:
        cursor = conn.cursor()
        cursor.execute("SET SESSION wait_timeout = 1234, SESSION innodb_lock_wait_timeout = 56")
        run = Run.begun(database)
        commit(database, run, conn, lambda _: None)
        with pytest.raises(LeaseLost):
            commit(database, run := Run.begun(database), conn, lambda _: database.seal(run.key, run.fence))
        cursor.execute("SELECT @@SESSION.wait_timeout, @@SESSION.innodb_lock_wait_timeout")
        assert cursor.fetchall() == ((1234, 56),)


def test_however_its_user_likes_rows(postgres_site: Site, mariadb_site: Site, sqlite_site: Site) -> None:
    with (
        psycopg.connect(postgres_site.url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as one,
        closing(psycopg2.connect(postgres_site.url, cursor_factory=RealDictCursor)) as two,
        closing(mariadb_site.pymysql(cursorclass=DictCursor)) as three,
        closing(sqlite3.connect(sqlite_site.path)) as four,
    ):
        four.row_factory = sqlite3.Row
        conns = [(postgres_site, one), (postgres_site, two), (mariadb_site, three), (sqlite_site, four)]
        for site, conn in conns:
            with closing(read_database(site.url)) as database:
                run = Run.begun(database)
                commit(database, run, conn, lambda tx, run=run: tx.cursor().execute(put(run.key)))  # type: ignore[misc]
                assert site.written(run.key) == [run.key]


def test_whatever_the_encoding_of_a_connection_a_step_is_the_same(mariadb_site: Site) -> None:
    with closing(read_database(mariadb_site.url)) as database:
        run = Run.begun(database)
        with closing(mariadb_site.pymysql(charset="latin1")) as conn, Transaction(database, run, conn, "größe"):
            pass
        with closing(mariadb_site.pymysql()) as conn, pytest.raises(AlreadyDone):
            enter(database, run, conn, "größe")


def test_on_sqlite_another_writer_is_waited_for(sqlite_site: Site) -> None:
    """A transaction that would first read the fence, and then write, is refused if another wrote in between."""
    sqlite_site.ask("PRAGMA journal_mode = WAL")
    with (
        closing(read_database(sqlite_site.url)) as database,
        closing(sqlite3.connect(sqlite_site.path, timeout=60)) as conn,
        closing(sqlite3.connect(sqlite_site.path, check_same_thread=False)) as other,
    ):
        run = Run.begun(database)
        other.execute(put("other"))
        later = threading.Timer(0.2, other.commit)
        with Transaction(database, run, conn):
            later.start()
        later.join()
    assert sqlite_site.written("other") == ["other"]


# --- what may not happen inside --------------------------------------------------------------------------------------


@pytest.mark.parametrize("site", ["postgresql", "mariadb", "sqlite"], indirect=True)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_who_ends_the_transaction_inside_is_told(site: Site, end: str) -> None:
    with closing(read_database(site.url)) as database, site.plain() as conn:
        run = Run.begun(database)
        with pytest.raises(BadInput, match="did not last to the end of its block"):
            commit(database, run, conn, lambda tx: tx.cursor().execute(end))
        assert database.look(run.key).done is False
        commit(database, run, conn, lambda tx: tx.cursor().execute(put(run.key)))


def test_a_table_made_inside_is_noticed_on_mysql_where_it_commits(mariadb_site: Site) -> None:
    with closing(read_database(mariadb_site.url)) as database, closing(mariadb_site.pymysql()) as conn:
        with pytest.raises(BadInput, match="CREATE or ALTER"):
            commit(database, Run.begun(database), conn, lambda tx: tx.cursor().execute("CREATE TABLE made (n INT)"))
        conn.cursor().execute("DROP TABLE made")


def test_an_error_that_was_swallowed_inside_is_noticed_on_postgresql(postgres_site: Site, database: Database) -> None:
    def swallow(tx: Any) -> None:
        with pytest.raises(psycopg.Error):
            tx.execute("SELECT 1 / 0")

    with psycopg.connect(postgres_site.url) as conn, pytest.raises(BadInput, match="the error was swallowed"):
        commit(database, Run.begun(database), conn, swallow)


def test_a_connection_that_breaks_inside_fails_with_what_the_driver_says(
    postgres_site: Site, database: Database
) -> None:
    def kill(tx: Any) -> None:
        postgres_site.ask(f"SELECT pg_terminate_backend({tx.info.backend_pid}, 60000)")

    with closing(psycopg.connect(postgres_site.url)) as conn, pytest.raises(psycopg.OperationalError):
        commit(database, Run.begun(database), conn, kill)


def test_a_run_that_ended_itself_commits_no_further_step(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    with psycopg.connect(postgres_site.url) as conn:
        commit(database, run, conn, lambda _: None)
        with pytest.raises(BadInput, match="must be the last one"):
            enter(database, run, conn, "charge")


def test_a_lease_that_was_lost_meanwhile_commits_nothing(postgres_site: Site, database: Database) -> None:
    """Known by its clock, without a word from the database."""

    class Lapsed(Run):
        def check(self) -> None:
            super().check()
            if self.checks == 2:
                raise LeaseLost("its time is over")

    run = Lapsed.begun(database)
    with psycopg.connect(postgres_site.url) as conn, pytest.raises(LeaseLost, match="its time is over"):
        commit(database, run, conn, lambda tx: tx.execute(put(run.key)))
    assert postgres_site.written(run.key) == []
