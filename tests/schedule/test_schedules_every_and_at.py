"""Schedules without a wall clock."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from cronce.errors import BadSchedule
from cronce.schedule import At, Every
from tests.schedule.oracle import utc

NOON = utc("2026-03-29T12:00Z")


def test_every_is_on_the_epoch_grid() -> None:
    assert Every("15m").next(utc("2026-03-29T12:07Z")) == utc("2026-03-29T12:15Z")
    assert Every("15m").previous(utc("2026-03-29T12:07Z")) == utc("2026-03-29T12:00Z")
    assert Every("2d").next(utc("1970-01-01T00:00Z")) == utc("1970-01-03T00:00Z")
    assert Every("7d").next(NOON) == utc("2026-04-02T00:00Z")  # Thursdays, as 1 January 1970 was


def test_every_is_strict_on_both_sides() -> None:
    assert Every("15m").next(NOON) == utc("2026-03-29T12:15Z")
    assert Every("15m").previous(NOON) == utc("2026-03-29T11:45Z")
    assert Every("15m").previous(NOON + timedelta(microseconds=1)) == NOON


def test_every_second_is_every_second() -> None:
    every = Every("1s")
    assert every.next(NOON + timedelta(milliseconds=300)) == NOON + timedelta(seconds=1)
    assert every.previous(NOON + timedelta(milliseconds=300)) == NOON
    assert every.count(NOON - timedelta(days=365), NOON) == 365 * 86_400


def test_every_goes_on_before_1970() -> None:
    assert Every("1d").previous(utc("1969-12-31T12:00Z")) == utc("1969-12-31T00:00Z")
    assert Every("1d").next(utc("1969-12-31T12:00Z")) == utc("1970-01-01T00:00Z")


def test_every_knows_where_the_calendar_ends() -> None:
    assert Every("1d").next(datetime.max.replace(tzinfo=UTC)) is None
    assert Every("1d").previous(datetime.min.replace(tzinfo=UTC)) is None
    assert Every("1d").count(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)) == 3_652_058


def test_every_takes_text_or_a_timedelta() -> None:
    assert Every("1h30m") == Every("90m") == Every(timedelta(hours=1.5))
    assert Every("90m").text == "every 1h30m"
    assert hash(Every("90m")) == hash(Every("1h30m"))
    assert pickle.loads(pickle.dumps(Every("90m"))) == Every("90m")


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("500ms", "every: 0.5 seconds; slots are whole seconds, so write '1s', '2s' and so on"),
        (timedelta(seconds=1.5), "every: 1.5 seconds; slots are whole seconds, so write '1s', '2s' and so on"),
        ("0s", "every: 0 seconds; slots are whole seconds, so write '1s', '2s' and so on"),
        (timedelta(seconds=-1), "every: a duration cannot be negative: -1 day, 23:59:59"),
        ("5", "every: '5' is not a duration: add the unit, '5s' or '5m'"),
        ("40000d", "every: a duration is at most a century: 40,000 days are more than 36,525"),
    ],
)
def test_every_refuses(span: str | timedelta, message: str) -> None:
    with pytest.raises(BadSchedule) as error:
        Every(span)
    assert str(error.value) == message


def test_at_is_its_instants_sorted_and_each_once() -> None:
    at = At("2026-05-01T09:00:00+02:00", NOON, "2026-05-01T07:00:00Z")
    assert at.instants == (NOON, utc("2026-05-01T07:00Z"))
    assert at.text == "at 2026-03-29T12:00:00Z 2026-05-01T07:00:00Z"
    assert at == At(*reversed(at.instants))
    assert pickle.loads(pickle.dumps(at)) == at


def test_at_is_strict_on_both_sides_and_ends() -> None:
    at, later = At(NOON, NOON + timedelta(hours=1)), NOON + timedelta(hours=1)
    assert at.next(NOON - timedelta(microseconds=1)) == NOON
    assert at.next(NOON) == later
    assert at.next(later) is None
    assert at.previous(NOON) is None
    assert at.previous(later) == NOON
    assert at.count(NOON, later) == 1
    assert at.count(NOON - timedelta(days=1), later) == 2
    assert at.count(later, NOON) == 0


@pytest.mark.parametrize(
    ("instants", "message"),
    [
        ((), "at: name 1 to 1,000 instants, not 0"),
        (("noon",), "'noon' is not an instant; write it like '2026-03-29T01:00:00Z'"),
        (("2026-13-01T00:00Z",), "'2026-13-01T00:00Z' is not an instant; write it like '2026-03-29T01:00:00Z'"),
        (("２026-03-29T01:00:00Z",), "'２026-03-29T01:00:00Z' is not an instant; write it like '2026-03-29T01:00:00Z'"),
        (
            ("2026-03-29T01:00:00",),
            "'2026-03-29T01:00:00' has no time zone; end it with Z, or with an offset such as +02:00",
        ),
        (("2026-03-29T01:00:00.5Z",), "'2026-03-29T01:00:00.5Z' is between two seconds; slots are whole seconds"),
        (("0001-01-01T00:00+01:00",), "'0001-01-01T00:00+01:00' is outside the years 1 to 9999 in UTC"),
        ((5,), "int 5 is not an instant; write it like '2026-03-29T01:00:00Z'"),
        (
            ("x" * 10**7,),
            f"'{'x' * 60}'… (10,000,000 characters) is not an instant; write it like '2026-03-29T01:00:00Z'",
        ),
    ],
)
def test_at_refuses(instants: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadSchedule) as error:
        At(*instants)
    assert str(error.value) == message
