"""cronce next and cronce explain."""

import json
import shlex
from pathlib import Path

import pytest

from cronce.cli import main
from tests.house import markdown

PAGE = Path(__file__).parents[2] / "docs/reference/commands-look.md"

NEW_YORK = ["--tz", "America/New_York"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_next_prints_the_slots_after_an_instant_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    since = ("--from", "2026-03-07T07:30:00Z", "-n", "3", "--json")
    assert json.loads(said(capsys, "next", "30 2 * * *", *NEW_YORK, *since)) == {
        "fires": ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]
    }
    skipping = json.loads(said(capsys, "next", "30 2 * * *", *NEW_YORK, *since, "--gap", "skip"))
    assert skipping["fires"][0] == "2026-03-09T06:30:00Z"


def test_next_follows_the_fold(capsys: pytest.CaptureFixture[str]) -> None:
    since = ("--from", "2026-11-01T04:00:00Z", "-n", "2", "--json", "--fold", "both")
    assert json.loads(said(capsys, "next", "30 1 * * *", *NEW_YORK, *since)) == {
        "fires": ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]
    }


def test_next_shows_the_clocks_of_the_zone_and_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said(capsys, "next", "0 9 * * MON-FRI", "--tz", "Europe/Berlin", "--from", "2026-03-27T09:00:00Z", "-n", "2")
        == """\
slot                  Europe/Berlin                 away
2026-03-30T07:00:00Z  Mon 2026-03-30 09:00:00 CEST  in 2d 22h
2026-03-31T07:00:00Z  Tue 2026-03-31 09:00:00 CEST  in 3d 22h
"""
    )


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ("every 90m", ["2026-03-29T00:00:00Z", "2026-03-29T01:30:00Z"]),
        ("@daily", ["2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"]),
        ("at 2026-03-29T01:00:00Z", ["2026-03-29T01:00:00Z"]),
        ("at 2020-01-01T00:00:00Z", []),
    ],
)
def test_next_takes_every_kind_of_schedule(text: str, fires: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "next", text, "--from", "2026-03-28T23:59:59Z", "-n", "2", "--json")
    assert json.loads(out) == {"fires": fires}


def test_next_says_when_there_is_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "next", "at 2020-01-01T00:00:00Z", "--from", "2026-03-28T23:59:59Z")
    assert out == "no slot after 2026-03-28T23:59:59Z; the last was 2020-01-01T00:00:00Z\n"
    out = said(capsys, "next", "at 2020-01-01T00:00:00Z", "--from", "2020-01-01T00:00:00Z")
    assert out == "no slot after 2020-01-01T00:00:00Z\n"


def test_next_counts_from_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert "  in " in said(capsys, "next", "* * * * *", "-n", "1").splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["* * * *"], "cannot read this schedule"),
        (["* * * * *", "-n", "0"], "-n must be from 1 to 10,000, not 0"),
        (["* * * * *", "--tz", "Berlin"], "did you mean 'Europe/Berlin'?"),
        (["* * * * *", "--from", "tomorrow"], "'tomorrow' is not an instant"),
        (["* * * * *", "--from", "2026-03-29T01:00:00"], "has no time zone"),
        (["every 5m", "--tz", "Europe/Berlin"], "counts real time, not local time"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("next", "explain"):
        if verb == "explain" and "-n" in arguments:
            continue
        assert says in said(capsys, verb, *arguments, code=2)


@pytest.mark.parametrize("rule", ["CR101", "cr702"])
def test_a_rule_of_the_auditor_is_explained_elsewhere(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It was read as a schedule with too few fields."""
    assert main(["explain", rule]) == 2
    told = f"{rule.upper()} is a rule of the auditor: `cronce audit explain {rule.upper()}`"
    assert capsys.readouterr().err == f"cronce explain: {told}\n"


def test_explain_says_it_in_words_and_what_happens_when_the_clocks_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        said(capsys, "explain", "30 1,2 * * *", *NEW_YORK, "--from", "2026-03-01T00:00:00Z")
        == """\
at 01:30 and 02:30 every day, local time in America/New_York

slot                  America/New_York             away
2026-03-01T06:30:00Z  Sun 2026-03-01 01:30:00 EST  in 6h 30m
2026-03-01T07:30:00Z  Sun 2026-03-01 02:30:00 EST  in 7h 30m
2026-03-02T06:30:00Z  Mon 2026-03-02 01:30:00 EST  in 1d 6h
2026-03-02T07:30:00Z  Mon 2026-03-02 02:30:00 EST  in 1d 7h
2026-03-03T06:30:00Z  Tue 2026-03-03 01:30:00 EST  in 2d 6h

when the clocks change:
  Sun 2026-03-08, 02:00 becomes 03:00 (07:00:00Z)
    02:30 does not show, and runs at 03:00 (07:00:00Z)
  Sun 2026-11-01, 02:00 becomes 01:00 (06:00:00Z)
    01:30 shows twice, and runs once, the first time (05:30:00Z)
"""
    )


def test_explain_names_the_day_when_clocks_jump_over_midnight(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", "0 9 * * *", "--tz", "Africa/Cairo", "--from", "2026-03-01T00:00:00Z")
    assert "  Fri 2026-04-24, 00:00 becomes 01:00 (22:00:00Z)\n" in out
    assert "  Fri 2026-10-30, 00:00 becomes 23:00 of Thu 2026-10-29 (21:00:00Z)\n" in out


def test_explain_says_where_no_clock_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "explain", "@daily").startswith("at 00:00 every day, UTC\n")
    assert said(capsys, "explain", "@daily").endswith("\nthe clocks in UTC do not change in the coming year\n")
    assert said(capsys, "explain", "every 15m").endswith("\nclock changes do not affect this schedule\n")


def test_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "explain", "30 1 * * *", *NEW_YORK, "--fold", "both", "--from", "2026-10-01T00:00:00Z", "--json")
    told = json.loads(out)
    assert told["schedule"] == {"text": "30 1 * * *", "tz": "America/New_York", "gap": "run", "fold": "both"}
    assert told["sentence"] == "at 01:30 every day"
    assert len(told["fires"]) == 5
    assert told["fires"][0] == "2026-10-01T05:30:00Z"
    assert told["changes"][0] == {
        "at": "2026-11-01T06:00:00Z",
        "kind": "fold",
        "low": "2026-11-01T01:00:00",
        "high": "2026-11-01T02:00:00",
        "wildcard": False,
        "effect": "twice",
        "times": 1,
        "slots": 2,
        "first": "2026-11-01T05:30:00Z",
        "last": "2026-11-01T06:30:00Z",
        "sentence": "01:30 shows twice, and runs both times (05:30:00Z and 06:30:00Z)",
    }
    assert [change["kind"] for change in told["changes"]] == ["fold", "gap"]


def test_the_documented_examples_print_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that begin at a given instant: they are the same on every day."""
    blocks = [block.text for block in markdown.blocks(PAGE.read_text(encoding="utf-8")) if block.language == "console"]
    examples = [example for text in blocks for example in text.split("$ cronce ") if "--from" in example]
    assert len(examples) == 2
    for example in examples:
        command, _, output = example.partition("\n")
        assert said(capsys, *shlex.split(command)) == output
