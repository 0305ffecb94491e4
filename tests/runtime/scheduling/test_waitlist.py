"""What a scheduler tries, and when."""

from datetime import timedelta

from cronce.model import Cell, Slot
from cronce.protocol.terms import Terms
from cronce.runtime.scheduling.waitlist import SECOND_TRIES_AFTER, TURN_RETRY, Candidate, Waitlist
from tests.runtime.shelf import LEASE, START

SOON = timedelta(milliseconds=1)


def one(minute: int = 0, job: str = "billing", *, overlap: str = "skip", known: bool = False) -> Candidate:
    slot = Slot(job, START + timedelta(minutes=minute))
    return Candidate(slot, slot.cell, Terms(LEASE, overlap=overlap), slot.at, known)  # type: ignore[arg-type]


def taken(line: Waitlist, most: int = 10, now: timedelta = timedelta(hours=1), turns: int = 0) -> list[int]:
    """The minutes of the slots that are taken."""
    chosen = line.take(most, START + now, lambda: {"billing": turns})
    return [(candidate.slot.at - START) // timedelta(minutes=1) for candidate in chosen]


def test_the_first_tries_at_the_instant_and_the_second_a_moment_later() -> None:
    line = Waitlist()
    line.add(one(0), 0, START)
    line.add(one(1), 1, START + timedelta(minutes=1))
    assert taken(line) == [0]
    assert line.next_at() == START + timedelta(minutes=1) + SECOND_TRIES_AFTER
    line.ripen(START + timedelta(minutes=1) + SECOND_TRIES_AFTER - SOON)
    assert taken(line) == []
    line.ripen(START + timedelta(minutes=1) + SECOND_TRIES_AFTER)
    assert taken(line) == [1]


def test_the_others_watch_and_take_only_what_nobody_has() -> None:
    line = Waitlist()
    for minute in (0, 1):
        line.add(one(minute), 2, START + timedelta(minutes=minute))
    line.ripen(START + timedelta(hours=1))
    assert taken(line) == []
    assert line.watched(START) == [one(0).cell]
    assert line.watched(START + timedelta(minutes=1)) == [one(0).cell, one(1).cell]
    line.seen(Cell(one(0).cell, version=7))
    line.seen(Cell(one(1).cell))
    assert taken(line) == [1]
    assert line.watched(START + timedelta(hours=1)) == []


def test_what_is_on_record_is_tried_in_the_order_of_places() -> None:
    line = Waitlist()
    line.add(one(0, known=True), 3, START + 3 * SECOND_TRIES_AFTER)
    line.add(one(1, known=True), 3, START + timedelta(minutes=1))
    assert taken(line) == [0]
    assert line.next_at() == START + timedelta(minutes=1) + 3 * SECOND_TRIES_AFTER


def test_a_slot_stands_in_line_once_and_no_more_are_taken_than_there_are_workers() -> None:
    line = Waitlist()
    for minute in (0, 1, 2, 1, 0):
        line.add(one(minute), 0, START + timedelta(hours=1))
    assert len(line) == 3
    assert taken(line, most=2) == [0, 1]
    line.put_back([one(1)])
    assert taken(line, most=2) == [1, 2]


def test_what_waits_for_a_turn_and_what_does_not_share_the_workers() -> None:
    line = Waitlist()
    for minute in range(4):
        line.add(one(minute), 0, START + timedelta(hours=1))
    line.add(one(4, "report", overlap="wait"), 0, START + timedelta(hours=1))
    assert taken(line, most=3) == [4, 0, 1]


def test_of_a_backlog_that_waits_for_its_turn_one_asks_at_a_time() -> None:
    line = Waitlist()
    for minute in range(4):
        line.add(one(minute, overlap="wait"), 0, START + timedelta(hours=1))
    line.add(one(9, job="reports"), 0, START + timedelta(hours=1))
    assert taken(line) == [0, 9]
    line.found_busy("billing", START + timedelta(hours=1))
    assert taken(line) == []
    assert taken(line, now=timedelta(hours=1) + TURN_RETRY) == [1]
    line.found_busy("billing", START + timedelta(hours=1))
    assert line.waits_for("billing")
    line.freed()
    assert not line.waits_for("billing")
    assert taken(line) == [2]


def test_what_waits_on_record_does_not_ask_while_the_turn_is_taken_here() -> None:
    line = Waitlist()
    line.add(one(0, overlap="wait", known=True), 0, START + timedelta(hours=1))
    assert taken(line, turns=1) == []
    assert taken(line, turns=0) == [0]


def test_what_gives_way_asks_so_that_it_is_on_record() -> None:
    line = Waitlist()
    for minute in range(2):
        line.add(one(minute), 0, START + timedelta(hours=1))
    assert taken(line, turns=1) == [0, 1]


def test_a_slot_that_gives_way_takes_nothing_with_it_that_waits_for_a_turn_of_the_same_job() -> None:
    """It was the last that does not wait for a turn, so its line is empty; the other one is not."""
    line = Waitlist()
    for minute in range(3):
        line.add(one(minute, overlap="wait"), 0, START + timedelta(hours=1))
    line.add(one(9), 0, START + timedelta(hours=1))
    line.found_busy("billing", START + timedelta(hours=1))
    assert taken(line) == [9]
    assert len(line) == 3
    line.freed()
    assert [taken(line) for _ in range(4)] == [[0], [1], [2], []]


def test_slots_of_a_job_that_is_carried_no_more_leave_the_line() -> None:
    line = Waitlist()
    for job in ("billing", "reports"):
        line.add(one(0, job=job), 0, START + timedelta(hours=1))
        line.add(one(1, job=job), 2, START)
        line.add(one(90, job=job), 0, START)
    line.drop({"billing"})
    line.ripen(START + timedelta(hours=2))
    assert taken(line) == [0, 90]
    assert line.watched(START + timedelta(hours=1)) == [one(1, job="reports").cell]


def test_a_backlog_of_thousands_does_not_hide_what_could_start() -> None:
    line = Waitlist()
    for job in range(7):
        for minute in range(1000):
            line.add(one(minute, job=f"backlog-{job}", overlap="wait", known=True), 0, START + timedelta(days=1))
    line.add(one(7, job="tick"), 0, START + timedelta(days=1))
    chosen = line.take(10, START + timedelta(days=1), lambda: {f"backlog-{job}": 1 for job in range(7)})
    assert [candidate.slot.job for candidate in chosen] == ["tick"]
    assert len(line) == 7000


def test_what_was_tried_in_vain_is_first_again_in_its_own_line() -> None:
    line = Waitlist()
    for minute in range(3):
        line.add(one(minute), 0, START + timedelta(hours=1))
        line.add(one(minute, job="reports", overlap="wait"), 0, START + timedelta(hours=1))
    tried = line.take(3, START + timedelta(hours=1), dict)
    line.put_back(tried)
    assert line.take(3, START + timedelta(hours=1), dict) == tried


def test_what_is_too_late_needs_no_worker_to_be_put_on_record() -> None:
    line = Waitlist()
    late = one(0)._replace(terms=Terms(LEASE, start_within=timedelta(minutes=5)))
    line.add(late, 0, START)
    line.add(one(1), 0, START + timedelta(minutes=1))
    assert line.take(0, START + timedelta(minutes=5), dict) == []
    assert line.take(0, START + timedelta(minutes=5, seconds=1), dict) == [late]
