"""A commit whose answer is lost: the table is asked whether it was carried out."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

from cronce.errors import DatabaseUnavailable, LeaseLost
from cronce.runtime.transactions import Database, Transaction, read_database
from tests.runtime.transactions.site import Run, Site, next_fence, put


def deafen(fileno: int) -> None:
    """What is said next, the server hears; its answer is not heard, and the line is dead. To shut the line down for
    reading is not enough: an answer that comes before anybody looks is read all the same."""
    server = socket.socket(fileno=socket.dup(fileno))
    near, far = socket.socketpair()
    os.dup2(near.fileno(), fileno)
    near.close()

    def pass_on() -> None:
        with server, far:
            server.setblocking(True)
            server.sendall(far.recv(65536))

    threading.Thread(target=pass_on).start()


class Deaf(psycopg.Connection[Any]):
    def commit(self) -> None:
        deafen(self.fileno())
        super().commit()


class DeafPyMysql(pymysql.connections.Connection):
    def commit(self) -> None:
        deafen(self._sock.fileno())  # type: ignore[attr-defined]
        super().commit()


class Severed(psycopg.Connection[Any]):
    """Hangs up before it commits."""

    def commit(self) -> None:
        self.close()
        super().commit()


@pytest.fixture
def database(postgres_site: Site) -> Iterator[Database]:
    found = read_database(postgres_site.url)
    yield found
    found.close()


@pytest.mark.parametrize("step", ["", "charge"])
def test_what_was_committed_is_known_to_be(postgres_site: Site, database: Database, step: str) -> None:
    run = Run.begun(database)
    with closing(Deaf.connect(postgres_site.url)) as conn:
        with Transaction(database, run, conn, step):
            conn.execute(put(run.key))
        assert conn.broken
    assert postgres_site.written(run.key) == [run.key]


def test_what_was_committed_is_known_to_be_on_mariadb(mariadb_site: Site) -> None:
    with closing(read_database(mariadb_site.url)) as database:
        run = Run.begun(database)
        conn = DeafPyMysql(host="127.0.0.1", port=mariadb_site.port, user="root", database="cronce")
        with Transaction(database, run, conn):
            conn.cursor().execute(put(run.key))
        assert not conn.open
        assert mariadb_site.written(run.key) == [run.key]


def test_a_commit_that_the_server_is_still_busy_with_is_waited_for(postgres_site: Site, database: Database) -> None:
    postgres_site.ask(
        "CREATE OR REPLACE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$"
    )
    postgres_site.ask("CREATE TABLE IF NOT EXISTS slow (who text)")
    postgres_site.ask(
        "CREATE CONSTRAINT TRIGGER dawdles AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION dawdle()"
    )
    run = Run.begun(database)
    with closing(Deaf.connect(postgres_site.url)) as conn, Transaction(database, run, conn):
        conn.execute("INSERT INTO slow VALUES ('one')")
        conn.execute(put(run.key))
    assert postgres_site.written(run.key) == [run.key]
    postgres_site.ask("DROP TABLE slow")


def test_what_was_not_committed_fails_with_what_the_driver_says(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    with (
        closing(Severed.connect(postgres_site.url)) as conn,
        pytest.raises(psycopg.OperationalError, match="closed"),
        Transaction(database, run, conn),
    ):
        conn.execute(put(run.key))
    assert postgres_site.written(run.key) == []
    assert database.raise_fence(run.key, next_fence()) is False


def test_what_was_not_committed_before_another_took_over_is_lost(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    later = next_fence()

    class TakenOver(psycopg.Connection[Any]):
        def commit(self) -> None:
            self.close()
            database.raise_fence(run.key, later)
            super().commit()

    with (
        closing(TakenOver.connect(postgres_site.url)) as conn,
        pytest.raises(LeaseLost, match=str(later)),
        Transaction(database, run, conn, "charge"),
    ):
        conn.execute(put(run.key))
    assert postgres_site.written(run.key) == []


def test_where_nobody_can_be_asked_it_says_so(postgres_site: Site) -> None:
    """And the next run finds out."""
    reachable = [postgres_site.url]
    database = read_database(lambda: psycopg.connect(reachable[0]))
    run = Run.begun(database)

    def commit() -> None:
        with closing(Deaf.connect(postgres_site.url)) as conn, Transaction(database, run, conn):
            conn.execute(put(run.key))
            database.close()
            reachable[0] = "postgresql://nobody@127.0.0.1:1/none"

    with pytest.raises(DatabaseUnavailable, match="may have been committed, or not"):
        commit()
    reachable[0] = postgres_site.url
    assert database.raise_fence(run.key, next_fence()) is True


def test_an_error_of_a_hook_that_runs_after_the_commit_is_seen(postgres_site: Site, database: Database) -> None:
    run = Run.begun(database)
    engine = create_engine(postgres_site.alchemy_url("psycopg"))
    with Session(engine) as session:

        @event.listens_for(session, "after_commit")
        def after(_session: Session) -> None:
            raise KeyError("mail server")

        with pytest.raises(KeyError, match="mail server"), Transaction(database, run, session):
            session.execute(text(put(run.key)))
    engine.dispose()
    assert postgres_site.written(run.key) == [run.key]
