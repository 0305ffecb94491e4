"""What a release needs, beside a green suite."""

import re
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from cronce import __version__

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def is_workflow(path: Path) -> bool:
    schema = (SCRIPTS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows")
    return subprocess.run([*schema, path], capture_output=True, check=False).returncode == 0


def test_the_workflows_pass_their_schema_and_a_bad_one_does_not(tmp_path: Path) -> None:
    assert [path.name for path in WORKFLOWS if is_workflow(path)] == ["publish.yml", "test.yml"]
    (tmp_path / "bad.yml").write_text("on: push\njobs: {test: {steps: [{run: make}]}}\n")
    assert not is_workflow(tmp_path / "bad.yml")


def test_what_github_runs_is_what_runs_here() -> None:
    assert "- run: .ci/run\n" in (ROOT / ".github/workflows/test.yml").read_text()


def test_no_token_is_stored_for_publishing() -> None:
    text = (ROOT / ".github/workflows/publish.yml").read_text()
    assert "id-token: write" in text
    assert set(re.findall(r"secrets\.(\w+)", text)) == {"GITHUB_TOKEN"}


def test_the_pythons_that_are_tested_are_those_that_are_promised() -> None:
    promised = re.findall(r":: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    tested = re.findall(r'"(3\.\d+)"', (ROOT / ".github/workflows/test.yml").read_text().partition("steps:")[0])
    assert promised == tested == ["3.11", "3.12", "3.13", "3.14"]


def test_the_changelog_begins_with_this_version() -> None:
    assert re.findall(r"(?m)^## (\S+?)[, ]", (ROOT / "CHANGELOG.md").read_text())[0] == __version__


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE", "src/cronce/py.typed"])
def test_what_users_look_for_is_there(name: str) -> None:
    assert (ROOT / name).is_file()
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Changelog", "Issues"}
