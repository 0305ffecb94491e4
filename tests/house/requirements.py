"""docs/requirements.md as data: each row, whether its evidence exists, and which command shows it at full size.

python -m tests.house.requirements      # write the last column again
"""

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
ROW = re.compile(
    r"^\| *(?P<number>\d+) *\|(?P<text>.*)\| *(?P<owner>[a-z]+) *\|(?P<shown_by>[^|]*)\|(?:(?P<full_size>[^|]*)\|)?$"
)
EVIDENCE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Requirement:
    number: int
    text: str
    owner: str
    shown_by: tuple[str, ...]
    full_size: str = ""

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
    return Requirement(
        number,
        row["text"].strip(),
        row["owner"].strip(),
        tuple(EVIDENCE.findall(cell)),
        (row["full_size"] or "").strip(),
    )


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


# --- at full size -----------------------------------------------------------------------------------------------------

FULL_SIZE = (
    ("tests/faults/test_scheduler_torture.py", "make proof PART=torture-schedulers"),
    ("tests/faults/test_torture.py", 'make proof PART="torture-durable torture-forgetful"'),
    ("tests/faults/test_sqlite_kill.py", "make proof PART=killed-sqlite"),
    ("tests/faults/test_crash.py", "make proof PART=killed-sqlite"),
    ("tests/faults/test_skewed_hosts.py", "make proof PART=skewed-hosts"),
    ("tests/faults/test_clock_leaps.py", "make proof PART=clock-leaps"),
    ("tests/faults/test_outage.py", "make proof PART=outage"),
    ("tests/faults/test_hearing.py", "make proof PART=outage"),
    ("tests/faults/test_election.py", "make proof PART=election"),
    ("tests/faults/test_field_story.py", "make proof PART=field-story"),
    ("tests/faults/test_neighbours.py", "make proof PART=neighbours"),
    ("tests/faults/test_topologies.py", "make proof PART=topologies"),
    ("tests/faults/test_many", "make proof PART=many-jobs"),
    ("tests/faults/test_billing.py", 'make proof PART="billing billing-nights"'),
    ("tests/runtime/test_election", "make proof PART=election"),
    ("tests/simulation/", 'make proof PART="simulator mutants"'),
    ("tests/testing/", "make proof PART=explorer"),
    ("tests/runtime/effects/", 'make proof PART="billing billing-nights"'),
    ("tests/runtime/transactions/", 'make proof PART="billing billing-nights"'),
    ("tests/receivers/", "make proof PART=billing"),
    ("tests/integrations/apscheduler", "make peers ONLY=cronce-apscheduler"),
    ("tests/integrations/celery", "make peers ONLY=cronce-beat"),
    ("tests/runtime/scheduling/", "make peers ONLY=cronce-scheduler"),
    ("tests/runtime/test_guard.py", "make peers ONLY=cronce-guard"),
    ("tests/runtime/test_call.py", "make peers ONLY=cronce-guard"),
    ("tests/stores/", "make proof PART=torture-durable"),
    ("tests/audit/", "python -m bench.audit"),
)
"""Where a row's evidence is a small version of something: the command that runs all of it, the first that fits."""

AS_IT_IS = "make test"
"""What is at full size in every run of the suite."""


def full_size(requirement: Requirement) -> str:
    """The command for a row."""
    found = (command for place, command in FULL_SIZE for test in requirement.tests if test.startswith(place))
    return f"`{next(found, AS_IT_IS)}`" if requirement.tests else "read it"


def with_commands(page: str) -> str:
    """The page, with the column as it must be."""
    return "".join(_with_command(line) for line in page.splitlines(keepends=True))


def _with_command(line: str) -> str:
    row = ROW.match(line.rstrip("\n"))
    if row is None:
        return line
    left = line[: row.end("shown_by")]
    return f"{left}| {full_size(_requirement(row))} |\n"


if __name__ == "__main__":
    PAGE.write_text(with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
