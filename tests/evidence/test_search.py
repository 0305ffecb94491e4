"""Duplicate rows in a table, in each database."""

from contextlib import closing
from datetime import timedelta

import pytest

from cronce.errors import BadInput, StoreUnavailable
from cronce.evidence.model import SearchedRows
from cronce.evidence.search import connect
from tests.evidence.shops import ORDERS, Anywhere, MysqlShop, PostgresShop, SqliteShop, brief, seen


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


def test_a_table_may_be_named_with_its_schema_or_without(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    schema = shop.url.rpartition("/")[2].partition("?")[0] if isinstance(shop, MysqlShop) else "public"
    if isinstance(shop, SqliteShop):
        schema = "main"
    found = seen(shop, table=f"{schema}.orders")
    assert (found.table, brief(found)) == (f"{schema}.orders", [(3, 3, 1.0, None), (1, 2, 0.5, None)])
    assert seen(shop, table=f"{schema}.Orders").table == f"{schema}.orders"
    assert seen(shop).table == "orders"
