"""Completion scripts, tried in the shells themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.cli import HELP_OF_VERB, UNDER, main
from tests.house.needs import tool

BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_cronce
printf '%s\\n' "${COMPREPLY[@]}"
complete -p cronce >&2
"""


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    shell: str = request.param
    assert main(["completion", shell]) == 0
    path = tmp_path / f"cronce.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def completed(script: Path, *words: str, url: str = "") -> list[str]:
    command = [tool("bash", "apt-get install bash"), "-c", BASH, "bash", str(script), *words]
    scripts = str(Path(sys.executable).parent)
    environ = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "CRONCE_URL": url or "sqlite:///nowhere.db"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, cwd=script.parent)
    assert not (script.parent / "nowhere.db").exists()
    assert done.stderr == "complete -o default -F _cronce cronce\n"
    return done.stdout.split()


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_verbs_options_and_choices(script: Path) -> None:
    assert completed(script, "cronce", "") == [*HELP_OF_VERB, "--help", "--version"]
    assert completed(script, "cronce", "ex") == ["exec", "explain"]
    assert completed(script, "cronce", "explain", "next", "--f") == ["--fold", "--from"]
    assert completed(script, "cronce", "next", "--fold", "") == ["first", "second", "both"]
    assert completed(script, "cronce", "runs", "--state", "s") == ["succeeded", "skipped"]
    assert completed(script, "cronce", "deploy", "") == [*UNDER["deploy"], "-h", "--help"]
    assert completed(script, "cronce", "store", "") == ["purge", "init", "adopt", "sql", "clock", "-h", "--help"]


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_the_names_of_jobs(script: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/cronce.db"
    with Cronce(url) as cron:
        for name in ("billing", "backup", "mail"):
            cron.job("@daily", name=name)(lambda: None)()
    assert completed(script, "cronce", "why", "b", url=url) == ["backup", "billing"]
    assert completed(script, "cronce", "jobs", "remove", "m", url=url) == ["mail"]
    assert completed(script, "cronce", "why", "b") == []  # a store that is not there


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_leaves_to_others_what_is_not_ours(script: Path) -> None:
    assert completed(script, "cronce", "next", "--tz", "") == []
    assert completed(script, "cronce", "nonsense", "-") == []
    assert completed(script, "cronce", "next", "--", "--") == []


@pytest.mark.parametrize(
    ("script", "install"), [("zsh", "apt-get install zsh"), ("fish", "apt-get install fish")], indirect=["script"]
)
def test_other_shells_can_read_theirs(script: Path, install: str) -> None:
    shell = tool(script.suffix[1:], install)
    subprocess.run([shell, "-n", script], check=True)


@pytest.mark.parametrize("script", ["bash", "zsh", "fish"], indirect=True)
def test_every_script_asks_for_the_words(script: Path) -> None:
    assert "$(cronce completion words -- " in script.read_text() or "(cronce completion words -- " in script.read_text()
