"""A Django project with jobs, in processes of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
