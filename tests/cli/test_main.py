"""The command line: what it says, and with what it exits."""

import os
import re
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest

from cronce import Cronce, Skipped, __version__, mounts
from cronce.cli import GROUPS, HELP_OF_VERB, UNDER, VERBS, add_arguments, main, parser_of
from cronce.errors import StoreOnNetwork
from cronce.monitor.alerts import SEVERITIES
from cronce.policy import Fold, Gap, Missed, OnLost, Overlap
from cronce.runtime.run_lists import Order
from cronce.runtime.scheduling.settings import Role
from cronce.stores import open_store

ROOT = Path(__file__).parents[2]
HEAVY = (
    *("asyncio", "cronce.model", "dataclasses", "difflib", "importlib.metadata", "inspect", "json", "logging"),
    *("pathlib", "shutil", "sqlite3", "subprocess", "threading", "tomllib", "zoneinfo"),
)


def test_arguments_are_a_table_in_the_words_of_the_help_text() -> None:
    parser = ArgumentParser()
    add_arguments(
        parser, {"JOB": "one", "[WHEN...]": "many", "--json": "", "-v, --verbose": "", "start: --from WHEN": ""}
    )
    add_arguments(parser, {"-n N": (20, ""), "--label NAME=VALUE": ([], ""), "--gap {run,skip}": ("run", "")})
    said = ["mail", "today", "--from", "1", "-v", "-n", "3", "--label", "a=b", "--label", "c=d", "--gap", "skip"]
    usual = Namespace(job="mail", when=[], json=False, verbose=False, start=None, n=20, label=[], gap="run")
    assert parser.parse_args(["mail"]) == usual
    assert parser.parse_args(said) == Namespace(
        job="mail", when=["today"], json=False, verbose=True, start="1", n=3, label=["a=b", "c=d"], gap="skip"
    )


@pytest.mark.parametrize(
    ("verb", "option", "words"),
    [
        *(
            ("exec", "--gap", Gap),
            ("exec", "--fold", Fold),
            ("exec", "--on-lost", OnLost),
            ("exec", "--overlap", Overlap),
        ),
        *(("explain", "--gap", Gap), ("explain", "--fold", Fold), ("add", "--missed", Missed), ("runs", "--by", Order)),
        *(("run", "--role", Role), ("watch", "--threshold", SEVERITIES)),
    ],
)
def test_an_option_takes_the_words_that_its_type_knows(verb: str, option: str, words: Any) -> None:
    (action,) = [one for one in parser_of(verb)._actions if option in one.option_strings]
    assert tuple(action.choices or ()) == (get_args(words) or words)


def test_without_a_verb_it_shows_all_of_them_in_their_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line in GROUPS] == list(GROUPS)
    assert [verb for verb, text in HELP_OF_VERB.items() if f"  {verb:<10} {text}" not in shown] == []


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("rnus", "there is no command 'rnus'; did you mean 'runs'? `cronce --help` lists all commands"),
        ("JOBS", "there is no command 'JOBS'; did you mean 'jobs'? `cronce --help` lists all commands"),
        ("ack", "there is no command 'ack'; did you mean 'watch --acknowledge'? `cronce --help` lists all commands"),
        ("start", "there is no command 'start'; did you mean 'run'? `cronce --help` lists all commands"),
        ("frobnicate", "there is no command 'frobnicate'; `cronce --help` lists all commands"),
    ],
)
def test_an_unknown_verb_is_told_from_the_one_that_was_meant(
    verb: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--json"]) == 2
    assert capsys.readouterr().err == f"cronce: {says}\n"


def test_starting_loads_nothing_heavier_than_argparse() -> None:
    """`cronce exec` starts every minute under cron."""
    code = f"import sys, cronce.cli; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_verb_is_documented() -> None:
    page = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "docs/reference").glob("commands*.md"))
    two = {verb: f"{first} {verb}" for first, verbs in UNDER.items() for verb in verbs}
    assert [verb for verb in VERBS if verb != "drain" and f"## cronce {two.get(verb, verb)}\n" not in page] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([verb, "--help"])
    assert end.value.code == 0
    assert f"usage: cronce {verb}" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"cronce {__version__}\n")


def test_a_copied_store_is_adopted_on_purpose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    open_store(f"sqlite:///{original}").close()
    shutil.copy(original, copy)
    assert main(["store", "adopt", f"sqlite:///{copy}"]) == 0
    assert capsys.readouterr().out.startswith(f"sqlite:///{copy}: a new store since ")
    open_store(f"sqlite:///{copy}").close()


def test_what_cannot_be_adopted_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "adopt", "redis://:secret@host/0"]) == 2
    assert capsys.readouterr().err == (
        "cronce store: redis://:***@host/0: this kind of store cannot detect that it was copied, so there is"
        " nothing to adopt\n"
    )
    assert main(["store", "adopt", f"sqlite:///{tmp_path}/nothing.db"]) == 2
    assert capsys.readouterr().err == f"cronce store: there is no file {tmp_path}/nothing.db; nothing was adopted\n"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("this is not a database, and it is longer than a header of a hundred bytes" * 4)
    assert main(["store", "adopt", f"sqlite:///{tmp_path}/text"]) == 78


def test_a_store_is_begun_on_a_network_file_system_by_the_command_that_its_refusal_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to adopt the file, and that answered that there is none."""
    monkeypatch.setattr(mounts, "current_table", lambda: f"9 1 0:9 / {tmp_path} rw - nfs4 server:/ rw\n")
    url = f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(StoreOnNetwork) as refused:
        open_store(url)
    (command,) = re.findall("`cronce (.*)`", str(refused.value))
    assert main(command.split()) == 0
    assert re.fullmatch(rf"{url}: initialised on [-0-9]+ [:0-9]+ UTC\n", capsys.readouterr().out)
    open_store(url).close()


def test_an_empty_file_that_is_adopted_lets_no_past_slot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that they stay closed, and ran one."""
    (tmp_path / "emptied.db").touch()
    url = f"sqlite:///{tmp_path}/emptied.db"
    assert main(["store", "adopt", url]) == 0
    assert capsys.readouterr().out.endswith("UTC; slots until then that it has no record of stay closed\n")
    cron = Cronce(url)
    ran = cron.job(every="1h", name="tick")(lambda: "ran").at("2026-01-01T00:00:00Z")()
    assert isinstance(ran, Skipped)
    assert ran.kind == "too old"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    cronce = [sys.executable, "-m", "cronce", "simulate", "--seed", "3"]
    with subprocess.Popen(cronce, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


INTERRUPTIBLE = """
import signal, sys
from cronce.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background has it ignored
sys.exit(main(["simulate", "--seeds", "100000", "--no-mutants"]))
"""


def test_an_interrupt_that_was_seen_to_is_not_how_a_command_ends() -> None:
    """Python remembers one that came while a text was executed, though it was caught, and would end by that signal."""
    command = [sys.executable, "-m", "tests.cli.interrupted", "--version"]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def test_an_interrupt_ends_at_once_and_in_one_line() -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while len(children.read_text().split()) < 2:
                assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=60) == 130
            said = process.stderr.read().splitlines()  # a child that was just starting may say that its parent is gone
            assert said.count(b"cronce simulate: interrupted") == 1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_help_is_a_verb_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "next"])
    assert ended.value.code == 0
    assert "cronce next" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs", "postgresql://ada:S3CRET@db/app"],
        ["runs", "--stroe", "redis://:S3CRET@cache/0"],
        ["runs", "mysql://ada:S3CRET@db/app"],
        ["exec", "mysql://ada:S3CRET@db/app", "--schedule", "* * * * *", "--", "true"],
        ["jobs", "--store", "host=db password=S3CRET"],
        ["jobs", "--store", "redis://ada:S3/CRET@cache/0"],
        ["jobs", "--store", "mysql://ada:S3#CRET@cache/0"],
        ["jobs", "--store", "postgresql://ada:S3@CRET@db/x"],
        ["store", "init", "etcd://ada:S3CRET@:x/"],
    ],
)
def test_no_password_is_shown_whatever_was_mistyped(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRONCE_URL", f"sqlite:///{tmp_path}/cronce.db")
    open_store(f"sqlite:///{tmp_path}/cronce.db").close()
    code = 0
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(str(end.code))
    said = capsys.readouterr()
    assert code in (1, 2)
    assert "S3" not in said.out + said.err
    assert "CRET" not in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (
            ["exec", "j", "--schedul", "0 9 * * *", "--", "true"],
            "unrecognized arguments: --schedul 0 9 * * *; did you mean --schedule?",
        ),
        (["runs", "--stat=lost"], "unrecognized arguments: --stat=lost; did you mean --state?"),
        (
            ["exec", "j", "--schedule", "0", "9", "*", "*", "*", "--", "true"],
            "9 * * *; put the schedule in quotes, or the shell splits it: --schedule '*/15 * * * *'",
        ),
        (
            ["explain", "every", "5m"],
            "unrecognized arguments: 5m; put the schedule in quotes, or the shell splits it: '*/15 * * * *'",
        ),
        (["explain", "a.txt", "b.txt"], "b.txt; put the schedule in quotes, or the shell splits it: '*/15 * * * *'"),
        (["resolve", "j@2026-03-29T01:00:00Z", "dne"], "'dne' is not one of done, retry; did you mean done?"),
        (["status", "lock"], "unrecognized arguments: lock; did you mean `cronce status locks`?"),
        (["deploy", "cron"], "unrecognized arguments: cron; did you mean `cronce deploy crontab`?"),
        (
            ["status", "nightly"],
            (
                "unrecognized arguments: nightly; `cronce show JOB` shows one job, `cronce status --help` lists what"
                " else there is"
            ),
        ),
        (["jobs", "nightly"], "unrecognized arguments: nightly; `cronce show JOB` shows one job"),
        (["store", "purg"], "'purg' is not one of init, adopt, sql, clock, purge; did you mean purge?"),
        (["exec", "j", "--on-lost", "x", "--", "true"], "argument --on-lost: 'x' is not one of skip, rerun"),
        (
            ["deploy", "crontab", "unwrap"],
            (
                "'unwrap' is not one of install, remove, list, dedupe, wrap; to undo `wrap`, restore the copy it kept"
                " (~/.local/state/cronce/crontab.*) with `crontab FILE`, or delete `cronce exec … --` from each line"
            ),
        ),
    ],
)
def test_what_was_mistyped_is_named_with_what_was_meant(
    arguments: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said to be unrecognized, or invalid, and no more."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"{remedy}\n")
