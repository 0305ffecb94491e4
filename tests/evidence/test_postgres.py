"""Duplicate rows in PostgreSQL: times that are none, schemas, a pooler."""

import pytest

from tests.evidence.shops import ORDERS, PostgresShop, brief, seen
from tests.servers.postgres import PgBouncer, Postgres

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


def test_a_table_of_another_schema(postgres: Postgres) -> None:
    shop = PostgresShop(postgres.url)
    with postgres.admin() as admin:
        admin.execute("CREATE SCHEMA IF NOT EXISTS depot")
        admin.execute("DROP TABLE IF EXISTS depot.stock")
        admin.execute("CREATE TABLE depot.stock AS SELECT 1 AS item, now() AS made FROM generate_series(1, 3)")
    assert brief(seen(shop, "item", table="depot.stock")) == [(1, 3, 0.0, None)]
    assert seen(shop, "item", table="stock").table == "depot.stock"


def test_behind_a_pooler_that_hands_its_sessions_on(pgbouncer: PgBouncer) -> None:
    shop = PostgresShop(pgbouncer.url)
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    assert brief(seen(shop)) == [(3, 3, 1.0, None), (1, 2, 0.5, None)]
