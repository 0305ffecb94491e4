"""Verbs that were moved under others go on working as they were spelled: the same JSON, the same exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.cli import ALIASES, GROUPS, HELP_OF_VERB, UNDER, VERBS, main, verb_of

BEFORE = (
    "demo", "run", "exec", "beat", "jobs", "next", "explain", "runs", "effects", "locks", "leaders", "holders",
    "observed", "watch", "ui", "why", "pause", "resume", "trigger", "rerun", "cancel", "backfill", "resolve", "drain",
    "add", "edit", "remove", "purge", "store", "audit", "doctor", "torture", "logs", "dupes", "simulate", "k8s",
    "choose", "crontab", "systemd", "completion",
)  # fmt: skip
"""The verbs as they were, all in the help."""

STRETCH = ("--from", "2026-03-01T00:00:00Z", "--to", "2026-03-01T00:02:00Z")
OLD_AND_NEW: dict[str, tuple[list[str], list[str], int, set[str]]] = {
    "holders": (["holders"], ["status", "holders"], 0, {"holders"}),
    "locks": (["locks"], ["status", "locks"], 0, {"locks"}),
    "leaders": (["leaders"], ["status", "leaders"], 0, {"leaders"}),
    "observed": (["observed"], ["status", "observed"], 0, {"observed"}),
    "effects": (["effects"], ["status", "effects"], 0, {"effects", "more"}),
    "add": (
        ["add", "ping", "@daily", "--function", "app:ping"],
        ["jobs", "add", "pong", "@daily", "--function", "app:ping"], 0, {"job", "changed", "revision"},
    ),
    "edit": (
        ["edit", "mail", "--schedule", "@hourly"], ["jobs", "edit", "mail", "--schedule", "@weekly"],
        0, {"job", "changed", "revision"},
    ),
    "remove": (["remove", "old"], ["jobs", "remove", "older"], 0, {"job", "changed", "revision"}),
    "purge": (["purge", "--dry-run"], ["store", "purge", "--dry-run"], 0, {"jobs", "swept"}),
    "backfill": (
        ["backfill", "sync", *STRETCH, "--dry-run"], ["rerun", "sync", *STRETCH, "--dry-run"],
        0, {"job", "slots", "asked", "runs", "obstacle"},
    ),
    "drain": (
        ["drain", "--label", "a=b"], ["pause", "--label", "c=d"], 0, {"drained", "changed", "holders"},
    ),
    "drain --off": (
        ["drain", "--label", "x=y", "--off"], ["resume", "--label", "x=y"], 0, {"drained", "changed", "holders"},
    ),
    "next": (["next", "@daily", "-n", "2"], ["explain", "next", "@daily", "-n", "2"], 0, {"fires"}),
    "logs": (["logs", "app.log"], ["audit", "logs", "app.log"], 0, {"counts", "findings", "jobs", "logs", "starts"}),
    "simulate": (
        ["simulate", "--seeds", "1", "--no-mutants", "--workers", "1"],
        ["torture", "simulate", "--seeds", "1", "--no-mutants", "--workers", "1"],
        0, {"seeds", "violations", "mutants", "failed", "faults", "calls", "starts", "effects"},
    ),
    "choose": (
        ["choose"], ["deploy", "choose"], 0,
        {"answers", "store", "trigger", "on_lost", "overlap", "effects", "timeout", "reasons", "trade_offs", "notes",
         "install", "snippet"},
    ),
    "systemd": (
        ["systemd", "a", "--schedule", "@daily", "--json", "--", "/bin/true"],
        ["deploy", "systemd", "a", "--schedule", "@daily", "--json", "--", "/bin/true"], 0, {"units"},
    ),
    "crontab": (
        ["crontab", "list", "--tz", "UTC", "--file", "crontab"],
        ["deploy", "crontab", "list", "--tz", "UTC", "--file", "crontab"], 0, {"lines"},
    ),
    "history": (["runs"], ["history"], 0, {"runs"}),
}  # fmt: skip
NO_STORE = ("next", "logs", "simulate", "choose", "systemd", "crontab")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a job that ran, and three that live in it."""
    url = f"sqlite:///{tmp_path}/cronce.db"
    with Cronce(url) as cron:
        cron.job("* * * * *", name="sync")(lambda: None)()
    for name in ("mail", "old", "older"):
        assert main(["add", name, "* * * * *", "--function", "app:mail", "--store", url]) == 0
    (tmp_path / "app.log").write_text("2026-03-01T00:00:00Z job_id=SYNC START\n2026-03-01T00:00:05Z job_id=SYNC END\n")
    (tmp_path / "crontab").write_text("@daily root /bin/true\n")
    monkeypatch.chdir(tmp_path)
    return url


@pytest.mark.parametrize("name", OLD_AND_NEW)
def test_an_old_spelling_says_and_exits_as_the_new_one(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, code, keys = OLD_AND_NEW[name]
    if name == "logs":
        pytest.importorskip("cronce_audit.logs", reason="needs the auditor: pip install 'cronce[audit]'")
    said = []
    for words in (old, new):
        capsys.readouterr()
        options = [] if name in NO_STORE else ["--store", url]
        assert main([*words, *options, *([] if "--json" in words else ["--json"])]) == code
        said.append(json.loads(capsys.readouterr().out))
    assert [set(one) for one in said] == [keys, keys]
    assert _without_subject(said[0]) == _without_subject(said[1])


def _without_subject(document: dict[str, Any]) -> dict[str, Any]:
    """What is changed by one spelling cannot be changed in the same way by the other: it is another, or again."""
    drained = document.get("drained")
    told = {**document, "job": "", "revision": bool(document.get("revision"))}
    return {**told, "drained": drained and {**drained, "at": ""}} if "drained" in document else told


@pytest.mark.parametrize("words", [["dupes"], ["audit", "dupes"], ["k8s", "rbac", "--help"], ["completion", "csh"]])
def test_what_has_no_document_parses_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    codes = []
    for spelled in (words, ["deploy", *words] if words[0] in UNDER["deploy"] else ["audit", "dupes"]):
        with pytest.raises(SystemExit) as ended:
            main(spelled)
        codes.append(ended.value.code)
    assert codes[0] == codes[1] == (0 if "--help" in words else 2)


def test_every_verb_that_there_was_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BEFORE) == 40
    assert [verb for verb in BEFORE if not verb_of([verb])[0]] == []
    moved = {*(verb for verbs in UNDER.values() for verb in verbs), "backfill", "drain"}
    assert {*BEFORE} - {*HELP_OF_VERB} == moved
    tested = {name.split()[0] for name in OLD_AND_NEW} | {"dupes", "k8s", "completion", "history"}
    assert moved - tested == set()


def test_the_help_has_twenty_three_verbs_and_no_old_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and "-h" not in line
    ]
    assert shown[: len(HELP_OF_VERB)] == list(HELP_OF_VERB)
    assert len(HELP_OF_VERB) == 23
    assert {*VERBS, *ALIASES} & {*shown} == {*HELP_OF_VERB}
    assert {verb for group in GROUPS.values() for verb in group} == {*HELP_OF_VERB}


def test_what_is_under_a_verb_is_in_its_help_and_spelled_so(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, under in UNDER.items():
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        shown = capsys.readouterr().out
        assert [name for name, text in under.items() if f"  {verb} {name} " not in shown or text not in shown] == []
    with pytest.raises(SystemExit):
        main(["help", "jobs", "add"])
    assert capsys.readouterr().out.startswith("usage: cronce jobs add NAME")


def test_a_verb_that_only_has_others_under_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy"]) == 2
    assert "  deploy crontab " in capsys.readouterr().out
