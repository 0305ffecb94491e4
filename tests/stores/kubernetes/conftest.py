"""A namespace and a store for each test of the Kubernetes store, and a server of its own where it needs one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cronce.stores import open_store
from cronce.stores.base import Store
from cronce.stores.kubernetes import KubernetesStore
from tests.servers.kubernetes import Kubernetes
from tests.stores.places import name_of


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    return name_of(tmp_path).replace("_", "-")


@pytest.fixture
def url(kubernetes: Kubernetes, namespace: str) -> str:
    return kubernetes.url(namespace)


@pytest.fixture
def store(url: str) -> Iterator[KubernetesStore]:
    with closing(open_store(url)) as store:
        assert isinstance(store, KubernetesStore)
        store.load([])
        yield store


@pytest.fixture
def other(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def own() -> Iterator[Kubernetes]:
    """A server for this test alone."""
    with Kubernetes() as server:
        yield server
