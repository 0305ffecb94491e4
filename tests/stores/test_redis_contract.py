"""The contract on every kind of Redis: Valkey 9, Redis 6.2, one that flushes each write, a Cluster, and by Sentinel."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from cronce.testing import StoreContract
from tests.servers.valkey import DURABLE, Cluster, Valkey, Watched

S = TypeVar("S", Valkey, Cluster, Watched)


def namespaced(url: str, place: Path) -> str:
    """The store of a test: a namespace of its own."""
    name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    return f"{url}{'&' if '?' in url else '?'}namespace={name}"


def running(server: S) -> Iterator[S]:
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="module")
def durable() -> Iterator[Valkey]:
    yield from running(Valkey(*DURABLE))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield from running(Cluster())


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    yield from running(Watched())


class OnAServer(StoreContract):
    base: str

    def url(self, place: Path) -> str:
        return namespaced(self.base, place)


class TestValkey(OnAServer):
    PROCESSES = 16

    @pytest.fixture(autouse=True)
    def server(self, valkey: Valkey) -> None:
        self.base = valkey.url


class TestRedis6(OnAServer):
    @pytest.fixture(autouse=True)
    def server(self, redis_6: Valkey) -> None:
        self.base = redis_6.url


class TestFlushed(OnAServer):
    """Every write on disk before it is answered."""

    @pytest.fixture(autouse=True)
    def server(self, durable: Valkey) -> None:
        self.base = durable.url


class TestCluster(OnAServer):
    @pytest.fixture(autouse=True)
    def server(self, cluster: Cluster) -> None:
        self.base = cluster.url


class TestSentinel(OnAServer):
    """By Sentinel, every win on the replica before it counts."""

    @pytest.fixture(autouse=True)
    def server(self, watched: Watched) -> None:
        self.base = f"{watched.url}&min_replicas=1"
