"""`decide`: gates, table and turns together, and the writes that make the answer true."""

from datetime import timedelta
from typing import Any

import pytest

from cronce.model import ABSENT, FREE, Cell, Epoch, Fence, Mark, Origin, Refusal, to_us
from cronce.protocol.commands import (
    Ask,
    Busy,
    Claim,
    Closed,
    Decision,
    Early,
    Finish,
    Granted,
    Held,
    Queue,
    Queued,
    Renew,
    Resolve,
    Settle,
    Settled,
    Skip,
    Stale,
)
from cronce.protocol.decide import decide, job_write, refused, writes_of
from cronce.protocol.gates import DECIDE_AGAIN, Need
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE
from cronce.protocol.record import Maker, Outcome, Record, State, Turn, decode, decode_job, decode_turn, encode_turn
from cronce.protocol.store_clock import HARMLESS_ERROR
from cronce.protocol.view import View
from tests.protocol.views import AT, JOB, NOW, SLOT, claimable

SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=30)
BEFORE = SLOT._replace(at=AT - timedelta(hours=1)).cell
FENCE = Fence(1, 7)
FREE_TURN = Cell("turn/billing/0")
TAKEN = Cell("turn/billing/0", 4, encode_turn(Turn(BEFORE)), mark=Mark.OPEN, until=NOW + LEASE)
MINE = Cell("turn/billing/0", 6, encode_turn(Turn(SLOT.cell)), mark=Mark.OPEN, until=NOW + LEASE)
RUNNING = claimable(
    run=Cell(SLOT.cell, 9, "…", AT, Mark.OPEN, FENCE, NOW + LEASE),
    record=Record(State.RUNNING, 1, "0a", "web-1", LEASE, "rerun", turn="turn/billing/0"),
)


def claim(**fields: Any) -> Claim:
    return Claim("0a", "web-1", LEASE, "rerun")._replace(**fields)


def decided(view: View, command: Any) -> Decision:
    decision = decide(view, command)
    assert isinstance(decision, Decision)
    return decision


# --- what must be read first ---


def test_what_may_create_a_run_needs_the_job() -> None:
    for command in (claim(), Queue(), Skip("why")):
        assert decide(claimable(known=None), command) == DECIDE_AGAIN
    assert decided(RUNNING._replace(known=None, turns=(MINE,)), Renew(FENCE)).change is not None


def test_a_guess_leads_to_a_write_or_to_reading_but_never_to_a_refusal() -> None:
    below = claimable(JOB._replace(floor=AT))
    assert decided(below, claim()).answer == Closed(
        Outcome.TOO_OLD, "slots up to 2026-03-29T01:00:00Z are closed if they have no record"
    )
    assert decide(below._replace(guessed=True), claim()) == DECIDE_AGAIN
    assert decided(claimable(guessed=True), claim()).answer == Granted(1)


def test_whoever_changes_a_run_reads_its_turn() -> None:
    assert decide(RUNNING, Renew(FENCE)) == Need(turns=("turn/billing/0",))
    assert decided(RUNNING._replace(turns=(MINE,)), Renew(FENCE)).turn == MINE
    assert decided(RUNNING, claim(nonce="0b")).answer == Held("web-1", NOW + LEASE), "a refusal changes nothing"


# --- a claim that finds no turn ---


def test_the_claim_becomes_what_the_overlap_says() -> None:
    busy = claimable(turns=(TAKEN,))
    skipped = decided(busy, claim(overlap="skip"))
    assert skipped.answer == Closed(Outcome.SKIPPED, "billing@2026-03-29T00:00:00Z had not ended")
    assert skipped.change is not None
    assert (skipped.change.record.state, skipped.change.grant, skipped.turn) == (State.CLOSED, False, None)
    waits = decided(busy, claim(overlap="wait"))
    assert (waits.answer, waits.also) == (Queued(waiting=True), ())
    replaces = decided(busy, claim(overlap="replace"))
    assert (replaces.answer, replaces.also) == (
        Queued(waiting=True),
        ((BEFORE, Ask(f"replaced by {SLOT.cell}")),),
    )
    assert decided(busy, claim(delay=timedelta(hours=1))).answer == Early(AT + timedelta(hours=1))
    lapsed = busy._replace(turns=(TAKEN._replace(until=NOW),))
    assert decide(lapsed, claim()) == Need(first=((BEFORE, Settle()),))
    assert decided(lapsed._replace(beside={BEFORE: True}), claim()).answer == Busy(BEFORE, NOW)


def test_what_stood_in_the_way_is_settled_and_the_command_decided_again() -> None:
    assert Decision(Settled()).is_answer_to(Settle())
    assert not Decision(Settled()).is_answer_to(Queue())
    assert Decision(Granted(1)).is_answer_to(claim())


# --- the writes ---


def test_the_first_claim_of_a_slot_writes_the_run_and_its_turn_as_one_group() -> None:
    view = claimable(turns=(FREE_TURN,), number=12)
    command = claim(start_by=AT + timedelta(minutes=5), delay=SECOND)
    run, turn = writes_of(view, command, decided(view, command))
    assert (run.key, run.seen, run.at, run.mark, run.grant, run.ttl, run.group) == (
        SLOT.cell, ABSENT, AT, Mark.OPEN, True, LEASE, 12,
    )  # fmt: skip
    assert (run.not_before, run.not_after) == (AT + SECOND, NOW + FACTS_AGE)
    assert decode(run.value).turn == "turn/billing/0"
    assert (turn.key, turn.seen, turn.mark, turn.ttl, turn.group) == ("turn/billing/0", FREE, Mark.OPEN, LEASE, 12)
    assert decode_turn(turn.value).run == SLOT.cell


def test_without_a_turn_a_run_is_written_alone() -> None:
    (run,) = writes_of(claimable(), claim(), decided(claimable(), claim()))
    assert run.group is None


def test_a_run_that_ends_frees_the_turn_that_it_read() -> None:
    view, command = RUNNING._replace(turns=(MINE,), number=3), Finish(FENCE, Outcome.SUCCEEDED)
    run, turn = writes_of(view, command, decided(view, command))
    assert (run.seen, run.mark, run.not_before, run.not_after) == (9, Mark.CLOSED, None, None)
    assert (turn.seen, turn.mark, decode_turn(turn.value).run) == (6, Mark.FREE, "")


def test_a_refusal_writes_nothing() -> None:
    assert writes_of(RUNNING, claim(nonce="0b"), decided(RUNNING, claim(nonce="0b"))) == []


@pytest.mark.parametrize(
    ("start_by", "version", "expected"),
    [
        (None, 0, NOW + FACTS_AGE),
        (NOW + SECOND, 0, NOW + SECOND),
        (NOW + SECOND, 4, NOW + HARMLESS_ERROR),
        (None, 4, NOW + HARMLESS_ERROR),
    ],
)
def test_a_first_write_lands_while_the_facts_of_the_job_hold_and_before_its_deadline(
    start_by: Any, version: int, expected: Any
) -> None:
    view = claimable(run=Cell(SLOT.cell, version, at=AT, until=AT), record=Record(State.DUE) if version else None)
    (run,) = writes_of(view, claim(start_by=start_by), decided(view, claim(start_by=start_by)))
    assert run.not_after == expected


def test_after_the_store_forgot_what_others_may_hold_is_granted_one_lease_later() -> None:
    born = AT - SECOND
    forgot = Epoch(to_us(born), origin=Origin.FOUND)
    limited = claimable(JOB._replace(floor=born), turns=(FREE_TURN,), epoch=forgot)
    free = limited._replace(turns=())
    lock = claimable(slot=None, known=None, run=Cell("lock/reindex"), epoch=forgot)
    assert writes_of(limited, claim(), decided(limited, claim()))[0].not_before == born + LEASE
    assert writes_of(free, claim(), decided(free, claim()))[0].not_before == AT
    assert writes_of(lock, claim(), decided(lock, claim()))[0].not_before == born + LOCK_LEASE
    assert writes_of(lock, claim(keep=SECOND), decided(lock, claim(keep=SECOND)))[0].not_before == born + LEASE


def test_a_step_lands_before_the_lease_of_its_run_is_over() -> None:
    step = claimable(slot=None, known=None, run=Cell("effect/billing/x/mail", at=AT))
    command = claim(under=Maker(SLOT.cell, FENCE), lands_by=NOW + LEASE)
    (write,) = writes_of(step, command, decided(step, command))
    assert (write.not_before, write.not_after) == (None, NOW + LEASE)


def test_a_new_job_is_written_with_the_version_that_was_read() -> None:
    view = claimable(None)
    job = decided(view, claim()).job
    assert job is not None
    write = job_write(view, job)
    assert (write.key, write.seen, decode_job(write.value).floor) == ("job/billing", ABSENT, NOW)
    assert decided(claimable(), claim()).job is None


def test_what_a_write_means_that_came_too_early_or_too_late() -> None:
    assert refused(claim(), AT, {Refusal.EARLY, Refusal.GROUP}) == Early(AT)
    assert refused(claim(), AT, {Refusal.LATE}) is None, "its facts are too old: read them again"
    assert refused(claim(), AT, {Refusal.GROUP}) is None, "the reason is another's: read again"
    assert refused(Finish(FENCE, Outcome.FAILED), AT, {Refusal.EARLY}) is None, "it is no answer to an end"
    assert refused(claim(lands_by=AT), None, {Refusal.LATE}) == Stale("")


def test_a_rerun_that_succeeded_settles_what_it_ran_again() -> None:
    again = SLOT._replace(request="rerun-1")
    view = RUNNING._replace(slot=again, run=RUNNING.run._replace(key=again.cell), turns=(MINE,))
    settles = ((SLOT.cell, Resolve("done", f"by {again.key}")),)
    ended = decided(view, Finish(FENCE, Outcome.SUCCEEDED))
    assert ended.also == settles
    assert decided(view, Finish(FENCE, Outcome.FAILED)).also == ()
    assert decided(RUNNING._replace(turns=(MINE,)), Finish(FENCE, Outcome.SUCCEEDED)).also == ()
    assert ended.change is not None
    said_again = view._replace(record=ended.change.record, turns=())
    assert decided(said_again, Finish(FENCE, Outcome.SUCCEEDED)).also == settles, "its reply was lost"


@pytest.mark.parametrize(
    ("request_", "settled"),
    [
        ("backfill", [""]),
        ("backfill:rerun-2", ["backfill", ""]),
        ("t-1:rerun-1", ["t-1"]),
        ("t-1", []),
        ("rerun-1", [""]),
    ],
)
def test_what_a_run_by_hand_settles_if_it_succeeds(request_: str, settled: list[str]) -> None:
    """A slot that had failed stayed so after its backfill, and was run once more on our advice."""
    by_hand = SLOT._replace(request=request_)
    view = RUNNING._replace(slot=by_hand, run=RUNNING.run._replace(key=by_hand.cell), turns=(MINE,))
    done = Resolve("done", f"by {by_hand.key}")
    expected = tuple((SLOT._replace(request=one).cell, done) for one in settled)
    assert decided(view, Finish(FENCE, Outcome.SUCCEEDED)).also == expected
