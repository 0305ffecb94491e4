"""What an API server refuses, or does not answer: said in words, and never asked again."""

from collections.abc import Callable
from contextlib import closing

import pytest

from cronce.errors import StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import (
    Mark,
)
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.testing.contract import (
    cell_of,
    change,
    claim,
    keys_of,
    put,
    swap,
    win,
)
from tests.servers.kubernetes import Kubernetes
from tests.servers.patience import until_it_answers
from tests.stores.kubernetes.leases import Requests, losing


@pytest.mark.parametrize("verb", ["create", "update"])
def test_a_write_without_an_answer_may_have_landed_and_is_not_sent_again(
    kubernetes: Kubernetes, store: Store, verb: str
) -> None:
    seen, requests = store.load([]).epoch.seen, Requests(kubernetes)
    with (
        losing(kubernetes, lambda asked, _name: asked == verb),
        pytest.raises(StoreUnavailable, match="may have succeeded"),
    ):
        store.swap([claim("lock/a")], seen)
    assert requests()[verb] == 1
    assert (cell_of(store, "lock/a").value == "claimed") is (verb == "update")


def test_a_server_that_hangs_is_given_up_after_the_timeout(own: Kubernetes) -> None:
    with closing(until_it_answers(lambda: open_store(own.url("jobs", timeout=0.2)))) as store:
        late = pytest.raises(StoreUnavailable, match=r"no answer within 0\.2 s")
        with own.paused(), late:
            store.load([])


def test_a_busy_server_is_not_asked_again_by_the_store(own: Kubernetes) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        requests, own.busy = Requests(own), 1
        with pytest.raises(StoreUnavailable, match="answers 429, and asks to wait for 1 s: too many requests"):
            store.load([])
        assert requests() == {"get": 1}
        assert list(store.load([]).cells) == []


@pytest.mark.parametrize(("verb", "work"), [
    ("get", lambda store: store.load([])),
    ("list", lambda store: store.scan(Scan("run/"))),
    ("create", lambda store: swap(store, claim("lock/new"))),
    ("update", lambda store: swap(store, claim("lock/old"))),
    ("delete", lambda store: store.purge(store.load(["lock/old"]).cells)),
])  # fmt: skip
def test_a_right_that_is_missing_is_named(own: Kubernetes, verb: str, work: Callable[[Store], object]) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        (old,) = win(store, claim("lock/old"))
        win(store, change(old, mark=Mark.FREE))
        own.forbidden = {verb}
        with pytest.raises(StoreUnusable, match=f"cannot {verb} resource .leases.* `cronce deploy k8s rbac` prints it"):
            work(store)


def test_a_quota_or_a_namespace_that_goes_away_is_no_matter_of_rights(own: Kubernetes) -> None:
    """Both are a 403, and a role was advised that was there already."""
    with closing(open_store(own.url("jobs"))) as store:
        own.quota = 1
        with pytest.raises(StoreFull, match=r"exceeded quota: .*; raise the namespace's ResourceQuota") as full:
            swap(store, claim("lock/a"))
        own.quota, own.terminating = None, {"jobs"}
        with pytest.raises(StoreUnusable, match="being terminated; the namespace is being deleted") as going:
            swap(store, claim("lock/a"))
        assert not any("rbac" in str(said.value) for said in (full, going))


def test_a_list_is_read_in_parts(own: Kubernetes) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        win(store, *(put(f"lock/{number}") for number in range(7)))
        own.page, requests = 3, Requests(own)
        assert keys_of(store.scan(Scan("lock/")).cells) == [f"lock/{number}" for number in range(7)]
        assert requests() == {"list": 3}
