"""The table and the picture in the docs are what the code does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cronce.protocol.commands import (
    Ask,
    Command,
    Decision,
    Nothing,
    Settle,
)
from cronce.protocol.table import TABLE, Row, rule
from cronce.protocol.view import View
from tests.protocol import diagram

ROOT = Path(__file__).parents[2]
PAGE = ROOT / diagram.DIAGRAM_PAGE


def test_the_page_shows_what_the_code_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == diagram.redrawn(page), "run python -m tests.protocol.diagram --write"


def test_the_examples_reach_every_cell_of_the_table() -> None:
    reached = {(example.row, type(example.command)) for example in diagram.examples()}
    assert reached == {(row, command) for row, rules in TABLE.items() for command in rules}


def test_another_rule_gives_another_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = diagram.drawings()

    def never_closed(_view: View, _command: Command) -> Decision:
        return Decision(Nothing())

    changed = {**TABLE, Row.LAPSED: {**TABLE[Row.LAPSED], Settle: never_closed, Ask: never_closed}}
    monkeypatch.setattr(sys.modules[rule.__module__], "TABLE", changed)
    after = diagram.drawings()
    assert after["what one says of its own"] == before["what one says of its own"]
    assert after["what any process may say"] != before["what any process may say"]
    assert "queue, skip, resolve once it lapsed" in after["states"]


def test_answers_that_no_condition_tells_apart_are_not_drawn() -> None:
    example = diagram.examples()[0]
    with pytest.raises(AssertionError, match="no condition known here tells these apart"):
        diagram.told_apart([(example, "granted"), (example, "stale")])


def test_a_page_without_the_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="the page has no <!-- drawn: gates -->"):
        diagram.redrawn("# Another page")


def _run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.protocol.diagram", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_the_command_prints_the_drawings() -> None:
    done = _run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n\n".join(diagram.drawings().values()) + "\n"


def test_the_command_redraws_the_page_in_place(tmp_path: Path) -> None:
    page = tmp_path / diagram.DIAGRAM_PAGE
    page.parent.mkdir(parents=True)
    page.write_text(PAGE.read_text(encoding="utf-8").replace("stale", "fresh"), encoding="utf-8")
    assert _run("--write", cwd=tmp_path).returncode == 0
    drawn = page.read_text(encoding="utf-8")
    assert all(drawing in drawn for drawing in diagram.drawings().values())


def test_the_command_says_how_it_is_used() -> None:
    done = _run("--help-me")
    assert done.returncode == 1
    assert "usage: python -m tests.protocol.diagram [--write]" in done.stderr
