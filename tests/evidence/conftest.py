"""The same shop in each database."""

from pathlib import Path

import pytest

from tests.evidence.shops import Anywhere, MysqlShop, PostgresShop, SqliteShop


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Anywhere:
    match request.param:
        case "postgres":
            return PostgresShop(request.getfixturevalue("postgres").url)
        case "mysql":
            return MysqlShop(request.getfixturevalue("mysql_url"))
        case _:
            return SqliteShop(tmp_path / "shop.db")
