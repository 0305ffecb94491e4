"""A Django project with jobs: its tests pass, its commands are the command line, and being installed starts nothing."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.wait import wait_until
from tests.servers.postgres import Admin, Postgres

ROOT = Path(__file__).parents[3]
SETTINGS = "tests.integrations.django.site.settings"


class Ran(NamedTuple):
    job: str
    key: str
    pid: str
    backend: str


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Whatever happens, it and what it started are gone after this."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


class Project:
    """Started by `python -m django`, which is what manage.py is."""

    def __init__(self, folder: Path, database: Mapping[str, object], **cronce: str) -> None:
        self.book = folder / "book"
        self.env = {
            **{name: value for name, value in os.environ.items() if name != "CRONCE_URL"},
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "SITE_DATABASE": json.dumps(database),
            "SITE_CRONCE": json.dumps(cronce),
            "SITE_BOOK": str(self.book),
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-m", "django", *words]
        return subprocess.Popen(
            command, cwd=ROOT, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def call(self, *words: str) -> tuple[int, str]:
        with ended(self.start(*words)) as process:
            out, _ = process.communicate(timeout=110)
            return process.returncode, out

    def runs(self, job: str = "") -> list[Ran]:
        text = self.book.read_text() if self.book.exists() else ""
        ran = [Ran(*line.split()) for line in text.splitlines()]
        return [one for one in ran if job in ("", one.job)]


@pytest.fixture
def database(postgres: Postgres) -> dict[str, object]:
    with postgres.admin() as admin:
        admin.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")  # who left it may not be gone yet
        admin.execute("CREATE DATABASE shop")
    place = {"NAME": "shop", "USER": "postgres", "HOST": "127.0.0.1", "PORT": postgres.port}
    return {"ENGINE": "django.db.backends.postgresql", **place}


def test_the_tests_of_a_project_pass(tmp_path: Path, database: dict[str, object]) -> None:
    project = Project(tmp_path, database, store="default?schema=cronce")
    code, out = project.call("test", "tests.integrations.django.site.suite")
    assert code == 0, out
    assert "Ran 18 tests" in out


def test_run_is_the_projects_scheduler(tmp_path: Path, database: dict[str, object], admin: Admin) -> None:
    """In each of its processes; each slot runs once, and no body leaves its connection behind."""

    def connected(backend: str) -> bool:
        return admin.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)).rowcount == 1

    project = Project(tmp_path, database, store="default?schema=cronce")
    project.env["SITE_APPS"] = json.dumps(["tests.integrations.django.site.live"])
    with ended(project.start("cronce", "run", "-n", "2", f"--settings={SETTINGS}")) as server:
        wait_until(lambda: len({one.pid for one in project.runs()}) == 2)
        wait_until(lambda: project.runs("tick") and not connected(project.runs("tick")[0].backend))
        wait_until(lambda: project.runs("tick_async") and not connected(project.runs("tick_async")[0].backend))
        before = {one.pid for one in project.runs()}
        assert project.call("cronce", "trigger", "apart", "--wait")[0] == 0
        server.send_signal(signal.SIGTERM)
        out, _ = server.communicate(timeout=60)
    assert server.returncode == 0, out
    assert out.count("cronce.integrations.django:cron on postgresql://postgres@127.0.0.1") == 2
    assert set(Counter(one.key for one in project.runs()).values()) == {1}
    (apart,) = project.runs("apart")
    assert apart.pid not in before


def test_being_installed_opens_and_starts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "db.sqlite3")}
    project = Project(tmp_path, database, store="default")
    code = """
import threading
from cronce.integrations.django import cron
print(sorted(cron.jobs), threading.active_count(), cron.place)
"""
    said = f"['report', 'together'] 1 sqlite:///{folder}/db.cronce.sqlite3\n"
    assert project.call("shell", "-v", "0", "-c", code) == (0, said)
    assert list(folder.iterdir()) == []


def test_a_job_that_makes_no_sense_is_shown_by_its_own_line(tmp_path: Path) -> None:
    app = tmp_path / "stall"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "jobs.py").write_text(
        "from cronce.integrations.django import cron\n\n\n@cron.job('61 * * * *')\ndef bake(): ...\n"
    )
    project = Project(tmp_path, {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, store="default")
    project.env |= {"SITE_APPS": '["stall"]', "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    code, out = project.call("check")
    assert code == 1
    last = out.rpartition("  File ")[2]
    assert last.startswith(f'"{app}/jobs.py", line 4, in <module>')
    assert "\ncronce.errors.BadSchedule: " in last
