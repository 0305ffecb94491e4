"""One server of each kind for all tests of a worker, started when the first test asks for it.

A test that kills, stops or empties a server makes one of its own.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.etcd import Etcd
from tests.servers.kubernetes import Kubernetes
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Admin, PgBouncer, Postgres
from tests.servers.process import PLACES, forget
from tests.servers.valkey import Valkey

MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""Bytes that must be free in it: three workers' servers take half of that."""


def pytest_configure() -> None:
    """Servers for tests keep their files in memory where there is much of it: none of them loses power, and a flush to
    disk takes longer than all else that is asked of them.

    One certificate of nobody's stands for those of the public authorities, which vouch for none of the servers: to read
    all of these takes 10 ms or more for each connection to a MySQL and each client of HTTP.
    """
    if MEMORY.is_mount() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM < _available():
        forget(MEMORY)
        PLACES.insert(0, str(MEMORY))
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("nobody.pem"))


def _available() -> int:
    """By the kernel's estimate, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


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
