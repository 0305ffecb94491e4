"""The verdict counts what stands in a ledger file, exactly: it can say that all is well, and that it is not."""

import pytest

from cronce.demo.verdict import DemoRecord, DemoVerdict, judge
from cronce.protocol.record import Outcome
from cronce.testing.ledger_file import LedgerLine, parse

SLOTS = ["report@1", "report@2"]
ONCE = DemoRecord(1, Outcome.SUCCEEDED)
TAKEN_OVER = DemoRecord(2, Outcome.SUCCEEDED)


def book(*texts: str) -> list[LedgerLine]:
    """Lines as `what who slot fence`."""
    return parse(f"{text} 1 -" for text in texts)


SECOND = ("start b report@2 f9", "done b report@2 f9")
"""A second slot in which nothing happens."""


def judged(*texts: str, record: DemoRecord | None = ONCE) -> DemoVerdict:
    """The verdict on what these lines say of the first slot, while all is well with the second."""
    records = {"report@2": ONCE} | ({"report@1": record} if record else {})
    return judge(SLOTS, book(*texts, *SECOND), records)


def test_each_slot_once_is_as_it_should_be() -> None:
    assert judged("start a report@1 f1", "done a report@1 f1") == DemoVerdict(2, 2, 0, 0, 0, 0)


def test_a_slot_that_was_taken_over_ran_once() -> None:
    lines = ("start a report@1 f1", "start b report@1 f2", "done b report@1 f2")
    assert judged(*lines, record=TAKEN_OVER) == DemoVerdict(2, 2, 0, 0, 0, 1)


def test_a_second_start_that_no_takeover_explains_is_extra() -> None:
    lines = ("start a report@1 f1", "start b report@1 f2", "done b report@1 f2")
    assert judged(*lines, record=ONCE) == DemoVerdict(2, 2, 1, 0, 0, 0)


def test_a_body_that_ran_through_twice_is_one_too_many_not_two() -> None:
    lines = ("start a report@1 f1", "start b report@1 f2", "done a report@1 f1", "done b report@1 f2")
    assert judged(*lines, record=ONCE).extra == 1


def test_a_takeover_explains_one_start_under_a_fence_of_its_own() -> None:
    same = ("start a report@1 f1", "start b report@1 f1", "done b report@1 f1")
    assert judged(*same, record=TAKEN_OVER) == DemoVerdict(2, 2, 1, 0, 0, 0)
    third = ("start a report@1 f1", "start b report@1 f2", "start c report@1 f3", "done c report@1 f3")
    assert judged(*third, record=TAKEN_OVER) == DemoVerdict(2, 2, 1, 0, 0, 1)


def test_a_stale_completion_is_refused_by_its_fence() -> None:
    lines = ("start a report@1 f1", "start b report@1 f2", "done b report@1 f2", "done a report@1 f1")
    assert judged(*lines, record=TAKEN_OVER) == DemoVerdict(2, 2, 0, 0, 0, 1)
    lines = ("start a report@1 f1", "start b report@1 f2", "done a report@1 f1", "done b report@1 f2")
    assert judged(*lines, record=TAKEN_OVER) == DemoVerdict(2, 2, 0, 0, 0, 1)


def test_a_stale_completion_alone_is_no_run() -> None:
    lines = ("start a report@1 f1", "start b report@1 f2", "done a report@1 f1")
    assert judged(*lines, record=DemoRecord(2)) == DemoVerdict(2, 1, 0, 0, 0, 1)


def test_a_completion_before_the_takeover_and_one_after_it_are_two() -> None:
    two = ("start a report@1 f1", "done a report@1 f1", "start b report@1 f2", "done b report@1 f2")
    assert judged(*two, record=TAKEN_OVER) == DemoVerdict(2, 2, 1, 0, 0, 1)
    twice = ("start a report@1 f1", "done a report@1 f1", "done a report@1 f1")
    assert judged(*twice) == DemoVerdict(2, 2, 1, 0, 0, 0)


def test_a_slot_neither_run_nor_on_record_is_missed() -> None:
    assert judged(record=None) == DemoVerdict(2, 1, 0, 1, 0, 0)
    assert judged("start a report@1 f1", record=None) == DemoVerdict(2, 1, 0, 1, 0, 0)


def test_a_slot_that_was_killed_and_closed_as_lost_is_not_missed() -> None:
    assert judged("start a report@1 f1", record=DemoRecord(1, Outcome.LOST)) == DemoVerdict(2, 1, 0, 0, 1, 0)


def test_a_slot_on_record_that_nobody_ran_is_neither_run_nor_missed_nor_lost() -> None:
    assert judged("start a report@1 f1", record=DemoRecord(1)) == DemoVerdict(2, 1, 0, 0, 0, 0)


def test_a_body_of_no_slot_is_extra() -> None:
    ran = ("start a report@1 f1", "done a report@1 f1")
    assert judged(*ran, "start a report@7 f3", "done a report@7 f3") == DemoVerdict(2, 2, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([], DemoVerdict(2, 0, 0, 2, 0, 0)),
        (["start a report@1 -", "done a report@1 -"], DemoVerdict(2, 1, 0, 1, 0, 0)),
        (
            [*(f"start {who} report@{n} -" for who in "abc" for n in "12"), "done a report@1 -", "done b report@2 -"],
            DemoVerdict(2, 2, 4, 0, 0, 0),
        ),
        (
            [f"{what} {who} report@{n} -" for n in "12" for what in ("start", "done") for who in "abc"],
            DemoVerdict(2, 2, 4, 0, 0, 0),
        ),
        (["start a report@1 -", *(f"{what} b report@{n} -" for n in "12" for what in ("start", "done"))],
         DemoVerdict(2, 2, 1, 0, 0, 0)),
    ],
)  # fmt: skip
def test_without_the_guard_every_start_beyond_one_per_slot_is_extra(lines: list[str], verdict: DemoVerdict) -> None:
    assert judge(SLOTS, book(*lines)) == verdict
