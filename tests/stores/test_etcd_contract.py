"""etcd keeps the contract."""

from pathlib import Path

import pytest

from cronce.testing import StoreContract
from tests.servers.etcd import Etcd
from tests.stores.places import name_of


class TestEtcd(StoreContract):
    @pytest.fixture(autouse=True)
    def _served(self, etcd: Etcd) -> None:
        self.server = etcd

    def url(self, place: Path) -> str:
        return f"{self.server.url}/?namespace={name_of(place)}"
