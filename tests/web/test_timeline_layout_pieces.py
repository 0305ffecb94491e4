"""What a timeline shows: every grant, every handover, every refusal in sight, each in the lane of whoever it was."""

from datetime import timedelta

import pytest

from cronce.model import Slot
from cronce.protocol.notices import Refused
from cronce.protocol.record import Outcome, Past, Record, State
from cronce.web.timeline_layout import PIECE_LOOKS, TimelineFacts, TimelinePiece, gather
from tests.web.pictures import END, NOW, START, A, B, C, ago, fence, lapsed, ran, runs, seen, skipped


def facts(*given: object, refused: tuple[tuple[str, Refused], ...] = ()) -> TimelineFacts:
    return gather(given, refused, START, END, NOW)  # type: ignore[arg-type]


def only(found: TimelineFacts) -> TimelinePiece:
    (piece,) = found.pieces
    return piece


def test_a_run_is_a_bar_from_its_start_to_its_end_and_knows_how_late_it_was() -> None:
    piece = only(facts(ran("billing", 100, started=97.5, ended=50)))
    assert (piece.shape, piece.look, piece.holder, piece.job) == ("bar", "succeeded", A, "billing")
    assert (piece.due, piece.start, piece.end, piece.until) == (ago(100), ago(97.5), ago(50), None)
    assert piece.told == (
        f"billing@2026-03-29T11:58:20Z: succeeded on {A}, from 2026-03-29T11:58:22.500Z to 2026-03-29T11:59:10Z (48s);"
        " started 2.5s after its slot"
    )


def test_what_runs_is_drawn_up_to_now_and_its_lease_beyond() -> None:
    piece = only(facts(runs("sync", 60, A, started=60, until=-20)))
    assert (piece.look, piece.end, piece.until) == ("running", NOW, ago(-20))
    assert piece.told.endswith("its lease ends at 2026-03-29T12:00:20Z")


def test_what_lapsed_ends_where_its_lease_did_though_nobody_acted_on_it() -> None:
    piece = only(facts(runs("sync", 60, A, started=60, until=5)))
    assert (piece.look, piece.end) == ("lapsed", ago(5))


def test_a_takeover_is_two_bars_and_a_handover() -> None:
    found = facts(ran("sync", 300, B, started=260, ended=200, past=(lapsed(A, 299, 260),)))
    first, second = found.pieces
    assert (first.look, first.holder, first.start, first.end) == ("lapsed", A, ago(299), ago(260))
    assert (second.look, second.holder, second.start, second.end) == ("succeeded", B, ago(260), ago(200))
    assert (first.due, second.due) == (ago(300), None)  # only its first start is late by its slot
    assert found.handovers == [0]


def test_what_was_taken_over_again_is_two_handovers_also_after_other_runs() -> None:
    past = (lapsed(A, 299, 260), lapsed(B, 260, 230))
    found = facts(ran("probe", 400), runs("sync", 300, C, started=230, until=-5, past=past))
    assert [piece.holder for piece in found.pieces] == [A, A, B, C]
    assert found.handovers == [1, 2]


def test_a_retry_is_no_takeover() -> None:
    past = (Past(fence(), A, ago(299), "failed: SMTP", ago(290)),)
    found = facts(ran("mail", 300, B, started=280, ended=270, past=past))
    assert [piece.look for piece in found.pieces] == ["failed", "succeeded"]
    assert found.pieces[0].told.endswith(": failed: SMTP; started 1s after its slot")
    assert found.handovers == []


@pytest.mark.parametrize(
    ("was", "reason", "said"),
    [
        (Past(fence(), A, ago(400), "lost", ago(300)), "resolved: by ana: looked", ""),
        (
            Past(fence(), A, ago(400), "lost, retried: by ana: looked", ago(300), ago(100)),
            "",
            ": lost, retried: by ana: looked at 2026-03-29T11:58:20Z",
        ),
    ],
)
def test_what_somebody_resolved_later_is_drawn_to_when_it_was_found_lost(was: Past, reason: str, said: str) -> None:
    record = Record(State.CLOSED, 1, "n", A, timedelta(seconds=30), started=ago(400), finished=ago(100), past=(was,))
    closed = record._replace(outcome=Outcome.SUCCEEDED, reason=reason)
    piece = only(facts(seen(Slot("mail", ago(400)), closed, was.fence)))
    assert (piece.look, piece.start, piece.end) == ("lost", ago(400), ago(300))
    assert piece.told == (
        f"mail@2026-03-29T11:53:20Z: lost on {A}, from 2026-03-29T11:53:20Z to 2026-03-29T11:55:00Z (1m 40s){said}"
    )


@pytest.mark.parametrize(
    ("end", "look"),
    [
        ("lapsed", "lapsed"),
        ("released", "given back"),
        ("never started", "given back"),
        ("lost", "lost"),
        ("unknown, retried: looked", "unknown"),
        ("failed", "failed"),
    ],
)
def test_how_an_earlier_grant_ended_is_seen(end: str, look: str) -> None:
    past = Past(fence(), A, ago(299), end, ago(290))
    assert facts(ran("mail", 300, B, started=280, past=(past,))).pieces[0].look == look


def test_what_waits_for_its_next_try_is_a_mark_at_the_time_of_that() -> None:
    was = Past(fence(), A, ago(299), "failed", ago(290))
    record = Record(State.RETRYING, 1, holder=A, started=ago(299), past=(was,))
    first, mark = facts(seen(Slot("mail", ago(300)), record, was.fence, until=ago(-30))).pieces
    assert first.look == "failed"
    assert (mark.shape, mark.look, mark.holder, mark.start) == ("mark", "retrying", A, ago(-30))


def test_a_slot_that_nobody_ran_is_a_mark_at_its_instant_and_nobodys() -> None:
    piece = only(facts(skipped("report", 120)))
    assert (piece.shape, piece.look, piece.holder, piece.start, piece.end) == (
        "mark",
        "skipped",
        "",
        ago(120),
        ago(120),
    )
    assert piece.told == "report@2026-03-29T11:58:00Z: skipped (too late to start)"


def test_a_record_that_cannot_be_read_is_a_mark_too() -> None:
    piece = only(facts(seen(Slot("x", ago(10)), None)))
    assert (piece.shape, piece.look) == ("mark", "unreadable")
    assert "it has a newer format" in piece.told


def test_a_run_by_hand_is_not_late_by_the_slot_that_it_repeats() -> None:
    by_hand = ran("billing", 300, started=100)
    by_hand = by_hand._replace(slot=by_hand.slot._replace(request="rerun-1"))
    assert only(facts(by_hand)).due is None


def test_a_refused_duplicate_is_a_ghost_of_whoever_was_refused_and_of_no_length() -> None:
    """It was as long as the run, and looked like one."""
    run = ran("sync", 300, A, started=300, ended=260)
    refused = Refused(run.slot.key, ago(299), f"{B}: {run.slot.key} is held by {A}")
    _, ghost = facts(run, refused=(("web-2", refused),)).pieces
    assert (ghost.shape, ghost.look, ghost.holder, ghost.job) == ("ghost", "refused", B, "sync")
    assert (ghost.start, ghost.end) == (ago(299), ago(299))
    assert ghost.told == f"{run.slot.key} at 2026-03-29T11:55:01Z: {B} was refused: {run.slot.key} is held by {A}"


def test_the_ghost_of_a_slot_that_had_ended_says_what_its_page_says() -> None:
    """Here it *was refused*, and there it *did not run it*."""
    refused = Refused("sync@2026-03-29T11:55:00Z", ago(299), f"{B}: it is closed: succeeded")
    ghost = only(facts(refused=(("web-2", refused),)))
    assert (
        ghost.told == f"sync@2026-03-29T11:55:00Z at 2026-03-29T11:55:01Z: {B} did not run it: it had succeeded already"
    )


def test_a_refusal_that_does_not_say_which_process_is_its_hosts() -> None:
    ghost = only(facts(refused=(("web-2", Refused("sync@2026-03-29T11:55:00Z", ago(299), "held: by another")),)))
    assert (ghost.holder, ghost.start, ghost.end) == ("web-2", ago(299), ago(299))


def test_who_was_refused_a_slot_that_nobody_ran_was_not_refused_a_duplicate() -> None:
    run = skipped("sync", 300, "an earlier one had not ended")
    assert len(facts(run, refused=(("web-2", Refused(run.slot.key, ago(299), f"{B}: skipped")),)).pieces) == 1


def test_only_what_is_in_sight_is_shown() -> None:
    before, after = ran("a", 700, ended=601), ran("b", -100, started=-100, ended=-101)
    into, out = ran("c", 700, ended=599), runs("d", 5, A, started=5, until=-300)
    far = (("web-1", Refused("a@2026-03-29T11:00:00Z", ago(601), "no")),)
    assert [piece.job for piece in facts(before, into, out, after, refused=far).pieces] == ["c", "d"]


def test_a_lease_is_in_sight_also_where_its_run_is_not() -> None:
    run = runs("sync", 60, A, started=60, until=-20)
    assert len(gather([run], [], ago(-10), ago(-50), NOW).pieces) == 1
    assert gather([run], [], ago(-21), ago(-50), NOW).pieces == ()


def test_a_handover_of_which_one_end_is_out_of_sight_is_not_drawn() -> None:
    found = facts(ran("sync", 900, B, started=590, ended=500, past=(lapsed(A, 899, 601),)))
    assert (len(found.pieces), found.handovers) == (1, [])


def test_what_would_move_a_cursor_is_escaped() -> None:
    assert r"\x1b" in only(facts(ran("x", 100, reason="\x1b[2J", outcome=Outcome.FAILED))).told


def test_every_state_and_outcome_has_a_look() -> None:
    assert {*map(str, State), *map(str, Outcome)} - {*PIECE_LOOKS} == {"closed"}


def test_a_picture_has_no_negative_spans() -> None:
    """The store's clock, by which a run started, may be ahead of the now that was read before."""
    piece = only(facts(runs("sync", 0, A, started=-0.5, until=-20)))
    assert piece.end - piece.start == timedelta(0)
