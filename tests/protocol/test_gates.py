"""The gates: what keeps a command from the table, and in which order."""

from datetime import timedelta

import pytest

from cronce.model import Cell, Epoch, Fence, Origin, Slot, Traits, to_us
from cronce.protocol.commands import (
    Answer,
    Ask,
    Claim,
    Closed,
    Command,
    Decision,
    Finish,
    Paused,
    Queue,
    Resolve,
    Settle,
    Skip,
    Superseded,
    Unsure,
)
from cronce.protocol.decide import decide
from cronce.protocol.gates import GATES, first_floor, floor_of, job_of
from cronce.protocol.record import FORGOTTEN, Act, Maker, Outcome
from cronce.protocol.view import View
from tests.protocol.views import AT, JOB, NOW, SLOT, claimable

SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=30)
CLAIM = Claim("0a", "web-1", LEASE, "skip")
BY_HAND = SLOT._replace(request="again-1")
PAUSED = JOB._replace(paused=Act("ann", AT, "moving"))


def answered(view: View, command: Command) -> Answer:
    decision = decide(view, command)
    assert isinstance(decision, Decision)
    return decision.answer


def test_the_gates_are_tried_in_this_order() -> None:
    assert [gate.__name__ for gate in GATES] == ["asked_before_forgetting", "paused", "superseded", "unasked"]


@pytest.mark.parametrize("view", [claimable(PAUSED), claimable(halted=True)], ids=["the job", "all jobs"])
def test_while_paused_nothing_starts_and_what_people_ask_for_is_put_on_record(view: View) -> None:
    assert answered(view, CLAIM) == Paused()
    assert answered(view, Queue(digest="v1")) == Paused()
    for command in (Queue(by="ann"), Skip("not today"), Settle(), Ask("stop"), Resolve("done", "seen")):
        assert not isinstance(answered(view, command), Paused)


def test_a_run_ends_while_its_job_is_paused() -> None:
    assert not isinstance(answered(claimable(PAUSED), Finish(Fence(1, 1), Outcome.SUCCEEDED)), Paused)


@pytest.mark.parametrize(
    ("command", "stopped"),
    [
        (CLAIM._replace(digest="v0"), True),
        (Queue(digest="v0"), True),
        (CLAIM._replace(digest="v1"), False),
        (CLAIM, False),
        (Queue(), False),
        (Skip("why"), False),
    ],
)
def test_a_version_that_does_not_fire_the_job_starts_nothing(command: Command, stopped: bool) -> None:
    assert (answered(claimable(), command) == Superseded("v1")) is stopped


def test_paused_goes_before_superseded() -> None:
    assert answered(claimable(PAUSED), CLAIM._replace(digest="v0")) == Paused()


def test_a_claim_never_makes_what_people_ask_for() -> None:
    view = claimable(slot=BY_HAND, run=Cell(BY_HAND.cell))
    assert answered(view, CLAIM) == Closed(Outcome.TOO_OLD, "the request for it was withdrawn")
    assert not isinstance(answered(view, Queue(by="ann")), Closed)


@pytest.mark.parametrize(("unheard_in", "unsure"), [(0, False), (1, False), (7, True)])
def test_what_was_asked_for_in_an_earlier_life_of_the_store_is_not_asked_for_again(
    unheard_in: int, unsure: bool
) -> None:
    view = claimable(slot=BY_HAND, run=Cell(BY_HAND.cell), unheard_in=unheard_in)
    assert isinstance(answered(view, Queue(by="ann")), Unsure) is unsure


def test_a_slot_of_the_schedule_is_claimed_again_whatever_was_unheard() -> None:
    assert not isinstance(answered(claimable(unheard_in=7), CLAIM), Unsure)


# --- the job ---


def test_a_new_job_begins_now_or_right_before_the_slot_that_was_fired_from_outside() -> None:
    assert first_floor(NOW, None) == NOW
    assert first_floor(NOW, AT) == AT - SECOND
    assert first_floor(NOW, NOW + LEASE) == NOW - SECOND, "a trigger that is early closes no slot of the others"


def test_a_new_job_is_put_on_record_beside_its_first_claim() -> None:
    decision = decide(claimable(None), CLAIM._replace(first=AT))
    assert isinstance(decision, Decision)
    assert decision.job is not None
    assert decision.job.floor == AT - SECOND


def test_after_the_store_forgot_the_floor_is_its_birth() -> None:
    epoch = Epoch(to_us(AT + SECOND), origin=Origin.FOUND)
    view = claimable(epoch=epoch, traits=Traits("model", skew=SECOND))
    assert floor_of(view, CLAIM) == AT + 2 * SECOND
    job = job_of(view, CLAIM)
    assert job is not None
    assert job.spans[-1].reason == FORGOTTEN


def test_what_has_no_floor() -> None:
    epoch = Epoch(to_us(AT), origin=Origin.FOUND)
    lock = claimable(slot=None, known=None, epoch=epoch)
    assert floor_of(lock, CLAIM) is None
    assert floor_of(claimable(slot=BY_HAND), CLAIM) is None
    step = CLAIM._replace(under=Maker(Slot("billing", AT).cell, Fence(1, 1)))
    assert floor_of(lock, step) == AT, "a step of a slot from before the store forgot may have been done"
