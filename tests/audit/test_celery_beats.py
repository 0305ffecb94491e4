"""Celery: several beats, entries that are there twice, messages that come twice; and django-crontab."""

from pathlib import Path

import pytest

from cronce_audit.model import Severity
from tests.audit.trees import findings_in, report_on

CELERY = 'from celery import Celery\n\napp = Celery("shop", broker="redis://localhost")\n'


def compose(*services: str) -> str:
    """Services, each `name: command`, or `name x3: command` for three copies."""
    lines = ["services:"]
    for service in services:
        name, _, command = service.partition(": ")
        name, _, copies = name.partition(" x")
        lines += [f"  {name}:", "    image: shop", f"    command: {command}"]
        lines += ["    deploy:", f"      replicas: {copies}"] if copies else []
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("service", "found"),
    [
        ("beat x2: celery -A shop beat", True),
        ("beat x2: sh -c 'exec celery -A shop beat'", True),
        ("beat x2: celery -A shop beat -S django", True),
        ("beat x1: celery -A shop beat", False),
        ("beat: celery -A shop beat", False),
        ("beat x2: celery -A shop beat -S redbeat.RedBeatScheduler", False),
        ("beat x2: celery -A shop beat -S cronce", False),
        ("beat x2: celery -A shop beat --scheduler=cronce", False),
        ("worker x2: celery -A shop worker", False),
        ("worker x2: celery -A shop worker -b redis://localhost", False),
        ("flower x2: celery -A shop flower", False),
    ],
)
def test_copies_of_a_beat_are_found(tmp_path: Path, service: str, found: bool) -> None:
    assert findings_in(tmp_path, {"compose.yml": compose(service)}, "CR212") == (
        ["CR212 compose.yml:4"] if found else []
    )


@pytest.mark.parametrize(
    "setting",
    [
        'app.conf.beat_scheduler = "redbeat.RedBeatScheduler"\n',
        'app.conf.update(beat_scheduler="cronce")\n',
        'CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"\n',
    ],
)
def test_a_scheduler_that_agrees_with_others_may_be_a_setting(tmp_path: Path, setting: str) -> None:
    tree = {"shop.py": CELERY + setting, "compose.yml": compose("beat x2: celery -A shop beat")}
    assert findings_in(tmp_path, tree, "CR212") == []


def test_two_beats_in_one_file_are_found(tmp_path: Path) -> None:
    two = compose("beat: celery -A shop beat", "worker: celery -A shop worker -B")
    assert findings_in(tmp_path, {"compose.yml": two}, "CR212") == ["CR212 compose.yml:7"]


@pytest.mark.parametrize(
    "services",
    [
        ("beat: celery -A shop beat", "worker: celery -A shop worker"),
        ("beat: celery -A shop beat", "other: celery -A stock beat"),
        ("beat: celery -A shop beat -S cronce", "other: celery -A shop beat -S cronce"),
    ],
)
def test_beats_of_two_apps_are_two_things(tmp_path: Path, services: tuple[str, str]) -> None:
    assert findings_in(tmp_path, {"compose.yml": compose(*services)}, "CR212") == []


def test_a_beat_in_another_file_or_on_demand_is_an_alternative(tmp_path: Path) -> None:
    one = compose("beat: celery -A shop beat")
    assert (
        findings_in(tmp_path, {"a/compose.yml": one, "b/compose.yml": one, "Procfile": "beat: celery -A shop beat\n"})
        == []
    )
    two = compose("beat: celery -A shop beat", "trial: celery -A shop beat") + "    profiles: [trial]\n"
    [found] = [one for one in report_on(tmp_path / "c", {"compose.yml": two}).findings if one.rule == "CR212"]
    assert (found.severity, str(found.place)) == (Severity.INFO, "compose.yml:7")
    assert "`--profile` starts it beside `trial`" in found.message
    both = two.replace(
        "    command: celery -A shop beat\n", "    command: celery -A shop beat\n    profiles: [live]\n", 1
    )
    assert findings_in(tmp_path / "d", {"compose.yml": both}, "CR212") == []


RED_BEAT = 'CELERY_BEAT_SCHEDULER = "redbeat.RedBeatScheduler"\n'


def test_a_beat_of_an_entrypoint_and_a_list_of_words_is_one(tmp_path: Path) -> None:
    """As charts have it: the command is a list, and begins with the entrypoint of the image."""
    deployment = """\
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: {{ .Release.Name }}-beat
        spec:
          replicas: 1
          template:
            spec:
              containers:
                - name: beat
                  image: "{{ .Values.image }}"
                  command:
                    - /usr/local/bin/entrypoint.sh
                    - celery
                    - -A
                    - shop.beat:app
                    - beat
                    - --loglevel={{ .Values.level }}
        """
    tree = {"chart/Chart.yaml": "name: shop\nversion: 1\n", "chart/templates/beat.yaml": deployment}
    assert findings_in(tmp_path, tree, "CR521") == ["CR521 chart/templates/beat.yaml:2"]


@pytest.mark.parametrize(
    ("schedule", "found"),
    [
        ("crontab(hour=3)", True),
        ("crontab(hour='1', day_of_week=1)", True),
        ("crontab(hour=3, minute=0)", False),
        ("crontab(0, 3)", False),
        ("crontab(hour='*')", False),
        ("crontab(minute='*/5')", False),
    ],
)
def test_a_crontab_of_celery_without_a_minute_is_due_in_each(tmp_path: Path, schedule: str, found: bool) -> None:
    text = f"from celery.schedules import crontab\n\nBEAT = {{'x': {{'task': 'a', 'schedule': {schedule}}}}}\n"
    assert findings_in(tmp_path, {"s.py": text}, "CR408") == (["CR408 s.py:3"] if found else [])


def test_jobs_of_django_crontab_in_each_minute_of_some_hours(tmp_path: Path) -> None:
    text = "CRONJOBS = [\n    ('* */12 * * *', 'shop.cron.expire'),\n    ('0 */12 * * *', 'shop.cron.count'),\n]\n"
    assert findings_in(tmp_path, {"settings.py": f"import crontab\n{text}"}, "CR408") == ["CR408 settings.py:2"]


@pytest.mark.parametrize(
    ("service", "severity"),
    [
        ("worker x3: celery -A shop worker -B", "error"),
        ("worker: celery -A shop worker -B", "info"),
        ("worker: celery multi start 3 -A shop -B", "error"),
        ("worker x3: celery -A shop worker -B --scheduler cronce", ""),
        ("worker x3: celery -A shop worker -b redis://localhost", ""),
        ("worker x3: python worker.py -B", ""),
    ],
)
def test_a_beat_inside_a_worker(tmp_path: Path, service: str, severity: str) -> None:
    report = report_on(tmp_path, {"compose.yml": compose(service)})
    assert [one.severity.word for one in report.findings if one.rule == "CR211"] == ([severity] if severity else [])


ENTRIES = """\
from celery.schedules import crontab

from shop import app

app.conf.beat_schedule = {{
    "bill": {{"task": "shop.bill", "schedule": crontab(hour=1, minute=0)}},
    "other": {{"task": {task}, "schedule": {schedule}{more}}},
}}
"""


SETTINGS = 'INSTALLED_APPS = ["django_crontab"]\nCRONJOBS = [("0 1 * * *", "shop.cron.bill")]\n'


def test_a_fixed_local_hour_is_sent_once_by_celery(tmp_path: Path) -> None:
    """Measured: in the hour that comes twice a beat of Celery sends an entry once."""
    text = f"""\
{CELERY}
from celery.schedules import crontab
app.conf.timezone = "America/New_York"
app.conf.enable_utc = False
app.conf.beat_schedule = {{"bill": {{"task": "shop.bill", "schedule": crontab(hour=1, minute=30)}}}}
"""
    assert findings_in(tmp_path, {"shop.py": text}) == []


def test_a_beat_inside_the_worker_of_a_developer_is_silent(tmp_path: Path) -> None:
    tree = {
        "run.sh": "#!/bin/sh\ncelery -A shop worker -B\n",
        "docker-compose.override.yml": compose("worker: celery -A shop worker -B"),
    }
    assert findings_in(tmp_path, tree, "CR211") == []


def _beat(name: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  strategy: {{type: Recreate}}
  template:
    spec:
      containers:
        - name: beat
          image: shop
          command: [celery, -A, shop, beat]
"""


@pytest.mark.parametrize(
    ("below", "found"), [("k8s/ingestion", True), ("k8s/overlays/prod", False), ("deploy/other", False)]
)
def test_a_beat_in_a_folder_below_another_beats_is_worth_knowing(tmp_path: Path, below: str, found: bool) -> None:
    """Both are applied by `kubectl apply -R`; an overlay of kustomize replaces its base."""
    tree = {"k8s/beat.yaml": _beat("beat"), f"{below}/deployment.yaml": _beat("ingestion"), "shop.py": CELERY}
    told = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR212"]
    assert [(str(one.place), one.severity) for one in told] == (
        [(f"{below}/deployment.yaml:11", Severity.INFO)] if found else []
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("celery -A shop worker &\nsleep 5\ncelery -A shop beat\n", ["CR211 start.sh:4"]),
        ("celery -A shop worker\ncelery -A shop beat\n", []),
    ],
)
def test_a_beat_behind_a_worker_in_the_background_is_in_every_copy(tmp_path: Path, lines: str, says: list[str]) -> None:
    assert findings_in(tmp_path, {"start.sh": f"#!/bin/sh\n{lines}"}, "CR211") == says
