"""Completion scripts, tried in the shells themselves."""

import subprocess
from pathlib import Path

import pytest

from cronce.cli import VERBS, main
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


def completed(script: Path, *words: str) -> list[str]:
    command = [tool("bash", "apt-get install bash"), "-c", BASH, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "complete -o default -F _cronce cronce\n"
    return done.stdout.split()


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes_verbs_options_and_choices(script: Path) -> None:
    assert set(completed(script, "cronce", "")) == {*VERBS, "--help", "--version"}
    assert completed(script, "cronce", "ex") == [verb for verb in VERBS if verb.startswith("ex")]
    assert completed(script, "cronce", "next", "--f") == ["--fold", "--from"]
    assert completed(script, "cronce", "next", "--fold", "") == ["first", "second", "both"]
    assert completed(script, "cronce", "runs", "--state", "s") == ["succeeded", "skipped"]
    assert completed(script, "cronce", "completion", "") == ["bash", "zsh", "fish", "-h", "--help"]
    assert completed(script, "cronce", "store", "a") == ["adopt"]


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
def test_every_verb_is_in_every_script(script: Path) -> None:
    text = script.read_text()
    assert [verb for verb in VERBS if verb not in text] == []
