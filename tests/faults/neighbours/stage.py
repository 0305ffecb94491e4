"""Where a setup plays: processes with the app's environment, what they wrote, and their end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.faults.neighbours import book
from tests.house.wait import wait_until


class Stage(ExitStack):
    def __init__(self, folder: Path, env: Mapping[str, str], *, guarded: bool) -> None:
        super().__init__()
        self.folder, self.guarded = folder, guarded
        self.book = folder / "book"
        self.env = {**os.environ, **env, book.VARIABLE: str(self.book)}
        if guarded:
            self.env["NEIGHBOURS_GUARDED"] = "yes"
        self._logs: list[Path] = []

    def python(self, *words: str) -> int:
        """A process in a group of its own, with a log in the folder."""
        self._logs.append(self.folder / f"log-{len(self._logs)}")
        with self._logs[-1].open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words], env=self.env, stdout=log, stderr=log, start_new_session=True
            )
        self.callback(_end, process)
        return process.pid

    def wait_until_up(self, n: int) -> list[int]:
        """Who is there, once all are."""
        wait_until(lambda: len(self._up()) == n)
        return self._up()

    def _up(self) -> list[int]:
        return sorted({line.pid for line in book.read(self.book) if line.word == "up"})

    def wait_until_said(self, text: str, times: int) -> None:
        wait_until(lambda: sum(log.read_text(errors="replace").count(text) for log in self._logs) == times)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
