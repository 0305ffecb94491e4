"""cronce torture: what it takes, what it refuses, and what it says."""

import argparse
import re
import sys
from pathlib import Path

import pytest

from cronce.cli import torture
from cronce.cli.terminal import Screen
from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreUnavailable
from cronce.torture.harness import Torture, TortureResult, TortureSettings
from cronce.torture.picture import counted
from cronce.torture.verdict import TortureVerdict
from tests.torture.results import result


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    torture.add_torture_arguments(parser)
    return parser.parse_args(words)


def test_by_default_a_minute_six_processes_both_policies_and_a_new_seed() -> None:
    first, second = (torture._settings(parsed("--url", "sqlite:////x.db")) for _ in range(2))
    assert (first.url, first.seconds, first.processes) == ("sqlite:////x.db", 60, 6)
    assert (first.on_lost, first.restart, first.keep) == (("skip", "rerun"), None, False)
    assert first.seed != second.seed


def test_what_is_asked_for_is_done() -> None:
    words = ("--url", "sqlite:////x.db", "--seconds", "9", "--processes", "3", "--seed", "5", "--on-lost", "rerun")
    settings = torture._settings(parsed(*words, "--save", "there"))
    assert settings == TortureSettings("sqlite:////x.db", 9, 3, 5, ("rerun",), keep=True)
    assert torture._settings(parsed(*words, "--scheduler")) == settings._replace(keep=False, scheduler=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seconds", "4"], "--seconds must be from 5 to 3,600, not 4"),
        (["--processes", "1"], "--processes must be from 2 to 32, not 1"),
        (["--seed", "-1"], "--seed must be from 0 to 999,999, not -1"),
        (["--restart", "sh -c 'x"], '--restart "sh -c \'x" cannot be read as words: No closing quotation'),
        (["--restart", " "], "--restart is empty; give a program and its arguments"),
        (
            ["--restart", "/no/such/prog now"],
            "--restart /no/such/prog now: there is no program /no/such/prog that can be run (cronce uses no shell)",
        ),
        (
            ["app:cron", "--scheduler"],
            "the jobs of an app have policies of their own: leave out --scheduler and --on-lost",
        ),
        (["--really"], "--really runs the functions of an app, so name one: cronce torture app:cron --really"),
        (["--picture", "p.png"], "--picture p.png: name a file that ends in .html or .svg"),
        (["--picture", "/no/such/p.svg"], "--picture /no/such/p.svg: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_begins(words: list[str], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        torture.run_torture(parsed("--url", "sqlite:////no/such/x.db", *words))
    assert str(refused.value) == says


def test_a_store_of_one_process_is_refused() -> None:
    with pytest.raises(BadInput, match="memory:// works in one process only, and a torture run needs several"):
        torture.run_torture(parsed("--url", "memory://"))


def test_a_store_that_cannot_be_reached_is_said_to_be_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreUnavailable):
        torture.run_torture(parsed("--store", "redis://127.0.0.1:1/0"))
    assert capsys.readouterr() == ("", "")


def test_the_store_has_two_names() -> None:
    assert parsed("--store", "sqlite:///x.db") == parsed("--url", "sqlite:///x.db")


def test_a_store_that_was_gone_before_the_first_slot_is_not_told_of_in_negative_seconds(tmp_path: Path) -> None:
    stopped = Torture(TortureSettings("sqlite:////x.db"), tmp_path)
    stopped._begun = stopped._clock.boot()
    stopped._answered = stopped._begun - 2
    assert "UTC (0 s after the first slot), so there is no result: gone" in stopped._stopped_answering(
        StoreUnavailable("gone")
    )


def test_a_picture_is_not_begun_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends it earlier finds what was there before, or nothing."""

    class Interrupted(Torture):
        def run(self) -> TortureResult:
            raise KeyboardInterrupt

    monkeypatch.setattr(torture, "Torture", Interrupted)
    (tmp_path / "old.svg").write_text("of yesterday")
    for name in ("old.svg", "new.svg"):
        with pytest.raises(KeyboardInterrupt):
            torture.run_torture(parsed("--store", f"sqlite:///{tmp_path}/x.db", "--picture", str(tmp_path / name)))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.svg": "of yesterday"}


def test_a_restart_is_a_command_without_a_shell(tmp_path: Path) -> None:
    hook = torture._restart(f'{sys.executable} -c \'open("{tmp_path}/done", "w")\' ; touch x')
    assert hook is not None
    hook()
    assert [path.name for path in tmp_path.iterdir()] == ["done"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("false", "false ended with 1 and printed nothing"),
        ("sh -c 'echo no; echo such unit >&2; exit 3'", "sh -c 'echo no; echo such unit >&2; exit 3' ended with 3"),
        ("sleep 60", "sleep 60 had not ended after 0.2 s and printed nothing"),
    ],
)
def test_a_restart_that_fails_is_no_verdict(command: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torture, "RESTART_TIMEOUT", 0.2 if command == "sleep 60" else 60)
    hook = torture._restart(command)
    assert hook is not None
    with pytest.raises(BadInput) as failed:
        hook()
    said = " and printed: no such unit" if "unit" in command else ""
    assert str(failed.value) == f"--restart: {says}{said}; nothing was judged"


def test_a_restart_is_over_although_the_server_that_it_started_goes_on() -> None:
    """It has our standard output, and a pipe would not end before it does."""
    hook = torture._restart("sh -c 'sleep 40 &'")
    assert hook is not None
    begun = SystemClock().boot()
    hook()
    assert SystemClock().boot() - begun < 30


# --- what it says ---


def test_a_broken_promise_is_told_with_the_seed_that_repeats_it() -> None:
    told = "\n".join(torture._words(result(), parsed("--picture", "p.svg"), Screen()))
    assert told == (
        "3 processes, 5 s; 1 × kill, 1 × pause, 1 × outage\n"
        "left out: no partitions: a sqlite: store is not reached by TCP\n"
        "skip: 5 slots: 1 ran, 1 skipped, 0 failed, 1 lost, 0 unknown, 2 missed;"
        " extra 0, overlapping 0, stale accepted 0, taken over 0\n"
        "rerun: 5 slots: 5 ran, 0 skipped, 0 failed, 0 lost, 0 unknown, 0 missed;"
        " extra 0, overlapping 0, stale accepted 0, taken over 1\n"
        "The picture is p.svg.\n\n"
        "A promise was broken. Repeat it with --seed 7 --save DIR, and send us the\nfiles."
    )


def test_a_slot_that_ran_and_could_not_say_so_is_counted_twice_and_that_is_told() -> None:
    assert counted(TortureVerdict(15, 5, lost=3, skipped=8)).startswith(
        "15 slots: 5 ran, 8 skipped, 0 failed, 3 lost, 0 unknown, 0 missed (1 counted twice); extra 0"
    )


def test_what_it_takes_and_the_seed_are_told_at_the_beginning_once(capsys: pytest.CaptureFixture[str]) -> None:
    for due in (0, 1, 5):
        torture._show(result().settings, due)
    assert capsys.readouterr().err == "cronce torture: seed 7, 3 processes, about 11 s\n"


def test_every_exit_code_is_in_the_help() -> None:
    codes = re.findall(r"\b(\d+) ", torture.TORTURE_DESCRIPTION.partition("exit codes: ")[2].partition("With any")[0])
    assert codes == ["0", "1", "2", "75", "78"]


def test_kept_promises_and_a_store_that_forgot_are_told() -> None:
    good = (TortureVerdict(5, 4, unknown=1), TortureVerdict(5, 4, unknown=1, on_lost="rerun"))
    told = torture._words(result(verdicts=good, forgot=True), parsed(), Screen())
    assert told[-3:] == [
        "The store lost records and reports that: those slots are unknown.",
        "",
        "Every promise was kept.",
    ]


def test_the_document_is_the_sum_and_each_job() -> None:
    whole = torture.document(result())
    columns = {"slots": 10, "runs": 6, "extra": 0, "missed": 2, "lost": 1, "unknown": 0, "overlapping": 0}
    assert whole == {
        **columns, "stale_accepted": 0, "on_lost": "both", "taken_over": 1, "skipped": 1, "failed": 0,
        "seed": 7, "forgot": False,
        "faults": {"kill": 1, "outage": 1, "pause": 1},
        "left_out": ["no partitions: a sqlite: store is not reached by TCP"],
        "jobs": [verdict._asdict() for verdict in result().verdicts],
    }  # fmt: skip
    (alone,) = result().verdicts[1:]
    assert torture.document(result(verdicts=(alone,)))["on_lost"] == "rerun"
