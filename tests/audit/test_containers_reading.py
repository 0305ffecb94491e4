"""What Dockerfiles, compose files and Procfiles say: process 1, copies, zone, and which shell is in between."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from cronce_audit.containers.dockerfiles import Instruction, instructions
from cronce_audit.containers.facts import Image, Service
from cronce_audit.containers.programs import program
from cronce_audit.containers.shell import Kind, line, sh_of, stays
from cronce_audit.model import CommandLine, Place, Source, ZoneSet, readers


def facts(path: str, text: str, kind: type) -> list[Any]:
    known = [reader for reader in readers() if reader.wants(PurePosixPath(path))]
    return [fact for reader in known for fact in reader.read(Source(path, text)) if type(fact) is kind]


def words(text: str, path: str = "Dockerfile") -> tuple[str, ...] | None:
    found = facts(path, text, CommandLine)
    return found[0].words if found else None


def test_lines_go_on_and_comments_and_empty_lines_between_do_not_count() -> None:
    text = 'FROM a\n\n# CMD no\nRUN one \\\n  # two\n\n  three\nCMD ["x"]\n'
    found = [(one.name, " ".join(one.rest.split()), one.line) for one in instructions(text)]
    assert found == [("FROM", "a", 1), ("RUN", "one three", 4), ("CMD", '["x"]', 8)]


def test_what_stands_in_a_heredoc_is_no_instruction() -> None:
    text = "FROM a\nRUN <<EOF\nCMD celery beat\nEOF\nCOPY <<A <<B /\nCMD 1\nA\nCMD 2\nB\nUSER me\n"
    assert [one.name for one in instructions(text)] == ["FROM", "RUN", "COPY", "USER"]


def test_the_escape_character_may_be_another() -> None:
    assert list(instructions("# escape=`\nRUN a `\nb\nCMD c\\\n")) == [
        Instruction("RUN", "a  b", 2),
        Instruction("CMD", "c\\", 4),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('FROM a\nCMD ["cron", "-f"]', ("cron", "-f"), id="exec form"),
        pytest.param("FROM a\ncmd cron -f", ("cron", "-f"), id="shell form of one command"),
        pytest.param("FROM a\nCMD a && b", ("/bin/sh", "-c", "a && b"), id="shell form of two"),
        pytest.param('FROM a\nSHELL ["/bin/bash", "-c"]\nCMD a && b', ("/bin/bash", "-c", "a && b"), id="its shell"),
        pytest.param("FROM a\nCMD ['cron']", ("[cron]",), id="no JSON goes to the shell"),
        pytest.param('FROM a\nENTRYPOINT ["a"]\nCMD ["b"]', ("a", "b"), id="entrypoint and command"),
        pytest.param('FROM a\nENTRYPOINT a\nCMD ["b"]', ("a",), id="an entrypoint for the shell takes no command"),
        pytest.param('FROM a\nENTRYPOINT ["docker-entrypoint"]\nCMD ["b"]', ("b",), id="what it is given counts"),
        pytest.param('FROM a AS x\nCMD ["b"]\nFROM x', ("b",), id="from the stage before"),
        pytest.param('FROM a AS x\nCMD ["b"]\nFROM y', None, id="another stage's is not this one's"),
        pytest.param(
            'FROM a AS x\nCMD ["b"]\nFROM X\nENTRYPOINT ["c"]', ("c",), id="an entrypoint empties what it inherits"
        ),
        pytest.param('FROM a\nCMD ["b"]\nENTRYPOINT ["c"]', ("c", "b"), id="but not its own"),
        pytest.param('FROM a\nHEALTHCHECK CMD celery inspect\nCMD ["b"]', ("b",), id="a health check is no command"),
        pytest.param('FROM a\nONBUILD CMD ["b"]', None, id="for another image"),
        pytest.param('CMD ["b"]', None, id="before any stage"),
        pytest.param('FROM a\nCMD ["b"]\nCMD ["c"]', ("c",), id="the last one counts"),
    ],
)
def test_what_an_image_starts(text: str, expected: tuple[str, ...] | None) -> None:
    assert words(text) == expected


def test_an_images_environment_is_filled_in_as_far_as_it_is_told() -> None:
    text = """\
ARG ZONE=Europe/Paris
FROM python:3.12-slim
ARG ZONE
ARG LATER
ENV TZ=$ZONE A="two words" B=${LATER:-b} C=$LATER
ENV OLD style here
CMD ["cron"]
"""
    (command,) = facts("Dockerfile", text, CommandLine)
    assert dict(command.environment) == {
        "TZ": "Europe/Paris",
        "A": "two words",
        "B": "b",
        "C": "$LATER",
        "OLD": "style here",
    }
    assert command.copies is None
    assert facts("Dockerfile", text, ZoneSet) == [ZoneSet("Europe/Paris", Place("Dockerfile", 5), "Dockerfile")]


@pytest.mark.parametrize(
    ("lines", "zone"),
    [
        ("RUN ln -snf /usr/share/zoneinfo/Europe/Rome /etc/localtime", "Europe/Rome"),
        ("ENV Z=Europe/Rome\nRUN apk add tzdata && cp /usr/share/zoneinfo/$Z /etc/localtime", "Europe/Rome"),
        ("RUN ln -s /usr/share/zoneinfo/Europe/Rome /etc/localtime\nENV TZ=UTC", "UTC"),
        ("RUN ln -s /usr/share/zoneinfo/$TZ /etc/localtime", None),
        ("RUN echo Europe/Rome > /etc/timezone", None),
        ("ENV TZ=Nowhere/Land", None),
        ("ENV TZ=", None),
    ],
)
def test_the_zone_of_an_image(lines: str, zone: str | None) -> None:
    assert [one.zone for one in facts("Dockerfile", f"FROM a\n{lines}\n", ZoneSet)] == ([zone] if zone else [])


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("python:3.12-slim", "dash"), ("python", "dash"), ("ubuntu:24.04", "dash"),
        ("docker.io/library/node:20", "dash"),
        ("python:3.12-alpine", "ash"), ("alpine@sha256:ab", "ash"), ("redis:7-alpine3.20", "ash"),
        ("registry.access.redhat.com/ubi9/python-312", None), ("amazonlinux:2023", "bash"), ("rockylinux:9", "bash"),
        ("quay.io/us/python", None), ("localhost:5000/python:3.12", None), ("us/app:1-bookworm", "dash"),
        ("us/app", None), ("${BASE}", None), ("python:${VERSION}", None),
    ],
)  # fmt: skip
def test_which_shell_sh_is_in_an_image(image: str, kind: Kind | None) -> None:
    assert sh_of(image) == kind


TEXTS = (
    "PROGRAM", "cd / && PROGRAM", "true; PROGRAM", "A=1 PROGRAM", "exec PROGRAM", "cd / && exec PROGRAM",
    "PROGRAM; true", "PROGRAM && true", "PROGRAM || true", "PROGRAM | cat", "exec PROGRAM | cat", "PROGRAM 2>/dev/null",
    "true | PROGRAM",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["dash", "bash"])
def test_a_shell_stays_process_1_exactly_where_we_say_so(kind: Kind, tmp_path: Path) -> None:
    """The program tells its own process id: that of the shell, if the shell made way for it."""
    shell = shutil.which(kind)
    if shell is None:
        pytest.skip(f"there is no {kind} here")
    tells = tmp_path / "program"
    tells.write_text("#!/bin/sh\necho $$\n")
    tells.chmod(0o755)
    said, measured = {}, {}
    for text in TEXTS:
        read = line(text)
        (command,) = (one for one in read.commands if one.words == ("PROGRAM",))
        said[text] = stays(read, command, kind)
        with subprocess.Popen([shell, "-c", text.replace("PROGRAM", str(tells))], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            measured[text] = int(process.stdout.read()) != process.pid
    assert said == measured


def test_busybox_makes_way_and_of_an_unknown_shell_only_exec_is_known() -> None:
    for text, ash, unknown in [
        ("PROGRAM", False, None),
        ("PROGRAM 2>/dev/null", False, None),
        ("exec PROGRAM", False, False),
        ("PROGRAM &", True, True),
        ("PROGRAM & exec other", True, True),
        ("PROGRAM | cat", True, True),
    ]:
        read = line(text)
        command = read.commands[0]
        assert (stays(read, command, "ash"), stays(read, command, None)) == (ash, unknown), text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a && b", True), ("a $(b; c) && d", True), ("while true; do a; done", False), ("(a; b)", False),
        ("if a; then b; fi", False), ("a 'unclosed", False), ("{ a; }", False),
    ],
)  # fmt: skip
def test_loops_and_branches_are_not_taken_for_commands_in_a_row(text: str, plain: bool) -> None:
    assert line(text).plain is plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("celery -A app beat", "celery beat"), ("celery -A worker beat", "celery beat"),
        ("celery -A beat worker", "celery worker"),
        ("poetry run celery --app=x worker -B", "celery worker"), ("python -m celery -A x beat", "celery beat"),
        ("celery -A app flower", None), ("celery inspect ping", None), ("gosu app rq worker high", "rq worker"),
        ("python manage.py rqworker", "manage.py rqworker"), ("python manage.py runserver", None),
        ("./manage.py qcluster", "manage.py qcluster"), ("bundle exec sidekiq -C x", "sidekiq"),
        ("php artisan schedule:work", "artisan schedule:work"), ("php artisan schedule:run", None),
        ("/usr/local/bin/supercronic /crontab", "supercronic"), ("cron -f", "cron"), ("service cron start", "cron"),
        ("busybox crond -f", "crond"), ("command -v cron", None), ("service nginx start", None), ("crontab -l", None),
        ("python -u scheduler.py", "scheduler.py"), ("python -m app.worker", "app.worker"),
        ("node dist/cron.js", "dist/cron.js"),
        ("python -c scheduler", None), ("python app.py", None), ("python $SCRIPT", None), ("node coworker.js", None),
        ("gunicorn scheduler:app", None), ("echo celery beat", None), ("cronce run jobs:cron", "cronce run"),
        ("cronce exec x -- y", None), ("tail -f /var/log/cron", None), ("env A=1 celery -A x beat", "celery beat"),
        ("", None),
    ],
)  # fmt: skip
def test_which_program_is_a_scheduler_a_worker_or_a_cron(text: str, expected: str | None) -> None:
    found = program(text.split())
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("text", "detaches"),
    [("cron", True), ("cron -l 2", True), ("cron -f", False), ("cron -f -L 15", False), ("crond", True),
     ("crond -b", True), ("crond -fl8", False), ("crond -n", False), ("service cron start", True),
     ("/etc/init.d/cron start", True)],
)  # fmt: skip
def test_which_cron_goes_to_the_background(text: str, detaches: bool) -> None:
    found = program(text.split())
    assert found is not None
    assert found.detaches is detaches


COMPOSE = """\
x-base: &base
  image: python:3.12-slim
  environment:
    TZ: Europe/Berlin
services:
  web:
    <<: *base
    command: gunicorn app
  beat:
    <<: *base
    init: true
    scale: 2
    command: celery -A "my app" beat ${LEVEL:--l info} $$HOME $UNKNOWN
    stop_grace_period: 0s
  list:
    extends: beat
    command: ["sh", "-c", "exec rq worker"]
    environment:
      - TZ=UTC
      - OPEN
    deploy:
      replicas: 4
  built:
    build: {context: ./app, dockerfile: docker/Dockerfile}
    deploy:
      mode: global
  staged:
    build: {context: ., target: dev}
"""


def test_what_a_compose_file_says_of_its_services() -> None:
    services: Sequence[Service] = facts("deploy/compose.yaml", COMPOSE, Service)
    assert [(one.name, one.place.line, one.sh, one.init, one.copies, one.dockerfile) for one in services] == [
        ("web", 6, "dash", False, 1, ""),
        ("beat", 9, "dash", True, 2, ""),
        ("list", 15, "dash", True, 4, ""),
        ("built", 23, None, False, None, "deploy/app/docker/Dockerfile"),
        ("staged", 27, None, False, 1, "deploy/Dockerfile"),
    ]
    commands = facts("deploy/compose.yaml", COMPOSE, CommandLine)
    assert [(one.unit, one.words, one.copies, one.shell) for one in commands] == [
        ("web", ("gunicorn", "app"), 1, False),
        ("beat", ("celery", "-A", "my app", "beat", "-l", "info", "$HOME", "$UNKNOWN"), 2, False),
        ("list", ("rq", "worker"), 4, False),
    ]
    zones = facts("deploy/compose.yaml", COMPOSE, ZoneSet)
    assert [(one.zone, one.unit, one.place.line) for one in zones] == [
        ("Europe/Berlin", "web", 4), ("Europe/Berlin", "beat", 4), ("UTC", "list", 19)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    ["compose.dev.yaml", "docker-compose.local.yml", "Dockerfile.dev", "Procfile.dev", "Dockerfile.j2", "app.yaml"],
)
def test_what_is_for_trying_out_or_for_something_else_is_not_read(path: str) -> None:
    text = COMPOSE if path.endswith("ml") else "FROM a\nCMD cron\n"
    assert [fact for kind in (Service, Image, CommandLine) for fact in facts(path, text, kind)] == []


def test_a_template_of_a_compose_file_is_no_compose_file_yet() -> None:
    assert facts("docker-compose.yml", "services:\n  {{ name }}:\n    command: cron\n", Service) == []


def test_the_processes_of_a_procfile() -> None:
    procfile = "# all\nweb: gunicorn app -w 4\nclock: A=1 celery -A x beat\nrelease: a && b\n\nbroken\n"
    found = facts("Procfile", procfile, CommandLine)
    assert [(one.unit, one.words, one.place.line, one.copies) for one in found] == [
        ("web", ("gunicorn", "app", "-w", "4"), 2, None),
        ("clock", ("celery", "-A", "x", "beat"), 3, None),
        ("release", ("sh", "-c", "a && b"), 4, None),
    ]
