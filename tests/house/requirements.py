"""docs/requirements.md as data: each row, and whether the evidence it names exists."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.house import markdown

PAGE = Path("docs/requirements.md")
ROW = re.compile(r"^\| *(?P<number>\d+) *\|(?P<text>.*)\|(?P<owner>[^|]*)\|(?P<shown_by>[^|]*)\|$")
EVIDENCE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Requirement:
    number: int
    text: str
    owner: str
    shown_by: tuple[str, ...]

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(item for item in self.shown_by if "::" in item)

    @property
    def pages(self) -> tuple[str, ...]:
        return tuple(item for item in self.shown_by if "::" not in item)


def read(page: str) -> list[Requirement]:
    """The rows of the page, in its order."""
    return [_requirement(row) for line in page.splitlines() if (row := ROW.match(line))]


def _requirement(row: re.Match[str]) -> Requirement:
    number, cell = int(row["number"]), row["shown_by"]
    # An id without its backticks would read as "not built yet", and silently so.
    if leftover := EVIDENCE.sub("", cell).strip(" ,"):
        raise ValueError(f"requirement {number}: {leftover!r} in 'shown by' is not an id in backticks")
    return Requirement(number, row["text"].strip(), row["owner"].strip(), tuple(EVIDENCE.findall(cell)))


def missing_evidence(requirement: Requirement, root: Path) -> Iterator[str]:
    """What the row names and the tree does not have."""
    for test in requirement.tests:
        if not has_test(test, root):
            yield f"requirement {requirement.number}: no test {test}"
    for page in requirement.pages:
        if not has_section(page, root):
            yield f"requirement {requirement.number}: no section {page}"


def has_section(target: str, root: Path) -> bool:
    """Whether `docs/page.md#section` exists; a whole page is too vague to be evidence."""
    path, _, anchor = target.partition("#")
    page = root / path
    in_docs = path.startswith("docs/") and page.suffix == ".md" and page.is_file()
    return in_docs and anchor in _anchors(page)


@cache
def _anchors(page: Path) -> set[str]:
    return markdown.anchors(page.read_text(encoding="utf-8"))


def has_test(test_id: str, root: Path) -> bool:
    """Whether `tests/file.py::test_x` or `tests/file.py::TestX::test_x` exists, by reading the file where that does."""
    path, *names = test_id.split("::")
    file = root / path
    if not (path.startswith("tests/") and file.is_file() and names[-1].startswith("test")):
        return False
    return "::".join(names) in _defined(file) or _inherits(path, names)


@cache
def _defined(file: Path) -> frozenset[str]:
    """The functions of a file, methods with their class before them. Rows name many tests of the same file."""
    return frozenset(_functions(ast.parse(file.read_text(encoding="utf-8")).body))


def _functions(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}::{name}" for name in _functions(node.body))


def _inherits(path: str, names: list[str]) -> bool:
    """Whether the class has the test from a base, as a store's suite has its tests from the contract."""
    if len(names) != 2:
        return False
    try:
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    except pytest.skip.Exception:
        return True  # its server is missing here; where it is not, a full run finds out
    return callable(getattr(getattr(module, names[0], None), names[1], None))
