"""Other schedulers before and after: how runs are counted, and what counts as a proof."""

from tests.faults.neighbours.__main__ import Row, table
from tests.faults.neighbours.book import Counted, Line, count
from tests.faults.neighbours.setups import SETUPS


def ran(*moments: float) -> list[Line]:
    return [Line("up", 0, 1), *(Line("ran", at, 1) for at in moments)]


def test_a_run_counts_for_the_slot_that_has_come_or_is_about_to() -> None:
    assert count(ran(100, 104.2, 107.9, 111.1, 112), 100, 4, 4) == Counted(4, 5, 2, 0)


def test_a_slot_without_a_run_is_missed_and_runs_before_and_after_are_not_counted() -> None:
    assert count(ran(96, 100, 100.5, 109, 117), 100, 4, 4) == Counted(4, 3, 2, 2)


def test_only_more_than_one_before_and_exactly_one_after_is_a_proof() -> None:
    today, once = Counted(5, 15, 3, 0), Counted(5, 5, 1, 0)
    assert Row(today=today, guarded=once, killed=once).shown
    for row in (
        Row(today=once, guarded=once, killed=once),
        Row(today=today, guarded=Counted(5, 4, 1, 1), killed=once),
        Row(today=today, guarded=once, killed=Counted(5, 6, 2, 0)),
        Row(today=today, guarded=once, killed=Counted(5, 5, 2, 1)),
    ):
        assert not row.shown


def test_the_table_has_a_row_for_each_setup_that_was_played() -> None:
    today, once = Counted(5, 15, 3, 0), Counted(5, 5, 1, 0)
    head, _, *rows = table({name: Row(today=today, guarded=once, killed=once) for name in SETUPS}).splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [setup.name for setup in SETUPS.values()]
    assert rows[0].endswith(" | 3 | 15 of 5, 0 | `protect(scheduler, cron)` | 1 | 5 of 5, 0 | 1 | 5 of 5, 0 |")
    assert {row.count("|") for row in (head, *rows)} == {head.count("|")}
