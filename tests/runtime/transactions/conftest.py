"""The databases that a user has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.runtime.transactions import Database, read_database
from tests.runtime.transactions.site import Site, file_site
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Postgres


@pytest.fixture(scope="session")
def postgres_site(postgres: Postgres) -> Site:
    return Site("postgresql", postgres.url)


@pytest.fixture(scope="session")
def mariadb_site(mariadb: MariaDb) -> Site:
    return Site("mariadb", mariadb.url)


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Site:
    return file_site(tmp_path / "shop.db")


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    """The site of the database that a test is parametrised by."""
    found: Site = request.getfixturevalue(f"{request.param}_site".replace("postgresql", "postgres"))
    return found


@pytest.fixture
def database(site: Site) -> Iterator[Database]:
    found = read_database(site.url)
    yield found
    found.close()
