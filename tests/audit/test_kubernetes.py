"""CronJobs: what is wrong with them is found where it stands, and nothing else is."""

from pathlib import Path

import pytest

from cronce_audit.model import Severity
from tests.audit.manifests import CRONJOB, DEPLOYMENT, changed, under, without
from tests.audit.trees import findings_in, report_on


def _found(root: Path, text: str, *rules: str) -> list[str]:
    """`CR501:6`, in order."""
    found = findings_in(root, {"job.yaml": text}, *rules)
    return [f"{one.split()[0]}:{one.rpartition(':')[2]}" for one in found]


def _severities(root: Path, text: str, rule: str) -> list[Severity]:
    return [one.severity for one in report_on(root, {"job.yaml": text}).findings if one.rule == rule]


def test_a_cronjob_that_says_what_it_means_is_silent(tmp_path: Path) -> None:
    assert _found(tmp_path, CRONJOB) == []
    assert _found(tmp_path, DEPLOYMENT) == []


def test_a_cronjob_that_says_nothing_is_told_each_thing_once(tmp_path: Path) -> None:
    bare = without(CRONJOB, "Policy: Forbid", "DeadlineSeconds", "backoffLimit")
    assert _found(tmp_path, bare) == ["CR501:6", "CR503:6", "CR504:6", "CR505:6"]
    report = report_on(tmp_path, {"job.yaml": bare})
    assert [one.severity.word for one in report.findings] == ["warning", "info", "info", "info"]
    assert "Forbid" in report.findings[0].remedy


# --- overlap -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "deadline", "severity"),
    [
        ("*/5 * * * *", "", Severity.WARNING),
        ("*/5 * * * *", "      activeDeadlineSeconds: 900", Severity.WARNING),
        ("*/5 * * * *", "      activeDeadlineSeconds: 300", Severity.INFO),
        ("*/30 * * * *", "", Severity.INFO),
        ("0 * * * *", "", Severity.INFO),
        ("@hourly", "", Severity.INFO),
        ("@every 10m", "", Severity.INFO),
        ("0 */2 * * *", "", Severity.INFO),
        ("0 3 * * ?", "", Severity.INFO),
        ("*/5 * ? * *", "", Severity.WARNING),
        ("${SCHEDULE}", "", Severity.INFO),
    ],
)
def test_a_missing_policy_is_as_bad_as_its_runs_are_often(
    tmp_path: Path, schedule: str, deadline: str, severity: Severity
) -> None:
    text = without(CRONJOB, "Policy: Forbid", "activeDeadline")
    text = changed(under(text, "backoffLimit", deadline), "*/5 * * * *", schedule)
    assert _severities(tmp_path, text, "CR501") == [severity]


def test_a_run_that_is_ended_in_time_meets_the_next_only_if_it_starts_late(tmp_path: Path) -> None:
    text = without(CRONJOB, "Policy: Forbid")
    (found,) = report_on(tmp_path, {"job.yaml": text}).findings
    assert found.message.endswith(
        "when a run starts more than 1m late, and takes the 240 s it may, the next one starts beside it"
    )


def test_a_run_that_is_ended_hours_before_the_next_never_meets_it(tmp_path: Path) -> None:
    nightly = changed(without(CRONJOB, "Policy: Forbid"), "*/5 * * * *", "0 3 * * *")
    assert _found(tmp_path, nightly, "CR501") == []
    assert _found(tmp_path, changed(nightly, "0 3 * * *", "${SCHEDULE}"), "CR501") == ["CR501:6"]


def test_allow_is_found_where_it_is_written(tmp_path: Path) -> None:
    text = changed(without(CRONJOB, "activeDeadline"), "Forbid", "Allow")
    assert _found(tmp_path, text, "CR501") == ["CR501:7"]
    assert _severities(tmp_path, text, "CR501") == [Severity.WARNING]


@pytest.mark.parametrize("policy", ["Forbid", "Replace", '"Forbid"', "${POLICY}"])
def test_a_policy_that_is_stated_is_silent(tmp_path: Path, policy: str) -> None:
    assert _found(tmp_path, changed(CRONJOB, "Forbid", policy), "CR501") == []


def test_what_is_suspended_does_not_run(tmp_path: Path) -> None:
    text = under(without(CRONJOB, "Policy: Forbid", "DeadlineSeconds"), "schedule:", "  suspend: true")
    assert _found(tmp_path, text) == []
    assert _found(tmp_path, changed(text, "suspend: true", "suspend: false"), "CR501") == ["CR501:6"]


# --- deadlines, retries, history, pods -----------------------------------------------------------------------------


def test_a_deadline_of_the_pod_ends_a_run_too(tmp_path: Path) -> None:
    text = without(CRONJOB, "activeDeadline")
    assert _found(tmp_path, text) == ["CR504:6"]
    assert _found(tmp_path, under(text, "restartPolicy", "          activeDeadlineSeconds: 200")) == []


# --- what Kubernetes does not take ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("restartPolicy", "          activeDeadlineSeconds: 100"),
        ("backoffLimit", "      suspend: false"),
        ("image:", "              restartPolicy: Always"),
        ("name: report", "  annotations: {schedule: daily}"),
    ],
)
def test_a_field_that_is_at_home_in_two_places_is_silent(tmp_path: Path, at: str, line: str) -> None:
    assert _found(tmp_path, under(CRONJOB, at, line)) == []


# --- texts for a shell ---------------------------------------------------------------------------------------------


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
    assert [one.partition(":")[0] for one in _found(tmp_path, text)] == ["CR507"]


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
    assert _found(tmp_path, changed(CRONJOB, "[report, --all]", command)) == []


def test_arguments_for_an_entrypoint_that_is_not_seen_are_silent(tmp_path: Path) -> None:
    assert _found(tmp_path, changed(CRONJOB, "command: [report, --all]", "args: [$(date)]")) == []


def test_arguments_that_no_variable_can_be_called_are_told_whatever_the_entrypoint(tmp_path: Path) -> None:
    text = changed(CRONJOB, "command: [report, --all]", 'args: [--to, "/out/$(date +%F).txt"]')
    assert [one.partition(":")[0] for one in _found(tmp_path, text)] == ["CR507"]


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
    assert _found(tmp_path, text) == found


def test_a_variable_that_a_shell_evaluates_is_silent(tmp_path: Path) -> None:
    text = changed(CRONJOB, "[report, --all]", "[sh, -c, 'eval \"report $DAY\"']")
    text += "              env:\n                - name: DAY\n                  value: $(date)\n"
    assert _found(tmp_path, text) == []


def test_a_manifest_that_a_shell_makes_is_silent(tmp_path: Path) -> None:
    text = changed(CRONJOB, "[report, --all]", "[report, --day, $(date)]")
    assert _found(tmp_path, changed(text, "image: report:1", "image: $REGISTRY/report:1")) == []


def test_other_workloads_run_no_substitution_either(tmp_path: Path) -> None:
    text = f"{changed(DEPLOYMENT, 'beat]', 'worker]')}          env: [{{name: A, value: $(date)}}]\n"
    assert _found(tmp_path, text) == ["CR507:19"]


def test_the_same_job_in_two_environments_is_silent(tmp_path: Path) -> None:
    other = changed(CRONJOB, "  name: report\nspec", "  name: report-prod\nspec")
    assert findings_in(tmp_path, {"dev/job.yaml": CRONJOB, "prod/job.yaml": other}) == []


# --- what is no CronJob --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules:\n- resources: [cronjobs]\n# kind: CronJob\n",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  names:\n    kind: CronJob\n",
        without(changed(CRONJOB, "batch/v1", "example.com/v1"), "concurrencyPolicy"),
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    apiVersion: batch/v1\n    kind: CronJob\n    spec: {}\n",
        "- kind: CronJob\n- 3\n",
        "kind: CronJob\n",
    ],
)
def test_the_word_alone_is_no_cronjob(tmp_path: Path, text: str) -> None:
    report = report_on(tmp_path, {"job.yaml": text})
    assert report.findings == []
    assert list(report.unparsed) == []


def test_a_list_has_cronjobs(tmp_path: Path) -> None:
    item = without(CRONJOB, "concurrencyPolicy").replace("\n", "\n    ").rstrip()
    assert _found(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n  - {item}\n") == ["CR501:9"]


def test_an_openshift_template_has_cronjobs_with_parameters(tmp_path: Path) -> None:
    item = (
        changed(changed(CRONJOB, "*/5 * * * *", "${SCHEDULE}"), "200", "${{DEADLINE}}").replace("\n", "\n    ").rstrip()
    )
    text = f"apiVersion: template.openshift.io/v1\nkind: Template\nobjects:\n  - {item}\n"
    assert _found(tmp_path, text) == []
    assert _found(tmp_path, text.replace("Forbid", "Allow")) == ["CR501:10"]


def test_yaml_that_is_broken_is_reported_and_only_where_it_should_be_yaml(tmp_path: Path) -> None:
    broken = changed(CRONJOB, "command: [report, --all]", "command: [report, --all")
    report = report_on(tmp_path, {"job.yaml": broken})
    assert [one.place.line for one in report.unparsed] == [19]
    assert report.findings == []
    report = report_on(tmp_path, {"job.yaml": broken.replace("report:1", "{{ image }}")})
    assert list(report.unparsed) == []


def test_characters_that_nobody_writes_are_just_characters(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"job.yaml": changed(CRONJOB, "Forbid", "\ue000\ue0005\ue001")})
    assert report.findings == []
    assert list(report.unparsed) == []


def test_a_comment_suppresses_with_a_reason(tmp_path: Path) -> None:
    text = changed(CRONJOB, "Forbid", "Allow # cronce: ignore[CR501] each run takes its own shard")
    assert _found(tmp_path, text) == []
