"""What falls due next, over many jobs."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronce.schedule import At, Cron, Every, Schedule
from cronce.schedule.agenda import Agenda, DueNow
from tests.schedule.oracle import utc

NOON = utc("2026-03-29T12:00Z")
HOURLY = Cron("0 * * * *")
QUARTERS = Every("15m")


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def test_an_empty_agenda_has_nothing_to_wait_for() -> None:
    agenda = Agenda()
    assert agenda.next_at() is None
    assert agenda.pop_due(NOON) == DueNow([], [])


def test_a_name_is_due_at_each_instant_and_goes_on_by_itself() -> None:
    agenda = Agenda()
    agenda.add("sync", QUARTERS, NOON)
    assert agenda.next_at() == minutes(15)
    assert agenda.pop_due(minutes(14.99)) == DueNow([], [])
    assert agenda.pop_due(minutes(15)) == DueNow([("sync", minutes(15))], [])
    assert agenda.pop_due(minutes(15)) == DueNow([], [])
    assert agenda.next_at() == minutes(30)


def test_what_is_due_comes_in_the_order_of_time_and_several_of_a_name_too() -> None:
    agenda = Agenda()
    agenda.add("slow", At(NOON + timedelta(seconds=2)), NOON)
    agenda.add("fast", Every("1s"), NOON)
    due = agenda.pop_due(NOON + timedelta(seconds=3)).slots
    assert [(name, (at - NOON).seconds) for name, at in due] == [("fast", 1), ("slow", 2), ("fast", 2), ("fast", 3)]


def test_a_schedule_without_another_instant_is_never_due_again() -> None:
    agenda = Agenda()
    agenda.add("once", At(minutes(1)), NOON)
    assert agenda.pop_due(minutes(1)) == DueNow([("once", minutes(1))], [])
    assert agenda.next_at() is None
    assert agenda.pop_due(minutes(1000)) == DueNow([], [])


def test_a_slot_is_late_up_to_the_grace_and_missed_beyond() -> None:
    for seconds, slots, behind in ((60, [("sync", minutes(15))], []), (60.001, [], [("sync", minutes(3))])):
        agenda = Agenda()
        agenda.add("sync", QUARTERS, minutes(3))
        assert agenda.pop_due(minutes(15) + timedelta(seconds=seconds)) == DueNow(slots, behind)


def test_who_is_behind_rests_until_it_is_skipped_ahead() -> None:
    agenda = Agenda()
    agenda.add("sync", QUARTERS, NOON)
    agenda.add("report", HOURLY, NOON)
    assert agenda.pop_due(minutes(60)) == DueNow([("report", minutes(60))], [("sync", NOON)])
    assert agenda.pop_due(minutes(75)) == DueNow([], [])
    agenda.skip_to("sync", minutes(75))
    assert agenda.next_at() == minutes(90)


def test_a_name_added_again_follows_its_new_schedule_alone() -> None:
    agenda = Agenda()
    agenda.add("sync", QUARTERS, NOON)
    agenda.add("sync", HOURLY, NOON)
    assert agenda.next_at() == minutes(60)
    assert agenda.pop_due(minutes(60)) == DueNow([("sync", minutes(60))], [])
    assert agenda.next_at() == minutes(120)


def test_a_removed_name_is_never_due() -> None:
    agenda = Agenda()
    agenda.add("sync", QUARTERS, NOON)
    agenda.add("other", QUARTERS, NOON)
    agenda.remove("sync")
    agenda.remove("nobody")
    agenda.skip_to("sync", NOON)  # it was behind, and then removed
    assert agenda.pop_due(minutes(15)) == DueNow([("other", minutes(15))], [])


def test_instants_at_which_nobody_is_left_are_not_waited_for() -> None:
    agenda = Agenda()
    for at in (1, 2, 3):
        agenda.add(f"at {at}", At(minutes(at)), NOON)
    agenda.remove("at 1")
    agenda.remove("at 2")
    assert agenda.next_at() == minutes(3)
    agenda.add("at 1", At(minutes(1)), NOON)
    assert agenda.next_at() == minutes(1)


def test_a_name_may_come_back_to_an_instant_it_was_removed_from() -> None:
    agenda = Agenda()
    for _ in range(3):
        agenda.add("sync", QUARTERS, NOON)
        agenda.remove("sync")
    agenda.add("sync", QUARTERS, NOON)
    assert agenda.pop_due(minutes(15)) == DueNow([("sync", minutes(15))], [])


MADE: Mapping[str, Callable[[], Schedule]] = {  # jobs with equal schedules have each its own
    "seconds": lambda: Every("1s"),
    "minutes": lambda: Every("7m"),
    "hourly": lambda: Cron("0 * * * *"),
    "nights": lambda: Cron("*/10 1-3 * * *", "Europe/Berlin"),
    "thrice": lambda: At(NOON, minutes(7), minutes(100)),
}
schedules = st.sampled_from(sorted(MADE)).map(lambda name: MADE[name]())
steps = st.lists(st.integers(0, 59_000).map(lambda ms: timedelta(milliseconds=ms)), min_size=1, max_size=20)


@settings(max_examples=100, deadline=None)
@given(st.lists(schedules, min_size=1, max_size=8), steps)
def test_whoever_looks_often_enough_is_handed_every_instant_once(
    rules: list[Schedule], pauses: list[timedelta]
) -> None:
    agenda = Agenda()
    for number, rule in enumerate(rules):
        agenda.add(str(number), rule, NOON)
    handed: list[tuple[str, datetime]] = []
    now = NOON
    for pause in pauses:
        now += pause
        popped = agenda.pop_due(now)
        assert not popped.behind
        handed += popped.slots
    assert [at for _, at in handed] == sorted(at for _, at in handed)
    for number, rule in enumerate(rules):
        mine = [at for name, at in handed if name == str(number)]
        assert len(mine) == len(set(mine)) == rule.count(NOON, now)


def test_a_hundred_thousand_jobs_of_sixty_schedules_are_filed_and_handed_out() -> None:
    rules = [Cron(f"{minute} * * * *", "Europe/Berlin") for minute in range(60)]
    agenda = Agenda()
    for number in range(100_000):
        agenda.add(f"job-{number}", rules[number % 60], NOON)
    popped = agenda.pop_due(minutes(1))
    assert len(popped.slots) == 1667  # minute 1: the jobs 1, 61, … 99,961


def test_of_jobs_with_equal_schedules_the_next_instant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, following = list[datetime](), Every.next

    def heard(self: Every, after: datetime) -> datetime | None:
        asked.append(after)
        return following(self, after)

    monkeypatch.setattr(Every, "next", heard)
    agenda = Agenda()
    for number in range(100):
        agenda.add(f"job-{number}", Every("1m"), NOON)
    asked.clear()
    assert len(agenda.pop_due(minutes(1)).slots) == 100
    assert asked == [minutes(1)]
