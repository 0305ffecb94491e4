"""The Kubernetes store, beyond the contract: what lies in Leases, which slots are kept, requests, lost replies."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any

import pytest

from cronce.errors import StoreCorrupt, StoreFull, StoreNewer, StoreUnavailable, StoreUnusable
from cronce.model import (
    ABSENT,
    BOARD_JOBS,
    BOARD_RUNS,
    FREE,
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
from cronce.protocol.record import Outcome, Record, State, decode, encode
from cronce.stores import open_store
from cronce.stores.base import Loaded, Page, Scan, Store, Swapped, at_once, page_of
from cronce.stores.kubernetes import NOT_KEPT, TRAITS, KubernetesStore
from cronce.stores.kubernetes.api import read_url
from cronce.stores.kubernetes.layout import SHELF, LeaseOfCell, home_of, lease_name, spell_micro
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
from tests.servers.patience import until_it_answers
from tests.stores.forks import ask
from tests.stores.places import name_of

NOON = datetime(2026, 3, 29, 12, 0, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


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


class Requests:
    """What was asked of the server since it was last asked."""

    def __init__(self, server: Kubernetes) -> None:
        self.server = server
        self()

    def __call__(self) -> dict[str, int]:
        counted = dict(self.server.requests)
        self.server.requests.clear()
        return counted


def run(minute: int) -> str:
    return f"run/billing/{spell(NOON + minute * MINUTE)}"


def begin(minute: int, **more: Any) -> list[Write]:
    """A slot and its turn, as a claim takes them."""
    slot = claim(run(minute), at=NOON + minute * MINUTE, group=1, seen=ABSENT)
    return [slot._replace(**more), claim("turn/billing/0", grant=False, group=1)]


def end(cells: Sequence[Cell], mark: Mark = Mark.CLOSED) -> list[Write]:
    slot, turn = cells
    return [change(slot, mark=mark, group=1), change(turn, mark=Mark.FREE, group=1)]


def through(store: Store, minute: int) -> Cell:
    """A slot from its claim to its end."""
    return win(store, *end(win(store, *begin(minute))))[0]


# --- what lies in Leases --------------------------------------------------------------------------------------------


def test_a_job_is_one_lease_and_a_claim_one_request(kubernetes: Kubernetes, store: Store, namespace: str) -> None:
    through(store, 0)
    seen, requests = store.load([]).epoch.seen, Requests(kubernetes)
    cells = [verdict.cell for verdict in store.swap(begin(1), seen).verdicts]
    assert requests() == {"update": 1}
    assert refusals(store.swap(end(cells), seen)) == [None, None]
    assert requests() == {"update": 1}
    assert kubernetes.names(namespace) == ["cronce-job-billing", "cronce-store"]


def test_a_loser_asks_once_and_writes_nothing(kubernetes: Kubernetes, store: Store, other: Store) -> None:
    store.load(["turn/billing/0"])
    seen = store.load([]).epoch.seen
    slot, turn = win(other, *begin(0))
    requests = Requests(kubernetes)
    swapped = store.swap(begin(0), seen)
    assert verdicts(swapped) == [Verdict(Refusal.VERSION, slot), Verdict(Refusal.VERSION, turn)]
    assert requests() == {"get": 1}


def test_a_first_job_is_made_with_its_place_on_the_stores_list(
    kubernetes: Kubernetes, store: Store, namespace: str
) -> None:
    through(store, 0)
    shelf = json.loads(kubernetes.get(namespace, "cronce-store")["metadata"]["annotations"][SHELF])
    assert shelf["jobs"] == {"billing": kubernetes.get(namespace, "cronce-job-billing")["metadata"]["uid"]}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("job/billing", "cronce-job-billing"),
        ("turn/billing/0", "cronce-job-billing"),
        ("run/billing/2026-03-29T12:00:00Z", "cronce-job-billing"),
        ("lock/a-b.c", "cronce-lock-a-b-c-fb187eed737ab375"),
        ("lock/a-b-c", "cronce-lock-a-b-c"),
        ("leader/Indexer", "cronce-leader-indexer-4a8a73e2152c8c8a"),
        ("leader/::", "cronce-leader-71546855d6279ef7"),
        ("switch", "cronce-store"),
        ("board/runs", "cronce-store"),
        ("drain/holder:x", "cronce-store"),
        ("run/billing", "cronce-cell-run-billing-3b6d4ff744187e0f"),
    ],
)
def test_a_lease_has_a_name_that_people_can_read(key: str, name: str) -> None:
    """It is frozen: another name would be another lock."""
    assert lease_name("cronce", home_of(key)) == name


def test_every_name_is_taken_by_the_server_and_is_another_ones(store: Store) -> None:
    names = ["a", "A", "a_", "a-", "a.", "a:", "x" * 128, "X" * 128, "-".join("ab" * 32), "0", "a--b", "a-b"]
    win(store, *(claim(f"lock/{name}", name) for name in names))
    assert [cell_of(store, f"lock/{name}").value for name in names] == names
    assert len({lease_name("cronce", LeaseOfCell("lock", name)) for name in names}) == len(names)


@pytest.mark.parametrize("us", [0, 1, 999_999])
def test_a_time_always_has_six_digits(us: int) -> None:
    """isoformat leaves them out at zero, and an API server takes no other spelling."""
    assert spell_micro(NOON.replace(microsecond=us)) == f"2026-03-29T12:00:00.{us:06}Z"


def test_labels_and_annotations_of_others_stay_and_change_no_version(
    kubernetes: Kubernetes, store: Store, other: Store, namespace: str
) -> None:
    (cell,) = win(store, claim("lock/a"))

    def annotate(lease: dict[str, Any]) -> None:
        lease["metadata"]["annotations"]["example.com/note"] = "mine"
        lease["metadata"]["labels"]["team"] = "blue"

    kubernetes.edit(namespace, "cronce-lock-a", annotate)
    assert cell_of(other, "lock/a") == cell
    win(store, change(cell))
    meta = kubernetes.get(namespace, "cronce-lock-a")["metadata"]
    assert (meta["annotations"]["example.com/note"], meta["labels"]["team"]) == ("mine", "blue")


def test_what_a_newer_cronce_wrote_is_not_guessed_at(kubernetes: Kubernetes, store: Store, namespace: str) -> None:
    win(store, claim("lock/a"))

    def spoil(text: str) -> None:
        lease = kubernetes.get(namespace, "cronce-lock-a")
        lease["metadata"]["annotations"][SHELF] = text
        kubernetes.answer("PUT", namespace, "cronce-lock-a", lease)

    damaged = ["[]", "{", '{"schema": 1}', '{"schema": 1, "home": ["job"]}']
    home = '{"schema": 1, "home": ["lock", "a"], "cells": '
    damaged += [home + "[]}", home + '{"lock/a": [1, 2]}}', home.replace('"a"', '"b"') + "{}}"]
    for text, error in (('{"schema": 2}', StoreNewer), *((text, StoreCorrupt) for text in damaged)):
        spoil(text)
        with pytest.raises(error, match="cronce-lock-a"):
            store.load(["lock/a"])


def test_what_does_not_fit_into_a_lease_is_refused(store: Store) -> None:
    with pytest.raises(StoreFull, match="at most 256 KiB"):
        swap(store, claim("lock/a", "x" * (256 << 10)))
    assert cell_of(store, "lock/a") == Cell("lock/a")


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


# --- slots rise -----------------------------------------------------------------------------------------------------


def test_of_the_runs_that_are_closed_the_last_two_are_kept_beside_the_newest(store: Store, other: Store) -> None:
    for minute in range(5):
        through(store, minute)
    assert keys_of(other.scan(Scan("run/billing/")).cells) == [run(2), run(3), run(4)]


def test_a_slot_that_is_not_kept_any_more_is_closed_and_never_granted(store: Store, other: Store) -> None:
    for minute in range(5):
        through(store, minute)
    for minute in (-1, 0, 1):
        cell = cell_of(other, run(minute))
        assert (decode(cell.value).outcome, cell.mark) == (Outcome.TOO_OLD, Mark.CLOSED)
        assert "its Lease has no record of slots up to 2026-03-29T12:01:00Z" in decode(cell.value).reason
        for seen in (ABSENT, FREE):
            assert refusals(swap(other, *begin(minute, seen=seen))) == [Refusal.VERSION, Refusal.GROUP]
    assert cell_of(other, run(5)) == Cell(run(5))


def test_a_slot_that_did_not_succeed_is_kept_for_longer(store: Store, other: Store) -> None:
    """A pod that comes late is to hear of it: else its Job would count as complete."""
    failed = encode(Record(State.CLOSED, outcome=Outcome.FAILED))
    win(store, *(write._replace(value=failed) for write in end(win(store, *begin(0)))))
    for minute in range(1, 6):
        through(store, minute)
    assert keys_of(other.scan(Scan("run/billing/")).cells) == [run(0), run(3), run(4), run(5)]
    assert cell_of(other, run(0)).value == failed


def test_a_copy_of_a_lease_is_not_taken_for_it(
    kubernetes: Kubernetes, store: Store, other: Store, namespace: str
) -> None:
    """As somebody makes who edits what kubectl printed, or restores it by another name."""
    cells = win(store, *begin(0))
    copy = kubernetes.get(namespace, "cronce-job-billing")
    for word in ("resourceVersion", "uid", "creationTimestamp"):
        del copy["metadata"][word]
    copy["metadata"]["name"] = "cronce-job-copy"
    kubernetes.answer("POST", namespace, "", copy)
    assert len(kubernetes.names(namespace)) == 3
    assert keys_of(other.scan(Scan("run/")).cells) == [run(0)]
    win(other, *end(cells))
    assert cell_of(store, run(0)).mark is Mark.CLOSED


def test_what_is_open_stays_however_many_come_after_it(store: Store) -> None:
    (slot, turn) = win(store, *begin(0))
    win(store, change(turn, mark=Mark.FREE))  # as if it failed, and waits to be tried again
    for minute in range(1, 5):
        through(store, minute)
    assert cell_of(store, run(0)) == slot
    (done,) = win(store, change(slot, mark=Mark.CLOSED))
    assert cell_of(store, run(0)) == done
    through(store, 5)
    assert decode(cell_of(store, run(0)).value).outcome is Outcome.TOO_OLD


def test_a_slot_between_that_never_was_may_still_come(store: Store) -> None:
    for minute in (1, 3, 5):
        through(store, minute)
    through(store, 4)
    assert cell_of(store, run(2)) == Cell(run(2))  # the slot before it was dropped, and none after it
    assert decode(cell_of(store, run(0)).value).outcome is Outcome.TOO_OLD


def test_what_is_purged_is_passed(store: Store) -> None:
    cells = [through(store, minute) for minute in (0, 1)]
    assert store.purge(cells[:1]) == 1
    assert decode(cell_of(store, run(0)).value).outcome is Outcome.TOO_OLD
    assert cell_of(store, run(1)) == cells[1]


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


@contextmanager
def losing(server: Kubernetes, which: Callable[[str, str], bool]) -> Iterator[None]:
    """A server that loses replies."""
    server.losing, before = which, server.losing
    yield
    server.losing = before


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


def test_a_list_is_read_in_parts(own: Kubernetes) -> None:
    with closing(open_store(own.url("jobs"))) as store:
        win(store, *(put(f"lock/{number}") for number in range(7)))
        own.page, requests = 3, Requests(own)
        assert keys_of(store.scan(Scan("lock/")).cells) == [f"lock/{number}" for number in range(7)]
        assert requests() == {"list": 3}


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
