"""A database of its own for each test of the MySQL store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cronce.stores.mysql import MysqlStore, open_store
from cronce.stores.mysql.server import locate
from tests.stores.test_mysql_contract import administrator, database


@pytest.fixture
def url(mysql_url: str, tmp_path: Path) -> str:
    return database(mysql_url, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[MysqlStore]:
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def sql(url: str) -> Iterator[Any]:
    """A cursor of somebody else's in the same database."""
    with administrator(url) as cursor:
        cursor.execute(f"USE {locate(url).database}")
        yield cursor
