"""The contract on every kind of Redis: Valkey 9, Redis 6.2, one that flushes each write, a Cluster, and by Sentinel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.testing import StoreContract
from tests.servers.valkey import DURABLE, Cluster, Valkey, Watched
from tests.stores.places import name_of


def namespaced(url: str, place: Path) -> str:
    """The store of a test: a namespace of its own."""
    return f"{url}{'&' if '?' in url else '?'}namespace={name_of(place)}"


@pytest.fixture(scope="module")
def durable() -> Iterator[Valkey]:
    with Valkey(*DURABLE) as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as servers:
        yield servers


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Watched() as servers:
        yield servers


class OnAServer(StoreContract):
    CELLS = 60  # the hard race is on one kind, on the others it is shown that there is one winner
    base: str

    def url(self, place: Path) -> str:
        return namespaced(self.base, place)


class TestValkey(OnAServer):
    PROCESSES = 16
    CELLS = 200

    @pytest.fixture(autouse=True)
    def server(self, valkey: Valkey) -> None:
        self.base = valkey.url


@pytest.mark.xdist_group("redis 6")
class TestRedis6(OnAServer):
    @pytest.fixture(autouse=True)
    def server(self, redis_6: Valkey) -> None:
        self.base = redis_6.url


@pytest.mark.xdist_group("redis flushed")
class TestFlushed(OnAServer):
    """Every write on disk before it is answered."""

    @pytest.fixture(autouse=True)
    def server(self, durable: Valkey) -> None:
        self.base = durable.url


@pytest.mark.xdist_group("redis cluster")
class TestCluster(OnAServer):
    @pytest.fixture(autouse=True)
    def server(self, cluster: Cluster) -> None:
        self.base = cluster.url


@pytest.mark.xdist_group("redis sentinel")
class TestSentinel(OnAServer):
    """By Sentinel, every win on the replica before it counts."""

    @pytest.fixture(autouse=True)
    def server(self, watched: Watched) -> None:
        self.base = f"{watched.url}&min_replicas=1"
