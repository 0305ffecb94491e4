"""One server of each kind for all tests of a worker, started when the first test asks for it.

A test that kills, stops or empties a server makes one of its own.
"""

import os
from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.servers.etcd import Etcd
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import PgBouncer, Postgres
from tests.servers.process import Server
from tests.servers.valkey import Valkey

S = TypeVar("S", bound=Server)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    yield from _running(Postgres())


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    yield from _running(PgBouncer(postgres))


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    yield from _running(Valkey())


@pytest.fixture(scope="session")
def redis_6() -> Iterator[Valkey]:
    yield from _running(Valkey(name="redis"))


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    yield from _running(Etcd())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    yield from _running(MariaDb())


@pytest.fixture(scope="session")
def mysql_url(request: pytest.FixtureRequest) -> str:
    """A MySQL 8 that somebody runs and names, else our MariaDB."""
    return os.environ.get("CRONCE_TEST_MYSQL_URL") or request.getfixturevalue("mariadb").url


def _running(server: S) -> Iterator[S]:
    try:
        yield server.start()
    finally:
        server.close()
