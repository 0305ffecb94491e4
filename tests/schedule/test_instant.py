"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronce.errors import BadInput
from cronce.schedule import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 2d ", 172_800),
        ("1w2d3h4m5s6ms", 788_645.006),
        ("250ms", 0.25),
        ("0s", 0),
        ("5m5ms", 300.005),
    ],
)
def test_a_span_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


def test_a_timedelta_is_already_a_span() -> None:
    assert parse_duration(timedelta(minutes=3)) == timedelta(minutes=3)


@pytest.mark.parametrize(
    ("span", "written"),
    [("90m", "1h30m"), ("60s", "1m"), ("1w", "7d"), ("36h", "1d12h"), ("1500ms", "1s500ms"), ("0m", "0s")],
)
def test_a_span_has_one_way_to_be_written(span: str, written: str) -> None:
    assert format_duration(parse_duration(span)) == written


@given(st.timedeltas(timedelta(0), timedelta(days=36_525)))
def test_what_is_written_reads_back_to_the_millisecond(span: timedelta) -> None:
    assert parse_duration(format_duration(span)) == span // timedelta(milliseconds=1) * timedelta(milliseconds=1)


LIKE = "write it like '90s', '15m', '1h30m' or '2d', in whole numbers, the largest unit first"


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ("", f"'' is not a duration: {LIKE}"),
        ("15", "'15' is not a duration: add the unit, '15s' or '15m'"),
        ("1.5h", f"'1.5h' is not a duration: {LIKE}"),
        ("30m1h", f"'30m1h' is not a duration: {LIKE}"),
        ("5m5m", f"'5m5m' is not a duration: {LIKE}"),
        ("5 minutes", f"'5 minutes' is not a duration: {LIKE}"),
        ("PT5M", f"'PT5M' is not a duration: {LIKE}"),
        ("-5m", f"'-5m' is not a duration: {LIKE}"),
        ("٣m", f"'٣m' is not a duration: {LIKE}"),
        ("5m\n", f"'5m\\n' is not a duration: {LIKE}"),
        ("999999999s", f"'999999999s' is not a duration: {LIKE}"),
        ("99999999w", "a duration is at most a century: 699,999,993 days are more than 36,525"),
        ("36526d", "a duration is at most a century: 36,526 days are more than 36,525"),
        (300, f"int 300 is not a duration: {LIKE}, or give a timedelta"),
        (timedelta(seconds=-5), "a duration cannot be negative: -1 day, 23:59:55"),
        ("7" * 200, f"'{'7' * 60}'… (200 characters) is not a duration: {LIKE}"),
    ],
)
def test_what_is_no_span_is_refused(span: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_duration(span)
    assert str(error.value) == message
