"""Leases keep the contract, but for what their traits say: on an API server of ours, or on a real cluster."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cronce.stores.base import Store
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from cronce.stores.kubernetes.layout import STORE_LABEL
from cronce.testing import StoreContract
from tests.house.wait import wait_until
from tests.stores.places import name_of


@pytest.mark.slow
class TestKubernetes(StoreContract):
    """A real cluster is named by CRONCE_TEST_KUBERNETES_URL: a namespace in it, whose Leases may be written."""

    THREADS = 4
    PROCESSES = 3
    CELLS = 20

    @pytest.fixture(autouse=True)
    def _served(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
        self.real = os.environ.get("CRONCE_TEST_KUBERNETES_URL", "")
        self.ours = None if self.real else request.getfixturevalue("kubernetes")
        yield
        if self.real:
            for place in (tmp_path, tmp_path / "another"):
                _clear(self.url(place))

    def url(self, place: Path) -> str:
        prefix = name_of(place).replace("_", "-")
        if self.ours is None:
            return f"{self.real}{'&' if '?' in self.real else '?'}prefix={prefix}"
        url: str = self.ours.url("contract", prefix=prefix, timeout=60)  # however busy the machine is
        return url

    def reborn(self, other: Store, place: Path) -> None:
        """A life is known by the second in which it began."""
        before = other.load([]).epoch.birth

        def anew() -> bool:
            _clear(self.url(place))
            return other.load([]).epoch.birth > before

        wait_until(anew)


def _clear(url: str) -> None:
    """Leave nothing in a cluster that is somebody's."""
    address = read_url(url)
    with closing(KubernetesStore(address)) as store:
        for answer in store.api.list(f"{STORE_LABEL}={address.prefix}", store.api.deadline()):
            for lease in answer.body["items"]:
                store.api.delete(lease, store.api.deadline())
