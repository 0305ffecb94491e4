"""The command line: what it says, and with what it exits."""

import shutil
from pathlib import Path

import pytest

from cronce import __version__
from cronce.cli import VERBS, main
from cronce.stores import open_store

ROOT = Path(__file__).parents[2]


def test_without_a_verb_it_shows_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().out
    assert [verb for verb in VERBS if verb not in shown] == []


def test_every_verb_is_documented() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"## cronce {verb}" not in page] == []


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
    assert capsys.readouterr().out.startswith(f"adopted {copy}: a new life since ")
    open_store(f"sqlite:///{copy}").close()


def test_what_cannot_be_adopted_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "adopt", "redis://:secret@host/0"]) == 2
    assert "secret" not in (said := capsys.readouterr().err)
    assert said.startswith("cronce store: redis://:***@host/0: only an SQLite file is adopted")
    (tmp_path / "text").write_text("this is no database, and it is longer than a header of a hundred bytes" * 4)
    assert main(["store", "adopt", f"sqlite:///{tmp_path}/text"]) == 78
