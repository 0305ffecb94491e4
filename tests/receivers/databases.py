"""Databases where effects land: each with its driver, its receiver, and a place of its own for a test."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pymysql
from pymysql.constants import CLIENT

from cronce.receivers.sql import MySQL, PostgreSQL, Receiver, SQLite
from cronce.stores.mysql.server import locate
from tests.house.wait import wait_until


class Database(NamedTuple):
    """`connect` opens a connection that is in no autocommit."""

    receiver: Receiver
    connect: Callable[[], Any]
    waiting: str = "SELECT 1"
    """Says how many statements wait for a row. SQLite cannot tell."""

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor of a transaction of its own: committed at the end, or rolled back."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            try:
                yield cursor
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def run(self, *statements: str) -> None:
        with self.transaction() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.transaction() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def wait_for_one_that_waits(self) -> None:
        wait_until(lambda: int(self.rows(self.waiting)[0][-1]) == 1)


def postgresql(url: str, schema: str) -> Database:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {schema}".encode())
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return Database(PostgreSQL(), lambda: psycopg.connect(url, options=f"-c search_path={schema}"), waiting)


def mysql(url: str, name: str, flags: int = 0) -> Database:
    place = locate(url)

    def connect(database: str | None = name) -> Any:
        login: dict[str, Any] = {"host": place.host, "port": place.port, "user": place.user, "password": place.password}
        return pymysql.connect(**login, database=database, client_flag=flags)

    with closing(connect(None)) as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
    return Database(MySQL(), connect, waiting)


def mysql_that_counts_found_rows(url: str, name: str) -> Database:
    """As Django and SQLAlchemy connect."""
    return mysql(url, name, CLIENT.FOUND_ROWS)


def sqlite(folder: Path) -> Database:
    return Database(SQLite(), lambda: sqlite3.connect(folder / "app.db", timeout=30))
