"""A Redis store opened for a test, and what its calls come to."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from cronce.stores import open_store
from cronce.stores.redis import RedisStore
from tests.servers.patience import until_it_answers
from tests.servers.valkey import Valkey


@contextmanager
def opened(url: str) -> Iterator[RedisStore]:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    with closing(store):
        yield store


@contextmanager
def hasty(url: str) -> Iterator[RedisStore]:
    """One of little patience, whose server has answered it."""
    with until_it_answers(lambda: _answered(url)) as store:
        yield store


def _answered(url: str) -> "closing[RedisStore]":
    store = open_store(url)
    assert isinstance(store, RedisStore)
    try:
        store.load([])
    except BaseException:
        store.close()
        raise
    return closing(store)


def calls(server: Valkey) -> dict[str, int]:
    """Commands that clients sent since the last time; those of scripts and of the question itself aside."""
    stats = server.cli("INFO", "commandstats")
    server.cli("CONFIG", "RESETSTAT")
    inner = (
        "hmget",
        "hget",
        "hset",
        "zadd",
        "zrem",
        "del",
        "time",
        "hello",
        "client|setinfo",
        "info",
        "config|resetstat",
    )
    found = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    return {name: count for name, count in found.items() if name not in inner}
