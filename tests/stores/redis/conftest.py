"""A server, a namespace and a store for each test of the Redis store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce.stores.redis import RedisStore
from tests.servers.valkey import Valkey
from tests.stores.redis.opening import opened
from tests.stores.test_redis_contract import namespaced


@pytest.fixture
def url(valkey: Valkey, tmp_path: Path) -> str:
    return namespaced(valkey.url, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    with opened(url) as store:
        yield store


@pytest.fixture
def server() -> Iterator[Valkey]:
    """One to stop, pause and misconfigure."""
    with Valkey() as valkey:
        yield valkey
