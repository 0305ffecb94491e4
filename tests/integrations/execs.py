"""Real `cronce exec` processes on one SQLite file, and a book that their commands write into."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from cronce.model import Cell
from cronce.protocol.record import Record, decode
from cronce.stores import open_store
from tests.house.wait import wait_until

SLOT = "2026-03-29T01:00:00Z"

# A command that writes when it starts, waits until the file $RELEASE is there, and writes when it is done.
WORKS = """
echo "start $CRONCE_SLOT $CRONCE_FENCE $CRONCE_ATTEMPT $$" >> "$BOOK"
while ! [ -e "$RELEASE" ]; do sleep 0.02; done
echo "done $CRONCE_SLOT $CRONCE_FENCE $CRONCE_ATTEMPT $$" >> "$BOOK"
"""


BEGUN = ("sh", "-c", f"echo up\n{WORKS}")


class Line(NamedTuple):
    what: str
    slot: str
    fence: str
    attempt: int
    pid: int


class HandNode:
    """A directory with a store, a book and a file that lets the commands go on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.book, self.release = folder, folder / "book", folder / "release"
        self.url = f"sqlite:///{folder}/cronce.db"
        self.started: list[subprocess.Popen[str]] = []

    def exec(
        self,
        *options: str,
        command: tuple[str, ...] = ("sh", "-c", WORKS),
        before: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        call = [sys.executable, "-m", "cronce", "exec", "sync", "--store", self.url, *options, "--", *command]
        words = [*before, *call]
        all_env = {**os.environ, "BOOK": str(self.book), "RELEASE": str(self.release), **(env or {})}
        process = subprocess.Popen(
            words, env=all_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def begun(self, *options: str) -> subprocess.Popen[str]:
        """One that is at work, and may be killed: if what its command prints is handed on, its watchdog knows of it."""
        process = self.exec(*options, command=BEGUN)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        wait_until(lambda: self.lines("start"))
        return process

    def lines(self, what: str = "") -> list[Line]:
        text = self.book.read_text() if self.book.exists() else ""
        rows = [line.split() for line in text.splitlines()]
        lines = [Line(word, slot, fence, int(attempt), int(pid)) for word, slot, fence, attempt, pid in rows]
        return [line for line in lines if not what or line.what == what]

    def cell(self, at: str = SLOT) -> Cell:
        store = open_store(self.url)
        try:
            return store.load([f"run/sync/{at}"]).cells[0]
        finally:
            store.close()

    def record(self, at: str = SLOT) -> Record:
        cell = self.cell(at)
        return decode(cell.value, cell.key)

    def let_go(self) -> None:
        self.release.touch()

    def clean_up(self) -> None:
        self.let_go()
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped yet counts."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"
