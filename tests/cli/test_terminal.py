"""Tables and colours for people."""

import os
import pty
from io import StringIO

import pytest

from cronce.cli.terminal import ColouredText, Screen, Text, paint, screen, table
from cronce.telling.words import safe

ROWS: list[list[Text]] = [
    ["billing", ColouredText("succeeded", "good"), ""],
    ["a", ColouredText("lost", "bad"), "its holder web-1 did not renew its lease"],
]


def test_columns_are_aligned_and_no_line_ends_in_blanks() -> None:
    assert (
        table(["job", "state", "reason"], ROWS, Screen())
        == """\
job      state      reason
billing  succeeded
a        lost       its holder web-1 did not renew its lease"""
    )


def test_on_a_terminal_the_widest_column_is_cut() -> None:
    shown = table(["job", "state", "reason"], ROWS, Screen(width=32))
    assert shown.splitlines()[2] == "a        lost       its holder …"
    assert max(map(len, shown.splitlines())) == 32


def test_the_first_column_is_cut_last() -> None:
    rows: list[list[Text]] = [["order-sync@2026-03-29T01:00:00Z", "succeeded", "a reason"]]
    assert table(["slot", "state", "reason"], rows, Screen(width=50)).splitlines()[1] == (
        "order-sync@2026-03-29T01:00:0…  succeed…  a reason"
    )


def test_no_column_is_cut_to_nothing() -> None:
    shown = table(["job", "state", "reason"], ROWS, Screen(width=5))
    assert shown.splitlines()[2] == "a        lost      its hol…"


def test_colours_do_not_disturb_the_columns() -> None:
    shown = table(["job", "state", "reason"], ROWS, Screen(colours=True)).splitlines()
    assert shown[2] == "a        \x1b[31mlost\x1b[0m       its holder web-1 did not renew its lease"


def test_a_text_is_painted_where_colours_are_welcome() -> None:
    assert paint(ColouredText("fine\x1b", "good"), Screen(colours=True)) == "\x1b[32mfine\\x1b\x1b[0m"
    assert paint(ColouredText("fine", "good"), Screen()) == paint("fine", Screen(colours=True)) == "fine"


def test_nothing_that_a_job_wrote_moves_the_cursor() -> None:
    assert safe("a\x1b[2Jb\nc\u202ed\x9b") == "a\\x1b[2Jb\\nc\\u202ed\\x9b"
    assert "\x1b" not in table(["reason"], [["\x1b]0;title\x07"]], Screen(colours=False))


def test_without_a_terminal_there_is_no_colour_and_no_cutting() -> None:
    assert screen(StringIO(), {}) == Screen()


@pytest.mark.parametrize(
    ("environ", "colours"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_has_colours_unless_somebody_minds(environ: dict[str, str], colours: bool) -> None:
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "w") as out:
            assert screen(out, environ).colours is colours
    finally:
        os.close(master)
