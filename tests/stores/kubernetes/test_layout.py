"""How cells lie in Leases: names, times, what others wrote, and which runs are kept."""

import json
from typing import Any

import pytest

from cronce.errors import StoreCorrupt, StoreFull, StoreNewer
from cronce.model import (
    ABSENT,
    FREE,
    Cell,
    Mark,
    Refusal,
    Verdict,
)
from cronce.protocol.record import Outcome, Record, State, decode, encode
from cronce.stores.base import Scan, Store
from cronce.stores.kubernetes.layout import SHELF, LeaseOfCell, home_of, lease_name, spell_micro
from cronce.testing.contract import (
    cell_of,
    change,
    claim,
    keys_of,
    refusals,
    swap,
    verdicts,
    win,
)
from tests.servers.kubernetes import Kubernetes
from tests.stores.kubernetes.leases import NOON, Requests, begin, end, run, through

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
