"""One server of each kind for all tests of a worker, started when the first test asks for it.

A test that kills, stops or empties a server makes one of its own.
"""

import os
from collections.abc import Iterator

import pytest

from tests.servers.etcd import Etcd
from tests.servers.kubernetes import Kubernetes
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Admin, PgBouncer, Postgres
from tests.servers.valkey import Valkey


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def admin(postgres: Postgres) -> Iterator[Admin]:
    with postgres.admin() as connection:
        yield connection


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture(scope="session")
def redis_6() -> Iterator[Valkey]:
    with Valkey(name="redis") as server:
        yield server


@pytest.fixture(scope="session")
def etcd() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Kubernetes]:
    with Kubernetes() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    with MariaDb() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_url(request: pytest.FixtureRequest) -> str:
    """A MySQL 8 that somebody runs and names, else our MariaDB."""
    return os.environ.get("CRONCE_TEST_MYSQL_URL") or request.getfixturevalue("mariadb").url
