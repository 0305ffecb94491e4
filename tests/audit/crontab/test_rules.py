"""Crontabs: what runs twice, what overlaps, and what the change of clocks does to them."""

from pathlib import Path

import pytest

from cronce.integrations.crontab import dedupe
from cronce_audit.model import Severity
from tests.audit.trees import findings_in, report_on

DEBIAN = "FROM debian:12\nRUN apt-get update && apt-get install -y cron\nCOPY crontab /etc/cron.d/app\nCMD cron -f\n"
ALPINE = "FROM alpine:3\nCOPY crontab /etc/crontabs/root\nCMD crond -f\n"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("0 3 * * * /app/x\n0 3 * * * /app/x\n", [2]),
        ("0 3 * * * /app/x\n0 3 * * * /app/x\n0 3 * * * /app/x\n", [2, 3]),
        ("0 3 * * * /app/x\n0 3 * * *   /app/x  > /dev/null 2>&1\n", [2]),
        ("@daily /app/x\n0 0 * * * /app/x\n", [2]),
        ("*/5 * * * * flock -n /l /app/x\n0 3 * * * flock -n /l /app/x\n", []),
        ("0 3 * * * flock -n /l /app/x\n0 3 * * * flock -n /l /app/x\n", [2]),
        ("0 3 * * * flock /l /app/x\n0 3 * * * flock /l /app/x\n", [2]),
        ("*/5 * * * * flock /l /app/x\n0 3 * * * flock /l /app/x\n", [2]),
        ("0 0 * * 0 cat /dev/null > /var/log/a.log\n0 0 * * 0 cat /dev/null > /var/log/b.log\n", []),
        ("0 0 * * * > /var/log/a.log\n0 0 * * * > /var/log/b.log\n", []),
        ("0 0 * * * date >> /var/log/a.log\n0 0 * * * date >> /var/log/b.log\n", []),
        ("0 0 * * * echo 0 > /sys/a\n0 0 * * * echo 0 > /sys/b\n", []),
        ("0 0 * * * echo 0 > /sys/a\n0 0 * * * echo 0 > /sys/a 2>&1\n", [2]),
        ("0 * * * * /app/x\n0 3 * * * /app/x\n", [2]),
        ("0 3 * * * /app/x\n0 4 * * * /app/x\n", []),
        ("5-55/10 * * * * /app/x\n59 23 * * * /app/x\n", []),
        ("0 3 * * * /app/x a\n0 3 * * * /app/x b\n", []),
        ("A=1\n0 3 * * * /app/x\nA=2\n0 3 * * * /app/x\n", []),
        ("MAILTO=a\n0 3 * * * /app/x\nMAILTO=b\n0 3 * * * /app/x\n", [4]),
        ("0 3 * * * cronce exec x -- /app/x\n0 3 * * * cronce exec x -- /app/x\n", []),
        ("@reboot /app/x\n@reboot /app/x\n", [2]),
        ("@reboot /app/x\n@daily /app/x\n", []),
        ("* * * * * /app/x\n* * * * * sleep 30; /app/x\n", []),
        ("0 3 1 1 * /app/x\n0 3 2 1 * /app/x\n", []),
    ],
)
def test_the_same_job_twice_in_a_crontab_is_found(tmp_path: Path, lines: str, found: list[int]) -> None:
    assert findings_in(tmp_path, {"crontab": lines}, "CR404") == [f"CR404 crontab:{line}" for line in found]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/app/x", "error"),
        ("flock /l /app/x", "error"),
        ("flock -n /l /app/x", "warning"),
        ("flock -xn /l x", "warning"),
    ],
)
def test_a_lock_makes_two_runs_wait_and_not_one(tmp_path: Path, line: str, said: str) -> None:
    """Only one that does not wait can keep the second from running, if the first still runs then."""
    report = report_on(tmp_path, {"crontab": f"0 3 * * * {line}\n" * 2})
    assert [one.severity.word for one in report.findings if one.rule == "CR404"] == [said]


def test_a_thousand_equal_lines_and_a_thousand_schedules_are_judged(tmp_path: Path) -> None:
    """Each is compared with the first of its schedule, and a few dozen schedules with each other."""
    several = "".join(f"{at % 60} {at // 60} * * * /app/y\n" for at in range(1000))
    found = findings_in(tmp_path, {"crontab": "0 3 * * * /app/x\n" * 1000 + several * 2}, "CR404")
    assert len(found) == 999 + 1000


def test_users_differ(tmp_path: Path) -> None:
    tree = {"etc/cron.d/a": "0 3 * * * alice /app/x\n0 3 * * * bob /app/x\n"}
    assert findings_in(tmp_path, tree, "CR404") == []


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"crontab": "CRON_TZ=Europe/Berlin\n30 2 * * * /x\n"}, "info"),
        ({"crontab": "CRON_TZ=UTC\n30 2 * * * /x\n"}, ""),
        ({"crontab": "CRON_TZ=Europe/Berlin\n30 4 * * * /x\n"}, ""),
        ({"crontab": "CRON_TZ=Europe/Berlin\n*/5 * * * * touch /x\n"}, ""),
        ({"crontab": "30 2 * * * /x\n"}, ""),
        ({"crontab": "CRON_TZ=Europe/Berlin\n30 2 * * * cronce exec x -- /x\n"}, ""),
        ({"crontab": "CRON_TZ=Nowhere/Land\n30 2 * * * /x\n"}, ""),
        ({"crontab": "30 2 * * * /x\n", "Dockerfile": f"{ALPINE}ENV TZ=Europe/Berlin\n"}, "info"),
        ({"crontab": "30 2 * * * root /x\n", "Dockerfile": f"{DEBIAN}ENV TZ=Europe/Berlin\n"}, ""),
        ({"crontab": "30 2 * * * /x\n", "Dockerfile": f"{ALPINE}ENV TZ=UTC\n"}, ""),
        ({"crontab": "30 2 * * * /x\n", "web/Dockerfile": "FROM x\nENV TZ=Europe/Berlin\n"}, ""),
    ],
)
def test_a_fixed_time_that_the_zone_in_force_disputes_is_told(tmp_path: Path, tree: dict[str, str], said: str) -> None:
    """Measured: busybox's cron ran it at both showings, and not at all in the gap; Debian's runs it once."""
    found = [one for one in report_on(tmp_path, tree).findings if one.rule == "CR406"]
    assert [one.severity.word for one in found] == ([said] if said else [])
    assert all("CRON_TZ=UTC" in one.remedy for one in found)


def test_the_days_of_the_change_are_named(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"crontab": "CRON_TZ=Europe/Berlin\n30 2 * * * /x\n"})
    (found,) = [one for one in report.findings if one.rule == "CR406"]
    assert "each year (in 2026 on 25 October) 02:30 occurs twice and " in found.message
    assert " and each year (in 2026 on 29 March) 02:30 does not exist" in found.message


@pytest.mark.parametrize(
    ("line", "found"),
    [("* 2 * * * /x", True), ("0-59 2 * * * /x", False), ("* 2-4 * * * /x", False), ("0 2 * * * /x", False),
     ("* * * * * touch /x", False), ("* 2 * * * flock -n /l /x", False)],
)  # fmt: skip
def test_each_minute_of_one_hour_is_found(tmp_path: Path, line: str, found: bool) -> None:
    assert findings_in(tmp_path, {"crontab": f"{line}\n"}, "CR408") == (["CR408 crontab:1"] if found else [])


@pytest.mark.parametrize(("minutes", "severity"), [("*/45", Severity.WARNING), ("*/80", Severity.INFO)])
def test_a_step_that_is_longer_than_the_hour_comes_once_an_hour_and_is_information(
    tmp_path: Path, minutes: str, severity: Severity
) -> None:
    found = report_on(tmp_path, {"crontab": f"{minutes} * * * * /app/run.sh\n"}).findings
    assert [(one.rule, one.severity) for one in found] == [("CR408", severity)]


def test_dedupe_is_recommended_for_what_it_takes_away_and_for_nothing_else(tmp_path: Path) -> None:
    """Before, a line that differs in where its output goes was to be dropped, and dedupe kept it."""
    text = "0 3 * * * /app/sync\n0 3 * * * /app/sync >> /var/log/sync.log 2>&1\n0 3 * * * /app/sync\n"
    found = [one for one in report_on(tmp_path, {"crontab": text}).findings if one.rule == "CR404"]
    takes_away = {one.place.line for one in found if "dedupe` removes duplicate" in one.remedy}
    lines = text.splitlines(keepends=True)
    kept = dedupe(text)
    assert takes_away == {3}
    assert kept == "".join(lines[:2])
    [left] = [one for one in found if one.place.line == 2]
    assert "dedupe` removes only lines that are" in left.remedy


WITH_CRON = "FROM debian:12\nRUN apt-get update && apt-get install -y cron\n"


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"Dockerfile": DEBIAN, "crontab": "0 3 * * * cd /app && ./run\n"}, ["CR412 Dockerfile:3"]),
        ({"Dockerfile": DEBIAN, "crontab": "0 3 * * * /app/run\n"}, ["CR412 Dockerfile:3"]),
        ({"Dockerfile": DEBIAN, "crontab": "0 3 * * * root /app/run\n"}, []),
        ({"Dockerfile": DEBIAN, "crontab": "0 3 * * * scraper /app/run\n"}, []),
        ({"Dockerfile": ALPINE, "crontab": "0 3 * * * /app/run\n"}, []),
        (
            {"Dockerfile": WITH_CRON + 'RUN echo "0 3 * * * python x.py" \\\n  > /etc/cron.d/x\nCMD cron -f\n'},
            ["CR412 Dockerfile:3"],
        ),
        ({"Dockerfile": WITH_CRON + 'RUN echo "0 3 * * * root python x.py" > /etc/cron.d/x\nCMD cron -f\n'}, []),
        ({"Dockerfile": WITH_CRON + 'RUN echo "0 3 * * * python x.py" | crontab -\nCMD cron -f\n'}, []),
    ],
)
def test_a_line_of_cron_d_without_a_user_never_runs(tmp_path: Path, tree: dict[str, str], says: list[str]) -> None:
    assert findings_in(tmp_path, tree, "CR412") == says


@pytest.mark.parametrize(
    ("start", "more", "says"),
    [
        ('CMD ["gunicorn", "shop"]', {}, ["CR412 Dockerfile:3"]),
        ("CMD cron && gunicorn shop", {}, []),
        ('CMD ["/start.sh"]', {}, []),
        ("", {}, []),
        (
            "",
            {"compose.yaml": "services:\n  web:\n    build: .\n    command: [python, x.py]\n"},
            ["CR412 Dockerfile:3"],
        ),
        (
            'CMD ["gunicorn", "shop"]',
            {"compose.yaml": "services:\n  jobs:\n    build: .\n    command: [cron, -f]\n"},
            [],
        ),
        ('CMD ["gunicorn", "shop"]', {"start.sh": "#!/bin/sh\nservice cron start\ngunicorn shop\n"}, []),
    ],
)
def test_a_crontab_of_an_image_in_which_nothing_starts_cron(
    tmp_path: Path, start: str, more: dict[str, str], says: list[str]
) -> None:
    tree = {"Dockerfile": f"{WITH_CRON}RUN crontab /app/crontab\n{start}\n", **more}
    assert findings_in(tmp_path, tree, "CR412") == says


NODE_CRON = "const cron = require('node-cron');\n"


@pytest.mark.parametrize(
    ("first", "second", "is_told"),
    [
        ("'0 9 * * *', () => { console.log('a'); sendAll(); }", "'0 9 * * *', async () => { await sendAll(); }", True),
        ("'0 * * * *', sendAll", "'0 0 * * *', sendAll", True),
        ("'0 9 * * *', sendAll", "'0 17 * * *', sendAll", False),
        ("'0 9 * * *', () => send('a')", "'0 9 * * *', () => send('b')", False),
        ("'0 9 * * *', () => { read(); send(); }", "'0 9 * * *', () => { send(); }", False),
        ("'0 9 * * *', () => this.run()", "'0 9 * * *', () => this.run()", False),
    ],
)
def test_two_jobs_in_code_that_do_the_same_at_the_same_time(
    tmp_path: Path, first: str, second: str, is_told: bool
) -> None:
    tree = {"a.js": f"{NODE_CRON}cron.schedule({first});\n", "b.js": f"{NODE_CRON}\ncron.schedule({second});\n"}
    assert findings_in(tmp_path, tree, "CR404") == ["CR404 b.js:3"] * is_told


@pytest.mark.parametrize(
    ("second", "is_told"),
    [
        ("hour=3, id='b'", True),
        ("hour='*', id='b'", True),
        ("hour=4, id='b'", False),
        ("hour=3, id='b', args=[1]", False),
        ("hour=3, id='a', replace_existing=True", False),
    ],
)
def test_a_function_that_is_added_twice_for_the_same_time(tmp_path: Path, second: str, is_told: bool) -> None:
    code = (
        "from apscheduler.schedulers.blocking import BlockingScheduler\n\ndef bill(): ...\n\n"
        "scheduler = BlockingScheduler()\n"
        f"scheduler.add_job(bill, 'cron', hour=3, id='a')\nscheduler.add_job(bill, 'cron', {second})\n"
    )
    assert findings_in(tmp_path, {"jobs.py": code}, "CR404") == ["CR404 jobs.py:7"] * is_told
