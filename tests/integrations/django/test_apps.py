"""What Django does with cronce when it starts: nothing runs, and a job that makes no sense is shown by its line."""

from pathlib import Path

from tests.integrations.django.projects import ROOT, Project


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
