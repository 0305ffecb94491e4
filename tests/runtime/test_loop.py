"""The loop: after which answers other processes are to look, and how often a store that hangs is asked."""

from datetime import timedelta

import pytest

from cronce.model import BOARD_RUNS, Slot
from cronce.protocol.commands import Finish, Finished, Queue, Unsure
from cronce.protocol.record import Outcome
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, Wire, granted


def news(store: Wire) -> int:
    return store.load([BOARD_RUNS]).cells[0].version


@pytest.mark.parametrize("queue", [Queue(), Queue(waiting=True)])
def test_a_slot_that_is_due_wakes_others_and_one_that_waits_for_its_turn_does_not(
    node: HandNode, store: Wire, queue: Queue
) -> None:
    granted(node)
    before = news(store)
    node.do(node.ledger.put({Slot("billing", START + timedelta(hours=1)): queue}))
    assert (news(store) != before) is not queue.waiting


@pytest.mark.parametrize(
    ("outcome", "attempts", "wakes"),
    [(Outcome.SUCCEEDED, 2, False), (Outcome.FAILED, 1, False), (Outcome.FAILED, 2, True)],
)
def test_of_the_ends_only_one_that_is_retried_wakes_others(
    node: HandNode, store: Wire, outcome: Outcome, attempts: int, wakes: bool
) -> None:
    grant = granted(node, attempts=attempts)
    before = news(store)
    node.do(node.ledger.finish(grant, outcome))
    assert (news(store) != before) is wakes


def test_what_is_given_back_wakes_others_and_so_does_a_request_to_stop(node: HandNode, store: Wire) -> None:
    before = news(store)
    grant = granted(node)
    assert news(store) == before
    node.do(node.ledger.ask(SLOT, "too long"))
    asked = news(store)
    node.do(node.ledger.release([grant]))
    assert before < asked < news(store)


def hangs(store: Wire, clock: HandClock) -> None:
    """The next write gets no answer for ten seconds, and does not land."""
    store.hung = lambda: clock.turn(10)
    store.lose_next("swap", "before")


def test_a_claim_is_asked_again_where_the_store_hung_and_an_end_is_left_to_its_caller(
    node: HandNode, store: Wire, clock: HandClock
) -> None:
    """Who claims has nothing to lose; an end is to be written down before another call hangs as long."""
    granted(node, SLOT, overlap="allow")
    hangs(store, clock)
    grant = granted(node, Slot("billing", START + timedelta(seconds=1)), overlap="allow")
    hangs(store, clock)
    (answer,), _ = node.do(node.ledger.exchange([(grant, Finish(grant.fence, Outcome.SUCCEEDED), False)], []))
    assert isinstance(answer, Unsure)
    store.calls.clear()
    (answer,), _ = node.do(node.ledger.exchange([(grant, Finish(grant.fence, Outcome.SUCCEEDED), False)], []))
    assert (answer, store.calls) == (Finished(Outcome.SUCCEEDED), ["swap"])
