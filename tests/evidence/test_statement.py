"""The statement that is asked: names as they are, and one that a person can run."""

from contextlib import closing
from datetime import timedelta

from cronce.evidence.search import connect
from tests.evidence.shops import ORDERS, Anywhere, MysqlShop, brief, seen


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


def test_the_query_that_is_shown_is_one_that_can_be_run(shop: Anywhere) -> None:
    shop.take(f"order_id int, kind varchar(20), made {shop.WALL}", shop.AGO, ORDERS)
    found = seen(shop, within="2000")
    with closing(connect(shop.url, timedelta(seconds=30))) as database:
        assert [row[0] for row in database.ask(found.query, {})] == [3, 1]
