"""How instants and spans are said."""

from datetime import UTC, datetime, timedelta

import pytest

from cronce.protocol.record import LAPSED, NEVER_STARTED, RELEASED, Outcome, Past, Record, State
from cronce.telling.words import ago, away, counted, how_long, iso, listed, moment, short, times

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.0042, "4ms"),
        (0.44, "440ms"),
        (1.46, "1.5s"),
        (9.96, "10s"),
        (59.6, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (90_061, "1d 1h"),
        (-5, "5s"),
    ],
)
def test_a_span_is_said_in_two_units_at_most(seconds: float, shown: str) -> None:
    assert short(timedelta(seconds=seconds)) == shown


def test_instants_are_said_as_they_are_needed() -> None:
    later = NOW + timedelta(hours=2, microseconds=5)
    assert (iso(NOW), iso(later), iso(None)) == ("2026-03-29T12:00:00Z", "2026-03-29T14:00:00.000005Z", None)
    assert (away(later, NOW), away(NOW, later), away(NOW, NOW)) == ("in 2h", "2h ago", "now")
    assert (ago(later, NOW), ago(NOW, later), ago(NOW, NOW)) == ("just now", "2h ago", "just now")
    assert moment(later, NOW) == "14:00:00Z"
    assert moment(later, NOW - timedelta(days=1)) == "2026-03-29T14:00:00Z"


def test_numbers_and_names_are_said_in_few_words() -> None:
    assert [counted(1, "slot"), counted(1200, "slot"), counted(1, "slot", more=True)] == [
        "1 slot",
        "1,200 slots",
        "1 or more slots",
    ]
    assert [times(number) for number in (1, 2, 1200)] == ["once", "twice", "1,200 times"]
    assert [listed("abc"), listed("abcd"), listed(())] == ["a, b, c", "a, b, c and 1 more", ""]


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ((), "23ms"),
        ((Past(None, "web-1", NOW, LAPSED),), "23ms, 23s since its first start"),
        (
            (Past(None, "web-1", NOW, RELEASED), Past(None, "web-1", NOW + timedelta(seconds=20), "failed")),
            "23ms, 3s since its first start",
        ),
        ((Past(None, "web-1", NOW, NEVER_STARTED),), "23ms"),
    ],
)
def test_a_run_that_was_taken_over_says_how_long_it_took_and_since_when(past: tuple[Past, ...], words: str) -> None:
    """It said 23ms, and had begun 23 s before."""
    started = NOW + timedelta(seconds=23)
    ended = started + timedelta(milliseconds=23)
    record = Record(State.CLOSED, started=started, finished=ended, outcome=Outcome.SUCCEEDED, past=past)
    assert how_long(record) == words
    assert how_long(record._replace(state=State.RUNNING, finished=None), ended) == words
