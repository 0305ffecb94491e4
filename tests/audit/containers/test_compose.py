"""What compose files and Procfiles say: process 1, copies, zone."""

from collections.abc import Sequence

from cronce_audit.containers.facts import Service
from cronce_audit.model import CommandLine, ZoneSet
from tests.audit.containers.made import COMPOSE, facts


def test_what_a_compose_file_says_of_its_services() -> None:
    services: Sequence[Service] = facts("deploy/compose.yaml", COMPOSE, Service)
    assert [(one.name, one.place.line, one.is_alpine, one.init, one.copies, one.dockerfile) for one in services] == [
        ("web", 6, False, False, 1, ""),
        ("beat", 9, False, True, 2, ""),
        ("list", 15, False, True, 4, ""),
        ("built", 23, False, False, None, "deploy/app/docker/Dockerfile"),
        ("staged", 27, False, False, 1, "deploy/Dockerfile"),
    ]
    assert [(one.name, one.command.words) for one in services if one.command] == [
        ("web", ("gunicorn", "app")),
        ("beat", ("celery", "-A", "my app", "beat", "-l", "info", "$HOME", "$UNKNOWN")),
        ("list", ("sh", "-c", "exec rq worker")),
    ]
    zones = facts("deploy/compose.yaml", COMPOSE, ZoneSet)
    assert [(one.zone, one.unit, one.place.line) for one in zones] == [
        ("Europe/Berlin", "web", 4), ("Europe/Berlin", "beat", 4), ("UTC", "list", 19)
    ]  # fmt: skip


def test_a_template_of_a_compose_file_is_no_compose_file_yet() -> None:
    assert facts("docker-compose.yml", "services:\n  {{ name }}:\n    command: cron\n", Service) == []


def test_the_processes_of_a_procfile() -> None:
    procfile = "# all\nweb: gunicorn app -w 4\nclock: A=1 celery -A x beat\nrelease: a && b\n\nbroken\n"
    found = facts("Procfile", procfile, CommandLine)
    assert [(one.unit, one.words, one.place.line, one.copies) for one in found] == [
        ("web", ("sh", "-c", "gunicorn app -w 4"), 2, None),
        ("clock", ("sh", "-c", "A=1 celery -A x beat"), 3, None),
        ("release", ("sh", "-c", "a && b"), 4, None),
    ]
