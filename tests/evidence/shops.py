"""A shop whose orders are in a table, in each of the databases that `cronce audit dupes` reads."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import psycopg
import pymysql

from cronce.evidence.model import DuplicatesFound, DuplicatesQuery
from cronce.evidence.search import connect, look

Order = tuple[Any, str, float]
"""An order's id, what was done for it, and how many seconds ago."""


def flat(orders: Sequence[Order]) -> list[Any]:
    return [value for order, kind, _ in orders for value in (order, kind)]


class PostgresShop:
    """`take` makes the table anew and fills it, in one statement, for which it is one moment. `ago` says in SQL what a
    row's time is, `{}` seconds before it."""

    INSTANT, WALL = "timestamptz", "timestamp"
    AGO = "now() AT TIME ZONE 'UTC' - interval '{} seconds'"
    INSTANT_AGO = "now() - interval '{} seconds'"
    EPOCH = "extract(epoch FROM now()) - {}"

    def __init__(self, url: str) -> None:
        self.url = url

    def take(self, columns: str, ago: str, orders: Sequence[Order], table: str = "orders") -> None:
        with psycopg.connect(self.url, autocommit=True) as line:
            line.execute(f'DROP TABLE IF EXISTS "{table}"')
            line.execute(f'CREATE TABLE "{table}" (id serial, {columns})')
            if orders:
                rows = ", ".join(f"(DEFAULT, %s, %s, {ago.format(seconds)})" for _, _, seconds in orders)
                line.execute(f'INSERT INTO "{table}" VALUES {rows}', flat(orders))

    def count(self) -> int:
        with psycopg.connect(self.url) as line:
            return int((line.execute("SELECT count(*) FROM orders").fetchone() or (0,))[0])


class MysqlShop:
    INSTANT, WALL = "timestamp(3)", "datetime(3)"
    AGO = "date_sub(utc_timestamp(3), INTERVAL {} SECOND)"
    INSTANT_AGO = "date_sub(now(3), INTERVAL {} SECOND)"
    EPOCH = "unix_timestamp(now(3)) - {}"

    def __init__(self, url: str) -> None:
        self.url = url

    def line(self) -> Any:
        parts = urlsplit(self.url)
        return pymysql.connect(
            host=parts.hostname or "", port=parts.port or 3306, user=parts.username or "", database=parts.path[1:],
            password=parts.password or "", autocommit=True,
        )  # fmt: skip

    def take(self, columns: str, ago: str, orders: Sequence[Order], table: str = "orders") -> None:
        with closing(self.line()) as line, line.cursor() as sql:
            sql.execute(f"DROP TABLE IF EXISTS `{table}`")
            sql.execute(f"CREATE TABLE `{table}` (id serial, {columns})")
            if orders:
                rows = ", ".join(f"(DEFAULT, %s, %s, {ago.format(seconds)})" for _, _, seconds in orders)
                sql.execute(f"INSERT INTO `{table}` VALUES {rows}", flat(orders))

    def count(self) -> int:
        with closing(self.line()) as line, line.cursor() as sql:
            sql.execute("SELECT count(*) FROM orders")
            return int(sql.fetchone()[0])


class SqliteShop:
    INSTANT, WALL = "text", "text"
    AGO = "strftime('%Y-%m-%dT%H:%M:%f', 'now', '-{} seconds')"
    INSTANT_AGO = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{} seconds')"
    EPOCH = "(julianday('now') - 2440587.5) * 86400 - {}"

    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"

    def take(self, columns: str, ago: str, orders: Sequence[Order], table: str = "orders") -> None:
        with closing(sqlite3.connect(self.path)) as line, line:
            line.execute(f'DROP TABLE IF EXISTS "{table}"')
            line.execute(f'CREATE TABLE "{table}" (id integer primary key, {columns})')
            if orders:
                rows = ", ".join(f"(NULL, ?, ?, {ago.format(seconds)})" for _, _, seconds in orders)
                line.execute(f'INSERT INTO "{table}" VALUES {rows}', flat(orders))

    def count(self) -> int:
        with closing(sqlite3.connect(self.path)) as line:
            return int(line.execute("SELECT count(*) FROM orders").fetchone()[0])

    def add(self, order: str, made: str) -> None:
        with closing(sqlite3.connect(self.path)) as line, line:
            line.execute("INSERT INTO orders (order_id, made) VALUES (?, ?)", (order, made))


Anywhere = PostgresShop | MysqlShop | SqliteShop

ORDERS: Sequence[Order] = [
    (1, "mail", 100), (1, "mail", 99.5), (2, "mail", 50), (3, "mail", 20), (3, "mail", 10), (3, "stock", 9),
    (4, "mail", 7200), (4, "mail", 7199), (None, "mail", 5), (None, "mail", 5),
]  # fmt: skip


def seen(
    shop: Anywhere, keys: str = "order_id", within: str | None = None, *, since: int = 30, at: str = "made",
    table: str = "orders", tz: str = "UTC", most: int = 50,
) -> DuplicatesFound:  # fmt: skip
    near = None if within is None else timedelta(milliseconds=int(within))
    asked = DuplicatesQuery(table, keys.split(","), at, timedelta(minutes=since), near, most)
    with closing(connect(shop.url, timedelta(seconds=30))) as database:
        return look(database, asked, UTC if tz == "UTC" else ZoneInfo(tz))


def brief(found: DuplicatesFound) -> list[tuple[Any, ...]]:
    return [(*one.key.values(), one.rows, round(one.gap.total_seconds(), 1), one.pairs) for one in found.rows]
