"""A schedule from a start to an end: the same schedule, with what lies outside left out."""

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadSchedule
from cronce.schedule import (
    At,
    Cron,
    Due,
    Every,
    Schedule,
    Span,
    Window,
    bounded,
    due,
    parse_schedule,
    rule_of,
    slot_of,
    spec_of,
    start_by,
)
from cronce.schedule.describe import describe
from cronce.schedule.schedules import Rule
from cronce.telling.words import as_written
from tests.protocol.examples import examples
from tests.schedule.oracle import utc

NOON = utc("2026-03-29T12:00Z")
HOURLY = Cron("0 * * * *")


def hours(count: float) -> datetime:
    return NOON + timedelta(hours=count)


FROM_TO = Window(HOURLY, NOON, hours(3))

rules = st.sampled_from(
    [
        Every("1s"),
        Every("7m"),
        HOURLY,
        Cron("*/10 1-3 * * *", "Europe/Berlin"),
        Cron("0,30 2 * * *", "Europe/Berlin", fold="both"),
        Cron("0,30 2 * * *", "Europe/Berlin", gap="skip"),
        At(*(NOON + timedelta(hours=n) for n in range(-24, 24, 5))),
    ]
)
bounds = st.none() | st.integers(-90_000, 90_000).map(lambda seconds: NOON + timedelta(seconds=seconds))
instants = st.integers(-90_000_000, 90_000_000).map(lambda ms: NOON + timedelta(milliseconds=ms))


def instants_of(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    found = []
    at = schedule.next(after)
    while at is not None and at <= until:
        found.append(at)
        at = schedule.next(at)
    return found


@examples(150)
@given(rules, bounds, bounds, instants, st.integers(0, 7_200_000))
def test_it_is_the_plain_schedule_filtered(
    rule: Rule, start: datetime | None, end: datetime | None, after: datetime, milliseconds: int
) -> None:
    until = after + timedelta(milliseconds=milliseconds)
    try:
        window = bounded(rule, start, end)
    except BadSchedule:
        backwards = start is not None and end is not None and end < start
        assert backwards or rule.count(_before(start), end or hours(40)) == 0
        return
    plain = instants_of(rule, after, until)
    inside = [at for at in plain if (start is None or at >= start) and (end is None or at <= end)]
    assert instants_of(window, after, until) == inside
    assert window.count(after, until) == len(inside)
    last = window.previous(until + timedelta.resolution)
    assert last == inside[-1] if inside else last is None or last <= after


def _before(start: datetime | None) -> datetime:
    return hours(-40) if start is None else start - timedelta(seconds=1)


def test_both_bounds_belong_to_it() -> None:
    assert instants_of(FROM_TO, hours(-9), hours(9)) == [NOON, hours(1), hours(2), hours(3)]
    assert FROM_TO.previous(hours(9)) == hours(3)
    assert FROM_TO.previous(NOON) is None
    assert FROM_TO.next(hours(3)) is None


def test_either_bound_may_be_left_open() -> None:
    assert Window(HOURLY, start=NOON).next(hours(-99)) == NOON
    assert Window(HOURLY, start=NOON).next(hours(99)) == hours(100)
    assert Window(HOURLY, end=NOON).previous(hours(99)) == NOON
    assert Window(HOURLY, end=NOON).next(hours(-99)) == hours(-98)
    assert bounded(HOURLY, None, None) is HOURLY


def test_bounds_are_read_as_instants_are() -> None:
    assert Window(HOURLY, "2026-03-29T14:00:00+02:00", "2026-03-29T15:00:00Z") == FROM_TO
    for bound in ("2026-03-29", "2026-03-29T12:00:00", "tomorrow"):
        with pytest.raises(BadSchedule):
            Window(HOURLY, start=bound)


@pytest.mark.parametrize(
    ("rule", "start", "end", "message"),
    [
        (HOURLY, hours(1), NOON, "it would end before it starts: start is 2026-03-29T13:00:00Z, end is"),
        (HOURLY, hours(0.1), hours(0.9), "'0 * * * *' has no slot from 2026-03-29T12:06:00Z to 2026-03-29T12:54:00Z"),
        (At(NOON), hours(1), None, "'at 2026-03-29T12:00:00Z' has no slot from 2026-03-29T13:00:00Z, so this never"),
        (At(NOON), None, hours(-1), "'at 2026-03-29T12:00:00Z' has no slot to 2026-03-29T11:00:00Z, so this never"),
    ],
)
def test_a_window_without_a_slot_is_refused(
    rule: Rule, start: datetime | None, end: datetime | None, message: str
) -> None:
    with pytest.raises(BadSchedule) as error:
        Window(rule, start, end)
    assert message in str(error.value)


def test_the_ends_of_the_calendar_are_bounds_like_others() -> None:
    ever = Window(Every("1d"), "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    assert ever.next(NOON) == utc("2026-03-30T00:00Z")
    assert ever.previous(NOON) == utc("2026-03-29T00:00Z")
    assert ever.count(NOON, hours(48)) == 2


@pytest.mark.parametrize(
    ("window", "spec"),
    [
        (
            Window(Cron("0 9 * * mon", "Europe/Berlin"), NOON, hours(9999)),
            {
                "text": "0 9 * * MON",
                "tz": "Europe/Berlin",
                "gap": "run",
                "fold": "first",
                "start": "2026-03-29T12:00:00Z",
                "end": "2027-05-20T03:00:00Z",
            },
        ),
        (Window(Every("90m"), end=NOON), {"text": "every 1h30m", "end": "2026-03-29T12:00:00Z"}),
    ],
)
def test_it_survives_json(window: Window, spec: dict[str, str]) -> None:
    assert spec_of(window) == spec
    assert parse_schedule(**json.loads(json.dumps(spec))) == window


def test_it_is_shown_with_its_bounds() -> None:
    assert FROM_TO.text == "0 * * * * from 2026-03-29T12:00:00Z to 2026-03-29T15:00:00Z"
    assert describe(FROM_TO) == ("every hour, on the hour, from 2026-03-29 12:00:00 UTC, to 2026-03-29 15:00:00 UTC")
    assert Window(Every("1h"), end=NOON).text == "every 1h to 2026-03-29T12:00:00Z"


def test_a_window_has_no_window() -> None:
    assert rule_of(FROM_TO) is HOURLY
    with pytest.raises(BadSchedule, match="has a start or an end already"):
        bounded(FROM_TO, None, NOON)


def test_what_was_missed_is_counted_inside_alone() -> None:
    assert due(FROM_TO, hours(-9), hours(9), "latest") == Due((hours(3),), Span(NOON, hours(2), 3, "superseded"))
    assert due(FROM_TO, hours(-9), hours(-1), "all") == Due()


def test_a_trigger_after_the_end_means_the_last_slot_and_one_before_the_start_means_none() -> None:
    assert slot_of(FROM_TO, hours(99)) == hours(3)
    assert slot_of(FROM_TO, NOON - timedelta(seconds=1)) == NOON
    with pytest.raises(BadSchedule, match="has no slot yet at 2026-03-29T11:00:00Z; its first is 2026-03-29T12:00:00Z"):
        slot_of(FROM_TO, hours(-1))


def test_the_last_slot_before_the_end_is_too_late_when_the_next_would_have_been_due() -> None:
    assert start_by(FROM_TO, hours(2)) == hours(3)
    assert start_by(FROM_TO, hours(3)) == hours(4)


def test_a_table_of_jobs_shows_the_zone_and_the_bounds() -> None:
    berlin = Cron("0 9 * * *", "Europe/Berlin")
    assert as_written(Window(berlin, start=NOON)) == "0 9 * * * Europe/Berlin from 2026-03-29T12:00:00Z"
