"""Driver × database: every cell is a way of talking, or says why there is none."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, Final

import psycopg
import psycopg2
from django import setup
from django.conf import settings
from django.db import connections
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.house.needs import needs
from tests.runtime.transactions.site import AsyncWay, Site, Way, by_cursor, by_execute

DATABASES: Final = ("postgresql", "mariadb", "sqlite")
DRIVERS: Final = (
    "psycopg", "psycopg autocommit", "psycopg async", "psycopg async autocommit", "psycopg2", "psycopg2 autocommit",
    "PyMySQL", "PyMySQL autocommit", "sqlite3", "sqlite3 isolation_level=None", "sqlite3 autocommit=True",
    "sqlite3 autocommit=False", "SQLAlchemy connection",
    "SQLAlchemy session", "SQLAlchemy async connection", "SQLAlchemy async session", "Django",
)  # fmt: skip

# --- drivers ---------------------------------------------------------------------------------------------------------


def psycopg_way(site: Site, *, autocommit: bool = False) -> Way:
    return Way(lambda: closing(psycopg.connect(site.url, autocommit=autocommit)), by_execute, lambda: site.url)


def psycopg_async(site: Site, *, autocommit: bool = False) -> Way:
    @asynccontextmanager
    async def opened() -> Any:
        async with await psycopg.AsyncConnection.connect(site.url, autocommit=autocommit) as conn:
            yield conn

    return AsyncWay(opened, by_execute, lambda: site.url)


def psycopg2_way(site: Site, *, autocommit: bool = False) -> Way:
    def connect() -> Any:
        conn = psycopg2.connect(site.url)
        conn.autocommit = autocommit
        return conn

    return Way(lambda: closing(connect()), by_cursor, lambda: connect)


def pymysql_way(site: Site, *, autocommit: bool = False) -> Way:
    return Way(lambda: closing(site.pymysql(autocommit=autocommit)), by_cursor, lambda: site.url)


def sqlite_way(site: Site, **options: Any) -> Way:
    return Way(lambda: closing(sqlite3.connect(site.path, **options)), by_execute, lambda: site.url)


# --- SQLAlchemy ------------------------------------------------------------------------------------------------------


_engine: Final = cache(partial(create_engine, poolclass=NullPool))
_async_engine: Final = cache(partial(create_async_engine, poolclass=NullPool))


def by_text(conn: Any, statement: str) -> Any:
    return conn.execute(text(statement))


def alchemy(site: Site, driver: str, *, session: bool) -> Way:
    options = "?ssl_disabled=true" if driver == "pymysql" else ""
    engine = _engine(site.alchemy_url(driver) + options)
    return Way(lambda: Session(engine) if session else engine.connect(), by_text, lambda: engine)


def alchemy_async(site: Site, driver: str, *, session: bool) -> Way:
    if find_spec(driver) is None:
        needs(driver, f"pip install {driver}")
    engine = _async_engine(site.alchemy_url(driver))
    opened: Callable[[], Any] = partial(AsyncSession, engine) if session else engine.connect
    return AsyncWay(opened, by_text, lambda: engine)


# --- Django ----------------------------------------------------------------------------------------------------------


if not settings.configured:
    settings.configure(DATABASES={}, USE_TZ=True)
    setup()


def django(site: Site) -> Way:
    place = {"NAME": site.path} if site.kind == "sqlite" else {
        "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1", "PORT": site.port,
    }  # fmt: skip
    alias = f"joined_{site.kind}"
    mine = {"default": {}, alias: {"ENGINE": f"django.db.backends.{site.kind}".replace("sqlite", "sqlite3"), **place}}
    connections.settings[alias] = connections.configure_settings(mine)[alias]

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            yield connections[alias]
        finally:
            connections[alias].close()
            del connections[alias]

    return Way(opened, by_cursor, lambda: alias)


# --- the matrix ------------------------------------------------------------------------------------------------------

Cell = Callable[[Site], Way] | str
NEWER: Final = "" if sys.version_info >= (3, 12) else "is an attribute from Python 3.12 on"


def _row(postgresql: Cell, mariadb: Cell, sqlite: Cell) -> dict[str, Cell]:
    return dict(zip(DATABASES, (postgresql, mariadb, sqlite), strict=True))


def _only(database: str, cell: Cell) -> dict[str, Cell]:
    return {each: cell if each == database else f"speaks to {database} only" for each in DATABASES}


MATRIX: Final[dict[str, dict[str, Cell]]] = {
    "psycopg": _only("postgresql", psycopg_way),
    "psycopg autocommit": _only("postgresql", lambda site: psycopg_way(site, autocommit=True)),
    "psycopg async": _only("postgresql", psycopg_async),
    "psycopg async autocommit": _only("postgresql", lambda site: psycopg_async(site, autocommit=True)),
    "psycopg2": _only("postgresql", psycopg2_way),
    "psycopg2 autocommit": _only("postgresql", lambda site: psycopg2_way(site, autocommit=True)),
    "PyMySQL": _only("mariadb", pymysql_way),
    "PyMySQL autocommit": _only("mariadb", lambda site: pymysql_way(site, autocommit=True)),
    "sqlite3": _only("sqlite", sqlite_way),
    "sqlite3 isolation_level=None": _only("sqlite", lambda site: sqlite_way(site, isolation_level=None)),
    "sqlite3 autocommit=True": _only("sqlite", NEWER or (lambda site: sqlite_way(site, autocommit=True))),
    "sqlite3 autocommit=False": _only("sqlite", "is always in a transaction, of which nobody knows whether it wrote"),
    "SQLAlchemy connection": _row(
        lambda site: alchemy(site, "psycopg", session=False),
        lambda site: alchemy(site, "pymysql", session=False),
        lambda site: alchemy(site, "", session=False),
    ),
    "SQLAlchemy session": _row(
        lambda site: alchemy(site, "psycopg2", session=True),
        lambda site: alchemy(site, "pymysql", session=True),
        lambda site: alchemy(site, "", session=True),
    ),
    "SQLAlchemy async connection": _row(
        lambda site: alchemy_async(site, "asyncpg", session=False),
        "is as an async session, by asyncmy",
        lambda site: alchemy_async(site, "aiosqlite", session=False),
    ),
    "SQLAlchemy async session": _row(
        lambda site: alchemy_async(site, "psycopg", session=True),
        lambda site: alchemy_async(site, "asyncmy", session=True),
        "is as an async connection, by aiosqlite",
    ),
    "Django": _row(django, "needs mysqlclient, which has to be compiled", django),
}
