"""A block whose connection cannot be rolled back, since it was stopped in the middle of a statement, say: what it wrote
is rolled back all the same."""

from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pymysql
import pytest
from sqlalchemy import text

from cronce.runtime.interrupt import Interrupt
from cronce.runtime.transactions import Transaction, read_database
from tests.runtime.transactions.site import Client, Run, Site, by_cursor, put
from tests.runtime.transactions.ways import MATRIX

CELLS: Final = {
    "psycopg": "postgresql",
    "psycopg autocommit": "postgresql",
    "SQLAlchemy connection": "postgresql",
    "Django": "postgresql",
    "PyMySQL": "mariadb",
    "PyMySQL autocommit": "mariadb",
    "SQLAlchemy session": "mariadb",
}
"""The drivers that are written in Python, so that a stop may come when they have asked and not read the answer yet."""

PLACES: Final = {
    "postgresql": (psycopg.Connection, "wait"),
    "mariadb": (pymysql.connections.Connection, "_read_query_result"),
}
"""Where each of them reads."""

ERRORS: Final = {"postgresql": psycopg.OperationalError, "mariadb": pymysql.OperationalError}
NOT_FOR_EVER: Final = {"postgresql": "SET lock_timeout = '20s'", "mariadb": "SET innodb_lock_wait_timeout = 20"}


@pytest.fixture(params=CELLS.items(), ids=[*CELLS])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    driver, kind = request.param
    site: Site = request.getfixturevalue({"postgresql": "postgres"}.get(kind, kind) + "_site")
    make = MATRIX[driver][kind]
    assert not isinstance(make, str)
    way = make(site)
    database = read_database(way.declared())
    yield Client(site, way, database)
    database.close()


def fail_to_roll_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once."""

    def failed(_conn: object) -> None:
        monkeypatch.undo()
        raise ERRORS[site.kind]("not now")

    monkeypatch.setattr(PLACES[site.kind][0], "rollback", failed)


def stop_at_the_next_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: the statement is sent, and nobody reads what the server says."""
    kind, name = PLACES[site.kind]

    def stopped(_conn: object, talk: Any = None, *_args: object, **_named: object) -> None:
        monkeypatch.undo()
        if site.kind == "postgresql":
            next(talk)
        raise Interrupt

    monkeypatch.setattr(kind, name, stopped)


def test_a_stop_in_the_middle_of_a_statement_rolls_back(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that waits for an answer cannot be rolled back. It was left like that: it kept what it had locked
    for as long as its process lived, and whatever its user said over it next was refused, or (PyMySQL) got the answer
    to something else."""
    run, way, site = Run.begun(client.database), client.way, client.site
    mine, other = f"{run.key} mine", f"{run.key} other"

    def block(conn: Any) -> None:
        with Transaction(client.database, run, conn):
            way.say(conn, put(mine))
            stop_at_the_next_answer(site, monkeypatch)
            way.say(conn, put(other))

    with way.open() as conn:
        with pytest.raises(Interrupt):
            block(conn)
        check_that_it_let_go(client, conn, mine)
    assert site.written(mine, other) == [mine]


def test_where_the_rollback_fails_the_server_does_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run, way = Run.begun(client.database), client.way

    def block(conn: Any) -> None:
        with Transaction(client.database, run, conn):
            way.say(conn, put(run.key))
            fail_to_roll_back(client.site, monkeypatch)
            raise KeyError("no such customer")

    with way.open() as conn:
        with pytest.raises(KeyError, match="no such customer"):
            block(conn)
        check_that_it_let_go(client, conn, run.key)


def check_that_it_let_go(client: Client, conn: Any, who: str) -> None:
    """Another may write the row, while the connection is there; and that is of use, or says that it is closed."""
    with client.site.plain() as another:
        by_cursor(another, NOT_FOR_EVER[client.site.kind])
        by_cursor(another, put(who))
    assert is_closed(conn) or answers(conn)


def is_closed(conn: Any) -> bool:
    """As its user can see."""
    return bool(conn.closed) if isinstance(conn, psycopg.Connection) else not getattr(conn, "open", True)


def answers(conn: Any) -> bool:
    """With what it was asked for."""
    if hasattr(conn, "execute"):
        return bool(conn.execute(text("SELECT 7")).scalar() == 7)
    with conn.cursor() as cursor:
        cursor.execute("SELECT 7")
        return bool(cursor.fetchone()[0] == 7)
