"""docs/proof.json: the last result of each part, with its date, its commit and its figures."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "proof.json"
PROSE = (":(exclude)docs", ":(exclude,glob)*.md")
"""What no part runs: a commit that changes only these makes no result old."""

Figures = dict[str, Any]
"""What a part counted, as JSON."""


class Source(NamedTuple):
    """What was run: a commit, and whether the checkout had changes that were not committed."""

    commit: str
    dirty: bool

    def __str__(self) -> str:
        return f"{self.commit}{', changed' if self.dirty else ''}"


class Result(NamedTuple):
    """A part that passed. A later failure is kept beside it, until the part passes again."""

    date: str
    commit: str
    dirty: bool
    seconds: int
    settings: Mapping[str, str]
    """Environment variables that set how much is run."""
    figures: Figures
    load: float | None = None
    """How many processes wanted to run in the last five minutes: beside other work a part takes longer."""
    failed: Mapping[str, Any] | None = None
    """`date`, `commit` and `dirty` of a later run that failed."""

    @property
    def source(self) -> Source:
        return Source(self.commit, self.dirty)


class Record:
    """The file: an entry for each part. It is read again before each change."""

    def __init__(self, file: Path = FILE) -> None:
        self.file = file

    def results(self) -> dict[str, Result]:
        return {name: Result(**fields) for name, fields in self._read().items() if "figures" in fields}

    def failures(self) -> dict[str, Mapping[str, Any]]:
        """Parts whose last run failed."""
        return {name: fields["failed"] for name, fields in self._read().items() if fields.get("failed")}

    def passed(self, name: str, result: Result) -> None:
        fields = result._asdict()
        del fields["failed"]
        self._write(name, fields)

    def failed(self, name: str, date: str, source: Source) -> None:
        """The earlier result stays in place."""
        failed = {"date": date, "commit": source.commit, "dirty": source.dirty}
        self._write(name, {**self._read().get(name, {}), "failed": failed})

    def _read(self) -> dict[str, dict[str, Any]]:
        parts: dict[str, dict[str, Any]] = json.loads(self.file.read_text("utf-8")) if self.file.exists() else {}
        return parts

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
        parts = {**self._read(), name: fields}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(dict(sorted(parts.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")
        new.replace(self.file)


def git(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def source(root: Path = ROOT) -> Source:
    """What is checked out, apart from prose."""
    commit = git("rev-parse", "--short=7", "HEAD", root=root).stdout.strip() or "unknown"
    return Source(commit, bool(git("status", "--porcelain", "--", ".", *PROSE, root=root).stdout.strip()))


def is_current(result: Result, settings: Mapping[str, str], now: Source, root: Path = ROOT) -> bool:
    """Whether the result is of what is checked out: no uncommitted change then or now, nothing but prose changed since,
    and the same size."""
    if result.dirty or now.dirty or result.settings != settings:
        return False
    return git("diff", "--quiet", result.commit, "--", ".", *PROSE, root=root).returncode == 0
