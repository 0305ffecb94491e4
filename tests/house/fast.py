"""`--fast`: the tests that need neither a server nor a process of their own, for while one works (`make test-fast`).

A module is left out, before it is imported, if it or a test helper that it imports uses one of `STARTERS`. In other
modules a test is left out if it uses a fixture of `tests.servers`, or is marked `slow`.

Without `--fast` the modules that start something come first: they mostly wait, and what only computes then fills the
processors at the end, where no process of the run is left alone with a long test.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import (\([^)]*\)|.*)|import (.+))", re.MULTILINE)
NAME, PLAIN = re.compile(r"\w+"), re.compile(r"[\w.]+")
STARTERS = ("subprocess", "multiprocessing", "playwright", "tests.servers")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out tests that start servers or processes, or are slow")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: long, or starts a process that no import of its module tells of")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Before it is imported: what it imports may take longer than its tests."""
    if not config.getoption("fast") or collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    return starts_something(collection_path) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("fast"):
        items.sort(key=lambda item: not starts_something(item.path))
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if item.get_closest_marker("slow") or _needs_a_server(item) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def _needs_a_server(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    known = item._fixtureinfo.name2fixturedefs.values()  # pytest has no public way to ask
    return any(made.func.__module__ == "tests.servers.fixtures" for definitions in known for made in definitions)


@pytest.fixture(scope="session", autouse=True)
def _no_servers(pytestconfig: pytest.Config) -> Iterator[None]:
    """A test that asks for a server by its name while it runs is skipped."""
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.getoption("fast"):
            patch.setattr("tests.servers.process.Server.__init__", _not_fast)
        yield


def _not_fast(*_given: object, **_named: object) -> None:
    pytest.skip("starts a server, which is not part of --fast")


@cache
def starts_something(path: Path) -> bool:
    """Whether the module, or a module of the tests that it imports, imports one of STARTERS. Modules may import each
    other in a circle, for their types."""
    seen, ahead = {path}, [path]
    while ahead:
        names = set(_imported(ahead.pop()))
        if any(name == starter or name.startswith(f"{starter}.") for name in names for starter in STARTERS):
            return True
        new = {file for file in map(_file, names) if file is not None} - seen
        seen |= new
        ahead += new
    return False


@cache
def _imported(path: Path) -> list[str]:
    """Found by pattern: to parse the files takes longer than the tests that are left."""
    found: list[str] = []
    for module, names, plain in IMPORT.findall(path.read_text(encoding="utf-8")):
        found += [module, *(f"{module}.{name}" for name in NAME.findall(names))] if module else PLAIN.findall(plain)
    return found


def _file(name: str) -> Path | None:
    """The file of a module of the tests."""
    if not name.startswith("tests."):
        return None
    path = ROOT / name.replace(".", "/")
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
