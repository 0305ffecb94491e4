"""Schedulers in workloads, how many there are of them, and texts for a shell that get none."""

from pathlib import Path

import pytest

from tests.audit.manifests import CRONJOB, DEPLOYMENT, changed, found_in


@pytest.mark.parametrize(
    "command",
    [
        "[report, --day, $(date +%F)]",
        "[report, --day=$(date)]",
        "[/entrypoint.sh, $(date)]",
        "[report, '`date +%F`']",
        "[report]\n              args: [$(hostname)]",
    ],
)
def test_a_command_without_a_shell_runs_no_substitution(tmp_path: Path, command: str) -> None:
    text = changed(CRONJOB, "[report, --all]", command)
    assert [one.partition(":")[0] for one in found_in(tmp_path, text)] == ["CR507"]


@pytest.mark.parametrize(
    "command",
    [
        '[sh, -c, "report --day $(date +%F)"]',
        '[/bin/bash, -ec, "report $(date)"]',
        '[timeout, "60", sh, -c, "report $(date)"]',
        '[sh, -c]\n              args: ["report $(date)"]',
        "[report, $(DAY)]",
        "[report, $(day)]",
        "[report, $$(date)]",
        "[python, -c, \"print('$(date)')\"]",
        '[ssh, host, "report $(date)"]',
        '[/interpreter, "let x = 3\\nrun $(date)"]',
        "[report, $(hostname)]\n              env: [{name: hostname, value: a}]",
        '["sh", "-c", "cat <<EOF\\n$(date)\\nEOF"]',
        "\n                - /bin/sh\n                - -c\n                - |\n                  report $(date)",
    ],
)
def test_a_shell_or_a_variable_of_kubernetes_is_silent(tmp_path: Path, command: str) -> None:
    assert found_in(tmp_path, changed(CRONJOB, "[report, --all]", command)) == []


def test_arguments_for_an_entrypoint_that_is_not_seen_are_silent(tmp_path: Path) -> None:
    assert found_in(tmp_path, changed(CRONJOB, "command: [report, --all]", "args: [$(date)]")) == []


def test_arguments_that_no_variable_can_be_called_are_told_whatever_the_entrypoint(tmp_path: Path) -> None:
    text = changed(CRONJOB, "command: [report, --all]", 'args: [--to, "/out/$(date +%F).txt"]')
    assert [one.partition(":")[0] for one in found_in(tmp_path, text)] == ["CR507"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("$(date +%F)", ["CR507:22"]),
        ("key-`date`", ["CR507:22"]),
        ("$(POD_NAME)", []),
        ("$$(date)", []),
        ("date", []),
        ("${date}", []),
    ],
)
def test_a_variable_holds_what_is_written(tmp_path: Path, value: str, found: list[str]) -> None:
    text = f"{CRONJOB}              env:\n                - name: DAY\n                  value: '{value}'\n"
    assert found_in(tmp_path, text) == found


def test_a_variable_that_a_shell_evaluates_is_silent(tmp_path: Path) -> None:
    text = changed(CRONJOB, "[report, --all]", "[sh, -c, 'eval \"report $DAY\"']")
    text += "              env:\n                - name: DAY\n                  value: $(date)\n"
    assert found_in(tmp_path, text) == []


def test_a_manifest_that_a_shell_makes_is_silent(tmp_path: Path) -> None:
    text = changed(CRONJOB, "[report, --all]", "[report, --day, $(date)]")
    assert found_in(tmp_path, changed(text, "image: report:1", "image: $REGISTRY/report:1")) == []


def test_other_workloads_run_no_substitution_either(tmp_path: Path) -> None:
    text = f"{changed(DEPLOYMENT, 'beat]', 'worker]')}          env: [{{name: A, value: $(date)}}]\n"
    assert found_in(tmp_path, text) == ["CR507:19"]
