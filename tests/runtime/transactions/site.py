"""The user's side: databases with a table of the user's own, and every way of talking to them."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from cronce.model import Fence
from cronce.runtime.transactions import Database, Transaction
from cronce.runtime.unfinished import Unfinished

_numbers = count(1)
_jobs = count(1)


def next_fence() -> Fence:
    return Fence(1, next(_numbers))


def next_key() -> str:
    return f"billing-{next(_jobs)}@2026-03-29T01:00:00Z"


class Run:
    """What a transaction wants of a run."""

    def __init__(self, key: str, fence: Fence) -> None:
        self.key, self.fence = key, fence
        self.checks = 0
        self.committed = self.joined = False
        self.unfinished, self.unentered = Unfinished(), list[object]()

    def check(self) -> None:
        self.checks += 1

    @classmethod
    def begun(cls, database: Database, key: str = "") -> "Run":
        """One whose body may begin."""
        run = cls(key or next_key(), next_fence())
        assert database.raise_fence(run.key, run.fence) is False
        return run


class Site:
    """A database of the user's. `url` is how it is named; what was committed is read over another connection."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind, self.url = kind, url
        self.port = urlsplit(url).port or 0
        with self.plain() as conn:
            conn.cursor().execute("CREATE TABLE IF NOT EXISTS written (who VARCHAR(100) PRIMARY KEY)")

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def alchemy_url(self, driver: str) -> str:
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}+{driver}://{rest}" if driver else self.url

    @contextmanager
    def plain(self) -> Iterator[Any]:
        """A connection in autocommit, of somebody who looks after the database."""
        with closing(self._plain()) as conn:
            yield conn

    def _plain(self) -> Any:
        match self.kind:
            case "postgresql":
                return psycopg.connect(self.url, autocommit=True)
            case "mariadb":
                return self.pymysql(autocommit=True)
            case _:
                return sqlite3.connect(self.path, isolation_level=None)

    def pymysql(self, **options: Any) -> Any:
        """Not encrypted: what PyMySQL prepares for that takes longer than the rest of a test."""
        here: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "root",
            "database": "cronce",
            "ssl_disabled": True,
        }
        return pymysql.connect(**here, **options)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self.plain() as conn:
            cursor = conn.cursor()
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def written(self, *whose: str) -> list[str]:
        """Which of these rows were committed."""
        rows = {who for (who,) in self.ask("SELECT who FROM written")}
        return [who for who in whose if who in rows]


def put(who: str) -> str:
    return f"INSERT INTO written (who) VALUES ('{who}')"


def file_site(path: Path) -> Site:
    return Site("sqlite", f"sqlite:///{path}")


# --- the ways of talking ---------------------------------------------------------------------------------------------

Say = Callable[[Any, str], Any]


class Way:
    """How a user of one driver opens a connection and says something over it."""

    asynchronous = False

    def __init__(self, open_: Callable[[], Any], say: Say, database: Callable[[], Any]) -> None:
        self.open, self.say, self.declared = open_, say, database


class AsyncWay(Way):
    asynchronous = True


def by_cursor(conn: Any, statement: str) -> None:
    with conn.cursor() as cursor:
        cursor.execute(statement)


def by_execute(conn: Any, statement: str) -> Any:
    return conn.execute(statement)


def nothing() -> None:
    """What happens inside a block by default."""


class Client:
    """Somebody whose bodies run transactions: one connection each, by one of the ways."""

    def __init__(self, site: Site, way: Way, database: Database) -> None:
        self.site, self.way, self.database = site, way, database

    def commit(self, run: Run, step: str, *whose: str, inside: Callable[[], object] = nothing) -> None:
        """One transaction that writes some rows after something else has happened `inside`."""
        if self.way.asynchronous:
            asyncio.run(self.acommit(run, step, *whose, inside=inside))
            return
        with self.way.open() as conn, Transaction(self.database, run, conn, step) as tx:
            inside()
            for who in whose:
                self.way.say(tx, put(who))

    async def acommit(self, run: Run, step: str, *whose: str, inside: Callable[[], object] = nothing) -> None:
        async with self.way.open() as conn, Transaction(self.database, run, conn, step) as tx:
            happened: Any = inside()
            if isawaitable(happened):
                await happened
            for who in whose:
                await self.way.say(tx, put(who))
