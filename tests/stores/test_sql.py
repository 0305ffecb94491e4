"""The rows that the SQL stores have in common: cells, prefixes, and where a page of a scan begins."""

from datetime import timedelta

import pytest

from cronce.model import EPOCH, Cell, Fence, Mark
from cronce.stores.base import Position, Scan
from cronce.stores.sql import AFTER_ALL_INSTANTS, BEFORE_ALL_INSTANTS, beyond, bounds, read_cell, scan_words

LAST = "\U0010ffff"
"""The highest character: no text above it begins otherwise."""


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("run/", "run0"),
        ("a", "b"),
        (f"a{LAST}{LAST}", "b"),
        ("\ud7ff", "\ue000"),  # between the two are surrogates, which no text holds
        ("", None),
        (LAST, None),
    ],
)
def test_the_keys_of_a_prefix_end_before_the_next_text(prefix: str, end: str | None) -> None:
    assert beyond(prefix) == end


@pytest.mark.parametrize("fence", [None, Fence(7, 3)])
def test_a_row_is_read_as_a_cell(fence: Fence | None) -> None:
    birth, number = fence or (None, None)
    row = ("run/a", 4, int(Mark.OPEN), 1_000_000, None, birth, number, "value")
    assert read_cell(row) == Cell("run/a", 4, "value", EPOCH + timedelta(seconds=1), Mark.OPEN, fence, None)


def test_a_page_has_room_for_one_cell_more_which_shows_that_it_goes_on() -> None:
    assert bounds(Scan("run/", limit=10), b"")["limit"] == 11


def test_a_first_page_begins_before_all_or_behind_all() -> None:
    first = bounds(Scan("run/", by="at"), b"end")
    assert (first["us"], first["after"], first["upto"]) == (BEFORE_ALL_INSTANTS, "", AFTER_ALL_INSTANTS)
    newest = bounds(Scan("run/", by="at", newest_first=True), b"end")
    assert (newest["us"], newest["after"]) == (AFTER_ALL_INSTANTS, b"end")


def test_the_newest_up_to_an_instant_begin_there() -> None:
    found = bounds(Scan("run/", by="at", upto=EPOCH, newest_first=True), b"end")
    assert (found["us"], found["upto"]) == (0, 0)


def test_a_later_page_begins_past_a_position() -> None:
    found = bounds(Scan("run/", by="at", after=Position(5, "run/b"), newest_first=True), b"end")
    assert (found["us"], found["after"]) == (5, "run/b")


@pytest.mark.parametrize(
    ("newest_first", "past", "order"), [(False, "at > :us", "at ASC, key ASC"), (True, "at < :us", "at DESC, key DESC")]
)
def test_a_scan_is_said_in_the_order_asked_for(newest_first: bool, past: str, order: str) -> None:
    words = scan_words(
        "at", Mark.OPEN, newest_first=newest_first, key="key", past_key="", past_instant="{by} {past} :us"
    )
    assert words == {"only": "mark = 1", "past": past, "order": order}
