"""Containers: who hears that they stop, how many there are of a cron, in which zone; and what is all right."""

from pathlib import Path

import pytest

from cronce_audit.engine import audit, files
from cronce_audit.model import Confidence, Severity
from tests.audit.containers.made import RULES, dockerfile, found, service
from tests.audit.trees import YEAR, report_on

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("line", "base"),
    [
        ("CMD celery -A shop beat", "python:3.12-slim"),
        ("CMD celery -A shop beat", "ubuntu"),
        ("CMD python manage.py migrate && celery -A shop worker", "python:3.12"),
        ('CMD ["sh", "-c", "rq worker"]', "python:3.12-slim"),
        ('CMD ["/bin/bash", "-lc", "rq worker | tee log"]', "alpine"),
        ("CMD rq worker && sleep 5", "alpine"),
        ("CMD celery -A shop beat & exec gunicorn shop", "alpine"),
        ("ENTRYPOINT celery -A shop beat", "python:3.12-slim"),
        ("CMD supercronic /crontab", "python:3.12-slim"),
        ("CMD cronce run jobs:cron", "python:3.12-slim"),
        ("CMD poetry run celery -A shop worker", "python:3.12-slim"),
    ],
)
def test_a_scheduler_behind_a_shell_that_stays_is_told(line: str, base: str, tmp_path: Path) -> None:
    assert found(tmp_path, dockerfile(line, base=base)) == ["CR601 Dockerfile:2"]


@pytest.mark.parametrize(
    ("lines", "base"),
    [
        (['CMD ["celery", "-A", "shop", "beat"]'], "python:3.12-slim"),
        (["CMD exec celery -A shop beat"], "python:3.12-slim"),
        (["CMD python manage.py check && exec celery -A shop beat"], "python:3.12-slim"),
        (['CMD ["sh", "-c", "exec rq worker > log"]'], "python:3.12-slim"),
        (["CMD celery -A shop beat"], "python:3.12-alpine"),
        (["CMD python manage.py check && celery -A shop beat > log"], "alpine"),
        (['SHELL ["/bin/bash", "-o", "pipefail", "-c"]', "CMD celery -A shop beat"], "python:3.12-slim"),
        (["CMD bash -c 'rq worker'"], "amazonlinux:2023"),
        (['ENTRYPOINT ["tini", "--"]', "CMD celery -A shop beat"], "python:3.12-slim"),
        (['ENTRYPOINT ["/usr/bin/dumb-init", "sh", "-c", "rq worker"]'], "python:3.12-slim"),
        (["CMD trap 'kill $p' TERM; rq worker & p=$!; wait"], "python:3.12-slim"),
        (["CMD gunicorn shop.wsgi"], "python:3.12-slim"),
        (["CMD python scheduler_test_data.py"], "python:3.12-alpine"),
        (["CMD echo celery beat"], "python:3.12-slim"),
        (["CMD while true; do celery -A shop call tidy; sleep 60; done"], "python:3.12-slim"),
        (['ENTRYPOINT "python"', 'CMD "/app/scheduler.py"'], "python:3.12-slim"),
        (["HEALTHCHECK CMD celery -A shop beat"], "python:3.12-slim"),
        (["CMD $COMMAND"], "python:3.12-slim"),
        (['ENTRYPOINT ["/somebody/elses.sh"]', "CMD celery -A shop beat"], "python:3.12-slim"),
    ],
)
def test_what_hears_term_or_is_no_scheduler_is_silent(lines: list[str], base: str, tmp_path: Path) -> None:
    assert found(tmp_path, dockerfile(*lines, base=base)) == []


def test_a_shell_that_is_not_known_is_worth_an_info_only(tmp_path: Path) -> None:
    (finding,) = report_on(tmp_path, dockerfile("CMD celery -A shop beat", base="us/python")).findings
    assert (finding.rule, finding.severity, finding.confidence) == ("CR601", Severity.INFO, Confidence.LOW)


def test_a_script_that_is_only_called_a_scheduler_is_less_certain(tmp_path: Path) -> None:
    findings = report_on(tmp_path, dockerfile("CMD python scheduler.py && true")).findings
    assert [(one.rule, one.confidence) for one in findings] == [("CR601", Confidence.MEDIUM)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["command: sh -c 'celery -A shop beat'"], ["CR601 compose.yaml:4"]),
        (["command: ['sh', '-c', 'a && rq worker']"], ["CR601 compose.yaml:4"]),
        (["command: celery -A shop beat"], []),
        (["command: sh -c 'exec celery -A shop beat'"], []),
        (["init: true", "command: sh -c 'celery -A shop beat'"], []),
        (["command: bash -c 'python manage.py migrate && celery -A shop beat'"], []),
        (["entrypoint: tini -- sh -c", "command: ['celery -A shop beat']"], []),
        (
            ["command: --help", "entrypoint: |", "  sh -c '", "    true", "    rq worker", "  '"],
            ["CR601 compose.yaml:5"],
        ),
    ],
)
def test_compose_splits_a_command_and_puts_no_shell_before_it(
    lines: list[str], expected: list[str], tmp_path: Path
) -> None:
    assert found(tmp_path, service(*lines, image="image: python:3.12-slim")) == expected


ENTRY = ("COPY entrypoint.sh /entrypoint.sh", 'ENTRYPOINT ["/entrypoint.sh"]')


@pytest.mark.parametrize(
    ("lines", "base", "expected"),
    [
        (["CMD cron && tail -f /var/log/cron.log"], "python:3.12-slim", ["CR604 Dockerfile:2"]),
        (["CMD service cron start && apache2-foreground"], "php:8-apache", ["CR604 Dockerfile:2"]),
        (["CMD /etc/init.d/cron start; gunicorn x"], "us/app", ["CR604 Dockerfile:2"]),
        (["CMD crond && exec gunicorn x"], "alpine", ["CR604 Dockerfile:2"]),
        (['CMD ["cron", "-f"]'], "debian", ["CR604 Dockerfile:2"]),
        (["CMD cron -f"], "debian", ["CR604 Dockerfile:2"]),
        (["RUN apt-get install -y cron", 'CMD ["cron", "-f"]'], "us/app", ["CR604 Dockerfile:3"]),
        (["CMD crond -f -l 2"], "alpine:3.20", ["CR604 Dockerfile:2"]),
        (['CMD ["cron", "-f"]'], "us/app", ["CR604 Dockerfile:2"]),
        (['ENTRYPOINT ["tini", "--"]', 'CMD ["cron", "-f"]'], "debian", []),
        (["RUN dnf install -y cronie", 'CMD ["crond", "-n"]'], "rockylinux:9", []),
        (["RUN apk add dcron", 'CMD ["crond", "-f"]'], "alpine", []),
        (["RUN apt-get install -y cron && service cron start", 'CMD ["gunicorn"]'], "debian", []),
        (['CMD ["supercronic", "/crontab"]'], "debian", []),
        (['ENTRYPOINT ["/unseen.sh"]', 'CMD ["cron", "-f"]'], "debian", []),
    ],
)
def test_a_cron_that_does_not_hear_the_stop(lines: list[str], base: str, expected: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, dockerfile(*lines, base=base)) == expected


@pytest.mark.parametrize("line", ["service cron start", "cron", "cron -f", "/usr/sbin/crond -b", "exec cron -f"])
def test_a_cron_that_an_entrypoint_starts(line: str, tmp_path: Path) -> None:
    tree = dockerfile(*ENTRY) | {"entrypoint.sh": f"#!/bin/sh\nenv > /etc/environment\n{line}\n"}
    assert found(tmp_path, tree) == ["CR604 entrypoint.sh:3"]


CRON = ("command: supercronic /crontab",)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (service(*CRON, "scale: 2"), ["CR610 compose.yaml:5"]),
        (service(*CRON, "deploy: {replicas: 3}"), ["CR610 compose.yaml:5"]),
        (service(*CRON, "deploy: {replicas: '${N:-3}'}"), ["CR610 compose.yaml:5"]),
        (service(*CRON, "deploy: {replicas: 1}"), []),
        (service(*CRON, "deploy: {replicas: '${N}'}"), []),
        (service(*CRON, "deploy: {mode: global}"), []),
        (service("command: gunicorn x", "scale: 2"), []),
        (service("command: cronce run jobs", "scale: 2"), []),
        (service("command: celery -A x worker", "scale: 2"), []),
        (dockerfile('CMD ["supercronic", "/c"]') | service("scale: 2", image="build: ."), ["CR610 compose.yaml:4"]),
        (
            dockerfile('CMD ["supercronic", "/c"]') | service("command: gunicorn x", "scale: 2", image="build: ."),
            [],
        ),
        (service(*CRON) | {"compose.prod.yaml": "services:\n  it:\n    scale: 2\n"}, ["CR610 compose.prod.yaml:3"]),
        (service(*CRON, "scale: 2") | {"crontab": "0 3 * * * cronce exec a --schedule '0 3 * * *' -- b\n"}, []),
        (service(*CRON, "scale: 2") | {"crontab": "0 3 * * * flock /tmp/l b\n"}, ["CR610 compose.yaml:5"]),
        (
            dockerfile("COPY jobs.cron /c", 'CMD ["supercronic", "/c"]')
            | service("scale: 2", image="build: .")
            | {"jobs.cron": "0 3 * * * cronce exec b -- b\n", "host/crontab": "0 3 * * * b\n"},
            [],
        ),
        (
            dockerfile("COPY jobs.cron /c", 'CMD ["supercronic", "/c"]')
            | service("scale: 2", image="build: .")
            | {"jobs.cron": "0 3 * * * b\n", "host/crontab": "0 3 * * * cronce exec b -- b\n"},
            ["CR610 compose.yaml:4"],
        ),
    ],
)
def test_a_cron_in_every_copy(tree: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, tree) == expected


def test_an_entrypoint_that_starts_cron_beside_a_web_app_of_three_copies(tmp_path: Path) -> None:
    tree = dockerfile(*ENTRY, 'CMD ["gunicorn", "shop"]') | service("scale: 3", image="build: .")
    tree |= {"entrypoint.sh": '#!/bin/sh\nservice cron start\nexec "$@"\n'}
    assert found(tmp_path, tree) == ["CR610 compose.yaml:4", "CR604 entrypoint.sh:2"]


def test_a_cron_in_every_pod_of_a_deployment(tmp_path: Path) -> None:
    deployment = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: jobs}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: jobs}}
  template:
    metadata: {labels: {app: jobs}}
    spec:
      containers:
        - name: cron
          image: shop
          command: [sh, -c, "env > /etc/environment && exec cron -f"]
"""
    assert found(tmp_path, {"deploy.yaml": deployment.replace("REPLICAS", "2")}) == ["CR610 deploy.yaml:13"]
    assert found(tmp_path, {"deploy.yaml": deployment.replace("REPLICAS", "1")}) == ["CR521 deploy.yaml:2"]


@pytest.mark.parametrize(
    ("command", "order", "expected"),
    [
        ("celery -A shop beat", "start-first", ["CR521 compose.yaml:5"]),
        ("supercronic /crontab", "start-first", ["CR521 compose.yaml:5"]),
        ("celery -A shop beat -S redbeat.RedBeatScheduler", "start-first", []),
        ("airflow scheduler", "start-first", []),
        ("rqscheduler", "start-first", []),
        ("supercronic /crontab", "stop-first", []),
        ("celery -A shop worker", "start-first", []),
        ("gunicorn shop", "start-first", []),
        ("cronce run jobs:cron", "start-first", []),
    ],
)
def test_an_update_that_starts_the_new_copy_first(
    command: str, order: str, expected: list[str], tmp_path: Path
) -> None:
    tree = service(f"command: {command}", f"deploy: {{update_config: {{order: {order}}}}}")
    assert found(tmp_path, tree) == expected


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (dockerfile("ENV TZ=Europe/Berlin", 'CMD ["celery", "-A", "x", "beat"]'), ["CR620 Dockerfile:2"]),
        (
            dockerfile(
                "RUN ln -sf /usr/share/zoneinfo/America/New_York /etc/localtime", 'CMD ["supercronic", "/crontab"]'
            ),
            ["CR620 Dockerfile:2"],
        ),
        (dockerfile("ENV TZ=Etc/UTC", 'CMD ["celery", "-A", "x", "beat"]'), []),
        (dockerfile("ENV TZ=Asia/Tokyo", 'CMD ["celery", "-A", "x", "beat"]'), []),
        (dockerfile("ENV TZ=Europe/Berlin", 'CMD ["gunicorn", "x"]'), []),
        (dockerfile("ENV TZ=Europe/Berlin", 'CMD ["celery", "-A", "x", "worker"]'), []),
        (service("command: celery -A x beat", "environment: [TZ=Europe/Berlin]"), ["CR620 compose.yaml:5"]),
        (service("command: celery -A x beat", "environment: ['TZ=${TZ}']"), []),
        (service("command: celery -A x beat", "environment: [TZ]"), []),
    ],
)
def test_a_scheduler_in_a_container_that_is_not_in_utc(
    tree: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    assert found(tmp_path, tree) == expected


def test_the_zone_of_a_container_is_an_info(tmp_path: Path) -> None:
    (finding,) = report_on(tmp_path, dockerfile("ENV TZ=Europe/Berlin", 'CMD ["rqscheduler"]')).findings
    assert (finding.rule, finding.severity) == ("CR620", Severity.INFO)


def test_our_own_containers_are_all_right() -> None:
    named = [path for path in files(ROOT, []) if path.startswith("examples/") or "/" not in path]
    findings = audit(ROOT, named, YEAR).findings
    assert {"Dockerfile", "compose.yaml"} < set(named)
    assert [one for one in findings if one.rule in RULES] == []


@pytest.mark.parametrize(
    ("program", "init"),
    [("celery -A shop beat", False), ("rq worker", False), ("python scheduler.py", True), ("node worker.js", True)],
)
def test_who_does_not_handle_term_is_told_to_have_an_init(tmp_path: Path, program: str, init: bool) -> None:
    """Before, the advice was to be process 1, which ignores a TERM that it does not handle."""
    tree = {"Dockerfile": f'FROM debian\nCMD ["sh", "-c", "migrate && {program}"]\n'}
    [found] = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR601"]
    assert ("init above it" in found.remedy) is init
