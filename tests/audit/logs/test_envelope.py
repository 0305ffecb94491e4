"""When a line was written: with and without an offset, with and without a year."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from cronce_audit.logs.envelope import Stamps

BERLIN = ZoneInfo("Europe/Berlin")
NEWEST = datetime(2026, 11, 15, 12, tzinfo=UTC)


def utc(text: str, stamps: Stamps | None = None) -> str | None:
    at = (stamps or Stamps(UTC, NEWEST)).value(text)
    return None if at is None else at.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-01 14:00:00,123 INFO x", "2026-11-01T14:00:00.123000Z"),
        ("2026-11-01T14:00:00.123456789Z x", "2026-11-01T14:00:00.123456Z"),
        ("2026-11-01T16:00:00+02:00 x", "2026-11-01T14:00:00Z"),
        ("2026-11-01 16:00:00 +0200 x", "2026-11-01T14:00:00Z"),
        ("2026/11/01 14:00:00 UTC x", "2026-11-01T14:00:00Z"),
        ("[2026-11-01 14:00:00,5: INFO/MainProcess] x", "2026-11-01T14:00:00.500000Z"),
        ("pod/sync-1 2026-11-01T14:00:00Z x", "2026-11-01T14:00:00Z"),
        ("Nov  1 14:00:00 web-1 x", "2026-11-01T14:00:00Z"),
        ("<78>Nov 11 14:00:00 web-1 x", "2026-11-11T14:00:00Z"),
        ("1793541600", "2026-11-01T14:00:00Z"),
        ("1793541600.25", "2026-11-01T14:00:00.250000Z"),
        ("1793541600250", "2026-11-01T14:00:00.250000Z"),
        ("1793541600250000000", "2026-11-01T14:00:00.250000Z"),
    ],
)
def test_a_stamp_is_read(text: str, expected: str) -> None:
    assert utc(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "no stamp", "2026-13-01 14:00:00", "2026-02-30 14:00:00", "2026-11-01 24:61:00", "Feb 30 14:00:00 h", "7",
     "-1", "nan", "inf", "1e300", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
     "x" * 200 + "2026-11-01 14:00:00"],
)  # fmt: skip
def test_what_is_none_is_no_crash(text: str) -> None:
    assert utc(text) is None


def test_new_year_lies_between_two_lines_whatever_their_order() -> None:
    stamps = Stamps(UTC, datetime(2027, 1, 2, 6, 25, tzinfo=UTC))
    lines = ["Dec 31 23:59:59 h x", "Jan  1 00:00:01 h x", "Dec 30 10:00:00 h x", "Jan  2 06:25:01 h x"]
    assert [utc(line, stamps) for line in lines] == [
        "2026-12-31T23:59:59Z", "2027-01-01T00:00:01Z", "2026-12-30T10:00:00Z", "2027-01-02T06:25:01Z",
    ]  # fmt: skip
    assert utc("Jan  4 00:00:00 h x", stamps) == "2026-01-04T00:00:00Z"


def test_the_29th_of_february_is_of_a_leap_year() -> None:
    assert utc("Feb 29 10:00:00 h x") == "2024-02-29T10:00:00Z"


def test_a_zone_gives_the_offset_and_the_line_before_tells_which_of_two_hours() -> None:
    stamps = Stamps(BERLIN, NEWEST)
    walls = ["01:59:00", "02:10:00", "02:59:59", "02:00:00", "02:59:59", "03:00:00"]
    assert [utc(f"2026-10-25 {wall} x", stamps) for wall in walls] == [
        "2026-10-24T23:59:00Z", "2026-10-25T00:10:00Z", "2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z",
        "2026-10-25T01:59:59Z", "2026-10-25T02:00:00Z",
    ]  # fmt: skip
    late = Stamps(BERLIN, NEWEST)
    assert [utc(f"2026-10-25 02:30:{second} x", late) for second in ("10.5", "10.2")] == [
        "2026-10-25T00:30:10.500000Z", "2026-10-25T00:30:10.200000Z",
    ]  # fmt: skip
    assert utc("Jul  1 14:00:00 h x", Stamps(BERLIN, NEWEST)) == "2026-07-01T12:00:00Z"
