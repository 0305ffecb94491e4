"""Rules for the product's own source that no linter knows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "cronce"
CLOCK = SOURCE / "clock.py"
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


def published_files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in PUBLISHED:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def machine_paths(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), start=1) if MACHINE_PATH.search(line)]


def imports(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Each imported thing: its line, the name it goes by in the module, and what that name stands for."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    top = name.name.partition(".")[0]  # `import os.path` binds `os`
                    yield node.lineno, name.asname or top, name.name if name.asname else top
            case ast.ImportFrom(module=str(module), level=0, names=names):
                for name in names:
                    yield node.lineno, name.asname or name.name, f"{module}.{name.name}"


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each name that the module uses, spelled in full whatever its import called it."""
    called = {local: full for _, local, full in imports(tree)}
    for node in ast.walk(tree):
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
    tree = ast.parse(source)
    return [*_unpickles(tree), *_shells_out(tree), *([] if is_clock else _asks_the_time(tree))]


def _unpickles(tree: ast.AST) -> Iterator[str]:
    for line, _, full in imports(tree):
        if full.partition(".")[0] in CODE_FROM_DATA:
            yield f"{line}: {full} runs code that it finds in data; the codec is JSON"


def _shells_out(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="shell", value=ast.Constant(value=False)):
                pass
            case ast.keyword(arg="shell"):
                yield f"{node.value.lineno}: shell= lets a shell read our arguments; pass a list"
    for line, full in uses(tree):
        if full in {"os.system", "os.popen"}:
            yield f"{line}: {full} lets a shell read our arguments; pass a list"


def _asks_the_time(tree: ast.AST) -> Iterator[str]:
    for line, full in uses(tree):
        if full in ASKS_THE_TIME:
            yield f"{line}: {full} asks what time it is; only clock.py does, elsewhere time is an argument"


@pytest.mark.parametrize("module", [pytest.param(path, id=str(path.relative_to(SOURCE))) for path in modules()])
def test_no_module_unpickles_shells_out_or_asks_the_time(module: Path) -> None:
    assert violations(module.read_text(encoding="utf-8"), is_clock=module == CLOCK) == []


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
