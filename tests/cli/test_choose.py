"""cronce choose: answers by options, by a person, or assumed."""

import io
import json
import sys

import pytest

from cronce.cli import main
from tests.cli.person import Person

SAID = (
    "choose", "--stores", "postgresql, valkey", "--provider", "aws", "--jobs", "20", "--every", "5m", "--runs-for",
    "10m", "--failure-costs", "money", "--idempotent", "no", "--machines", "3",
)  # fmt: skip


def test_the_document_has_the_recommendation_its_reasons_and_a_snippet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SAID, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [
        "answers", "store", "trigger", "effects", "on_lost", "overlap", "timeout", "reasons", "trade_offs", "notes",
        "install", "snippet",
    ]  # fmt: skip
    assert [told[name] for name in ("store", "trigger", "on_lost", "overlap")] == [
        "postgresql",
        "crontab",
        "skip",
        "wait",
    ]
    assert told["answers"]["add_server"] == "yes"
    assert set(told["reasons"]) == {"store", "trigger", "effects", "on_lost", "overlap"}
    assert told["snippet"]["language"] == "sh"


def test_without_a_terminal_the_rest_is_assumed_and_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["choose", "--machines", "1"]) == 0
    first, _, assumed, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("stores none, provider own, machines 1, jobs 10, every 15m, runs for 1m")
    assert assumed.startswith("  not given, and assumed: --stores, --provider, --jobs, --every")
    assert "store: sqlite" in rest


def test_a_person_is_asked_until_it_makes_sense(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = "oracle\nredis\nmars\nkubernetes\n0\n2\n\n5 minutes\n5m\n\n\nyes\nno\n"
    monkeypatch.setattr(sys, "stdin", Person(answers))
    assert main(["choose"]) == 0
    out = capsys.readouterr().out
    for said in ("there is no store 'oracle'", "one of own, aws", "'0' is not a number", "is not a duration"):
        assert said in out
    assert "stores redis, provider kubernetes, machines 2, jobs 10, every 5m, runs for 1m, failure costs trouble" in out
    assert "store: redis" in out


def test_who_ends_the_questions_is_told_that_nothing_was_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Person("redis\n"))
    assert main(["choose"]) == 1
    assert "there was no answer, and nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--jobs", "many"], "'many' is not a number"),
        (["--every", "0s"], "more than zero"),
        (["--stores", "postgres,oracle"], "known: postgres, mysql, redis, etcd, none"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["choose", *words, "--json"]) == 2
    assert says in capsys.readouterr().err
