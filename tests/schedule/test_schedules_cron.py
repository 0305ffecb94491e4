"""What a cron expression means, on a wall clock that never jumps."""

import calendar
import copy
import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cronce.schedule import Cron
from tests.schedule.oracle import utc

START = utc("2026-01-01T00:00Z")  # a Thursday


def first(expression: str, count: int, start: datetime = START) -> list[str]:
    """The first `count` instants, without the year and the zone: `01-02 09:30:00`."""
    found: list[str] = []
    at: datetime | None = start
    cron = Cron(expression)
    while len(found) < count:
        at = cron.next(at) if at else None
        assert at is not None
        assert at.tzinfo is UTC
        found.append(at.strftime("%m-%d %H:%M" + (":%S" if at.second else "")))
    return found


@pytest.mark.parametrize(
    ("expression", "instants"),
    [
        ("* * * * *", ["01-01 00:01", "01-01 00:02", "01-01 00:03"]),
        ("*/25 * * * *", ["01-01 00:25", "01-01 00:50", "01-01 01:00"]),
        ("0 9 * * *", ["01-01 09:00", "01-02 09:00", "01-03 09:00"]),
        ("5,10-12,50/5 3 * * *", ["01-01 03:05", "01-01 03:10", "01-01 03:11", "01-01 03:12", "01-01 03:50"]),
        ("0 8-18/5 * * *", ["01-01 08:00", "01-01 13:00", "01-01 18:00", "01-02 08:00"]),
        ("0 0 * * MON-FRI", ["01-02 00:00", "01-05 00:00", "01-06 00:00"]),
        ("0 0 * * sat,sun", ["01-03 00:00", "01-04 00:00", "01-10 00:00"]),
        ("0 0 * * 7", ["01-04 00:00", "01-11 00:00"]),
        ("0 0 * * 0", ["01-04 00:00", "01-11 00:00"]),
        ("0 0 * * 5-7", ["01-02 00:00", "01-03 00:00", "01-04 00:00", "01-09 00:00"]),
        ("0 0 1 FEB,apr *", ["02-01 00:00", "04-01 00:00"]),
        ("0 0 1 */5 *", ["06-01 00:00", "11-01 00:00", "01-01 00:00"]),
        ("0 0 L * *", ["01-31 00:00", "02-28 00:00", "03-31 00:00"]),
        ("0 0 LW * *", ["01-30 00:00", "02-27 00:00", "03-31 00:00", "04-30 00:00", "05-29 00:00"]),
        ("0 0 15,L * *", ["01-15 00:00", "01-31 00:00", "02-15 00:00"]),
        ("0 0 * * MON#2", ["01-12 00:00", "02-09 00:00"]),
        ("0 0 * * 5#5", ["01-30 00:00", "05-29 00:00"]),
        ("0 0 * * 5L", ["01-30 00:00", "02-27 00:00"]),
        ("0 0 * * FRIL", ["01-30 00:00", "02-27 00:00"]),
        ("0 0 * * SUN#1,SUN#3", ["01-04 00:00", "01-18 00:00", "02-01 00:00"]),
        ("30 0 0 * * *", ["01-01 00:00:30", "01-02 00:00:30"]),
        ("*/20 * * * * *", ["01-01 00:00:20", "01-01 00:00:40", "01-01 00:01"]),
        ("0 */24 * * *", ["01-02 00:00", "01-03 00:00"]),
        ("\t0  9 * *   * ", ["01-01 09:00", "01-02 09:00"]),
    ],
)
def test_an_expression_fires_at(expression: str, instants: list[str]) -> None:
    assert first(expression, len(instants)) == instants


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_a_nickname_is_its_expression(nickname: str, expression: str) -> None:
    assert Cron(nickname) == Cron(expression)
    assert Cron(nickname).text == expression


def test_debians_rule_two_restricted_days_are_alternatives() -> None:
    assert first("0 0 13 * FRI", 4) == ["01-02 00:00", "01-09 00:00", "01-13 00:00", "01-16 00:00"]


def test_debians_rule_a_day_that_starts_with_a_star_must_match_too() -> None:
    assert first("0 0 * * FRI", 2) == ["01-02 00:00", "01-09 00:00"]
    assert first("0 0 */2 * FRI", 3) == ["01-09 00:00", "01-23 00:00", "02-13 00:00"]  # odd days that are Fridays
    assert first("0 0 13 * */5", 2) == ["02-13 00:00", "03-13 00:00"]  # Sundays or Fridays that are a 13th


@pytest.mark.parametrize("year", [4, 1900, 2000, 2023, 2024, 9900])
def test_months_are_as_long_as_the_calendar_says(year: int) -> None:
    last, at = Cron("0 0 L * *"), datetime(year, 1, 1, tzinfo=UTC)
    lengths = [calendar.monthrange(year, month)[1] for month in range(1, 13)]
    assert [(at := last.next(at) or START).day for _ in lengths] == lengths


def test_29_february_waits_for_a_leap_year_even_across_2100() -> None:
    cron = Cron("0 0 29 2 *")
    assert cron.next(utc("2026-01-01T00:00Z")) == utc("2028-02-29T00:00Z")
    assert cron.next(utc("2096-03-01T00:00Z")) == utc("2104-02-29T00:00Z")
    assert cron.previous(utc("2104-01-01T00:00Z")) == utc("2096-02-29T00:00Z")


def test_the_rarest_schedule_of_all_is_found() -> None:
    # 29 February on a Sunday comes every 28 years, but 40 years apart across 2100, which has no 29 February.
    cron = Cron("0 0 29 2 */8")  # */8 is 0, Sunday; it starts with a star, so both days must match
    assert cron.next(utc("2088-03-01T00:00Z")) == utc("2128-02-29T00:00Z")


def test_next_is_strictly_after_and_previous_strictly_before() -> None:
    cron, slot = Cron("0 9 * * *"), utc("2026-01-02T09:00Z")
    tick = timedelta(microseconds=1)
    assert cron.next(slot) == slot + timedelta(days=1)
    assert cron.next(slot - tick) == slot
    assert cron.previous(slot) == slot - timedelta(days=1)
    assert cron.previous(slot + tick) == slot


def test_an_instant_may_come_in_any_zone_but_must_have_one() -> None:
    cron = Cron("0 9 * * *")
    assert cron.next(datetime.fromisoformat("2026-01-02T10:30+02:00")) == utc("2026-01-02T09:00Z")
    second_hour = datetime(2026, 11, 1, 1, 10, fold=1, tzinfo=ZoneInfo("America/New_York"))
    assert Cron("* * * * *", "America/New_York").next(second_hour) == utc("2026-11-01T01:11-05:00")
    naive = datetime(2026, 1, 2)  # noqa: DTZ001
    for ask in (cron.next, cron.previous, lambda at: cron.count(at, START)):
        with pytest.raises(TypeError, match="naive"):
            ask(naive)


def test_the_calendar_ends_and_begins() -> None:
    for zone in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        cron = Cron("0 9 * * *", zone)
        assert cron.next(datetime.max.replace(tzinfo=UTC)) is None
        assert cron.previous(datetime.min.replace(tzinfo=UTC)) is None
        assert cron.previous(datetime.max.replace(tzinfo=UTC)) is None or zone == "UTC"
        assert cron.count(datetime.min.replace(tzinfo=UTC), utc("0002-01-03T12:00Z")) in (2, 3)


def test_equal_schedules_are_equal_however_they_were_written() -> None:
    assert Cron("0 9 * * mon") == Cron(" 0  9 * * MON")
    assert hash(Cron("0 9 * * mon")) == hash(Cron("0 9 * * MON"))
    assert Cron("0 9 * * *") != Cron("0 9 * * *", "Europe/Berlin")
    assert repr(Cron("@daily", gap="skip")) == "Cron(expression='0 0 * * *', tz='UTC', gap='skip', fold='first')"


def test_a_schedule_survives_copying_and_pickling() -> None:
    cron = Cron("0 9 * * *", "Europe/Berlin", gap="skip", fold="both")
    for twin in (copy.copy(cron), copy.deepcopy(cron), pickle.loads(pickle.dumps(cron))):
        assert twin == cron
        assert twin.next(START) == cron.next(START)


def test_counting_a_decade_of_seconds_is_exact() -> None:
    start, end = utc("2016-01-01T00:00Z"), utc("2026-01-01T00:00Z")
    seconds = int((end - start).total_seconds())
    assert Cron("* * * * * *").count(start, end) == seconds
    assert Cron("* * * * * *", "Europe/Berlin").count(start, end) == seconds
    assert (
        Cron("0-59 0-59 0-23 * * *", "Europe/Berlin").count(start, end) == seconds - 10 * 3600
    )  # each fold counts once
    assert Cron("0-59 0-59 0-23 * * *", "Europe/Berlin", fold="both").count(start, end) == seconds


def test_counting_sees_two_changes_in_a_week() -> None:
    # Gaza, 2040: forward on 20 October, after Ramadan, and back on the 27th; around both the offset is the same.
    start, end = utc("2040-10-15T00:00Z"), utc("2040-11-05T00:00Z")
    assert Cron("0-59 0-59 0-23 * * *", "Asia/Gaza").count(start, end) == 21 * 86_400 - 3600
    assert Cron("* * * * * *", "Asia/Gaza").count(start, end) == 21 * 86_400


def test_counting_backwards_is_nothing() -> None:
    assert Cron("* * * * *").count(START, START) == 0
    assert Cron("* * * * *").count(START + timedelta(days=1), START) == 0
