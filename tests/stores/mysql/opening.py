"""A MySQL store opened for a test, or refused."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cronce.stores.mysql import MysqlStore, open_store
from cronce.stores.mysql.server import locate


@contextmanager
def opened(url: str) -> Iterator[MysqlStore]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def refused(url: str, kind: type[Exception]) -> str:
    """What opening it comes to, in words."""
    with pytest.raises(kind) as caught:
        open_store(url)
    assert type(caught.value) is kind
    return str(caught.value)


def with_user(url: str, user: str, password: str = "secret") -> str:
    place = locate(url)
    return f"mysql://{user}:{password}@{place.host}:{place.port}/{place.database}"
