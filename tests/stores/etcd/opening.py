"""What the tests of the etcd store share."""

from typing import Any

import pytest

from cronce.errors import StoreError
from cronce.stores import open_store
from cronce.stores.base import Store
from cronce.stores.etcd import EtcdStore
from cronce.stores.etcd.layout import text64
from tests.servers.etcd import Etcd


class Count:
    def __init__(self, etcd: Etcd) -> None:
        self.etcd = etcd
        self.before = etcd.requests()

    def __call__(self) -> int:
        """Requests since it was last asked."""
        before, self.before = self.before, self.etcd.requests()
        return self.before - before


def revision(etcd: Etcd) -> int:
    return int(etcd.ask("/v3/kv/range", {"key": text64(b"none")})["header"]["revision"])


def error(url: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    return caught.value


def checked(store: Store) -> list[Any]:
    assert isinstance(store, EtcdStore)
    return list(store.checks())
