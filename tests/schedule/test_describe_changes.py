"""What a change of clocks does to a schedule: against the wall clock of `oracle`, and in words."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cronce.errors import BadSchedule
from cronce.policy import Fold, Gap
from cronce.schedule import Cron
from cronce.schedule.describe import ClockChange, changes, describe_change
from cronce.schedule.zone import find_zone, shifts
from tests.protocol.examples import examples
from tests.schedule.oracle import MINUTE, SECOND, Rule, expected, utc
from tests.schedule.strategies import JUMPS, folds, gaps, rules

DAY = timedelta(days=1)
YEAR = (utc("2026-01-01T00:00Z"), utc("2027-01-01T00:00Z"))
NEW_YORK = "America/New_York"


@pytest.mark.parametrize(("zone", "at"), JUMPS)
def test_every_change_is_found_to_the_second(zone: str, at: datetime) -> None:
    found = [shift.at for shift in shifts(find_zone(zone), at - DAY, at + DAY)]
    assert found == ([] if zone == "Asia/Kolkata" else [at])


def test_a_year_in_new_york_has_two_and_in_utc_none() -> None:
    assert [shift.at for shift in shifts(find_zone(NEW_YORK), *YEAR)] == [
        utc("2026-03-08T07:00Z"),
        utc("2026-11-01T06:00Z"),
    ]
    assert list(shifts(find_zone("UTC"), *YEAR)) == []


def test_a_change_counts_from_the_second_after_since_up_to_until() -> None:
    at = utc("2026-03-08T07:00Z")
    zone = find_zone(NEW_YORK)
    assert list(shifts(zone, at, at + DAY)) == []
    assert [shift.at for shift in shifts(zone, at - SECOND, at)] == [at]


def disputed(rule: Rule, change: ClockChange) -> list[datetime]:
    """The wall times of the rule between low and high, by looking at each."""
    number = (change.shift.high - change.shift.low) // MINUTE
    walls = (change.shift.low + place * MINUTE for place in range(number))
    return [wall for wall in walls if rule.matches(wall)]


@examples(100)
@given(rules(), st.sampled_from(JUMPS), gaps, folds)
def test_what_is_said_of_a_change_is_what_the_schedule_does(
    rule: Rule, jump: tuple[str, datetime], gap: Gap, fold: Fold
) -> None:
    zone, at = jump
    assume(zone != "Asia/Kolkata")
    try:
        cron = Cron(rule.text, zone, gap, fold)
    except BadSchedule:
        return
    (change,) = changes(cron, at - DAY, at + DAY)
    walls = disputed(rule, change)
    width = abs(change.shift.after - change.shift.before)
    truth = expected(rule, zone, gap, fold, at - width - MINUTE, at + width - MINUTE)
    assert change.is_gap == (change.shift.before < change.shift.after)
    if not walls:
        assert (change.effect, change.walls, change.slots) == ("none", None, None)
        return
    assert change.walls == (len(walls), walls[0], walls[-1])
    slots = [change.slots.number, change.slots.first, change.slots.last] if change.slots else []
    match change.effect:
        case "moved":
            assert slots == [1, at, at]
            assert at in truth
            assert change.joins is rule.matches(change.shift.high)
        case "skipped":
            assert slots == []
            assert (at in truth) is rule.matches(change.shift.high)
        case "once":
            assert slots == [len(walls), truth[0], truth[-1]]
        case "twice":
            assert slots == [2 * len(walls), truth[0], truth[-1]]


SPRING, AUTUMN = 0, 1


@pytest.mark.parametrize(
    ("cron", "which", "sentence"),
    [
        (Cron("0 9 * * *", NEW_YORK), SPRING, "no slot falls into the gap: nothing changes"),
        (Cron("0 9 * * *", NEW_YORK), AUTUMN, "no slot falls into the repeated time: nothing changes"),
        (Cron("30 2 * * *", NEW_YORK), SPRING, "02:30 does not show, and runs at 03:00 (07:00:00Z)"),
        (Cron("30 2 * * *", NEW_YORK, gap="skip"), SPRING, "02:30 does not show, and does not run that day"),
        (
            Cron("0,30 2 * * *", NEW_YORK),
            SPRING,
            "02:00 and 02:30 do not show, and run once, together, at 03:00 (07:00:00Z)",
        ),
        (
            Cron("0,15,30,45 2-3 * * *", NEW_YORK),
            SPRING,
            "4 times from 02:00 to 02:45 do not show, and run once, together, at 03:00 (07:00:00Z, a slot anyway)",
        ),
        (
            Cron("0,15,30 2 * * *", NEW_YORK, gap="skip"),
            SPRING,
            "3 times from 02:00 to 02:30 do not show, and do not run that day",
        ),
        (
            Cron("*/5 * * * *", NEW_YORK, gap="run"),
            SPRING,
            "12 times from 02:00 to 02:55 do not show: a wildcard follows real time, and has nothing to catch up on",
        ),
        (Cron("30 1 * * *", NEW_YORK), AUTUMN, "01:30 shows twice, and runs once, the first time (05:30:00Z)"),
        (
            Cron("30 1 * * *", NEW_YORK, fold="second"),
            AUTUMN,
            "01:30 shows twice, and runs once, the second time (06:30:00Z)",
        ),
        (
            Cron("30 1 * * *", NEW_YORK, fold="both"),
            AUTUMN,
            "01:30 shows twice, and runs both times (05:30:00Z and 06:30:00Z)",
        ),
        (
            Cron("0,20,40 1 * * *", NEW_YORK),
            AUTUMN,
            "3 times from 01:00 to 01:40 show twice, and run once, the first time (05:00:00Z to 05:40:00Z, 3 slots)",
        ),
        (
            Cron("*/20 * * * *", NEW_YORK, fold="first"),
            AUTUMN,
            (
                "3 times from 01:00 to 01:40 show twice, and run both times (05:00:00Z to 06:40:00Z, 6 slots): a"
                " wildcard follows real time"
            ),
        ),
        (
            Cron("15 30 2 * * *", NEW_YORK),
            SPRING,
            "02:30:15 does not show, and runs at 03:00 (07:00:00Z)",
        ),
    ],
)
def test_a_change_in_plain_words(cron: Cron, which: int, sentence: str) -> None:
    assert describe_change(changes(cron, *YEAR)[which]) == sentence


def test_a_day_that_was_left_out_altogether() -> None:
    since = datetime(2011, 12, 29, tzinfo=UTC)
    (change,) = changes(Cron("0 9 * * *", "Pacific/Apia"), since, since + 3 * DAY)
    assert describe_change(change) == "09:00 does not show, and runs at 00:00 (10:00:00Z)"
