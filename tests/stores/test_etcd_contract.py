"""etcd keeps the contract."""

import hashlib
from pathlib import Path

import pytest

from cronce.testing import StoreContract
from tests.servers.etcd import Etcd


class TestEtcd(StoreContract):
    @pytest.fixture(autouse=True)
    def _served(self, etcd: Etcd) -> None:
        self.server = etcd

    def url(self, place: Path) -> str:
        return f"{self.server.url}/?namespace={hashlib.sha256(str(place).encode()).hexdigest()[:20]}"
