"""The Kubernetes store, beyond the contract: what lies in Leases, which slots are kept, requests, lost replies."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

import pytest

from cronce.errors import StoreUnavailable, StoreUnusable
from cronce.model import (
    BOARD_JOBS,
    BOARD_RUNS,
    LOOKED_ON,
    SWITCH,
    Cell,
    Epoch,
    Mark,
    Refusal,
    Traits,
    Verdict,
    Write,
    spell,
)
from cronce.stores import open_store
from cronce.stores.base import Loaded, Page, Scan, Store, Swapped, at_once, page_of
from cronce.stores.kubernetes import NOT_KEPT, TRAITS, KubernetesStore
from cronce.stores.kubernetes.api import read_url
from cronce.testing.contract import (
    BatchContract,
    GroupContract,
    cell_of,
    change,
    claim,
    keys_of,
    put,
    refusals,
    swap,
    verdicts,
    win,
)
from tests.runtime.shelf import HandClock
from tests.servers.kubernetes import Kubernetes, Refused
from tests.stores.forks import ask
from tests.stores.kubernetes.leases import MINUTE, NOON, Requests, begin, losing, run, through
from tests.stores.places import name_of

# --- groups: of one job, and of no other ----------------------------------------------------------------------------


class OneJob:
    """Every key is a turn of one job, so that all cells lie in one Lease."""

    traits: Traits = TRAITS._replace(groups=True, tally=False)

    def __init__(self, store: Store) -> None:
        self.store = store
        self.close = store.close

    def _there(self, key: str) -> str:
        return f"turn/job/{int.from_bytes(b'!' + key.encode(), 'big')}"

    def _back(self, cell: Cell) -> Cell:
        number = int(cell.key.rpartition("/")[2])
        return cell._replace(key=number.to_bytes((number.bit_length() + 7) // 8, "big")[1:].decode())

    def load(self, keys: Sequence[str]) -> Loaded:
        loaded = self.store.load([self._there(key) for key in keys])
        return loaded._replace(cells=[self._back(cell) for cell in loaded.cells])

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Swapped:
        swapped = self.store.swap([write._replace(key=self._there(write.key)) for write in writes], seen)
        return swapped._replace(verdicts=[Verdict(refused, self._back(cell)) for refused, cell in swapped.verdicts])

    def scan(self, scan: Scan) -> Page:
        """In the order of the keys as they are here: those of the job's turns have another."""
        found = self.store.scan(Scan("turn/job/"))
        return page_of([self._back(cell) for cell in found.cells], scan, found.now, found.epoch)

    def purge(self, cells: Sequence[Cell]) -> int:
        return self.store.purge([cell._replace(key=self._there(cell.key)) for cell in cells])


class TestOneJob(GroupContract, BatchContract):
    """What shall land together lies in one Lease, and there it does."""

    @pytest.fixture(autouse=True)
    def _served(self, kubernetes: Kubernetes) -> None:
        self.server = kubernetes

    def open(self, place: Path) -> Store:
        return OneJob(open_store(self.server.url(name_of(place).replace("_", "-"))))


def test_a_group_of_two_leases_is_refused(store: Store) -> None:
    with pytest.raises(StoreUnusable, match="lock/a and the cells to write with it are not in one Lease"):
        swap(store, claim("lock/a", group=1), claim("lock/b", group=1))
    assert [cell.version for cell in store.load(["lock/a", "lock/b"]).cells] == [0, 0]


# --- Leases that somebody deletes -----------------------------------------------------------------------------------


def test_the_first_slot_of_a_new_job_runs_though_it_is_past(store: Store) -> None:
    assert refusals(swap(store, *begin(0))) == [None, None]


@pytest.mark.parametrize("remembers", [True, False])
def test_after_a_jobs_lease_was_deleted_no_slot_up_to_now_is_granted(
    kubernetes: Kubernetes, store: Store, other: Store, namespace: str, remembers: bool
) -> None:
    before = through(store, 0)
    kubernetes.delete(namespace, "cronce-job-billing")
    who = store if remembers else other
    assert refusals(swap(who, *begin(0))) == [Refusal.VERSION, Refusal.GROUP]
    late = store.load([]).now + 5 * MINUTE
    key = f"run/billing/{spell(late)}"
    (later,) = win(who, claim(key, at=late))
    assert before.fence is not None
    assert later.fence is not None
    assert later.fence.birth >= before.fence.birth


@pytest.mark.parametrize("anew", ["by who knew it", "by another"])
def test_after_the_stores_lease_and_later_a_jobs_were_deleted_no_slot_up_to_now_is_granted(
    kubernetes: Kubernetes, store: Store, url: str, namespace: str, anew: str
) -> None:
    """The new list of jobs was empty, so the job was taken for a new one, and its slot ran a second time."""
    through(store, 0)
    kubernetes.delete(namespace, "cronce-store")
    store.load([])
    kubernetes.delete(namespace, "cronce-job-billing")
    with closing(open_store(url)) as fresh:
        who = store if anew == "by who knew it" else fresh
        assert refusals(swap(who, *begin(0))) == [Refusal.VERSION, Refusal.GROUP]


def test_who_may_not_list_can_begin_a_store(own: Kubernetes) -> None:
    own.forbidden = {"list"}
    with closing(open_store(own.url("jobs"))) as store:
        through(store, 0)


@pytest.mark.parametrize("key", ["lock/a", "switch", run(0)])
def test_who_believes_in_a_life_that_is_gone_writes_into_no_lease_of_the_next(
    kubernetes: Kubernetes, store: Store, url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """If another process had made both Leases anew already, it was granted what it asked for by the old one."""
    at = NOON if key.startswith("run/") else None
    win(store, claim(key, at=at))
    before = store.load([]).epoch
    for name in kubernetes.names(namespace):
        kubernetes.delete(namespace, name)
    later = 5_000_000
    monkeypatch.setattr(kubernetes, "clock", lambda: time() + later / 1e6)
    with closing(open_store(url)) as fresh:
        assert fresh.load([]).epoch.birth > before.birth
        win(fresh, put(key, at=at, mark=Mark.FREE))
        assert refusals(store.swap([claim(key, at=at)], before.seen)) == [Refusal.EPOCH]
        assert refusals(swap(store, claim(key, at=at))) == [None]


def test_the_doctor_tells_of_a_job_whose_lease_was_deleted(
    kubernetes: Kubernetes, store: KubernetesStore, namespace: str
) -> None:
    through(store, 0)
    healthy = [(check.name, check.verdict) for check in store.checks()]
    assert healthy == [("server", "ok"), ("rights", "ok"), ("deleted", "ok"), ("room", "ok")]
    kubernetes.delete(namespace, "cronce-job-billing")
    says = "the Leases of billing were deleted: slots up to the time they are created again count as run"
    assert [check.says for check in store.checks() if check.verdict == "warn"] == [says]


def test_the_doctor_tells_of_a_right_that_is_missing(own: Kubernetes) -> None:
    with closing(KubernetesStore(read_url(own.url("jobs")))) as store:
        own.forbidden = {"list"}
        assert [(check.name, check.verdict) for check in store.checks()] == [("server", "ok"), ("rights", "error")]


def test_the_doctor_tells_of_a_lease_that_is_almost_full(store: KubernetesStore) -> None:
    win(store, claim("lock/a", "x" * (220 << 10)))
    warned = [check.says for check in store.checks() if check.verdict == "warn"]
    assert warned == ["the fullest Lease, cronce-lock-a, has 220 KiB of 256"]


def test_a_lease_that_was_deleted_is_not_brought_back_by_who_held_it(
    kubernetes: Kubernetes, store: Store, namespace: str
) -> None:
    """A replacement without a uid would make it anew: their strategy allows that."""
    (cell,) = win(store, claim("lock/a"))
    kubernetes.delete(namespace, "cronce-lock-a")
    assert verdicts(swap(store, change(cell))) == [Verdict(Refusal.VERSION, Cell("lock/a"))]
    assert kubernetes.names(namespace) == ["cronce-store"]


def test_whoever_makes_a_lease_and_dies_leaves_the_slot_to_the_next(
    kubernetes: Kubernetes, store: Store, other: Store
) -> None:
    def lost(verb: str, name: str) -> bool:
        return (verb, name) == ("create", "")

    with losing(kubernetes, lost), pytest.raises(StoreUnavailable):
        swap(store, *begin(0))
    assert refusals(swap(other, *begin(0))) == [None, None]


def test_a_job_that_is_purged_whole_is_a_new_one_then(store: Store, other: Store) -> None:
    win(store, put("job/billing"), *begin(0))
    assert store.purge(store.load(["job/billing", "turn/billing/0", run(0)]).cells) == 3
    assert refusals(swap(other, *begin(0))) == [None, None]


def test_a_store_whose_lease_was_deleted_begins_another_life(
    kubernetes: Kubernetes, store: Store, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.load([]).epoch
    kubernetes.delete(namespace, "cronce-store")
    with monkeypatch.context() as later:
        later.setattr(kubernetes, "clock", lambda: before.birth / 1e6 + 5)
        after = store.load([]).epoch
    assert after == Epoch(before.birth + 5_000_000)
    assert refusals(store.swap([claim("lock/a")], before.seen)) == [Refusal.EPOCH]


# --- what is not kept -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*NOT_KEPT, "run"])
def test_what_there_is_no_room_for_is_refused_with_the_reason(kubernetes: Kubernetes, store: Store, kind: str) -> None:
    key = f"{run(0)}#rerun-1" if kind == "run" else f"{kind}/a/b"
    requests = Requests(kubernetes)
    with pytest.raises(StoreUnusable, match="a Lease has room for a lock, a leader and the last slots of a job"):
        store.swap([claim("lock/a"), claim(key)], (0, 0))
    assert requests() == {}
    if kind != "run":
        assert cell_of(store, key) == Cell(key)
        assert keys_of(store.scan(Scan(f"{kind}/")).cells) == []
        assert requests() == {"get": 1}  # the store's own, by the reading; a search for what is not kept asks nobody


# --- replies that are lost ------------------------------------------------------------------------------------------


def test_a_forked_child_has_a_connection_of_its_own(own: Kubernetes) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        (cell,) = win(store, claim("lock/a"))
        assert own.connections == 1
        assert ask(lambda: [cell_of(store, "lock/a").version for _ in range(3)]) == [cell.version] * 3
        assert cell_of(store, "lock/a") == cell
        assert own.connections == 2


def test_a_search_of_all_is_one_list_and_of_one_job_one_lease(kubernetes: Kubernetes, store: Store) -> None:
    """The store's own Lease was read before, each time."""
    through(store, 0)
    requests = Requests(kubernetes)
    assert keys_of(store.scan(Scan("run/")).cells) == keys_of(store.scan(Scan("run/billing/")).cells) == [run(0)]
    assert requests() == {"list": 1, "get": 1}


def test_who_leads_looks_at_its_own_lease_alone(kubernetes: Kubernetes, store: Store, other: Store) -> None:
    """It read the store's own with it, once a second."""
    (cell,) = win(store, claim("leader/indexer"))
    requests = Requests(kubernetes)
    loaded = store.load(["leader/indexer"])
    assert (list(loaded.cells), requests()) == ([cell], {"get": 1})
    assert other.load(["leader/indexer", "lock/none"]).epoch == loaded.epoch  # one that has asked nothing yet


def test_a_beat_and_a_look_at_once_are_one_list_and_one_write(kubernetes: Kubernetes, store: Store) -> None:
    """They were two lists and two questions for the store's own Lease, one of these for a Lease that was not there."""
    (beat,) = win(store, put("holder/a", Mark.OPEN))
    seen = store.load([]).epoch
    requests, before = Requests(kubernetes), kubernetes.statuses.copy()
    with at_once(store):
        store.scan(Scan("holder/"))
        (changed,) = store.swap([change(beat)], seen.seen).verdicts
        assert store.load(["holder/a", "run/billing/2026-01-01T00:00:00Z"]).cells[0] == changed.cell
        store.load([BOARD_RUNS, BOARD_JOBS, SWITCH, LOOKED_ON, "drain/holder:a", "machine/a"])
        store.scan(Scan("run/", "until", Mark.OPEN, limit=1))
        store.scan(Scan("run/billing/"))
    assert requests() == {"list": 1, "update": 1}
    assert kubernetes.statuses - before == {200: 2}
    assert cell_of(store, "holder/a") == changed.cell
    assert requests() == {"get": 2}  # nothing is left of it


def test_what_was_read_at_once_refuses_nobody_and_is_forgotten_where_a_write_fails(
    kubernetes: Kubernetes, store: Store, other: Store
) -> None:
    (first,) = win(store, put("holder/a", Mark.OPEN))
    with at_once(store):
        assert cell_of(store, "holder/a") == first
        (second,) = win(other, change(first))
        assert cell_of(store, "holder/a") == first  # as it was read
        (third,) = win(store, change(second))  # but written by what is there
        assert cell_of(store, "holder/a") == third
        (fourth,) = win(other, change(third))
        kubernetes.losing = lambda verb, _name: verb == "update"
        with pytest.raises(StoreUnavailable):
            swap(store, change(fourth))
        kubernetes.losing = lambda _verb, _name: False
        assert cell_of(store, "holder/a").version > fourth.version  # it landed, and its reply was lost


def test_what_was_read_at_once_is_read_again_after_a_second(own: Kubernetes) -> None:
    clock = HandClock()
    own.clock = lambda: clock.wall().timestamp()
    with closing(KubernetesStore(read_url(own.url("jobs")), clock)) as store:
        (cell,) = win(store, put("holder/a", Mark.OPEN))
        with closing(open_store(own.url("jobs"))) as other, at_once(store):
            store.load([])
            (changed,) = win(other, change(cell))
            clock.turn(0.9)
            assert cell_of(store, "holder/a") == cell
            clock.turn(0.1)
            assert cell_of(store, "holder/a") == changed


def test_a_leader_of_others_is_seen_at_once_too(own: Kubernetes) -> None:
    """Its Lease has none of our labels, so it is on no list of ours."""
    spec = {"holderIdentity": "go", "leaseDurationSeconds": 15, "leaseTransitions": 3}
    own.answer("POST", "jobs", "", {"metadata": {"name": "cronce-leader-indexer"}, "spec": spec})
    with closing(open_store(own.url("jobs"))) as store, at_once(store):
        assert [cell.version > 0 for cell in store.load([SWITCH, "leader/indexer"]).cells] == [False, True]


def test_a_block_is_of_one_thread(kubernetes: Kubernetes, store: Store) -> None:
    (first,) = win(store, put("holder/a", Mark.OPEN))
    with at_once(store), ThreadPoolExecutor(1) as pool:
        assert cell_of(store, "holder/a") == first
        requests = Requests(kubernetes)
        assert pool.submit(cell_of, store, "holder/a").result() == first
        assert requests() == {"get": 2}


def test_a_store_of_another_prefix_is_another_store(kubernetes: Kubernetes, store: Store, namespace: str) -> None:
    win(store, claim("lock/a"))
    with closing(open_store(kubernetes.url(namespace, prefix="staging"))) as another:
        assert keys_of(another.scan(Scan("")).cells) == []
        win(another, claim("lock/a"))
    assert kubernetes.names(namespace) == ["cronce-lock-a", "cronce-store", "staging-lock-a", "staging-store"]


def test_what_was_remembered_refuses_nobody(store: Store, other: Store) -> None:
    (theirs,) = win(other, claim("lock/a"))
    assert cell_of(store, "lock/a") == theirs
    win(other, change(theirs, mark=Mark.FREE))
    assert refusals(swap(store, claim("lock/a"))) == [None]


def test_what_is_written_while_it_is_purged_stays(kubernetes: Kubernetes, store: Store, other: Store) -> None:
    (old,) = win(store, put("lock/a"))
    written: list[Cell] = []

    def write_first(verb: str, name: str) -> bool:
        if (verb, name) == ("get", "cronce-lock-a") and not written:
            written.append(old)
            written[:] = win(other, change(old))
        return False

    with losing(kubernetes, write_first):
        assert store.purge([old]) == 0
    assert [cell_of(store, "lock/a")] == written


# --- the server of these tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "code", "says"), [
    ({"spec": {"leaseDurationSeconds": 0}}, 422, "must be greater than 0"),
    ({"spec": {"renewTime": "2026-03-29T12:00:00Z"}}, 400, "cannot parse"),
    ({"spec": {"renewTime": "2026-03-29T12:00:00.123Z"}}, 400, "cannot parse"),
    ({"metadata": {"name": "a"}}, 422, "must be specified for an update"),
    ({"metadata": {"name": "a", "resourceVersion": "1"}}, 409, "the object has been modified"),
    ({"metadata": {"name": "a", "uid": "another"}}, 409, "Precondition failed: UID"),
])  # fmt: skip
def test_our_server_refuses_what_a_real_one_refuses(own: Kubernetes, change: Any, code: int, says: str) -> None:
    _, made = own.answer("POST", "jobs", "", {"metadata": {"name": "a"}, "spec": {}})
    with pytest.raises(Refused, match=says) as refused:
        own.answer("PUT", "jobs", "a", {**made, **change})
    assert refused.value.code == code


def test_our_server_keeps_the_rest_of_the_rules(own: Kubernetes) -> None:
    code, made = own.answer("POST", "jobs", "", {"metadata": {"name": "a"}, "spec": {}})
    assert code == 201
    with pytest.raises(Refused, match="already exists"):
        own.answer("POST", "jobs", "", {"metadata": {"name": "a"}, "spec": {}})
    assert own.answer("PUT", "jobs", "a", made) == (200, made)  # nothing changed, nor its resourceVersion
    _, changed = own.answer("PUT", "jobs", "a", {**made, "spec": {"leaseTransitions": 1}})
    assert changed["metadata"]["resourceVersion"] > made["metadata"]["resourceVersion"]
    with pytest.raises(Refused, match="Precondition failed"):
        own.answer("DELETE", "jobs", "a", {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}})
    own.delete("jobs", "a")
    bare = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {}}
    assert own.answer("PUT", "jobs", "a", bare)[0] == 201  # without a uid it is made anew
