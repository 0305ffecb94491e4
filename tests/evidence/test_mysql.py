"""Duplicate rows in MySQL: a time that is none, other databases, other zones."""

from contextlib import closing
from datetime import timedelta

from tests.evidence.shops import ORDERS, MysqlShop, brief, seen
from tests.servers.mariadb import MariaDb


def test_the_last_day_of_all_is_no_time(mysql_url: str) -> None:
    shop = MysqlShop(mysql_url)
    ago = "IF({} > 0, utc_timestamp(3), '9999-12-31 23:59:59')"
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", ago, [(1, "a", 1), (1, "b", 1), (1, "c", 0)])
    assert (brief(seen(shop, tz="America/New_York", since=600)), seen(shop).extent.rows) == ([(1, 2, 0.0, None)], 2)


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
