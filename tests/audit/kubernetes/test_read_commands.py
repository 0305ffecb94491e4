"""What containers start, and what else manifests tell: copies, environment, zone, guards."""

from pathlib import Path

import pytest

from cronce.cli import main
from cronce_audit.model import Guarded, ZoneSet
from cronce_audit.processes.commands import started
from cronce_audit.processes.units import commands
from tests.audit.manifests import CRONJOB, DEPLOYMENT, changed
from tests.audit.trees import report_on


def _commands(root: Path, text: str) -> list[tuple[str, str, int | None]]:
    found = report_on(root, {"app.yaml": text}).facts.conclude(started)
    return [(" ".join((one.argv.program, *one.argv.arguments)), one.by.name, one.command.copies) for one in found]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("command: [gunicorn, -w, '4']", "gunicorn -w 4"),
        ("command: [gunicorn]\n          args: [-w, '4']", "gunicorn -w 4"),
        ("args: [gunicorn, -w, '4']", "gunicorn -w 4"),
        ('command: [sh, -c, "gunicorn -w 4"]', "gunicorn -w 4"),
        ('command: [sh, -c, "exec gunicorn -w 4"]', "gunicorn -w 4"),
        ("command: [gunicorn, -w, '{{ .Values.workers }}']", "gunicorn -w $unknown"),
    ],
)
def test_what_a_container_starts(tmp_path: Path, command: str, words: str) -> None:
    text = changed(DEPLOYMENT, "command: [celery, -A, app, beat]", command)
    assert _commands(tmp_path, text) == [(words, "Deployment/beat", 1)]


def test_what_a_container_starts_through_an_entrypoint(tmp_path: Path) -> None:
    text = changed(DEPLOYMENT, "command: [celery, -A, app, beat]", "command: [docker-entrypoint, gunicorn, -w, '4']")
    assert _commands(tmp_path, text)[1:] == [("gunicorn -w 4", "Deployment/beat", 1)]


@pytest.mark.parametrize(
    ("old", "new", "copies"),
    [
        ("replicas: 1", "replicas: 3", 3),
        ("  replicas: 1\n", "", 1),
        ("replicas: 1", "replicas: {{ .Values.replicas }}", None),
        ("replicas: 1", "replicas: ${REPLICAS}", None),
        ("Deployment", "StatefulSet", 1),
        ("Deployment", "DaemonSet", None),
    ],
)
def test_how_many_there_are(tmp_path: Path, old: str, new: str, copies: int | None) -> None:
    assert [one[2] for one in _commands(tmp_path, changed(DEPLOYMENT, old, new))] == [copies]


def test_an_image_that_says_itself_what_it_starts_is_no_command(tmp_path: Path) -> None:
    assert _commands(tmp_path, changed(DEPLOYMENT, "          command: [celery, -A, app, beat]\n", "")) == []


def test_the_environment_and_the_zone(tmp_path: Path) -> None:
    env = "[{name: TZ, value: Europe/Berlin}, {name: A, value: '1'}, {name: B, valueFrom: {}}]"
    facts = report_on(tmp_path, {"app.yaml": f"{DEPLOYMENT}          env: {env}\n"}).facts
    (command,) = facts.conclude(commands)
    assert command.environment == (("TZ", "Europe/Berlin"), ("A", "1"))
    assert [(zone.zone, zone.unit, zone.place.line) for zone in facts.of(ZoneSet)] == [
        ("Europe/Berlin", "Deployment/beat", 19)
    ]


def test_a_cronjob_that_cronce_guards(tmp_path: Path) -> None:
    text = changed(CRONJOB, "[report, --all]", "[cronce, exec, report, --, report, --all]")
    facts = report_on(tmp_path, {"app.yaml": text}).facts
    assert [(one.kind, one.unit, one.across_hosts) for one in facts.of(Guarded)] == [("cronce", "CronJob/report", True)]


@pytest.mark.parametrize(
    "words",
    [
        ("cronjob", "report", "--image", "shop:1", "--schedule", "*/5 * * * *", "--", "./report.sh", "--day=$(date)"),
        ("cronjob", "report", "--image", "shop:1", "--schedule", "30 1 * * *", "--tz", "Europe/London", "--", "./a.sh"),
        ("cronjob", "report", "--image", "shop:1", "--schedule", "@hourly", "--overlap", "allow", "--", "./a.sh"),
        ("cronjob", "report", "--image", "shop:1", "--schedule", "@hourly", "--timeout", "10m", "--", "./a.sh"),
        ("deployment", "scheduler", "app:cron", "--image", "shop:1", "--replicas", "3"),
    ],
    ids=["command", "zone", "overlap", "timeout", "deployment"],
)
def test_what_cronce_writes_is_silent(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["k8s", *words]) == 0
    written = capsys.readouterr().out
    assert "kind: CronJob" in written or "kind: Deployment" in written
    report = report_on(tmp_path, {"written.yaml": written})
    assert report.findings == []
    assert list(report.unparsed) == []
