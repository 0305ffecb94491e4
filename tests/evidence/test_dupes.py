"""Rows that stand in a table twice, in real databases."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cronce.errors import BadInput, StoreUnavailable
from cronce.evidence.dupes.model import DuplicatesFound, DuplicatesQuery, SearchedRows
from cronce.evidence.dupes.search import connect, look
from cronce.evidence.dupes.units import unit_of
from tests.evidence.shops import MysqlShop, Order, PostgresShop, SqliteShop
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import PgBouncer, Postgres

Anywhere = PostgresShop | MysqlShop | SqliteShop

ORDERS: Sequence[Order] = [
    (1, "mail", 100), (1, "mail", 99.5), (2, "mail", 50), (3, "mail", 20), (3, "mail", 10), (3, "stock", 9),
    (4, "mail", 7200), (4, "mail", 7199), (None, "mail", 5), (None, "mail", 5),
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Anywhere:
    match request.param:
        case "postgres":
            return PostgresShop(request.getfixturevalue("postgres").url)
        case "mysql":
            return MysqlShop(request.getfixturevalue("mysql_url"))
        case _:
            return SqliteShop(tmp_path / "shop.db")


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


@pytest.mark.parametrize("kind", ["WALL", "INSTANT", "EPOCH", "MILLIS"])
def test_keys_that_repeat_in_the_window_are_found_newest_first_however_the_time_is_kept(
    shop: Anywhere, kind: str
) -> None:
    """Not those from before the window, not those of another kind, and never those without a key."""
    column = getattr(shop, kind, "bigint")
    ago = {"WALL": shop.AGO, "INSTANT": shop.INSTANT_AGO, "EPOCH": shop.EPOCH, "MILLIS": f"1000 * ({shop.EPOCH})"}[kind]
    column = "double precision" if kind == "EPOCH" else column
    shop.take(f"order_id int, kind varchar(20), made {column}", ago, ORDERS)
    found = seen(shop)
    assert brief(found) == [(3, 3, 1.0, None), (1, 2, 0.5, None)]
    three, one = found.rows
    assert (round((three.last - three.first).total_seconds()), one.last - one.first) == (11, one.gap)
    assert timedelta(0) <= found.since + timedelta(seconds=1700) - one.first < timedelta(minutes=1)
    assert brief(seen(shop, "order_id,kind")) == [(3, "mail", 2, 10.0, None), (1, "mail", 2, 0.5, None)]
    assert shop.count() == len(ORDERS)


def test_pairs_of_rows_with_the_same_order_id_within_two_seconds(shop: Anywhere) -> None:
    orders = [(7, "a", 60), (7, "b", 58.4), (7, "c", 57), (7, "d", 30), (8, "a", 40), (8, "b", 30), *ORDERS]
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, orders)
    assert brief(seen(shop, within="2000")) == [(3, 3, 1.0, 1), (7, 4, 1.4, 2), (1, 2, 0.5, 1)]
    assert brief(seen(shop, within="600")) == [(1, 2, 0.5, 1)]
    assert brief(seen(shop, within="2000", since=180))[-1] == (4, 2, 1.0, 1)


def test_rows_of_one_moment_are_a_pair(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", "'2030-01-01 00:00:00'", [(1, "a", 0), (1, "b", 0)])
    assert brief(seen(shop, within="0")) == [(1, 2, 0.0, 1)]


def test_a_column_without_a_zone_is_by_the_clocks_that_are_named(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, [(1, "a", 0), (1, "b", 0)])
    in_utc, in_tokyo = seen(shop), seen(shop, tz="Asia/Tokyo", since=600)
    assert [round((found.rows[0].last - found.since).total_seconds() / 3600, 1) for found in (in_utc, in_tokyo)] == [
        0.5, 1.0,
    ]  # fmt: skip
    assert seen(shop, tz="Asia/Tokyo").rows == []


def test_as_many_as_asked_for_and_whether_there_are_more(shop: Anywhere) -> None:
    orders = [(order, "mail", order) for order in (1, 2, 3) for _ in range(2)]
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, orders)
    two, three = seen(shop, most=2), seen(shop, most=3)
    assert ([row[0] for row in brief(two)], two.more) == ([1, 2], True)
    assert ([row[0] for row in brief(three)], three.more) == ([1, 2, 3], False)


def test_names_are_looked_up_and_quoted_whatever_is_in_them(shop: Anywhere) -> None:
    table, key = 'or"d{e}r`s 100%', "the \"{key}`%s '--"
    quote = "`" if isinstance(shop, MysqlShop) else '"'
    column = quote + key.replace(quote, quote * 2) + quote
    column = column.replace("%", "%%") if isinstance(shop, MysqlShop) else column
    spelled = table.replace(quote, quote * 2)
    columns = f"{column.replace('%%', '%')} int, kind varchar(20), made {shop.WALL}"
    shop.take(columns, shop.AGO, [], spelled)
    assert seen(shop, key, table=table).rows == []
    if not isinstance(shop, MysqlShop):  # whose driver would look for parameters in the name while it is filled
        shop.take(columns.replace("%", "p"), shop.AGO, [(1, "a", 2), (1, "b", 1)], spelled.replace("%", "p"))
        assert brief(seen(shop, key.replace("%", "p"), table=table.replace("%", "p"))) == [(1, 2, 1.0, None)]


def test_a_name_that_is_not_there_names_the_near_ones(shop: Anywhere) -> None:
    """Near to no table of another test: on a server there may be those, too."""
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, [], "zzyzx_roads")
    with pytest.raises(BadInput, match=r"the database has no table 'zzyzxroad'; did you mean zzyzx_roads\?"):
        seen(shop, table="zzyzxroad")
    with pytest.raises(BadInput, match=r"orders has no column 'orderid'; did you mean order_id\?"):
        seen(shop, "orderid")
    with pytest.raises(BadInput, match=r"has no column 'x; DROP TABLE orders'; there is "):
        seen(shop, at="x; DROP TABLE orders")
    assert brief(seen(shop, "ORDER_ID", table="Orders"))[0] == (3, 3, 1.0, None)


def test_what_does_not_say_when_is_refused(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    with pytest.raises(BadInput, match=r"orders\.kind is .*: it does not hold a time"):
        seen(shop, at="kind")
    with pytest.raises(
        BadInput, match=r"a column is named twice among the key \(order_id, made\) and the time \(made\)"
    ):
        seen(shop, "order_id,made")


def test_a_day_is_no_moment(shop: Anywhere) -> None:
    shop.take("order_id int, kind varchar(20), made date", "'2026-11-01'", [(1, "a", 0), (1, "b", 0)])
    with pytest.raises(BadInput, match=r"orders\.made is date: it does not hold a time"):
        seen(shop)


def test_nothing_can_be_written(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    with (
        closing(connect(shop.url, timedelta(seconds=30))) as database,
        pytest.raises(BadInput, match=r"(?i)read.?only"),
    ):
        database.ask("DELETE FROM orders", {})
    assert shop.count() == len(ORDERS)


def test_the_query_that_is_shown_is_one_that_can_be_run(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    found = seen(shop, within="2000")
    with closing(connect(shop.url, timedelta(seconds=30))) as database:
        assert [row[0] for row in database.ask(found.query, {})] == [3, 1]


# --- how much was looked at -----------------------------------------------------------------------------------------


def test_the_rows_that_were_looked_at_are_counted_and_the_newest_is_told_where_there_are_none(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    assert (seen(shop).extent.rows, seen(shop, since=600).extent.rows) == (6, 8)
    nothing = seen(shop, tz="Asia/Tokyo")
    assert (nothing.rows, nothing.extent._replace(newest=None)) == ([], SearchedRows(0))
    assert nothing.extent.newest is not None
    assert (
        round((nothing.since - nothing.extent.newest).total_seconds() / 360) == 85
    )  # 9 h, less the 30 min of the window


def test_a_table_without_a_row_and_one_without_a_time(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, [])
    assert seen(shop).extent == SearchedRows(0, None, is_empty=True)
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL} NULL", "NULL", [(1, "a", 0), (1, "b", 0)])
    assert seen(shop).extent == SearchedRows(0, None, is_empty=False)


ENDLESS = [
    ("double precision", "extract(epoch FROM now())", "'NaN'"),
    ("double precision", "extract(epoch FROM now())", "'Infinity'"),
    ("double precision", "extract(epoch FROM now())", "'-Infinity'"),
    ("numeric", "extract(epoch FROM now())", "'NaN'"),
    ("bigint", "extract(epoch FROM now())", "9223372036854775807"),
    ("timestamptz", "now()", "'infinity'"),
    ("timestamptz", "now()", "'-infinity'"),
    ("timestamp", "now() AT TIME ZONE 'UTC'", "'infinity'"),
    ("timestamp", "now() AT TIME ZONE 'UTC'", "'20000-01-01'"),
]


@pytest.mark.parametrize(("column", "now", "never"), ENDLESS)
def test_a_time_that_is_none_is_not_looked_at(postgres: Postgres, column: str, now: str, never: str) -> None:
    shop = PostgresShop(postgres.url)
    ago = f"CASE WHEN {{}} > 0 THEN {now} ELSE {never}::{column} END"
    shop.take(f"order_id int, kind varchar(20), made {column}", ago, [(1, "a", 1), (1, "b", 1), (1, "c", 0)])
    found = seen(shop)
    assert ([row[:2] for row in brief(found)], found.extent.rows) == ([(1, 2)], 2)
    shop.take(f"order_id int, kind varchar(20), made {column}", ago, [(1, "c", 0)])
    assert (seen(shop).extent.rows, seen(shop).extent.newest) == (0, None)


@pytest.mark.parametrize("never", ["9e999", "-9e999", "'infinity'", "'9999-12-31 23:59:59'"])
@pytest.mark.parametrize("now", ["strftime('%Y-%m-%d %H:%M:%f', 'now')", "strftime('%s', 'now') + 0"])
def test_nor_is_it_in_sqlite(tmp_path: Path, now: str, never: str) -> None:
    shop = SqliteShop(tmp_path / "shop.db")
    orders = [(1, "a", 1), (1, "b", 1), (1, "c", 0)]
    shop.take("order_id int, kind text, made", f"CASE WHEN {{}} > 0 THEN {now} ELSE {never} END", orders)
    found = seen(shop, tz="America/New_York", since=600)
    assert ([row[:2] for row in brief(found)], found.extent.rows) == ([(1, 2)], 2)


def test_nor_is_the_last_day_of_all_in_mysql(mysql_url: str) -> None:
    shop = MysqlShop(mysql_url)
    ago = "IF({} > 0, utc_timestamp(3), '9999-12-31 23:59:59')"
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", ago, [(1, "a", 1), (1, "b", 1), (1, "c", 0)])
    assert (brief(seen(shop, tz="America/New_York", since=600)), seen(shop).extent.rows) == ([(1, 2, 0.0, None)], 2)


# --- what is slow, or not there -------------------------------------------------------------------------------------

SLOW = {
    PostgresShop: "SELECT pg_sleep(20)",
    MysqlShop: "SELECT count(*) FROM seq_1_to_100000 a JOIN seq_1_to_100000 b ON a.seq % 7 = b.seq % 11",
    SqliteShop: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
}


def test_what_is_not_done_in_time_is_given_up(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, [])
    with (
        closing(connect(shop.url, timedelta(milliseconds=400))) as database,
        pytest.raises(StoreUnavailable, match="not done in time"),
    ):
        database.ask(SLOW[type(shop)].replace("%", "%%" if isinstance(shop, MysqlShop) else "%"), {})


@pytest.mark.parametrize("url", ["postgresql://me:secret@127.0.0.1:1/shop", "mysql://me:secret@127.0.0.1:1/shop"])
def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"me:\*\*\*@127.0.0.1:1/shop cannot be reached"):
        connect(url, timedelta(seconds=1))


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


def test_a_table_of_another_schema(postgres: Postgres) -> None:
    shop = PostgresShop(postgres.url)
    with postgres.admin() as admin:
        admin.execute("CREATE SCHEMA IF NOT EXISTS depot")
        admin.execute("DROP TABLE IF EXISTS depot.stock")
        admin.execute("CREATE TABLE depot.stock AS SELECT 1 AS item, now() AS made FROM generate_series(1, 3)")
    assert brief(seen(shop, "item", table="depot.stock")) == [(1, 3, 0.0, None)]
    assert seen(shop, "item", table="stock").table == "depot.stock"


def test_a_table_may_be_named_with_its_schema_or_without(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    schema = shop.url.rpartition("/")[2].partition("?")[0] if isinstance(shop, MysqlShop) else "public"
    if isinstance(shop, SqliteShop):
        schema = "main"
    found = seen(shop, table=f"{schema}.orders")
    assert (found.table, brief(found)) == (f"{schema}.orders", [(3, 3, 1.0, None), (1, 2, 0.5, None)])
    assert seen(shop, table=f"{schema}.Orders").table == f"{schema}.orders"
    assert seen(shop).table == "orders"


def test_a_table_of_another_database_of_the_server(mariadb: MariaDb) -> None:
    shop = MysqlShop(mariadb.url)
    with closing(shop.line()) as line, line.cursor() as sql:
        sql.execute("CREATE DATABASE IF NOT EXISTS depot")
        try:
            sql.execute("CREATE TABLE depot.stock AS SELECT 1 AS item, now() AS made FROM seq_1_to_3")
            assert brief(seen(shop, "item", table="depot.stock")) == [(1, 3, 0.0, None)]
            assert seen(shop, "item", table="stock").table == "depot.stock"
        finally:
            sql.execute("DROP DATABASE depot")


def test_behind_a_pooler_that_hands_its_sessions_on(pgbouncer: PgBouncer) -> None:
    shop = PostgresShop(pgbouncer.url)
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    assert brief(seen(shop)) == [(3, 3, 1.0, None), (1, 2, 0.5, None)]


def test_a_mysql_that_lives_in_another_zone(mariadb: MariaDb) -> None:
    shop = MysqlShop(mariadb.url)
    with closing(shop.line()) as line, line.cursor() as sql:
        sql.execute("SET GLOBAL time_zone = '+05:00'")
        try:
            shop.take(f"order_id int, kind varchar(20), made {shop.INSTANT}", shop.INSTANT_AGO, ORDERS)
            found = seen(shop)
        finally:
            sql.execute("SET GLOBAL time_zone = SYSTEM")
    assert brief(found) == [(3, 3, 1.0, None), (1, 2, 0.5, None)]
    assert timedelta(0) <= found.since + timedelta(seconds=1700) - found.rows[1].first < timedelta(minutes=1)


@pytest.mark.parametrize(("largest", "unit"), [(None, 1.0), (1.7e9, 1.0), (1.7e12, 1e-3), (1.7e15, 1e-6)])
def test_a_number_tells_by_its_size_what_it_counts(largest: float | None, unit: float) -> None:
    assert unit_of(largest).total_seconds() == unit
