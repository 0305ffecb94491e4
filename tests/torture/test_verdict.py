"""The verdict holds the ledger file against the store's record: each column can be as it should be, and not."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from cronce.policy import OnLost
from cronce.protocol.record import LAPSED, RELEASED, Outcome
from cronce.testing.ledger_file import LedgerLine, parse
from cronce.torture.verdict import PurgedSpan, TortureRecord, TortureVerdict, added, judge, lets_another_run

AT = datetime(2026, 3, 29, 8, 17, tzinfo=UTC)
ONE, TWO = "job@1", "job@2"
SLOTS = {ONE: AT, TWO: AT + timedelta(seconds=1)}
DONE = TortureRecord(Outcome.SUCCEEDED, "f9")
WELL = (f"start b {TWO} f9 20", f"done b {TWO} f9 21", f"accepted b {TWO} f9 21")
"""A second slot in which nothing happens."""


def book(*texts: str) -> list[LedgerLine]:
    """Lines as `what who slot fence when`."""
    return parse("{} {} {} {} 1 {}".format(*text.split()) for text in texts)


def judged(
    *texts: str,
    record: TortureRecord | None = None,
    on_lost: OnLost = "skip",
    gaps: Sequence[PurgedSpan] = (),
    exclusive: bool = False,
    others: Mapping[str, TortureRecord] | None = None,
) -> TortureVerdict:
    """The verdict on what these lines say of the first slot, while all is well with the second."""
    records = {TWO: DONE, **(others or {})} | ({ONE: record} if record else {})
    return judge(SLOTS, book(*texts, *WELL), records, gaps, on_lost, exclusive=exclusive)


def one(fence: str = "f1", who: str = "a", begin: int = 1, *whats: str) -> list[str]:
    words = whats or ("start", "step", "done", "accepted")
    return [f"{what} {who} {ONE} {fence} {begin + number}" for number, what in enumerate(words)]


RAN = TortureRecord(Outcome.SUCCEEDED, "f1")


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_each_slot_once_is_as_it_should_be(on_lost: OnLost) -> None:
    verdict = judged(*one(), record=RAN, on_lost=on_lost)
    assert verdict == TortureVerdict(slots=2, runs=2, on_lost=on_lost)
    assert verdict.passed(forgot=False)


# --- missed ---


def test_a_slot_neither_run_nor_on_record_is_missed() -> None:
    verdict = judged()
    assert verdict == TortureVerdict(slots=2, runs=1, missed=1)
    assert not verdict.passed(forgot=False)


def test_a_slot_that_the_store_calls_succeeded_and_no_body_completed_is_missed() -> None:
    assert judged(record=RAN) == TortureVerdict(slots=2, runs=1, missed=1)
    assert judged(*one("f1", "a", 1, "start", "step"), record=RAN).missed == 1


def test_a_slot_that_never_closed_is_missed_even_if_a_body_completed() -> None:
    assert judged(*one("f1", "a", 1, "start", "done"), record=TortureRecord(None, "f1")) == TortureVerdict(
        slots=2, runs=2, missed=1
    )
    assert judged(*one("f1", "a", 1, "start", "done")).missed == 1


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.FAILED, Outcome.SKIPPED])
def test_what_is_on_record_for_a_reason_is_not_missed_under_skip_and_is_under_rerun(outcome: Outcome) -> None:
    started = one("f1", "a", 1, "start")
    assert judged(*started, record=TortureRecord(outcome, "f1")).missed == 0
    assert judged(*started, record=TortureRecord(outcome, "f1")).passed(forgot=False)
    assert judged(*started, record=TortureRecord(outcome, "f1"), on_lost="rerun").missed == 1


# --- what adds up ---

START, RUN = ("start",), ("start", "done")


@pytest.mark.parametrize(
    ("acts", "outcome", "on_lost", "verdict", "twice"),
    [
        (RUN, Outcome.SUCCEEDED, "skip", TortureVerdict(2, 2), 0),
        (START, Outcome.LOST, "skip", TortureVerdict(2, 1, lost=1), 0),
        (START, Outcome.FAILED, "skip", TortureVerdict(2, 1, failed=1), 0),
        (START, Outcome.SKIPPED, "skip", TortureVerdict(2, 1, skipped=1), 0),
        (START, Outcome.UNKNOWN, "skip", TortureVerdict(2, 1, unknown=1), 0),
        (START, None, "skip", TortureVerdict(2, 1, missed=1), 0),
        (RUN, Outcome.LOST, "skip", TortureVerdict(2, 2, lost=1), 1),
        (RUN, Outcome.UNKNOWN, "skip", TortureVerdict(2, 2, unknown=1), 1),
        (RUN, None, "skip", TortureVerdict(2, 2, missed=1), 1),
        (START, Outcome.LOST, "rerun", TortureVerdict(2, 1, missed=1, lost=1, on_lost="rerun"), 1),
    ],
)
def test_the_slots_add_up_but_for_those_that_are_counted_twice(
    acts: tuple[str, ...], outcome: Outcome | None, on_lost: OnLost, verdict: TortureVerdict, twice: int
) -> None:
    found = judged(*one("f1", "a", 1, *acts), record=TortureRecord(outcome, "f1"), on_lost=on_lost)
    assert (found, found.twice) == (verdict, twice)


# --- lost and unknown ---


def test_lost_slots_are_a_column_and_under_rerun_there_are_none() -> None:
    record = TortureRecord(Outcome.LOST, "f1")
    assert judged(*one("f1", "a", 1, "start"), record=record) == TortureVerdict(slots=2, runs=1, lost=1)
    assert judged(*one("f1", "a", 1, "start", "done"), record=record) == TortureVerdict(slots=2, runs=2, lost=1)
    assert not judged(*one(), record=record, on_lost="rerun").passed(forgot=False)


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_what_the_store_forgot_is_unknown_where_it_says_so(on_lost: OnLost) -> None:
    gap = PurgedSpan(None, AT)
    for verdict in (
        judged(gaps=[gap], on_lost=on_lost),
        judged(record=TortureRecord(Outcome.UNKNOWN), on_lost=on_lost),
    ):
        assert verdict == TortureVerdict(slots=2, runs=1, unknown=1, on_lost=on_lost)
        assert verdict.passed(forgot=True)
        assert not verdict.passed(forgot=False)


def test_a_gap_begins_after_what_is_still_known_and_ends_with_the_birth() -> None:
    second = timedelta(seconds=1)
    assert judged(gaps=[PurgedSpan(AT - second, AT)]).unknown == 1
    assert judged(gaps=[PurgedSpan(AT, AT + second)]).missed == 1
    assert judged(gaps=[PurgedSpan(None, AT - second)]).missed == 1
    assert judged(*one(), record=RAN, gaps=[PurgedSpan(None, AT + second)]).unknown == 0


# --- extra ---


def test_under_skip_every_second_start_is_extra_whatever_the_store_says() -> None:
    lines = (*one("f1", "a", 1, "start"), *one("f2", "b", 5))
    for record in (TortureRecord(Outcome.SUCCEEDED, "f2"), TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))):
        assert judged(*lines, record=record) == TortureVerdict(slots=2, runs=2, extra=1)


def test_under_rerun_a_takeover_on_record_explains_a_second_start() -> None:
    lines = (*one("f1", "a", 1, "start"), *one("f2", "b", 5))
    taken_over = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    verdict = judged(*lines, record=taken_over, on_lost="rerun")
    assert verdict == TortureVerdict(slots=2, runs=2, taken_over=1, on_lost="rerun")
    assert judged(*lines, record=TortureRecord(Outcome.SUCCEEDED, "f2"), on_lost="rerun").extra == 1


def test_a_takeover_explains_one_start_under_a_higher_fence() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f1", frozenset(["f1"]))
    lines = (*one("f1", "a", 1, "start"), *one("f1", "b", 5, "start", "done"))
    assert judged(*lines, record=record, on_lost="rerun").extra == 1


def test_two_ends_that_the_store_accepted_are_one_too_many() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    verdict = judged(*one("f1", "a", 1), *one("f2", "b", 9), record=record, on_lost="rerun")
    assert (verdict.extra, verdict.stale_accepted, verdict.taken_over) == (1, 1, 1)


def test_a_body_that_started_and_ended_twice_is_one_too_many_not_two() -> None:
    lines = (*one("f1", "a", 1), *one("f2", "b", 9))
    assert judged(*lines, record=TortureRecord(Outcome.SUCCEEDED, "f2")).extra == 1


def test_a_body_of_no_slot_that_anybody_asked_for_is_extra() -> None:
    assert judged(*one(), "start a job@7 f3 1", "done a job@7 f3 2", record=RAN).extra == 1


# --- stale ---


def test_an_end_that_is_accepted_from_a_run_that_was_taken_over_is_stale() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    lines = (*one("f1", "a", 1, "start", "done", "accepted"), *one("f2", "b", 9, "start"))
    verdict = judged(*lines, record=record, on_lost="rerun")
    assert (verdict.runs, verdict.missed, verdict.stale_accepted) == (1, 1, 1)


def test_so_is_one_of_a_lower_fence_than_the_store_has_on_record() -> None:
    assert judged(*one(), record=TortureRecord(Outcome.SUCCEEDED, "f2")).stale_accepted == 1


def test_an_end_that_is_refused_is_nobodys_fault() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    lines = (*one("f1", "a", 1, "start", "done", "stale"), *one("f2", "b", 9))
    assert judged(*lines, record=record, on_lost="rerun").passed(forgot=False)


# --- overlapping ---


def test_two_runs_of_a_slot_that_act_at_once_overlap() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    first = one("f1", "a", 1, "start", "step", "step", "step")
    assert judged(*first, *one("f2", "b", 3), record=record, on_lost="rerun").overlapping == 1
    assert judged(*first, *one("f2", "b", 5), record=record, on_lost="rerun").overlapping == 0


def test_what_happens_to_a_run_after_it_was_stopped_is_no_acting() -> None:
    record = TortureRecord(Outcome.SUCCEEDED, "f2", frozenset(["f1"]))
    lines = (*one("f1", "a", 1, "start", "step"), f"stopped a {ONE} f1 9", f"stale a {ONE} f1 9", *one("f2", "b", 5))
    assert judged(*lines, record=record, on_lost="rerun").overlapping == 0


def test_two_slots_at_once_overlap_only_where_that_is_excluded() -> None:
    lines = one("f1", "a", 18, "start", "step", "step", "done")
    assert judged(*lines, record=RAN).overlapping == 0
    assert judged(*lines, record=RAN, exclusive=True).overlapping == 1


def test_each_run_that_began_while_another_acted_counts() -> None:
    lines = ["start a job@1 f1 1", "done a job@1 f1 9", "start b job@1 f2 2", "step b job@1 f2 3", "start c job@1 f3 4"]
    assert judged(*lines, record=RAN).overlapping == 2


# --- passed over together ---

EDITED = PurgedSpan(AT - timedelta(seconds=9), AT, Outcome.SKIPPED)


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_slot_without_a_record_that_was_passed_over_is_skipped(on_lost: OnLost) -> None:
    verdict = judged(on_lost=on_lost, gaps=[EDITED])
    assert verdict == TortureVerdict(slots=2, runs=1, skipped=1, on_lost=on_lost)
    assert verdict.passed(forgot=False)


def test_a_slot_that_has_a_record_goes_by_it() -> None:
    assert judged(record=TortureRecord(), gaps=[EDITED]).missed == 1
    assert judged(record=TortureRecord(Outcome.SKIPPED), on_lost="rerun", gaps=[EDITED]).missed == 1


def test_a_slot_that_was_passed_over_and_ran_is_extra_to_nobody_but_two_runs_are() -> None:
    assert judged(*one(), gaps=[EDITED]).extra == 0
    assert judged(*one(), *one("f2", "b", 5), gaps=[EDITED]).extra == 1


def test_a_slot_may_be_too_late_only_where_not_every_one_is_wanted() -> None:
    late = {ONE: TortureRecord(Outcome.SKIPPED), TWO: DONE}
    wanted = [judge(SLOTS, book(*WELL), late, (), "rerun", exclusive=False, wanted=all_) for all_ in (True, False)]
    assert [verdict.missed for verdict in wanted] == [1, 0]


# --- all together ---


def test_verdicts_of_two_jobs_are_added() -> None:
    skip = TortureVerdict(2, 1, 0, 1, 1, 0, 0, 0, "skip", 0)
    rerun = TortureVerdict(2, 2, 3, 0, 0, 1, 1, 1, "rerun", 4)
    assert added([skip, rerun], "both") == TortureVerdict(4, 3, 3, 1, 1, 1, 1, 1, "both", 4)


@pytest.mark.parametrize("column", ["extra", "missed", "overlapping", "stale_accepted"])
def test_any_broken_promise_is_enough(column: str) -> None:
    assert TortureVerdict(slots=9, runs=9).passed(forgot=False)
    assert not added([TortureVerdict(slots=9, runs=9, **{column: 1})], "skip").passed(forgot=True)  # type: ignore[arg-type]


def test_which_ends_let_another_run_begin() -> None:
    assert [end for end in (LAPSED, RELEASED, "failed", "failed: stopped: x", "lost") if lets_another_run(end)] == [
        LAPSED, "failed", "failed: stopped: x",
    ]  # fmt: skip


def test_an_earlier_reading_explains_what_the_store_has_forgotten_since() -> None:
    now = TortureRecord(Outcome.SUCCEEDED, "f3", frozenset(["f2"]))
    assert now.joined(TortureRecord(None, "f2", frozenset(["f1"]))) == now._replace(ended=frozenset(["f1", "f2"]))


def test_a_guard_that_refuses_everything_is_found_out() -> None:
    assert not TortureVerdict(slots=60, skipped=60).passed(forgot=False)
    assert TortureVerdict(slots=60, runs=1, skipped=59).passed(forgot=False)


# --- where the store keeps only the last slots ---

GONE = TortureRecord(Outcome.TOO_OLD)
"""What the store says of a slot that it keeps no longer."""


@pytest.mark.parametrize("on_lost", ["skip", "rerun"])
def test_a_slot_that_ran_and_is_no_longer_kept_has_run(on_lost: OnLost) -> None:
    assert judged(*one(), record=GONE, on_lost=on_lost) == TortureVerdict(slots=2, runs=2, on_lost=on_lost)


def test_a_slot_that_did_not_run_and_is_no_longer_kept_was_skipped_and_under_rerun_missed() -> None:
    assert judged(record=GONE) == TortureVerdict(slots=2, runs=1, skipped=1)
    assert judged(record=GONE, on_lost="rerun").missed == 1


def test_of_a_slot_that_is_no_longer_kept_a_second_start_is_a_takeover_unless_the_first_end_was_accepted() -> None:
    begun, again = one("f1", "a", 1, "start", "done"), one("f2", "b", 5)
    assert judged(*begun, *again, record=GONE, on_lost="rerun") == TortureVerdict(
        slots=2, runs=2, on_lost="rerun", taken_over=1
    )
    assert judged(*one("f1"), *again, record=GONE, on_lost="rerun").extra == 1
    assert judged(*begun, *again, record=GONE, on_lost="skip").extra == 1
