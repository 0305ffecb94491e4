"""Which crontabs one cron reads: those of a machine, and those that an image takes."""

from pathlib import Path

import pytest

from cronce_audit.containers.facts import Image
from tests.audit.trees import findings_in, report_on, report_on_machine

DEBIAN = "FROM debian:12\nRUN apt-get update && apt-get install -y cron\nCOPY crontab /etc/cron.d/app\nCMD cron -f\n"


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("etc/cron.d/a", "etc/cron.d/b", ["CR404 etc/cron.d/b:1"]),
        ("etc/cron.d/a", "etc/crontab", ["CR404 etc/crontab:1"]),
        ("host/etc/cron.d/a", "host/etc/crontab", ["CR404 host/etc/crontab:1"]),
        ("etc/cron.d/a", "debian/etc/cron.d/a", []),
        ("web/crontab", "worker/crontab", []),
        ("files/cron.d/web", "files/cron.d/worker", []),
        ("etc/cron.d/a", "etc/cron.d/b.off.cron", []),
    ],
)
def test_across_files_only_what_one_cron_reads_counts(
    tmp_path: Path, first: str, second: str, found: list[str]
) -> None:
    tree = dict.fromkeys((first, second), "0 3 * * * root /app/x\n")
    assert findings_in(tmp_path, tree, "CR404") == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("var/spool/cron/crontabs/root", ["CR404 var/spool/cron/crontabs/root:1"]),
        ("var/spool/cron/root", ["CR404 var/spool/cron/root:1"]),
        ("var/spool/cron/crontabs/alice", []),
        ("other/var/spool/cron/crontabs/root", []),
    ],
)
def test_the_crontab_of_a_user_is_read_beside_those_of_the_system(tmp_path: Path, path: str, found: list[str]) -> None:
    tree = {"etc/cron.d/a": "0 3 * * * root /app/x\n", path: "0 3 * * * /app/x\n"}
    assert findings_in(tmp_path, tree, "CR404") == found


def test_on_a_machine_too(tmp_path: Path) -> None:
    tree = {"etc/cron.d/a": "0 3 * * * root /app/x\n", "var/spool/cron/crontabs/root": "0 3 * * * /app/x\n"}
    found = [str(one.place) for one in report_on_machine(tmp_path, tree).findings if one.rule == "CR404"]
    assert found == ["var/spool/cron/crontabs/root:1"]


def test_a_folder_that_an_image_takes_is_one_host(tmp_path: Path) -> None:
    tree = dict.fromkeys(("files/cron.d/web", "files/cron.d/worker"), "0 3 * * * root /app/x\n")
    image = {"Dockerfile": DEBIAN.replace("COPY crontab /etc/cron.d/app", "COPY files/cron.d /etc/cron.d")}
    assert findings_in(tmp_path, tree | image, "CR404") == ["CR404 files/cron.d/worker:1"]


def test_what_an_image_gives_a_name_that_cron_passes_over_runs_once(tmp_path: Path) -> None:
    tree = dict.fromkeys(("a-cron", "b-cron"), "0 3 * * * root /x\n")
    image = DEBIAN.replace("crontab /etc/cron.d/app", "a-cron /etc/cron.d/a\nCOPY b-cron /etc/cron.d/b.cron")
    assert findings_in(tmp_path, tree | {"Dockerfile": image}, "CR404") == []


def test_an_image_for_trying_out_is_not_read(tmp_path: Path) -> None:
    report = report_on(tmp_path, {"Dockerfile.dev": DEBIAN, "crontab": "0 1 * * * /x\n"})
    assert (list(report.facts.of(Image)), report.findings) == ([], [])
