"""CronJobs: what is wrong with them is found where it stands, and nothing else is."""

from pathlib import Path

import pytest

from cronce_audit.model import Severity
from tests.audit.manifests import CRONJOB, DEPLOYMENT, changed, found_in, under, without
from tests.audit.trees import report_on


def _severities(root: Path, text: str, rule: str) -> list[Severity]:
    return [one.severity for one in report_on(root, {"job.yaml": text}).findings if one.rule == rule]


def test_a_cronjob_that_says_what_it_means_is_silent(tmp_path: Path) -> None:
    assert found_in(tmp_path, CRONJOB) == []
    assert found_in(tmp_path, DEPLOYMENT) == []


def test_a_cronjob_that_says_nothing_is_told_each_thing_once(tmp_path: Path) -> None:
    bare = without(CRONJOB, "Policy: Forbid", "DeadlineSeconds", "backoffLimit")
    assert found_in(tmp_path, bare) == ["CR501:6", "CR503:6", "CR504:6", "CR505:6"]
    report = report_on(tmp_path, {"job.yaml": bare})
    assert [one.severity.word for one in report.findings] == ["warning", "info", "info", "info"]
    assert "Forbid" in report.findings[0].remedy


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
    assert found_in(tmp_path, nightly, "CR501") == []
    assert found_in(tmp_path, changed(nightly, "0 3 * * *", "${SCHEDULE}"), "CR501") == ["CR501:6"]


def test_allow_is_found_where_it_is_written(tmp_path: Path) -> None:
    text = changed(without(CRONJOB, "activeDeadline"), "Forbid", "Allow")
    assert found_in(tmp_path, text, "CR501") == ["CR501:7"]
    assert _severities(tmp_path, text, "CR501") == [Severity.WARNING]


@pytest.mark.parametrize("policy", ["Forbid", "Replace", '"Forbid"', "${POLICY}"])
def test_a_policy_that_is_stated_is_silent(tmp_path: Path, policy: str) -> None:
    assert found_in(tmp_path, changed(CRONJOB, "Forbid", policy), "CR501") == []


def test_what_is_suspended_does_not_run(tmp_path: Path) -> None:
    text = under(without(CRONJOB, "Policy: Forbid", "DeadlineSeconds"), "schedule:", "  suspend: true")
    assert found_in(tmp_path, text) == []
    assert found_in(tmp_path, changed(text, "suspend: true", "suspend: false"), "CR501") == ["CR501:6"]


def test_a_deadline_of_the_pod_ends_a_run_too(tmp_path: Path) -> None:
    text = without(CRONJOB, "activeDeadline")
    assert found_in(tmp_path, text) == ["CR504:6"]
    assert found_in(tmp_path, under(text, "restartPolicy", "          activeDeadlineSeconds: 200")) == []


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
    assert found_in(tmp_path, under(CRONJOB, at, line)) == []


def test_a_comment_suppresses_with_a_reason(tmp_path: Path) -> None:
    text = changed(CRONJOB, "Forbid", "Allow # cronce: ignore[CR501] each run takes its own shard")
    assert found_in(tmp_path, text) == []


def test_a_schedule_that_a_chart_leaves_to_others_is_information(tmp_path: Path) -> None:
    text = without(CRONJOB, "Policy: Forbid", "activeDeadline")
    text = changed(text, '"*/5 * * * *"', "{{ .Values.schedule | quote }}")
    tree = {
        "chart/Chart.yaml": "name: shop\nversion: 1.0.0\n",
        "chart/values.yaml": 'schedule: "*/5 * * * *"\n',
        "chart/templates/job.yaml": text,
    }
    found = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR501"]
    assert [one.severity for one in found] == [Severity.INFO]
    assert "takes longer than 5m" in found[0].message
