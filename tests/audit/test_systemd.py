"""The processes that units of systemd and programs of supervisor start."""

from pathlib import Path

import pytest

from cronce_audit.model import CommandLine, Place
from tests.audit.trees import report_on


def service(command: str = "/usr/bin/job", more: str = "") -> str:
    return f"[Service]\nType=oneshot\nExecStart={command}\n{more}"


def test_what_a_unit_starts_is_told(tmp_path: Path) -> None:
    unit = """\
    [Unit]
    Description=beat

    [Service]
    Environment=A=1 "B=two words"
    ExecStartPre=/bin/true
    # ExecStart=/old
    ExecStart=-/venv/bin/celery -A app \\
        # a comment
        beat --loglevel "in fo"
    """
    found = report_on(tmp_path, {"beat@.service": unit}).facts.of(CommandLine)
    words = ("/venv/bin/celery", "-A", "app", "beat", "--loglevel", "in fo")
    environment = (("A", "1"), ("B", "two words"))
    place = Place("beat@.service", 8)
    assert list(found) == [CommandLine(words, place, "systemd", "beat@.service", None, environment)]


def test_what_supervisor_starts_is_told(tmp_path: Path) -> None:
    conf = """\
    [supervisord]
    nodaemon=true

    [program:web]
    command=gunicorn app:app -w 4 ; the web
    numprocs=2
    environment=A="1",B=two

    [program:beat]
    command = celery -A app beat
    numprocs = %(ENV_N)s

    [eventlistener:x]
    command=other
    """
    found = report_on(tmp_path, {"etc/supervisor/conf.d/app.conf": conf, "nginx/app.conf": conf}).facts.of(CommandLine)
    path = "etc/supervisor/conf.d/app.conf"
    environment = (("A", "1"), ("B", "two"))
    assert list(found) == [
        CommandLine(("gunicorn", "app:app", "-w", "4"), Place(path, 5), "supervisor", "web", 2, environment),
        CommandLine(("celery", "-A", "app", "beat"), Place(path, 10), "supervisor", "beat", None),
    ]


@pytest.mark.parametrize(
    "text", ["", "[", "[Service", "ExecStart=", "[Service]\nExecStart='\n", "[Timer]\n=\n", "\\\n\\\n"]
)
def test_garbage_is_no_unit(tmp_path: Path, text: str) -> None:
    report = report_on(tmp_path, {"a.service": text, "a.timer": text, "supervisord.conf": text})
    assert (report.findings, report.unparsed) == ([], [])
