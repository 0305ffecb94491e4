"""Which files are crontabs, and of which format."""

from pathlib import Path, PurePosixPath

import pytest

from cronce_audit.crontab.read import CronLine, wants
from tests.audit.trees import findings_in, report_on


def lines_in(root: Path, tree: dict[str, str]) -> list[CronLine]:
    return list(report_on(root, tree).facts.of(CronLine))


@pytest.mark.parametrize(
    "path",
    [
        "etc/crontab", "etc/cron.d/app", "cron.d/app", "debian/app.cron.d", "deploy/crontab", "deploy/crontab.txt",
        "deploy/app.crontab", "deploy/app.cron", "var/spool/cron/crontabs/root", "var/spool/cron/alice",
        "etc/crontabs/root", "crontab-prod", "app-crontab", "hello-cron", "laravel_cron", "cronjob", "docker/cronjobs",
        "cron.txt",
    ],
)  # fmt: skip
def test_crontabs_of_users_of_cron_d_and_of_the_spool_are_read(tmp_path: Path, path: str) -> None:
    (line,) = lines_in(tmp_path, {path: "# jobs\n@daily root /usr/bin/job\n"})
    assert (line.place.line, line.schedule) == (2, "@daily")


@pytest.mark.parametrize(
    "path",
    ["crontab.py", "src/crontabs.js", "cron.d/app.j2", "etc/cron.d/app.bak", "usr/bin/crontab", "docs/crontab.5",
     "etc/cron.d/.placeholder", "crontab.md", "etc/anacrontab", "crontab.yaml", "bin/run-cron", "cron", "acron"],
)  # fmt: skip
def test_other_files_are_not(path: str) -> None:
    assert not wants(PurePosixPath(path))


@pytest.mark.parametrize(
    ("path", "text", "user"),
    [
        ("etc/cron.d/x", "@daily www /usr/bin/x", "www"),
        ("jobs.cron", "@daily root /usr/bin/x", "root"),
        ("jobs.cron", "@daily www /usr/bin/x\n@hourly www cd /app", "www"),
        ("jobs.cron", "@daily root /usr/bin/x\n@hourly /usr/bin/y z", ""),
        ("jobs.cron", "@daily php /app/x.php", ""),
        ("crontab", "@daily /usr/bin/x y", ""),
        ("crontab", "@daily backup", ""),
        ("etc/crontabs/root", "@daily root /usr/bin/x", "root"),
        ("var/spool/cron/alice", "@daily root /usr/bin/x", "alice"),
        ("cron/crontab", "@daily loxberry /usr/bin/php x", "loxberry"),
    ],
)
def test_whether_there_is_a_user_is_judged_by_all_lines_together(
    tmp_path: Path, path: str, text: str, user: str
) -> None:
    assert {line.user for line in lines_in(tmp_path, {path: f"{text}\n"})} == {user}


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n0 0 * * * x\n",
        "just some words\n",
        "a b c d e f g\n" * 20,
        "",
        "\0" * 9,
        "key = value\n",
        "{{ x }}\n",
    ],
)
def test_what_is_no_crontab_is_passed_over(tmp_path: Path, text: str) -> None:
    report = report_on(tmp_path, {"app.cron": text, "crontab": text})
    assert (list(report.facts.of(CronLine)), report.findings, report.unparsed) == ([], [], [])


@pytest.mark.parametrize("text", ["0 3 * * * /app/x\n0 4 * * * /app/y\nand some words\n", "run: it\n"])
def test_a_file_of_an_ordinary_name_is_a_crontab_if_all_its_lines_are(tmp_path: Path, text: str) -> None:
    assert lines_in(tmp_path, {"hello-cron": text, "cronjobs": text}) == []


def test_lines_that_are_filled_in_later_are_passed_over(tmp_path: Path) -> None:
    text = (
        "{{ minute }} 3 * * * root /usr/bin/a\n0 3 * * * root @BINDIR@/b\n$MIN 1 * * * root c\n0 1 * * * root /d\nx\n"
    )
    assert [line.command for line in lines_in(tmp_path, {"etc/cron.d/app": text})] == ["/d"]
    assert findings_in(tmp_path, {"etc/cron.d/app": text}) == []
