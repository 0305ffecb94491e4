"""Timers: two for one job, none that runs, times that clocks pass over; and the processes that units start."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronce.schedule import Cron
from cronce_audit.model import Command, Place
from cronce_audit.systemd import calendar
from tests.audit.trees import findings_in, report_on
from tests.house.needs import tool

NOW = datetime(2026, 6, 3, 12, 0, 30, tzinfo=UTC)


def service(command: str = "/usr/bin/job", more: str = "") -> str:
    return f"[Service]\nType=oneshot\nExecStart={command}\n{more}"


def timer(when: str = "daily", more: str = "") -> str:
    return f"[Timer]\nOnCalendar={when}\n{more}"


# --- calendars --------------------------------------------------------------------------------------------------------

CALENDARS = [
    "daily", "weekly", "monthly", "hourly UTC", "*-*-* 07..23:30", "*-*-* *:09,39:00", "Sun *-*-* 03:10:00", "*:00/10",
    "00:07:00", "*-*-* 00,12:00:00", "1:05:00", "Mon..Fri 9:00", "Mon,Wed *-*-* 4:00", "*-*-1 06:52:00", "*-1,7-1 0:0",
    "*-*-* 02:30 Europe/Berlin", "Sunday 3:00", "*-*-*", "4/6:00:00", "Mon..Wed,Fri 1:00", "12-25", "*:5/20",
]  # fmt: skip
REFUSED = ["*:*/5", "*-*-* */2:00", "0 3 * * *", "@daily", "*/5 * * * *", "*-*-*/2 3:00"]


def test_a_calendar_is_what_systemd_makes_of_it() -> None:
    analyze = tool("systemd-analyze", "apt-get install systemd")
    words = [analyze, "calendar", "--base-time=2026-06-03 12:00:30 UTC", "--iterations=4"]
    done = subprocess.run([*words, *CALENDARS], capture_output=True, text=True, check=True, env={"TZ": "UTC"})
    told = [
        [
            " ".join(line.split()[-3:-1])
            for line in part.splitlines()
            if line.strip().startswith(("Next elapse", "Iter. #"))
        ]
        for part in done.stdout.split("\n\n")
    ]
    assert told == [_next_four(text) for text in CALENDARS]


def _next_four(text: str) -> list[str]:
    found = calendar(text)
    assert found is not None
    cron = Cron(found.expression, found.zone or "UTC")
    times: list[datetime] = []
    while len(times) < 4:
        after = cron.next(times[-1] if times else NOW)
        assert after is not None
        times.append(after)
    return [f"{at:%Y-%m-%d %H:%M:%S}" for at in times]


@pytest.mark.parametrize(
    "text",
    [
        "Mon *-*-1..7 1:00",
        "*-*-* 4:05:06",
        "2026-01-01 00:00",
        "*-*~1 0:00",
        "",
        "every day",
        "0 3 * * *",
        "Europe/Berlin",
    ],
)
def test_a_calendar_that_cron_cannot_say_is_none(text: str) -> None:
    assert calendar(text) is None


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"b.service": service(), "b.timer": timer()}, ["warning b.timer:2"]),
        ({"b.service": service(), "b.timer": timer("Mon *-*-* 00:00")}, ["warning b.timer:2"]),
        ({"b.service": service(), "b.timer": timer("04:00")}, []),
        ({"b.service": service("/usr/bin/job --other"), "b.timer": timer()}, []),
        ({"b.service": service(more="User=bob\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="Environment=X=1\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="[Unit]\nConditionACPower=true\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="[Unit]\nAssertPathExists=/x\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="RootDirectory=/srv/b\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="RootImage=/srv/b.img\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="ExecStartPre=/usr/bin/before\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="ExecStartPost=/usr/bin/after\n"), "b.timer": timer()}, []),
        ({"b.service": service(more="[Unit]\nDescription=x\n"), "b.timer": timer()}, ["warning b.timer:2"]),
        ({f"{name}.service": service("/usr/bin/job %n") for name in "ab"} | {"b.timer": timer()}, []),
        ({f"{name}.service": service(more="Environment=X=%p\n") for name in "ab"} | {"b.timer": timer()}, []),
        (
            {f"{name}.service": service("/usr/bin/date +%%F") for name in "ab"} | {"b.timer": timer()},
            ["warning b.timer:2"],
        ),
        ({"b.timer": timer(more="Unit=a.service\n")}, ["info b.timer:2"]),
        ({"b.timer": timer("04:00", "Unit=a.service\n")}, []),
        ({"other/b.service": service(), "other/b.timer": timer()}, []),
        ({"b.service": service(), "b.timer": timer("daily Europe/Berlin")}, []),
        ({"b.service": service(), "b.timer": "[Timer]\nOnBootSec=5min\n"}, []),
        ({"b.service": service(), "b.timer": timer("\nOnCalendar=05:00").replace("daily", "")}, []),
    ],
)
def test_two_timers_for_one_job_are_found(tmp_path: Path, tree: dict[str, str], found: list[str]) -> None:
    report = report_on(tmp_path, {"a.service": service(), "a.timer": timer(), **tree})
    assert [f"{one.severity.word} {one.place}" for one in report.findings if one.rule == "CR651"] == found


@pytest.mark.parametrize(
    ("when", "found"),
    [
        ("*-*-* 02:30 Europe/Berlin", True),
        ("*-*-* 02:30", False),
        ("*-*-* 02:30 UTC", False),
        ("*-*-* 04:30 Europe/Berlin", False),
        ("*:30 Europe/Berlin", False),
        ("Mon *-*-* 02:30 Europe/Berlin", False),
        ("*-*-* 01:30 America/New_York", False),
        ("*-*-* 02:30 America/New_York", True),
    ],
)
def test_a_time_that_the_clocks_of_its_zone_pass_over_is_found(tmp_path: Path, when: str, found: bool) -> None:
    """systemd takes the first of two showings, so that a time that shows twice is no finding."""
    tree = {"a.service": service(), "a.timer": timer(when)}
    assert findings_in(tmp_path, tree, "CR654") == (["CR654 a.timer:2"] if found else [])


# --- what units start -------------------------------------------------------------------------------------------------


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
    found = report_on(tmp_path, {"beat@.service": unit}).facts.of(Command)
    words = ("/venv/bin/celery", "-A", "app", "beat", "--loglevel", "in fo")
    environment = (("A", "1"), ("B", "two words"))
    place = Place("beat@.service", 8)
    assert list(found) == [Command(words, place, "systemd", "beat@.service", None, environment)]


@pytest.mark.parametrize(
    ("line", "shell"),
    [
        ("/bin/sh -c 'a; b'", True),
        ("/bin/sh -c 'exec a'", False),
        ("/bin/sh script", False),
        ("/usr/bin/a -c b", False),
    ],
)
def test_a_shell_that_stays_is_told(tmp_path: Path, line: str, shell: bool) -> None:
    (found,) = report_on(tmp_path, {"a.service": service(line)}).facts.of(Command)
    assert found.shell is shell


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
    found = report_on(tmp_path, {"etc/supervisor/conf.d/app.conf": conf, "nginx/app.conf": conf}).facts.of(Command)
    path = "etc/supervisor/conf.d/app.conf"
    environment = (("A", "1"), ("B", "two"))
    assert list(found) == [
        Command(("gunicorn", "app:app", "-w", "4"), Place(path, 5), "supervisor", "web", 2, environment),
        Command(("celery", "-A", "app", "beat"), Place(path, 10), "supervisor", "beat", None),
    ]


@pytest.mark.parametrize(
    "text", ["", "[", "[Service", "ExecStart=", "[Service]\nExecStart='\n", "[Timer]\n=\n", "\\\n\\\n"]
)
def test_garbage_is_no_unit(tmp_path: Path, text: str) -> None:
    report = report_on(tmp_path, {"a.service": text, "a.timer": text, "supervisord.conf": text})
    assert (report.findings, report.unparsed) == ([], [])
