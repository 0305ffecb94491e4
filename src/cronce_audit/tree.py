"""Which files of a tree are read: not what .gitignore leaves out, nor what was copied in from others, nor tests."""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

import pathspec

from cronce.errors import BadInput
from cronce_audit.model import Place, Unparsed

VENDORED: Final = frozenset({
    ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", ".env", "env", "virtualenv", "node_modules",
    "bower_components", "site-packages", "dist-packages", "vendor", "vendored", "_vendor", "third_party",
    "third-party", "thirdparty", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".eggs",
    ".idea", ".gradle", ".terraform", ".next", ".nuxt", "target", "dist"
})  # fmt: skip
TESTS: Final = frozenset({
    "test", "tests", "testing", "__tests__", "__mocks__", "testdata", "fixtures", "spec", "specs", "e2e"
})  # fmt: skip
"""What is in them is not deployed. `src/test` of Java projects is among them."""
HERE: Final = PurePosixPath()
LARGEST: Final = 2_000_000
"""Bytes. Beyond this a file is data, or was made by a program."""


def files(
    root: Path,
    exclude: Sequence[str],
    *,
    tests: bool = False,
    below: PurePosixPath = HERE,
    unread: list[Unparsed] | None = None,
) -> Iterator[str]:
    """Paths from the root, in order, the same on every machine; only of what is below a folder, if one is named.
    Folders that may not be looked into are put into `unread`."""
    named = root / below
    if not named.exists():
        raise BadInput(f"{named}: there is no such file or directory")
    if named.is_file():
        yield str(below) if below.parts else root.name
        return
    leave_out = VENDORED if tests else VENDORED | TESTS
    if wrong := [pattern for pattern in exclude if not _can_be_meant(pattern)]:
        raise BadInput(f"exclude: {wrong[0]!r} cannot be meant; write it as in a .gitignore: /old, *.yaml, docs/")
    excluded = [_spec(exclude, HERE)] if exclude else []
    walk = _Walk(root, leave_out, tests, [] if unread is None else unread)
    yield from walk.below(below, [*excluded, *_from_above(root, below)])


def _from_above(root: Path, below: PurePosixPath) -> list["Ignored"]:
    """What the folders above one leave out of it, unless they leave it out as a whole: then it was named on purpose."""
    ignored: list[Ignored] = []
    for folder in reversed(below.parents):
        ignored += _gitignore(root / folder / ".gitignore", folder)
    return [] if below.parts and _is_ignored(f"{below}/", ignored) else ignored


def _gitignore(path: Path, folder: PurePosixPath) -> list["Ignored"]:
    """As Git does, a line that cannot be meant is passed over."""
    try:
        if not path.is_file():
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [_spec([line for line in lines if _can_be_meant(line)], folder)]


def _can_be_meant(pattern: str) -> bool:
    try:
        _spec([pattern], HERE)
    except (ValueError, re.error):
        return False
    return True


Ignored = tuple[PurePosixPath, "pathspec.GitIgnoreSpec"]


class _Walk(NamedTuple):
    root: Path
    leave_out: frozenset[str]
    tests: bool
    unread: list[Unparsed]

    def below(self, folder: PurePosixPath, ignored: list[Ignored]) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
        except OSError as error:
            self.unread.append(Unparsed(Place(str(folder), 0), error.strerror or str(error)))
            return
        ignored = [*ignored, *_gitignore(self.root / folder / ".gitignore", folder)]
        for entry in entries:
            path = folder / entry.name
            if entry.is_symlink():
                continue
            if entry.is_dir():
                built = path.parts[-2:] == ("build", "lib")  # what setuptools copies
                if entry.name not in self.leave_out and not built and not _is_ignored(f"{path}/", ignored):
                    yield from self.below(path, ignored)
            elif self._is_wanted(entry) and not _is_ignored(str(path), ignored):
                yield str(path)

    def _is_wanted(self, entry: "os.DirEntry[str]") -> bool:
        return (self.tests or not _is_test(entry.name)) and _is_source(entry)


def _is_source(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file() and entry.stat().st_size <= LARGEST
    except FileNotFoundError:  # it went away meanwhile
        return False
    except OSError:  # whoever reads it will tell
        return True


def _spec(lines: Iterable[str], folder: PurePosixPath) -> Ignored:
    with warnings.catch_warnings():  # about `[[`, which is a set of letters
        warnings.simplefilter("ignore", FutureWarning)
        return folder, pathspec.GitIgnoreSpec.from_lines(lines)


def _is_ignored(path: str, ignored: list[Ignored]) -> bool:
    """The nearest .gitignore that speaks of it decides."""
    for folder, spec in reversed(ignored):
        below = path if folder == PurePosixPath() else path.removeprefix(f"{folder}/")
        verdict = spec.check_file(below).include
        if verdict is not None:
            return verdict
    return False


def _is_test(name: str) -> bool:
    stem = name.partition(".")[0]
    return (
        stem.startswith("test_")
        or stem.endswith(("_test", "_tests"))
        or stem == "conftest"
        or ".test." in name
        or ".spec." in name
        or (name.endswith(".java") and stem.endswith(("Test", "Tests", "IT")))
    )
