"""A namespace and a store for each test of the etcd store, and a server of its own where it needs one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cronce.stores import open_store
from cronce.stores.base import Store
from tests.servers.etcd import Etcd
from tests.stores.places import name_of


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return name_of(tmp_path)


@pytest.fixture
def url(etcd: Etcd, namespace: str) -> str:
    return f"{etcd.url}/?namespace={namespace}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def other(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def own() -> Iterator[Etcd]:
    """A server for this test alone."""
    with Etcd() as server:
        yield server
