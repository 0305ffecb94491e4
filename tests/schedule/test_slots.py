"""Which slots are due, and which slot a trigger from outside is for."""

from datetime import datetime, timedelta
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadPolicy, BadSchedule
from cronce.policy import Missed
from cronce.schedule import At, Cron, Due, Every, Schedule, Span, due, slot_of, start_by
from tests.protocol.examples import examples
from tests.schedule.oracle import utc

HOURLY = Cron("0 * * * *")
NOON = utc("2026-03-29T12:00Z")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def hour(number: int) -> datetime:
    return utc(f"2026-03-29T{number:02}:00Z")


# --- due -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_nothing_is_due_between_two_slots(missed: Missed) -> None:
    assert due(HOURLY, hour(9), hour(10) - seconds(0.001), missed) == Due((), None)


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_slot_is_due_from_its_very_instant_on(missed: Missed) -> None:
    assert due(HOURLY, hour(9), hour(10), missed) == Due((hour(10),), None)


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_since_is_exclusive_so_that_two_calls_in_a_row_share_no_slot(missed: Missed) -> None:
    assert due(HOURLY, hour(10), hour(10), missed) == Due()
    assert due(HOURLY, hour(10), hour(11), missed).slots == (hour(11),)


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_clock_that_went_back_makes_nothing_due(missed: Missed) -> None:
    assert due(HOURLY, hour(10), hour(7), missed) == Due()


def test_latest_runs_the_newest_and_records_the_others() -> None:
    assert due(HOURLY, hour(3), hour(8) + seconds(5), "latest") == Due(
        (hour(8),), Span(hour(4), hour(7), 4, "superseded")
    )


def test_all_runs_every_slot_oldest_first() -> None:
    assert due(HOURLY, hour(3), hour(6), "all") == Due((hour(4), hour(5), hour(6)), None)


def test_all_is_capped_and_skips_the_oldest() -> None:
    assert due(HOURLY, hour(3), hour(9), "all", cap=2) == Due((hour(8), hour(9)), Span(hour(4), hour(7), 4, "capped"))


def test_skip_runs_what_is_late_but_not_missed() -> None:
    assert due(HOURLY, hour(3), hour(8) + seconds(60), "skip") == Due((hour(8),), Span(hour(4), hour(7), 4, "missed"))
    assert due(HOURLY, hour(3), hour(8) + seconds(60.001), "skip") == Due((), Span(hour(4), hour(8), 5, "missed"))


def test_skip_takes_the_grace_of_the_caller() -> None:
    late = hour(8) + seconds(600)
    assert due(HOURLY, hour(7), late, "skip", grace=seconds(600)) == Due((hour(8),), None)
    assert due(HOURLY, hour(7), late, "skip", grace=seconds(599)) == Due((), Span(hour(8), hour(8), 1, "missed"))
    assert due(HOURLY, hour(7), hour(8), "skip", grace=seconds(0)) == Due((hour(8),), None)


def test_skip_runs_each_slot_within_the_grace() -> None:
    slots = due(Every("1s"), NOON - seconds(100), NOON, "skip", grace=seconds(3))
    assert slots.slots == tuple(NOON - seconds(ago) for ago in (3, 2, 1, 0))
    assert slots.skipped == Span(NOON - seconds(99), NOON - seconds(4), 96, "missed")


def test_slots_before_since_are_nobodys_business() -> None:
    assert due(HOURLY, hour(8), hour(8) + seconds(30), "skip") == Due()
    assert due(At(hour(3), hour(4)), hour(4), hour(9), "all") == Due()


@pytest.mark.parametrize(
    ("schedule", "count"),
    [
        (Every("1s"), 365 * 86_400),
        (Cron("* * * * * *"), 365 * 86_400),
        (Cron("* * * * * *", "America/New_York"), 365 * 86_400),
        (Cron("0-59 0-59 0-23 * * *", "America/New_York"), 365 * 86_400 - 3600),
        (Cron("* * * * *", "Europe/Berlin"), 365 * 1440),
    ],
)
def test_a_year_asleep_is_counted_exactly_and_at_once(schedule: Schedule, count: int) -> None:
    start = process_time()
    found = due(schedule, NOON - timedelta(days=365), NOON, "latest")
    assert process_time() - start < 5  # one by one it would be a minute
    assert found.slots == (NOON,)
    assert found.skipped is not None
    assert found.skipped.count == count - 1


def test_a_policy_that_does_not_exist_is_refused_even_when_nothing_is_due() -> None:
    with pytest.raises(BadPolicy) as error:
        due(HOURLY, hour(9), hour(9), "coalesce")  # type: ignore[arg-type]
    assert str(error.value) == (
        "missed must be one of 'skip', 'latest', 'all', not 'coalesce';"
        " here it is missed='latest' (or 'all', or 'skip')"
    )


schedules = st.sampled_from(
    [
        Every("1s"),
        Every("7m"),
        HOURLY,
        Cron("*/10 1-3 * * *", "Europe/Berlin"),
        Cron("0,30 2 * * *", "Europe/Berlin", fold="both"),
        Cron("0,30 2 * * *", "Europe/Berlin", gap="skip"),
        At(*(hour(n) for n in range(0, 24, 5))),
    ]
)
instants = st.integers(-90_000_000, 90_000_000).map(lambda ms: NOON + timedelta(milliseconds=ms))
policies = st.sampled_from(["skip", "latest", "all"])


@examples(100)
@given(schedules, instants, instants, policies, st.integers(0, 20), st.integers(0, 4000))
def test_what_is_due_and_what_is_skipped_are_together_all_there_was(
    schedule: Schedule, since: datetime, now: datetime, missed: Missed, cap: int, grace: int
) -> None:
    found = due(schedule, since, now, missed, cap=cap, grace=seconds(grace))
    skipped = found.skipped.count if found.skipped else 0
    assert len(found.slots) + skipped == schedule.count(since, now)
    assert list(found.slots) == sorted(set(found.slots))
    assert all(since < slot <= now for slot in found.slots)
    assert len(found.slots) <= (1 if missed == "latest" else cap)
    if found.skipped:
        assert found.skipped.first == schedule.next(since)
        assert schedule.count(since, found.skipped.last) == skipped  # the oldest part, without a hole
        assert schedule.next(found.skipped.last) == (found.slots[0] if found.slots else schedule.next(now))


# --- the slot of a trigger from outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fired", "slot"),
    [
        ("13:59:58.9", "13:00:00"),
        ("13:59:58.999999", "13:00:00"),
        ("13:59:59", "14:00:00"),
        ("13:59:59.9", "14:00:00"),
        ("14:00:00", "14:00:00"),
        ("14:00:00.1", "14:00:00"),
        ("14:07:00", "14:00:00"),
    ],
)
def test_a_trigger_up_to_a_second_early_means_the_coming_slot(fired: str, slot: str) -> None:
    assert slot_of(HOURLY, utc(f"2026-03-29T{fired}Z")) == utc(f"2026-03-29T{slot}Z")


@pytest.mark.parametrize("schedule", [Every("1s"), Cron("* * * * * *"), Cron("* * * * * *", "Europe/Berlin")])
@pytest.mark.parametrize(
    ("fired", "slot"), [(0, 0), (0.1, 0), (0.5, 0), (0.749999, 0), (0.75, 1), (0.9, 1), (1, 1), (1.1, 1)]
)
def test_every_second_a_trigger_may_be_a_quarter_early(schedule: Schedule, fired: float, slot: int) -> None:
    assert slot_of(schedule, NOON + seconds(fired)) == NOON + seconds(slot)


@pytest.mark.parametrize(("fired", "slot"), [(0, 0), (1.4, 0), (1.499999, 0), (1.5, 2), (1.9, 2), (2, 2), (2.4, 2)])
def test_a_gap_of_two_seconds_leaves_half_a_second(fired: float, slot: int) -> None:
    assert slot_of(Every("2s"), NOON + seconds(fired)) == NOON + seconds(slot)


def test_the_gap_is_the_one_around_the_trigger() -> None:
    burst = Cron("0,2 0 12 * * *")  # two seconds apart, and then a day
    assert slot_of(burst, NOON + seconds(1.4)) == NOON
    assert slot_of(burst, NOON + seconds(1.5)) == NOON + seconds(2)
    assert slot_of(burst, NOON - seconds(1)) == NOON
    assert slot_of(burst, NOON + timedelta(days=1) - seconds(1)) == NOON + timedelta(days=1)


def test_before_the_very_first_instant_a_trigger_may_be_a_second_early() -> None:
    assert slot_of(At(NOON), NOON - seconds(1)) == NOON
    with pytest.raises(BadSchedule) as error:
        slot_of(At(NOON), NOON - seconds(1.5))
    assert str(error.value) == (
        "'at 2026-03-29T12:00:00Z' has no slot yet at 2026-03-29T11:59:58Z; its first is 2026-03-29T12:00:00Z"
    )


def test_after_the_last_instant_a_trigger_means_the_last() -> None:
    assert slot_of(At(NOON), NOON + timedelta(days=9)) == NOON


def test_a_trigger_in_the_repeated_hour_means_the_slot_that_was() -> None:
    cron = Cron("30 1 * * *", "America/New_York")
    assert slot_of(cron, utc("2026-11-01T01:30:00.2-05:00")) == utc("2026-11-01T01:30-04:00")


def test_a_trigger_right_after_the_gap_means_the_slot_at_its_end() -> None:
    cron = Cron("30 2 * * *", "America/New_York")
    assert slot_of(cron, utc("2026-03-08T01:59:59.5-05:00")) == utc("2026-03-08T03:00-04:00")
    assert slot_of(cron, utc("2026-03-08T03:00:02-04:00")) == utc("2026-03-08T03:00-04:00")


@examples(100)
@given(schedules.filter(lambda schedule: not isinstance(schedule, At)), instants, st.floats(0, 0.2))
def test_hosts_a_fifth_of_a_second_off_mean_the_same_slot(schedule: Schedule, near: datetime, skew: float) -> None:
    slot = schedule.next(near)
    assert slot is not None
    assert slot_of(schedule, slot - seconds(skew)) == slot
    assert slot_of(schedule, slot + seconds(skew)) == slot


@examples(100)
@given(schedules.filter(lambda schedule: not isinstance(schedule, At)), instants, instants)
def test_a_later_trigger_never_means_an_earlier_slot(schedule: Schedule, one: datetime, other: datetime) -> None:
    earlier, later = sorted((one, other))
    assert slot_of(schedule, earlier) <= slot_of(schedule, later)


# --- how late it may start -------------------------------------------------------------------------------------------


def test_a_slot_may_start_until_the_next_one_is_due() -> None:
    assert start_by(HOURLY, hour(9)) == hour(10)
    assert start_by(At(NOON), NOON) is None


def test_a_slot_may_start_within_what_its_job_says() -> None:
    assert start_by(HOURLY, hour(9), timedelta(minutes=5)) == hour(9) + timedelta(minutes=5)
