"""Running the parts: one after the other, each with its duration, and a result that is kept if it passes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO

from tests.proof.parts import OUTPUT, Part, command
from tests.proof.record import ROOT, Record, Result, Source, is_current, source

FOLDER = ROOT / ".venv" / "proof"
"""What the parts print, and pytest's reports."""

TELL = 60.0
"""Seconds between two lines of progress, where there is no terminal to show a clock on."""

TAIL = 40
"""Lines of a failed part's output that are shown."""


class Outcome(NamedTuple):
    part: Part
    verdict: str
    """`passed`, `failed` or `done before`."""
    seconds: float = 0.0


class Runner:
    """Runs parts in a checkout, and shows on a screen how far it is."""

    def __init__(self, record: Record, root: Path = ROOT, folder: Path = FOLDER, screen: TextIO = sys.stdout) -> None:
        self._record, self._root, self._folder, self._screen = record, root, folder, screen

    def run(self, parts: Sequence[Part], *, fresh: bool = False) -> list[Outcome]:
        """Run the parts, or say that they were run before. One that fails does not keep the others from running."""
        return [self._run(part, f"{number} of {len(parts)}", fresh) for number, part in enumerate(parts, 1)]

    def _run(self, part: Part, place: str, fresh: bool) -> Outcome:
        now, known = source(self._root), self._record.results().get(part.name)
        if known and not fresh and not known.failed and is_current(known, part.settings, now, self._root):
            self._say(
                f"{place}  {part.name}: passed before, on {known.date[:10]} at {known.source}; FRESH=1 repeats it"
            )
            return Outcome(part, "done before", known.seconds)
        self._say(f"{place}  {part.name}: {part.about}")
        began = time.monotonic()
        error = self._play(part, now)
        outcome = Outcome(part, "failed" if error else "passed", time.monotonic() - began)
        self._say(f"{place}  {part.name}: {outcome.verdict} after {spent(outcome.seconds)}{self._details(part, error)}")
        return outcome

    def _play(self, part: Part, now: Source) -> str:
        """Run a part, and keep its result. Returns why it failed, or ""."""
        folder = self._folder / part.name
        folder.mkdir(parents=True, exist_ok=True)
        began, date = time.monotonic(), _date()
        error = ""
        if code := self._wait(part, folder):
            error = f"exit code {code}"
        else:
            try:
                figures = part.read(folder)
            except (ValueError, OSError) as reason:
                error = f"no figures: {reason}"
        if error:
            self._record.failed(part.name, date, now)
            return error
        seconds, load = round(time.monotonic() - began), round(os.getloadavg()[1], 1)
        self._record.passed(part.name, Result(date, *now, seconds, dict(part.settings), figures, load))
        return ""

    def _wait(self, part: Part, folder: Path) -> int:
        """The exit code of its command. An interrupt reaches it too, and it is given the time to clean up."""
        env = {**os.environ, **part.settings}
        with (folder / OUTPUT).open("wb") as output, (folder / "errors").open("wb") as errors:
            words = command(part, folder)
            process = subprocess.Popen(words, cwd=self._root, env=env, stdout=output, stderr=errors)
            try:
                return self._watch(process, part.name)
            except KeyboardInterrupt:
                process.wait()
                raise

    def _watch(self, process: subprocess.Popen[bytes], name: str) -> int:
        began, clock = time.monotonic(), self._screen.isatty()
        while True:
            try:
                return process.wait(1.0 if clock else TELL)
            except subprocess.TimeoutExpired:
                elapsed = spent(time.monotonic() - began)
                self._say(f"{name}: {elapsed}", over=clock)

    def _details(self, part: Part, error: str) -> str:
        results = self._record.results()
        if not error:
            return f": {part.showed(results[part.name].figures)}"
        known, folder = results.get(part.name), self._folder / part.name
        kept = f"the result of {known.date[:10]} at {known.source} stays" if known else "there is no earlier result"
        lines = "\n".join(f"    {line}" for line in _tail(folder))
        return f" ({error}); {kept}. Its output is in {folder}:\n{lines}"

    def _say(self, line: str, *, over: bool = False) -> None:
        start = "\r\033[K" if self._screen.isatty() else ""
        print(f"{start}{line}", end="" if over else "\n", file=self._screen, flush=True)


def _tail(folder: Path) -> Iterator[str]:
    for name in (OUTPUT, "errors"):
        yield from (folder / name).read_text("utf-8", errors="replace").splitlines()[-TAIL:]


def _date() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def spent(seconds: float) -> str:
    """`7 s`, `1:07`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
