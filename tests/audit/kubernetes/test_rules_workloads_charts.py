"""Schedulers in workloads, of charts and overlays: how many there are, and what a rollout does."""

import re
from pathlib import Path

import pytest

from cronce_audit.model import Confidence, Severity
from tests.audit.manifests import DEPLOYMENT, changed, without
from tests.audit.trees import findings_in, report_on


def _beat(old: str, new: str) -> str:
    return changed(DEPLOYMENT, old, new)


def test_replicas_of_a_charts_values(tmp_path: Path) -> None:
    tree = {"c/templates/beat.yaml": _beat("replicas: 1", "replicas: {{ .Values.beat.replicas }}")}
    assert findings_in(tmp_path, tree | {"c/values.yaml": "beat:\n  replicas: 2\n"}) == [
        "CR212 c/templates/beat.yaml:18"
    ]
    assert findings_in(tmp_path, tree | {"c/values.yaml": "beat:\n  replicas: 1\n"}) == []


def test_a_workload_whose_name_a_template_says_goes_by_its_file(tmp_path: Path) -> None:
    named = _beat("name: beat\nspec", 'name: {{ include "shop.fullname" . }}\nspec')
    named = changed(named, "Recreate", "RollingUpdate")
    (found,) = report_on(tmp_path, {"c/templates/beat.yaml": named}).findings
    assert found.message.startswith("The Deployment of templates/beat.yaml runs `celery beat`")


def test_a_beat_in_each_worker_of_a_chart(tmp_path: Path) -> None:
    worker = _beat("replicas: 1", "replicas: {{ .Values.replicaCount }}").replace("beat]", "worker, -B]")
    worker = changed(worker, "name: beat\nspec", "name: {{ .Release.Name }}\nspec")
    tree = {"c/templates/worker.yaml": worker, "c/values.yaml": "replicaCount: 3\n"}
    (found,) = report_on(tmp_path, tree).findings
    assert (found.rule, found.severity) == ("CR211", Severity.ERROR)
    assert found.message.startswith("each of the 3 workers of `Deployment of templates/worker.yaml` (c/values.yaml:1)")
    (found,) = report_on(tmp_path, {"c/values.yaml": "replicaCount: 1\n"}).findings
    assert (found.rule, found.severity) == ("CR211", Severity.INFO)


def test_a_beat_and_a_worker_with_a_beat_in_one_chart_or_folder(tmp_path: Path) -> None:
    worker = _beat("name: beat\nspec", "name: worker\nspec").replace("beat]", "worker, -B]")
    both = {"c/templates/beat.yaml": DEPLOYMENT, "c/templates/worker.yaml": worker}
    (found,) = [one for one in report_on(tmp_path, both).findings if one.rule == "CR212"]
    assert (str(found.place), found.confidence) == ("c/templates/worker.yaml:18", Confidence.MEDIUM)
    assert found.message.startswith("`Deployment/beat` (c/templates/beat.yaml:18) and `Deployment/worker` both run")
    (tmp_path / "c/templates/worker.yaml").unlink()
    assert findings_in(tmp_path, {"d/worker.yaml": worker}, "CR212") == []


def test_replicas_that_are_written_are_told_once(tmp_path: Path) -> None:
    found = findings_in(tmp_path, {"beat.yaml": _beat("replicas: 1", "replicas: 3")})
    assert found == ["CR212 beat.yaml:18"]


@pytest.mark.parametrize(
    ("strategy", "found"),
    [
        ("", ["CR521 beat.yaml:2"]),
        ("  strategy: {}\n", ["CR521 beat.yaml:2"]),
        ("  strategy:\n    type: RollingUpdate\n", ["CR521 beat.yaml:8"]),
        ("  strategy:\n    rollingUpdate:\n      maxUnavailable: 0\n", ["CR521 beat.yaml:2"]),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: 0\n", []),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: 0%\n", []),
        ("  strategy:\n    type: Recreate\n", []),
        ("  strategy:\n    rollingUpdate:\n      maxSurge: {{ .Values.surge }}\n", []),
        ("  strategy: {{ .Values.strategy }}\n", []),
        ("  {{- toYaml .Values.more | nindent 2 }}\n", []),
    ],
)
def test_a_rollout_with_a_surge_runs_two(tmp_path: Path, strategy: str, found: list[str]) -> None:
    text = _beat("  strategy:\n    type: Recreate\n", strategy)
    assert findings_in(tmp_path, {"beat.yaml": text}) == found


@pytest.mark.parametrize(("old", "new"), [("Deployment", "StatefulSet"), ("replicas: 1", "replicas: 0")])
def test_what_is_not_rolled_out_with_a_surge_is_silent(tmp_path: Path, old: str, new: str) -> None:
    text = without(DEPLOYMENT, "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": changed(text, old, new)}) == []


@pytest.mark.parametrize(
    "command",
    [
        "[celery, -A, app, worker]",
        "[celery, -A, app, beat, -S, redbeat.RedBeatScheduler]",
        "[celery, -A, app, beat, -S, cronce]",
        "[airflow, scheduler]",
        "[cronce, run, jobs.py]",
        "[rqscheduler]",
        "[gunicorn, app:app]",
        '[sh, -c, "exec celery -A app worker"]',
        "{{ .Values.command }}",
    ],
)
def test_what_fires_nothing_or_agrees_may_be_two(tmp_path: Path, command: str) -> None:
    text = without(_beat("[celery, -A, app, beat]", command), "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": text}, "CR521") == []
    assert findings_in(tmp_path, {"beat.yaml": changed(text, "Deployment", "DaemonSet")}, "CR521") == []


@pytest.mark.parametrize(
    "command",
    [
        '[sh, -c, "exec celery -A app beat -l info"]',
        "[crond, -f]",
        "[supercronic, /etc/crontab]",
        "[taskiq, scheduler, a:b]",
    ],
)
def test_schedulers_of_other_kinds(tmp_path: Path, command: str) -> None:
    text = without(_beat("[celery, -A, app, beat]", command), "strategy", "Recreate")
    assert findings_in(tmp_path, {"beat.yaml": text}, "CR521") == ["CR521 beat.yaml:2"]


def test_redbeat_in_the_settings_lets_several_agree(tmp_path: Path) -> None:
    tree = {
        "beat.yaml": _beat("Deployment", "DaemonSet"),
        "app.py": 'from celery import Celery\napp = Celery("a")\napp.conf.beat_scheduler = "redbeat.Scheduler"\n',
    }
    assert findings_in(tmp_path, tree, "CR520") == []


def test_a_beat_behind_a_script_of_the_tree_is_one_too(tmp_path: Path) -> None:
    text = re.sub(r"command: .*", "command: [/entrypoint-beat.sh]", _beat("Recreate", "RollingUpdate"))
    script = "#!/bin/sh\npython manage.py check\nexec celery --app=shop beat SCHEDULER\n"
    tree = {"beat.yaml": text, "docker/entrypoint-beat.sh": script}
    assert findings_in(tmp_path, tree, "CR521") == ["CR521 beat.yaml:8"]
    agreed = {**tree, "docker/entrypoint-beat.sh": script.replace("SCHEDULER", "-S redbeat.RedBeatScheduler")}
    assert findings_in(tmp_path / "agreed", agreed, "CR521") == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("[/entrypoint.sh, scheduler]", [("CR521", Confidence.LOW)]),
        ("[/entrypoint.sh, worker]", []),
        ("[/entrypoint.sh, scheduler, --once]", []),
        ("[/bin/api, scheduler]", []),
    ],
)
def test_what_an_entrypoint_is_told_to_be_may_be_a_scheduler(
    tmp_path: Path, command: str, says: list[tuple[str, Confidence]]
) -> None:
    text = re.sub(r"command: .*", f"command: {command}", _beat("Recreate", "RollingUpdate"))
    found = report_on(tmp_path, {"beat.yaml": text}).findings
    assert [(one.rule, one.confidence) for one in found if one.rule == "CR521"] == says
