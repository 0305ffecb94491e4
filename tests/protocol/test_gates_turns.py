"""Turns: which one a grant takes, and what a claim becomes when none is free."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.model import Cell, Instant, Mark
from cronce.policy import Overlap
from cronce.protocol.commands import Ask, Busy, Claim, Early, Queue, Settle, Skip
from cronce.protocol.gates import DECIDE_AGAIN, Need, NoTurn, free_turn, no_turn
from cronce.protocol.record import Record, State, Turn, encode_turn
from cronce.protocol.view import View
from tests.protocol.views import AT, NOW, SLOT, claimable

SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=30)
BEFORE = SLOT._replace(at=AT - timedelta(hours=1)).cell
AFTER = SLOT._replace(at=AT + SECOND).cell


def turn(number: int, run: str = "", until: Instant = NOW + LEASE) -> Cell:
    taken = encode_turn(Turn(run))
    return Cell(f"turn/billing/{number}", 5 + number, taken, mark=Mark.OPEN if run else Mark.FREE, until=until)


def claim(overlap: Overlap = "skip", nonce: str = "00", **fields: Any) -> Claim:
    return Claim(nonce, "web-1", LEASE, "skip", overlap=overlap, **fields)


def view(*turns: Cell, **fields: Any) -> View:
    return claimable(turns=turns, **fields)


# --- a free one ---


def test_claimants_begin_at_different_turns() -> None:
    free = view(turn(0), turn(1), Cell("turn/billing/2"))
    assert [free_turn(free, claim(nonce=f"0000000{n}")) for n in range(4)] == [*free.turns, free.turns[0]]


def test_a_turn_that_is_held_or_promised_is_passed_over() -> None:
    turns = (turn(0, BEFORE), turn(1), turn(2))
    assert free_turn(view(*turns, reserved={"turn/billing/1"}), claim()) == turns[2]
    assert free_turn(view(*turns, reserved={"turn/billing/1", "turn/billing/2"}), claim()) is None


# --- none ---


def test_nothing_is_said_of_turns_before_its_time_has_come() -> None:
    assert no_turn(view(turn(0, BEFORE)), claim(delay=timedelta(minutes=1))) == NoTurn(Early(AT + timedelta(minutes=1)))


@pytest.mark.parametrize("overlap", ["skip", "wait", "replace"])
def test_nothing_is_closed_on_a_turn_that_is_only_promised(overlap: Overlap) -> None:
    promised = view(turn(0, BEFORE), turn(1), reserved={"turn/billing/1"})
    assert no_turn(promised, claim(overlap)) == DECIDE_AGAIN


def test_a_run_whose_lease_is_over_is_settled_first() -> None:
    lapsed = view(turn(0, BEFORE, until=NOW), turn(1, AFTER))
    assert no_turn(lapsed, claim()) == Need(first=((BEFORE, Settle()),))
    assert no_turn(lapsed._replace(beside={BEFORE: False}), claim()) == DECIDE_AGAIN, "it is being settled"
    assert no_turn(lapsed._replace(beside={BEFORE: True}), claim()) == NoTurn(Busy(BEFORE, NOW)), "it could not be"


def test_what_was_granted_before_waits_whatever_the_overlap() -> None:
    retried = view(turn(0, BEFORE), record=Record(State.RETRYING, grant=1))
    assert no_turn(retried, claim("skip")) == NoTurn(Busy(BEFORE, NOW + LEASE))


def test_under_skip_the_slot_is_closed_with_the_reason() -> None:
    assert no_turn(view(turn(0, BEFORE)), claim("skip", first=AT)) == NoTurn(
        Skip("billing@2026-03-29T00:00:00Z had not ended", first=AT)
    )


def test_the_run_that_is_named_is_the_one_whose_lease_ends_first() -> None:
    turns = view(turn(0, AFTER, until=NOW + LEASE), turn(1, BEFORE, until=NOW + SECOND))
    assert no_turn(turns, claim("wait", nonce="ff")) == NoTurn(Queue(waiting=True))
    waiting = turns._replace(record=Record(State.WAITING))
    assert no_turn(waiting, claim("wait")) == NoTurn(Busy(BEFORE, NOW + SECOND))


def test_under_replace_an_earlier_run_is_asked_to_stop() -> None:
    asked = ((BEFORE, Ask(f"replaced by {SLOT.cell}")),)
    assert no_turn(view(turn(0, BEFORE)), claim("replace")) == NoTurn(Queue(waiting=True), asked)
    waiting = view(turn(0, BEFORE), record=Record(State.WAITING))
    assert no_turn(waiting, claim("replace")) == NoTurn(Busy(BEFORE, NOW + LEASE), asked)
    assert no_turn(waiting._replace(beside={BEFORE: True}), claim("replace")) == NoTurn(Busy(BEFORE, NOW + LEASE))


def test_under_replace_a_later_run_is_not_asked_to_stop() -> None:
    assert no_turn(view(turn(0, AFTER)), claim("replace")) == NoTurn(Queue(waiting=True))
