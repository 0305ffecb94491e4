"""What a process knows of when the store answered its writes, on a clock that is turned by hand."""

from datetime import timedelta

from cronce.protocol.commands import Closed, Finished, Held
from cronce.protocol.lease import Sample
from cronce.protocol.record import Outcome
from cronce.runtime.client import PROBE_WRITE, Contacts
from cronce.runtime.ledger import Wanted
from tests.runtime.shelf import SLOT, START, HandClock, HandNode, granted, terms

AGO = timedelta(hours=1)


class Ear:
    """Contacts, and what was heard at the last of them."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.contacts = Contacts(self.clock)

    def answer(self, *boots: float, took: float = 0.0) -> None:
        for boot in boots:
            self.contacts.answered(boot - took, boot)

    def heard(self, boot: float) -> float:
        return self.contacts.heard(Sample(boot, boot, START), AGO).total_seconds()


def test_answers_at_most_two_seconds_apart_are_one_piece_of_contact() -> None:
    ear = Ear()
    ear.answer(4000, 4002, 4004)
    assert ear.heard(4004) == 4
    ear.answer(4006.1)
    assert ear.heard(4006.1) == 0  # another piece, which is too short so far
    ear.answer(4007.1)
    assert ear.heard(4007.1) == 5


def test_a_slow_answer_and_a_failed_write_break_contact() -> None:
    ear = Ear()
    ear.answer(4000, 4001)
    ear.answer(4002.5, took=1.2)
    ear.answer(4002.6, 4003.6)
    assert ear.heard(4003.6) == 2
    ear.contacts.broke(began=4003.6)
    ear.answer(4004)
    assert ear.heard(4004) == 0


def test_what_began_before_a_write_that_was_answered_breaks_nothing() -> None:
    """Calls that hung in an outage end one by one, when it is long over."""
    ear = Ear()
    ear.answer(4000, 4001)
    ear.contacts.broke(began=3999)
    ear.answer(4001.5, took=4)
    ear.answer(4002)
    assert ear.heard(4002) == 2


def test_an_answer_that_comes_late_takes_nothing_back() -> None:
    ear = Ear()
    ear.answer(4000, 4001, 4000.5)
    assert ear.heard(4001) == 1


# --- at a store ---


def claims(node: HandNode) -> object:
    (answer,) = node.do(node.ledger.claim([Wanted(SLOT, terms(), known=True)]))
    return answer


def looks_on(node: HandNode, clock: HandClock, seconds: int) -> None:
    for _ in range(seconds):
        clock.turn(1.0)
        node.do(node.ledger.overdue())


def test_who_only_read_hears_the_holder_first_and_writes_meanwhile(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    """Its looks prove that the clock ran evenly, and nothing of whether the store could be written to."""
    granted(node)
    looks_on(other, clock, 12)
    for _ in range(4):
        assert isinstance(claims(other), Held)
        clock.turn(1.0)
    assert claims(other) == Closed(Outcome.LOST, "its holder web-1 did not renew its lease")


def test_only_near_the_end_of_a_lease_something_is_written(node: HandNode, other: HandNode, clock: HandClock) -> None:
    granted(node)
    assert isinstance(claims(other), Held)
    assert other.store.load([PROBE_WRITE.key]).cells[0].version == 0
    clock.turn(5.0)
    assert isinstance(claims(other), Held)
    assert other.store.load([PROBE_WRITE.key]).cells[0].version > 0


def test_after_the_store_was_read_only_the_holder_is_heard_first(
    node: HandNode, other: HandNode, clock: HandClock
) -> None:
    grant = granted(node)
    looks_on(other, clock, 5)
    other.store.lose = lambda call: "before" if call == "swap" else ""
    for _ in range(20):
        clock.turn(1.0)
        assert isinstance(claims(other), Held)
    other.store.lose = lambda _call: ""
    assert isinstance(claims(other), Held)
    assert isinstance(node.do(node.ledger.finish(grant, Outcome.SUCCEEDED)), Finished)
