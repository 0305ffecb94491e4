"""What is kept of a job: by outcome, by count, by age, and never too little."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from cronce.errors import BadPolicy
from cronce.model import Cell, Mark, Slot
from cronce.protocol.record import Outcome, Record, State, decode, encode
from cronce.protocol.retention import (
    ALWAYS_KEPT,
    LAST_BAD,
    OUTCOMES,
    Keep,
    Kept,
    Limit,
    crowded_out,
    default_keep,
    excess,
    passed_with,
    read_keep,
    stand_in,
)
from cronce.stores.memory import TRAITS

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def closed(outcome: Outcome, hours: float, request: str = "") -> Cell:
    slot = Slot("billing", NOW - hours * HOUR, request)
    mark = Mark.ATTENTION if outcome in (Outcome.LOST, Outcome.UNKNOWN) else Mark.CLOSED
    return Cell(slot.cell, 1, encode(Record(State.CLOSED, outcome=outcome)), slot.due, mark)


def ages(keep: Keep, *cells: Cell) -> list[tuple[str, float]]:
    """What goes: which outcome, how many hours old."""
    gone = excess(cells, keep, NOW, Counter())
    return [(cell.value.partition('"outcome":"')[2][:-2], (NOW - cell.at) / HOUR) for cell in gone if cell.at]


OK, BAD, LOST = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST


def test_the_newest_of_each_outcome_are_kept() -> None:
    cells = [closed(OK, 2), closed(BAD, 3), closed(OK, 4), closed(OK, 5), closed(BAD, 6), closed(LOST, 7)]
    assert ages(read_keep(1), *cells) == [("succeeded", 4), ("succeeded", 5), ("failed", 6)]
    assert ages(read_keep(2), *cells) == [("succeeded", 5)]
    assert ages(read_keep(3), *cells) == []


def test_what_is_older_than_the_age_goes() -> None:
    cells = [closed(OK, 2), closed(BAD, 47.5), closed(OK, 48), closed(OK, 48.5), closed(LOST, 50)]
    assert ages(read_keep("2d"), *cells) == [("succeeded", 48.5), ("lost", 50)]
    assert ages(read_keep(2 * DAY), *cells) == [("succeeded", 48.5), ("lost", 50)]


def test_each_outcome_has_a_limit_of_its_own_and_the_others_thirty_days() -> None:
    cells = [closed(OK, 2), closed(OK, 3), closed(BAD, 23), closed(BAD, 25), closed(LOST, 719), closed(LOST, 721)]
    assert ages(read_keep({"succeeded": 1, "failed": "1d"}), *cells) == [
        ("succeeded", 3),
        ("failed", 25),
        ("lost", 721),
    ]


def test_nothing_younger_than_an_hour_goes_however_few_are_kept() -> None:
    assert ages(read_keep(0), closed(OK, 0.9), closed(OK, 1)) == [("succeeded", 1)]


def test_of_all_outcomes_together_no_more_than_the_total_are_kept() -> None:
    keep = Keep(dict.fromkeys(OUTCOMES, Limit()), total=2)
    assert ages(keep, closed(OK, 2), closed(BAD, 3), closed(LOST, 4), closed(OK, 5)) == [("lost", 4), ("succeeded", 5)]


def test_by_default_thirty_days_and_a_thousand_and_where_it_costs_memory_a_hundred_successes() -> None:
    disk, memory = default_keep(TRAITS._replace(in_memory=False)), default_keep(TRAITS)
    month = Limit(age=30 * DAY)
    assert disk == Keep(dict.fromkeys(OUTCOMES, month), 1000)
    assert memory == Keep({**dict.fromkeys(OUTCOMES, month), "succeeded": Limit(newest=100)}, 1000)


def test_what_is_not_over_or_filed_under_no_instant_or_cannot_be_read_stays() -> None:
    running = closed(OK, 5)._replace(mark=Mark.OPEN, value=encode(Record(State.RUNNING)))
    newer = closed(OK, 5)._replace(value='{"v":99}')
    assert ages(read_keep(0), running, newer, closed(OK, 5, request="ada-1")) == []


def test_a_run_of_a_slot_long_past_that_ended_just_now_is_new() -> None:
    """Whoever runs the slots of last year must not find that each closes those before it."""
    old = closed(OK, 9000)
    new = old._replace(value=encode(Record(State.CLOSED, outcome=OK, finished=NOW - HOUR / 2)))
    assert ages(read_keep("30d"), new, old) == [("succeeded", 9000)]
    assert ages(read_keep(0), new, old) == [("succeeded", 9000)]


def test_counting_goes_on_over_pages() -> None:
    seen: Counter[str] = Counter()
    pages = [[closed(OK, 2), closed(OK, 3)], [closed(OK, 4), closed(BAD, 5)]]
    gone = [cell.key for page in pages for cell in excess(page, read_keep(2), NOW, seen)]
    assert gone == ["run/billing/2026-03-29T08:00:00Z"]


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (-1, "keep must be a number of runs or a duration, not -1"),
        ("soon", "keep must be a number of runs or a duration: 'soon' is not a duration"),
        ("30m", "keep must be 1h or more: a slot that starts late must still find its record"),
        (
            {"sucess": 1},
            "keep: 'sucess' is not an outcome of a run; the outcomes are succeeded, failed, skipped, lost, unknown",
        ),
        ({"failed": None}, "keep must be a number of runs or a duration: NoneType None is not a duration"),
        (True, "keep must be a number of runs or a duration: bool True is not a duration"),
    ],
)
def test_what_cannot_be_meant_is_refused(kept: Kept | Mapping[str, Kept], why: str) -> None:
    with pytest.raises(BadPolicy) as error:
        read_keep(kept)
    assert str(error.value).startswith(why)


# --- where only the last runs of a job are kept ---------------------------------------------------------------------


def runs(*cells: Cell) -> dict[str, Cell]:
    return {cell.key: cell for cell in cells}


def open_run(hours: float) -> Cell:
    slot = Slot("billing", NOW - hours * HOUR)
    return Cell(slot.cell, 1, encode(Record(State.RUNNING)), slot.due, Mark.OPEN)


def test_a_run_that_begins_crowds_out_all_but_the_last_closed_ones() -> None:
    cells = runs(*(closed(OK, hours) for hours in range(5)))
    assert crowded_out(cells) == sorted(closed(OK, hours).key for hours in range(ALWAYS_KEPT, 5))
    assert crowded_out(runs(*(closed(OK, hours) for hours in range(ALWAYS_KEPT)))) == []


def test_what_is_open_is_never_crowded_out() -> None:
    assert crowded_out(runs(open_run(9), closed(OK, 3), closed(OK, 2), closed(OK, 1))) == [closed(OK, 3).key]


def test_of_those_that_did_not_succeed_more_stay() -> None:
    bad = [closed(outcome, 10 + hours) for hours, outcome in enumerate([BAD, LOST] * LAST_BAD)]
    good = [closed(OK, hours) for hours in range(ALWAYS_KEPT)]
    assert crowded_out(runs(*bad, *good)) == sorted(cell.key for cell in bad[LAST_BAD:])


def test_what_cannot_be_read_is_crowded_out_like_any_other() -> None:
    newer = closed(OK, 5)._replace(value="{}")
    assert crowded_out(runs(newer, closed(OK, 2), closed(OK, 1))) == [newer.key]


def test_slots_are_passed_up_to_the_latest_that_went() -> None:
    early, late = closed(OK, 2), closed(OK, 1)
    assert passed_with(None, []) is None
    assert passed_with(None, [late.key, early.key]) == late.at
    assert passed_with(late.at, [early.key]) == late.at
    assert passed_with(early.at, [late.key]) == late.at


def test_a_run_that_may_have_been_is_closed_and_a_later_one_absent() -> None:
    run, next_run = closed(OK, 2), closed(OK, 1)
    cell = stand_in(run.key, run.at)
    assert (cell.key, cell.version, cell.at, cell.mark) == (run.key, 1, run.at, Mark.CLOSED)
    assert decode(cell.value).outcome is Outcome.TOO_OLD
    assert decode(cell.value).reason == "its Lease has no record of slots up to 2026-03-29T10:00:00Z"
    assert stand_in(next_run.key, run.at) == Cell(next_run.key)
    assert stand_in(run.key, None) == Cell(run.key)
