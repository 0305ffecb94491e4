"""Slots that fell due while nobody looked: what runs, what is passed over, and what had run before."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.model import Slot
from cronce.protocol.record import Job, Outcome, decode_job
from cronce.protocol.terms import Terms
from cronce.runtime.declare import declare
from cronce.runtime.ledger import Grant, Wanted
from cronce.runtime.scheduling.candidates import Gap, catch_up, newest_run
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire

MINUTE = timedelta(minutes=1)
SINCE = START
"""The job's floor; its slots are each minute after it."""


@pytest.fixture(autouse=True)
def registered(node: HandNode, clock: HandClock) -> None:
    node.do(node.ledger.jobs.edit("sync", lambda _job, _now: Job(SINCE, firing="v1")))


def ran(node: HandNode, *minutes: int) -> None:
    for minute in minutes:
        slot = Slot("sync", START + minute * MINUTE)
        (grant,) = node.do(node.ledger.claim([Wanted(slot, Terms(LEASE, overlap="allow"))]))
        assert isinstance(grant, Grant)
        node.do(node.ledger.finish(grant, Outcome.SUCCEEDED))


def caught_up(node: HandNode, missed: Any, digest: str = "v1") -> list[int]:
    """The minutes of the slots that are to run."""
    gap = Gap(declare("sync", every="1m", missed=missed), digest, SINCE)
    slots = node.do(catch_up(node.ledger, [gap], node.store.clock.wall()))
    return [(slot.at - START) // MINUTE for slot in slots]


def spans(store: Wire) -> list[tuple[int | None, str]]:
    (cell,) = store.load(["job/sync"]).cells
    return [(span.slots, span.reason) for span in decode_job(cell.value).spans]


def test_the_latest_runs_and_the_others_are_one_record(node: HandNode, store: Wire, clock: HandClock) -> None:
    clock.turn(600.5)
    assert caught_up(node, "latest") == [10]
    assert spans(store) == [(9, "superseded")]
    assert caught_up(node, "latest") == [10]
    assert spans(store) == [(9, "superseded")]  # who looks again adds nothing


def test_what_ran_counts_neither_as_missed_nor_as_wanted(node: HandNode, store: Wire, clock: HandClock) -> None:
    clock.turn(600.5)
    ran(node, 1, 2, 9, 10)
    assert caught_up(node, "latest") == []
    assert spans(store) == [(6, "superseded")]


def test_if_all_ran_nothing_is_on_record(node: HandNode, store: Wire, clock: HandClock) -> None:
    clock.turn(300.5)
    ran(node, 1, 2, 3, 4, 5)
    assert caught_up(node, "latest") == caught_up(node, "skip") == caught_up(node, "all") == []
    assert spans(store) == []


def test_all_are_wanted_that_have_no_record_the_oldest_first(node: HandNode, store: Wire, clock: HandClock) -> None:
    clock.turn(300.5)
    ran(node, 2, 4)
    assert caught_up(node, "all") == [1, 3, 5]
    assert spans(store) == []


def test_of_a_long_gap_both_ends_are_looked_at(node: HandNode, store: Wire, clock: HandClock) -> None:
    """5000 slots: whoever died had run the first three, and another runs the last."""
    clock.turn(5000 * 60 + 0.5)
    ran(node, 1, 2, 3, 4999)
    assert caught_up(node, "latest") == [5000]
    assert spans(store) == [(4995, "superseded")]


def test_a_version_that_does_not_fire_the_job_passes_nothing_over(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    clock.turn(600.5)
    caught_up(node, "latest", digest="v2")
    assert spans(store) == []


def test_the_newest_run_is_found_among_those_by_hand(node: HandNode, clock: HandClock) -> None:
    assert node.do(newest_run(node.ledger, "sync")) is None
    clock.turn(600)
    ran(node, 3, 7)
    assert node.do(newest_run(node.ledger, "sync")) == START + 7 * MINUTE
