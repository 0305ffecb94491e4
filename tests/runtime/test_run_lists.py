"""The newest runs, on stores that the real ledger wrote."""

import pytest

from cronce.protocol.commands import Skip
from cronce.protocol.record import Outcome
from cronce.runtime.run_lists import runs
from tests.runtime.ran import granted, keys, ran, slot
from tests.runtime.shelf import LEASE, START, HandClock, HandNode, Wire


def test_runs_come_newest_first_across_jobs_with_those_by_hand(node: HandNode, clock: HandClock) -> None:
    clock.turn(10)
    for wanted in (slot("mail", 0), slot("billing", 1), slot("mail", 2), slot("billing", 1, "again")):
        ran(node, wanted)
    newest = ["mail@12:00:02Z", "billing@12:00:01Z#again", "billing@12:00:01Z", "mail@12:00:00Z"]
    assert keys(node.do(runs(None, None, 10, "slot"))) == newest
    assert keys(node.do(runs(None, None, 3, "slot"))) == newest[:3]
    ran_last = ["billing@12:00:01Z#again", "mail@12:00:02Z", "billing@12:00:01Z", "mail@12:00:00Z"]
    assert keys(node.do(runs(None, None, 10))) == ran_last
    assert keys(node.do(runs(None, None, 3))) == ran_last[:3]
    assert keys(node.do(runs("mail", None, 10))) == ["mail@12:00:02Z", "mail@12:00:00Z"]
    assert node.do(runs("nobody", None, 10)) == []


def test_runs_by_slot_read_on_past_runs_by_hand_of_older_slots(node: HandNode, clock: HandClock) -> None:
    """They were requested last, so they are the first to be read, and their slots are the oldest."""
    clock.turn(30)
    for wanted in (
        *(slot("mail", second) for second in (20, 22, 24)),
        *(slot("billing", 0, f"h{n}") for n in range(9)),
    ):
        ran(node, wanted)
    assert keys(node.do(runs(None, None, 3, "slot"))) == ["mail@12:00:24Z", "mail@12:00:22Z", "mail@12:00:20Z"]
    assert len(node.do(runs(None, "succeeded", 20, "slot"))) == 12
    assert node.do(runs(None, "lost", 3, "slot")) == []


def test_runs_of_a_job_are_not_those_of_another_whose_name_begins_like_it(node: HandNode) -> None:
    ran(node, slot("mail", 0))
    ran(node, slot("mail-daily", 0))
    assert keys(node.do(runs("mail", None, 10))) == ["mail@12:00:00Z"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("succeeded", [0]),
        ("failed", [1]),
        ("running", [4, 3]),
        ("lapsed", [3]),
        ("lost", []),
        ("skipped", [2]),
        ("closed", [2, 1, 0]),
        ("due", []),
    ],
)
def test_runs_are_found_by_state_and_outcome(node: HandNode, clock: HandClock, wanted: str, found: list[int]) -> None:
    clock.turn(5)
    ran(node, slot("mail", 0))
    ran(node, slot("mail", 1), Outcome.FAILED)
    node.do(node.ledger.put({slot("mail", 2): Skip("not today")}))
    granted(node, slot("mail", 3))
    clock.turn(5)
    granted(node, slot("mail", 4))
    clock.turn(LEASE.total_seconds() - 5)
    assert keys(node.do(runs(None, wanted, 10))) == [f"mail@12:00:0{second}Z" for second in found]


def test_runs_are_looked_for_page_by_page(node: HandNode, clock: HandClock, store: Wire) -> None:
    clock.turn(100)
    node.do(node.ledger.put({slot("mail", 0): Skip("the oldest", first=START)}))
    for second in range(1, 8):
        ran(node, slot("mail", second))
    assert keys(node.do(runs("mail", "skipped", 1))) == ["mail@12:00:00Z"]


def test_a_run_of_a_newer_cronce_is_listed_and_unreadable(node: HandNode, store: Wire) -> None:
    ran(node, slot("mail", 0))
    cell = slot("mail", 0).cell
    store._cells[cell] = store._cells[cell]._replace(value='{"v":99}')
    (run,) = node.do(runs(None, None, 10))
    assert (run.shown, run.record) == ("unreadable", None)
    assert run.trouble.endswith("upgrade cronce")
    assert (node.do(runs(None, "closed", 10)), node.do(runs(None, "succeeded", 10))) == ([run], [])


@pytest.mark.parametrize("job", ["", "a b", "mail/", "x" * 200])
def test_of_a_job_that_cannot_be_there_are_no_runs(job: str, node: HandNode) -> None:
    ran(node, slot("mail", 0))
    assert node.do(runs(job, None, 10)) == node.do(runs(job, None, 10, "slot")) == []
