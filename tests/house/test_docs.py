"""The documentation is true: its Python runs, its commands succeed, its links lead somewhere."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.house import markdown

ROOT = Path(__file__).parents[2]
TAUGHT = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = sorted({*TAUGHT, *ROOT.glob("*.md")})
OPT_OUT = "no-run"
RUNNABLE = ("cronce ", "python ")
DISGUISES = {"py", "python3", "pycon", "py3", "shell-session"}  # would look the same and run nowhere


def _blocks(pages: Iterable[Path]) -> Iterator[tuple[str, markdown.Block]]:
    for page in pages:
        for block in markdown.blocks(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(ROOT)}:{block.line}", block


def _runnable(language: str) -> list[object]:
    """The blocks of a language that did not opt out."""
    found = [(where, block) for where, block in _blocks(TAUGHT) if block.language == language]
    return [pytest.param(block, id=where) for where, block in found if not block.rest.startswith(OPT_OUT)]


def _run(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    """Run as a newcomer would: a directory and a HOME of one's own, both empty, and our scripts on the PATH."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    scripts = sysconfig.get_path("scripts")
    env = {"HOME": str(home), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=100, check=False)


def run_python(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    example = home / "example.py"  # a file, not -c: an example may start processes of its own
    example.write_text(code)
    return _run([sys.executable, "-W", "error", str(example)], home)


def run_console(text: str, home: Path) -> Iterator[subprocess.CompletedProcess[str]]:
    """Run a block's commands in order, up to the first that fails."""
    for command in commands(text):
        done = _run(["sh", "-c", command], home)
        yield done
        if done.returncode:
            return


def commands(text: str) -> list[str]:
    """The `$ cronce …` and `$ python …` lines of a console block; other lines are output, or for other tools."""
    typed = (line[2:] for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ "))
    return [line for line in typed if f"{line} ".startswith(RUNNABLE)]


@pytest.mark.parametrize("block", _runnable("python"))
def test_python_in_the_docs_runs(block: markdown.Block, tmp_path: Path) -> None:
    done = run_python(block.text, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", _runnable("console"))
def test_commands_in_the_docs_succeed(block: markdown.Block, tmp_path: Path) -> None:
    for done in run_console(block.text, tmp_path):
        assert done.returncode == 0, f"{done.args[-1]}\n{done.stdout}{done.stderr}"


def test_every_block_that_does_not_run_says_why() -> None:
    assert [where for where, block in _blocks(PAGES) if not excused(block)] == []


def test_no_block_hides_from_these_tests_behind_another_name() -> None:
    assert [where for where, block in _blocks(PAGES) if block.language in DISGUISES] == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def excused(block: markdown.Block) -> bool:
    """Whether the rest of the fence is empty, or opts out with a reason of at least two words."""
    first, *why = block.rest.split() or [""]
    return block.language not in {"python", "console"} or not first or (first == OPT_OUT and len(why) >= 2)


def broken_links(page: Path) -> Iterator[str]:
    for target in markdown.links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if path.startswith(("http://", "https://", "mailto:")):
            continue
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in markdown.anchors(file.read_text(encoding="utf-8"))):
            yield target


# The checks themselves, tried on pages that are wrong.


def test_an_example_that_fails_is_caught(tmp_path: Path) -> None:
    assert run_python("import sys; print(sys.argv)", tmp_path).returncode == 0
    assert run_python("raise SystemExit(3)", tmp_path).returncode == 3


def test_an_example_that_warns_is_caught(tmp_path: Path) -> None:
    assert run_python("import warnings; warnings.warn('old')", tmp_path).returncode == 1


def test_an_example_sees_an_empty_home_and_an_empty_directory(tmp_path: Path) -> None:
    done = run_python("import os, pathlib; print(os.listdir('.'), pathlib.Path.home())", tmp_path)
    assert done.stdout.strip() == f"[] {tmp_path}"


def test_only_our_own_commands_and_python_are_run() -> None:
    text = "$ cronce next '* * * * *' \\\n    -n 3\n2026-03-29T01:00:00Z\n$ kubectl get pods\n$ python app.py\n$ cronce"
    assert commands(text) == ["cronce next '* * * * *'      -n 3", "python app.py", "cronce"]


def test_a_command_that_fails_is_caught_and_ends_its_block(tmp_path: Path) -> None:
    text = "$ python -c 'exit(0)'\n$ python -c 'exit(4)'\n$ python -c 'exit(5)'"
    assert [done.returncode for done in run_console(text, tmp_path)] == [0, 4]


@pytest.mark.parametrize(
    ("info", "allowed"),
    [
        ("python", True),
        ("python no-run it serves for ever", True),
        ("python no-run", False),
        ("python no-run slow", False),
        ("python norun", False),
        ("console no-run needs a cluster", True),
        ("console no-run", False),
        ("toml whatever", True),
    ],
)
def test_opting_out_takes_a_reason(info: str, allowed: bool) -> None:
    [block] = markdown.blocks(f"```{info}\nx\n```\n")
    assert excused(block) is allowed


def test_broken_links_are_caught(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading\n\n# A heading\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[ok](other.md) [ok](other.md#a-heading-1) [ok](#here) [ok](https://example.org/x)\n"
        "`[code](nowhere.md)` [gone](gone.md) [gone](other.md#another) [gone](#there)\n"
        "```python\n[x](y)\n# not a heading\n```\n[gone](#not-a-heading)\n"
    )
    assert list(broken_links(page)) == ["gone.md", "other.md#another", "#there", "#not-a-heading"]


def test_a_block_inside_a_list_is_read_without_its_indent() -> None:
    [block] = markdown.blocks("1. first\n\n   ```python\n   if True:\n       x = 1\n   ```\n")
    assert block == markdown.Block(3, "python", "", "if True:\n    x = 1\n")
