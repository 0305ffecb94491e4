"""Which documents are read as manifests, and what containers start by them."""

from pathlib import Path

import pytest

from tests.audit.manifests import CRONJOB, changed, found_in, without
from tests.audit.trees import findings_in, report_on


def test_the_same_job_in_two_environments_is_silent(tmp_path: Path) -> None:
    other = changed(CRONJOB, "  name: report\nspec", "  name: report-prod\nspec")
    assert findings_in(tmp_path, {"dev/job.yaml": CRONJOB, "prod/job.yaml": other}) == []


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
    assert found_in(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n  - {item}\n") == ["CR501:9"]


def test_an_openshift_template_has_cronjobs_with_parameters(tmp_path: Path) -> None:
    item = (
        changed(changed(CRONJOB, "*/5 * * * *", "${SCHEDULE}"), "200", "${{DEADLINE}}").replace("\n", "\n    ").rstrip()
    )
    text = f"apiVersion: template.openshift.io/v1\nkind: Template\nobjects:\n  - {item}\n"
    assert found_in(tmp_path, text) == []
    assert found_in(tmp_path, text.replace("Forbid", "Allow")) == ["CR501:10"]


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
