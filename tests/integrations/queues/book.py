"""What bodies write down, in a file that nobody else writes: who started, and who came to an end."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from cronce import Skipped
from tests.house.wait import wait_until

T = TypeVar("T")


class Line(NamedTuple):
    what: str
    body: str
    pid: int


class Book:
    def __init__(self, folder: Path) -> None:
        self._file, self._folder = folder / "book", folder

    def note(self, what: str, body: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{what} {body} {os.getpid()}\n")

    def wait_for(self, name: str) -> None:
        """In a body: until the test lets it go on."""
        while not (self._folder / name).exists():
            time.sleep(0.01)

    def let_go(self, name: str) -> None:
        (self._folder / name).touch()

    def lines(self, what: str, body: str = "") -> list[Line]:
        text = self._file.read_text() if self._file.exists() else ""
        lines = [Line(what, body, int(pid)) for what, body, pid in map(str.split, text.splitlines())]
        return [line for line in lines if line.what == what and body in ("", line.body)]

    def starts(self) -> Counter[str]:
        return Counter(line.body for line in self.lines("start"))


def taken_over(job: Callable[[], T | Skipped]) -> T:
    """What a job returns, once the lease of a process that died has lapsed."""
    answers: list[T] = []

    def taken() -> bool:
        answer = job()
        if not isinstance(answer, Skipped):
            answers.append(answer)
        return bool(answers)

    wait_until(taken)
    return answers[0]


def here() -> Book:
    """In a worker."""
    return Book(Path(os.environ["BOOK"]))
