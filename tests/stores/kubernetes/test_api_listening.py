"""News from an API server, beyond the contract: who may not watch, and a store that goes away."""

from contextlib import closing

import pytest

from cronce.errors import StoreUnavailable, StoreUnusable
from cronce.stores import open_store
from cronce.stores.base import listen
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from tests.house.wait import wait_until
from tests.servers.kubernetes import Kubernetes


def test_who_may_not_watch_is_told_no_news_and_is_asked_for_it_once(own: Kubernetes) -> None:
    with closing(KubernetesStore(read_url(own.url("jobs")))) as store:
        own.forbidden = {"watch"}
        assert store.traits.notifies
        with pytest.raises(StoreUnusable, match="cannot watch resource"):
            listen(store)
        assert listen(store) is None


def test_news_breaks_off_when_the_stores_lease_is_deleted(own: Kubernetes) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        listener = listen(store)
        assert listener
        with closing(listener):
            own.delete("jobs", "cronce-store")
            with pytest.raises(StoreUnavailable, match="its notifications stopped"):
                wait_until(lambda: listener.wait(1))
