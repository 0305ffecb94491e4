"""The MySQL store keeps the contract, between threads and between processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import CLIENT

from cronce.stores.mysql.server import locate
from cronce.testing import StoreContract
from tests.stores.places import name_of


@contextmanager
def administrator(url: str) -> Iterator[Any]:
    """A cursor on the server of a URL, outside of any database."""
    place = locate(url)
    with (
        pymysql.connect(
            host=place.host,
            port=place.port,
            user=place.user,
            password=place.password,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        ) as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


def database(url: str, place: Path) -> str:
    """The URL of a database of this place's own."""
    name = name_of(place)
    with administrator(url) as cursor:
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
    return f"{url.rpartition('/')[0]}/{name}"


class TestMysql(StoreContract):
    CELLS = 60  # mysql/test_store.py has a longer race

    @pytest.fixture(autouse=True)
    def _server(self, mysql_url: str) -> None:
        self.server = mysql_url

    def url(self, place: Path) -> str:
        return database(self.server, place)
