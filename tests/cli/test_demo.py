"""cronce demo: what it prints, on a terminal and in a file."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.cli import demo, main
from cronce.cli.terminal import Screen, filled
from cronce.clock import SystemClock
from cronce.demo.harness import DemoHarness
from cronce.demo.verdict import DemoVerdict
from cronce.model import Slot, unspell
from cronce.testing.ledger_file import LedgerLine, parse

GOOD, BAD = DemoVerdict(14, 14, 0, 0, 0, 2), DemoVerdict(14, 14, 18, 0, 0, 0)


@pytest.mark.parametrize("words", [["--seconds", "7"], ["--seconds", "301"]])
def test_too_few_slots_and_too_many_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *words]) == 2
    assert capsys.readouterr().err == f"cronce demo: --seconds must be from 8 to 300, not {words[1]}\n"


def test_files_are_not_kept_among_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()
    assert main(["demo", "--save", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"cronce demo: --save {tmp_path}: this directory is not empty; name a new one\n"
    assert main(["demo", "--save", str(tmp_path / "mine")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


# --- the verdict ---


@pytest.mark.parametrize(
    ("guarded", "unguarded", "passed"),
    [
        (GOOD, BAD, True),
        (GOOD._replace(extra=1), BAD, False),
        (GOOD._replace(runs=13, missed=1), BAD, False),
        (GOOD._replace(runs=13, lost=1), BAD, False),
        (GOOD._replace(runs=13), BAD, False),
        (GOOD, BAD._replace(extra=0), False),
    ],
)
def test_it_passes_only_if_the_guard_made_the_difference(
    guarded: DemoVerdict, unguarded: DemoVerdict, passed: bool
) -> None:
    assert demo._passed(guarded, unguarded) is passed
    text = "\n".join(demo._words(guarded, unguarded, Screen()))
    assert ("Every slot ran once" in text, "The result is wrong" in text) == (passed, not passed)


def test_the_verdict_in_words() -> None:
    assert demo._words(GOOD, BAD, Screen())[1:3] == [
        "guarded: 14 slots, 14 runs: 0 too many, 0 missed; 2 taken over",
        "without: 14 slots, 32 runs: 18 too many, 0 missed",
    ]


# --- what is shown ---


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


KEYS = [f"report@2026-03-29T08:17:0{second}Z" for second in (5, 6)]


@pytest.fixture
def stage(tmp_path: Path) -> DemoHarness:
    """Two slots on a stage without processes: the first settled, with a takeover, the second under way."""
    made = DemoHarness(tmp_path, 8, SystemClock(), lambda _stage: None)
    made.slots = [Slot("report", unspell(key[7:])) for key in KEYS]
    guarded = ["start web-1 f1", "refused web-2 -", "refused web-3 -", "start web-3 f2", "done web-3 f2"]
    unguarded = [f"{what} {who} -" for who in ("web-2", "web-1") for what in ("start", "done")]
    made.guarded.account.add(_lines(guarded, KEYS[0]))
    made.guarded.account.add(_lines(["start web-2 f3"], KEYS[1]))
    made.unguarded.account.add(_lines([*unguarded, "start web-3 -", "done web-3 -"], KEYS[0]))
    made.guarded.account.killed["web-1"] = KEYS[0]
    made.notes.append("web-1 is killed in the middle of 08:17:05")
    return made


def _lines(texts: list[str], slot: str) -> list[LedgerLine]:
    return parse(f"{what} {who} {slot} {fence} 1 -" for what, who, fence in map(str.split, texts))


SETTLED = "08:17:05  killed     ·          took over    ran again  ran        ran again"
OPEN = "08:17:06             running"


TABLE = [
    "slot      web-1      web-2      web-3        web-1      web-2      web-3",
    SETTLED, OPEN, "", "web-1 is killed in the middle of 08:17:05",
]  # fmt: skip


@pytest.mark.parametrize(("out", "term"), [(io.StringIO(), "xterm"), (Tty(), "dumb")], ids=["file", "dumb terminal"])
def test_who_cannot_draw_in_place_gets_the_table_once_at_the_end(
    out: io.StringIO, term: str, stage: DemoHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", term)
    table = demo.DemoTable(out)
    table.show(stage)
    assert out.getvalue() == ""
    table.close(stage)
    assert out.getvalue().splitlines()[1:] == TABLE


def test_a_terminal_draws_the_table_in_place(stage: DemoHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out = Tty()
    terminal = demo.DemoTable(out)
    terminal.show(stage)
    drawn = out.getvalue()
    assert drawn.splitlines()[1:] == TABLE
    terminal.show(stage)
    assert out.getvalue() == drawn  # nothing new, nothing drawn
    stage.guarded.account.add(_lines(["done web-2 f3"], KEYS[1]))
    terminal.show(stage)
    assert out.getvalue().startswith(f"{drawn}\x1b[6A\x1b[J")
    assert "08:17:06             ran\n" in out.getvalue()


def test_colours_are_for_terminals_that_welcome_them(stage: DemoHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = Tty()
    demo.DemoTable(out).close(stage)
    assert "\x1b[32mtook over\x1b[0m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Tty()
    demo.DemoTable(out).close(stage)
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal(width: int, stage: DemoHarness) -> None:
    on = Screen(width)
    lines = [*filled(demo.INTRO, on), *demo._header(on), *demo._notes(stage, on)]
    lines += [demo._row(stage.sides, key, on) for key in KEYS]
    assert max(map(len, lines)) <= width


def test_the_python_it_ends_with_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^  (.*)$", demo.NEXT.partition("or in Python")[2].partition("or with")[0], re.M))
    environ = os.environ | {"CRONCE_URL": f"sqlite:///{tmp_path}/cronce.db"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "once for each slot\n", "")
