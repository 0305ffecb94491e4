"""Rules for the product's own source that no linter knows."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
CLOCKS = {SOURCE / "cronce/clock.py", SOURCE / "cronce/runtime/processes/watchdog.py"}
"""The second is a program of its own, which imports nothing of cronce."""
PUBLISHED = ("src", "docs", "examples", "bench", ".ci")

# A path that exists on one machine only: a home of root, a build's work directory, a neighbour of the checkout.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root)/|\.\./shared\b")
CODE_FROM_DATA = {"pickle", "cPickle", "shelve", "marshal", "dill"}
ASKS_THE_TIME = {
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.clock_gettime",
    "time.clock_gettime_ns",
}
SHELLS_OUT = {"os.system", "os.popen"}
SUSPECT = re.compile(
    rf"\b(?:shell|{'|'.join(name.rpartition('.')[2] for name in CODE_FROM_DATA | SHELLS_OUT | ASKS_THE_TIME)})\b"
)
"""Without one of these words no rule is broken, and nothing needs to be parsed: that is half of all modules."""


def published_files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in PUBLISHED:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def machine_paths(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), start=1) if MACHINE_PATH.search(line)]


Nodes = Sequence[ast.AST]


def imports(nodes: Nodes) -> Iterator[tuple[int, str, str]]:
    """Each imported thing: its line, the name it goes by in the module, and what that name stands for."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for name in names:
                    top = name.name.partition(".")[0]  # `import os.path` binds `os`
                    yield node.lineno, name.asname or top, name.name if name.asname else top
            case ast.ImportFrom(module=str(module), level=0, names=names):
                for name in names:
                    yield node.lineno, name.asname or name.name, f"{module}.{name.name}"


def uses(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Each name that the module uses, spelled in full whatever its import called it."""
    called = {local: full for _, local, full in imports(nodes)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node)):
            first, dot, rest = dotted.partition(".")
            yield node.lineno, f"{called.get(first, first)}{dot}{rest}"


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{base}.{attr}" if (base := _dotted(value)) else None
    return None


def violations(source: str, *, is_clock: bool = False) -> list[str]:
    if not SUSPECT.search(source):
        return []
    asked = (ast.Import, ast.ImportFrom, ast.Name, ast.Attribute, ast.keyword)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, asked)]
    return [*_unpickles(nodes), *_shells_by_keyword(nodes), *_forbidden_names(nodes, is_clock=is_clock)]


def _unpickles(nodes: Nodes) -> Iterator[str]:
    for line, _, full in imports(nodes):
        if full.partition(".")[0] in CODE_FROM_DATA:
            yield f"{line}: {full} runs code that it finds in data; the codec is JSON"


def _shells_by_keyword(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.keyword(arg="shell", value=ast.Constant(value=False)):
                pass
            case ast.keyword(arg="shell"):
                yield f"{node.value.lineno}: shell= lets a shell read our arguments; pass a list"


def _forbidden_names(nodes: Nodes, *, is_clock: bool) -> Iterator[str]:
    for line, full in uses(nodes):
        if full in SHELLS_OUT:
            yield f"{line}: {full} lets a shell read our arguments; pass a list"
        if full in ASKS_THE_TIME and not is_clock:
            yield f"{line}: {full} asks what time it is; only clock.py does, elsewhere time is an argument"


def test_no_module_unpickles_shells_out_or_asks_the_time() -> None:
    """In one test: a test for each of hundreds of modules takes longer to set up than to look."""
    found = {path: violations(path.read_text(encoding="utf-8"), is_clock=path in CLOCKS) for path in modules()}
    assert len(found) > 300
    assert {str(path.relative_to(SOURCE)): broken for path, broken in found.items() if broken} == {}


def test_no_published_file_names_a_path_of_one_machine() -> None:
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8", errors="replace") for path in published_files()}
    assert {str(path): lines for path, text in texts.items() if (lines := machine_paths(text))} == {}


# The rules themselves, tried on source that breaks them.


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import shelve as cupboard",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=quietly)",
        "import os\nos.system('ls')",
        "import os.path\nos.system('ls')",
        "import time\nnow = time.time()",
        "import time as t\nread = t.monotonic",
        "from time import monotonic\nmonotonic()",
        "from time import time as now\nnow()",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "from datetime import datetime, UTC\ndatetime.now(UTC)",
        "from datetime import datetime as dt\ndt.utcnow()",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_violation_is_caught(source: str) -> None:
    assert len(violations(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(['ls'], shell=False)",
        "cell.now",
        "record.time.time",
        "clock.monotonic()",
        "from datetime import datetime\ndatetime.fromtimestamp(0, tz=UTC)",
        "import time\ntime.sleep(1)",
    ],
)
def test_what_only_looks_like_a_violation_is_not_one(source: str) -> None:
    assert violations(source) == []


def test_the_clock_may_ask_the_time() -> None:
    assert violations("import time\ntime.time()", is_clock=True) == []


def test_machine_paths_are_caught_and_ordinary_ones_are_not() -> None:
    assert machine_paths("see /work/x\nor ../shared/y\nor '/root/z'") == [1, 2, 3]
    assert machine_paths("https://example.org/work/x\nmy/root/\n/var/lib/cronce\nnetwork/root/") == []
