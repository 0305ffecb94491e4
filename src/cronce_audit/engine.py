"""Finds the files of a tree (no ignored files, vendored code or tests), reads facts from them, applies the rules."""

import codecs
import gc
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import pathspec

from cronce.errors import BadInput
from cronce_audit.javascript.code import Package as JavaScriptPackage
from cronce_audit.model import (
    Facts,
    Finding,
    Found,
    Noticed,
    Place,
    Rule,
    Severity,
    Source,
    Unparsed,
    Unreadable,
    is_for_development,
    readers,
    rules,
)
from cronce_audit.python.facts import Package
from cronce_audit.suppressions import COMMENTS, IDLE, Suppression, idle

VENDORED: Final = frozenset({
    ".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", ".env", "env", "virtualenv", "node_modules",
    "bower_components", "site-packages", "dist-packages", "vendor", "vendored", "_vendor", "third_party",
    "third-party", "thirdparty", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".eggs",
    ".idea", ".gradle", ".terraform", ".next", ".nuxt", "target", "dist"
})  # fmt: skip
TESTS: Final = frozenset({
    "test", "tests", "testing", "__tests__", "__mocks__", "testdata", "fixtures", "spec", "specs", "e2e"
})  # fmt: skip
"""Folders of tests, which are not deployed; `src/test` of Java projects too."""
HERE: Final = PurePosixPath()
LARGEST: Final = 2_000_000
"""Bytes. A larger file is data, or generated."""


def files(
    root: Path,
    exclude: Sequence[str],
    *,
    tests: bool = False,
    below: PurePosixPath = HERE,
    unread: list[Unparsed] | None = None,
) -> Iterator[str]:
    """Paths from the root, sorted, the same on every machine; with `below`, only those in that folder. Folders without
    permission go into `unread`."""
    named = root / below
    if not named.exists():
        raise BadInput(f"{named}: there is no such file or directory")
    if named.is_file():
        yield str(below) if below.parts else root.name
        return
    leave_out = VENDORED if tests else VENDORED | TESTS
    if wrong := [pattern for pattern in exclude if not _can_be_meant(pattern)]:
        raise BadInput(f"exclude: {wrong[0]!r} is not a pattern; write it as in a .gitignore: /old, *.yaml, docs/")
    excluded = [_spec(exclude, HERE)] if exclude else []
    walk = _TreeWalk(root, leave_out, tests, [] if unread is None else unread)
    yield from walk.below(below, [*excluded, *_from_above(root, below)])


def _from_above(root: Path, below: PurePosixPath) -> list["Ignored"]:
    """The .gitignore rules of the folders above; none if they ignore the whole folder: it was named on purpose."""
    ignored: list[Ignored] = []
    for folder in reversed(below.parents):
        ignored += _gitignore(root / folder / ".gitignore", folder)
    return [] if below.parts and _is_ignored(f"{below}/", ignored) else ignored


def _gitignore(path: Path, folder: PurePosixPath) -> list["Ignored"]:
    """Invalid lines are skipped, as Git does."""
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


class _TreeWalk(NamedTuple):
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
    except OSError:  # the attempt to read it reports this
        return True


def _spec(lines: Iterable[str], folder: PurePosixPath) -> Ignored:
    with warnings.catch_warnings():  # about `[[`, which is a set of letters
        warnings.simplefilter("ignore", FutureWarning)
        return folder, pathspec.GitIgnoreSpec.from_lines(lines)


def _is_ignored(path: str, ignored: list[Ignored]) -> bool:
    """The nearest .gitignore with a matching line decides."""
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


ALONE: Final = 2_000_000
"""Bytes. Up to here one process is faster than starting several."""
BATCH: Final = 64
"""Files in one task for a worker process."""
NO_TEXT: Final = "it is not UTF-8 text"
BUG: Final = "cronce failed on this file; that is a bug in cronce"


class Read(NamedTuple):
    """Facts and failures from some files."""

    facts: Sequence[Any]
    unparsed: Sequence[Unparsed]
    files: int = 1


class Report(NamedTuple):
    """The result of an audit."""

    findings: Sequence[Finding]
    suppressed: Sequence[tuple[Finding, Suppression]]
    unparsed: Sequence[Unparsed]
    files: int
    """How many files of a known kind were read."""
    facts: Facts


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Facts are many and have no reference cycles: collecting garbage among them took a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collecting()
def read_tree(root: Path, paths: Sequence[str], progress: Callable[[int], None]) -> Read:
    """The facts in the files of a tree."""
    wanted = [path for path in paths if is_wanted(path)]
    batches = [wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH)]
    size = sum(_size(root, path) for path in wanted)
    workers = min(os.cpu_count() or 1, len(batches)) if size > ALONE else 1
    reads = list(_each_read(root, batches, workers, progress))
    unparsed = [one for read in reads for one in read.unparsed]
    return Read(
        [fact for read in reads for fact in read.facts],
        unparsed,
        len(wanted) - len({one.place.path for one in unparsed}),
    )


def read_text(root: Path, path: str) -> str:
    """UTF-8, or UTF-16 where the first bytes say so, as Windows writes what it exports."""
    data = _file(root, path).read_bytes()
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig").replace("\r\n", "\n")


def _file(root: Path, path: str) -> Path:
    """The root may itself be the one file."""
    return root / path if root.is_dir() else root


def _size(root: Path, path: str) -> int:
    try:
        return _file(root, path).stat().st_size
    except OSError:  # it was deleted; reading it reports that
        return 0


def is_wanted(path: str) -> bool:
    """Whether a reader knows this kind of file. The reader of suppressions does not count: it reads every kind."""
    pure = PurePosixPath(path)
    return any(reader.wants(pure) for reader in readers() if reader.name != COMMENTS)


def _each_read(
    root: Path, batches: Sequence[Sequence[str]], workers: int, progress: Callable[[int], None]
) -> Iterator[Read]:
    done, work = 0, [(root, batch) for batch in batches]
    with ProcessPoolExecutor(workers, initializer=gc.disable) if workers > 1 else nullcontext() as pool:
        for batch, read in zip(batches, (pool.map if pool else map)(_read_files, work), strict=True):
            yield read
            progress(done := done + len(batch))


def _read_files(work: tuple[Path, Sequence[str]]) -> Read:
    root, paths = work
    facts: list[Any] = []
    unparsed: list[Unparsed] = []
    for path in paths:
        try:
            text = read_text(root, path)
        except (OSError, UnicodeDecodeError) as error:
            why = NO_TEXT if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
            unparsed.append(Unparsed(Place(path, 1), why))
            continue
        read = read_source(Source(path, text))
        facts += read.facts
        unparsed += read.unparsed
    return Read(facts, unparsed)


def read_source(source: Source) -> Read:
    """The facts in one text, by every reader that knows its kind."""
    facts: list[Any] = []
    unparsed: list[Unparsed] = []
    pure = PurePosixPath(source.path)
    for reader in readers():
        if reader.wants(pure):
            try:
                facts += reader.read(source)
            except Unreadable as error:
                unparsed.append(Unparsed(source.place(error.line), f"{reader.name}: {error.why}"))
            except (RecursionError, MemoryError):  # Python's parser raises the latter
                unparsed.append(Unparsed(source.place(1), f"{reader.name}: it is nested too deeply"))
            except Exception as error:  # one odd file must not stop the audit
                why = f"{reader.name}: {BUG}: {type(error).__name__}: {error}"
                unparsed.append(Unparsed(source.place(1), why))
    return Read(facts, unparsed)


def judge(facts: Facts, line: Callable[[Place], str], chosen: Iterable[Rule] | None = None) -> list[Finding]:
    """What the rules find, ordered by place. `line` gives the text at a place."""
    noticed: dict[str, list[Found]] = defaultdict(list)
    for each in facts.of(Noticed):
        noticed[each.rule].append(each.found)
    found = {
        _finding(rule, one, line)
        for rule in (rules().values() if chosen is None else chosen)
        if not _is_of_library(rule.id, facts)
        for one in (*rule.check(facts), *noticed[rule.id])
    }
    return sorted(found, key=lambda finding: finding.order)


ASIDE: Final = frozenset({
    "example", "examples", "sample", "samples", "demo", "demos", "docs", "doc", "documentation", "tutorial",
    "tutorials", "test", "tests", "testing", "e2e", "spec", "playground", "sandbox", "benchmarks",
})  # fmt: skip
"""Folders that are not deployed: findings there are one level less severe."""
_LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "CR1": ("apscheduler", "flask_apscheduler", "django_apscheduler"),
    "CR2": ("apscheduler", "flask_apscheduler", "django_apscheduler", "celery", "django_celery_beat", "redbeat",
            "rq_scheduler", "schedule", "huey", "rocketry", "aiocron", "fastapi_utils", "django_crontab"),
    "CR7": ("node-cron", "node-schedule", "cron", "croner", "agenda", "bull", "bullmq",
            "@nestjs/schedule"),
}  # fmt: skip
"""Rules that are not applied to the source of such a library: it starts nothing, its users do."""


def _is_of_library(rule: str, facts: Facts) -> bool:
    own = {package.name.removeprefix("src.") for package in facts.of(Package)}
    own |= {package.name for package in facts.of(JavaScriptPackage)}
    return any(name in own for name in _LIBRARIES.get(rule[:3], ()))


def _finding(rule: Rule, found: Found, line: Callable[[Place], str]) -> Finding:
    text = line(found.place)
    severity = rule.severity if found.severity is None else found.severity
    path = found.place.path
    aside = not ASIDE.isdisjoint(PurePosixPath(path).parts[:-1]) or is_for_development(path)
    return Finding(
        rule.id,
        rule.name,
        Severity(max(severity - aside, Severity.INFO)),
        rule.confidence if found.confidence is None else found.confidence,
        found.place,
        found.message,
        rule.remedy if found.remedy is None else found.remedy,
        text.strip(),
        len(text) - len(text.lstrip()),
    )


def audit(
    root: Path,
    paths: Sequence[str],
    year: int,
    progress: Callable[[int], None] = lambda _: None,
    known: Iterable[Any] = (),
) -> Report:
    """Read the files, and report on what they hold, by all rules."""
    return report_of(read_tree(root, paths, progress), root, year, known=known)


@_no_collecting()
def report_of(
    read: Read, root: Path, year: int, *, chosen: Iterable[Rule] | None = None, known: Iterable[Any] = ()
) -> Report:
    """Apply the rules (all, or those chosen), and separate what is suppressed with a reason. `known` are facts that
    come from no file."""
    facts = Facts([*known, *read.facts], year)
    asked = list(rules().values() if chosen is None else chosen)
    lines = Lines(root)
    findings = judge(facts, lines, asked)
    if IDLE in asked:
        left = idle(facts.of(Suppression), findings, {rule.id for rule in asked})
        findings = sorted([*findings, *(_finding(IDLE, one, lines) for one in left)], key=lambda one: one.order)
    kept, suppressed = sift(findings, facts.of(Suppression))
    return Report(kept, suppressed, sorted(read.unparsed), read.files, facts)


def sift(
    findings: Sequence[Finding], suppressions: Sequence[Suppression]
) -> tuple[list[Finding], list[tuple[Finding, Suppression]]]:
    whole = [one for one in suppressions if one.is_whole]
    by = [(finding, next((one for one in whole if one.covers(finding)), None)) for finding in findings]
    return [finding for finding, one in by if not one], [(finding, one) for finding, one in by if one]


class Lines:
    """Lines of files below a root; a file is read again when something was found in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, list[str]] = {}

    def __call__(self, place: Place) -> str:
        if place.path not in self._known:
            self._known[place.path] = self._read(place.path)
        lines = self._known[place.path]
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""

    def _read(self, path: str) -> list[str]:
        try:
            text = read_text(self._root, path)
        except (OSError, UnicodeDecodeError):  # a place may be no file, or no text
            return []
        return [] if "\0" in text else text.split("\n")
