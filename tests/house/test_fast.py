"""`--fast` leaves out what starts servers or processes, whichever helper does it, and what is marked as slow."""

from pathlib import Path

import pytest

from tests.house import fast

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    fast.starts_something.cache_clear()
    fast._imported.cache_clear()
    (tmp_path / "tests/helpers").mkdir(parents=True)
    (tmp_path / "tests/helpers/__init__.py").write_text("from tests.helpers import server\n")
    (tmp_path / "tests/helpers/server.py").write_text("def go():\n    import subprocess\n")
    (tmp_path / "tests/plain.py").write_text("import os\nfrom tests import plain\n")
    (tmp_path / "tests/one.py").write_text("from tests import other\n")
    (tmp_path / "tests/other.py").write_text("from tests import one, plain\n")
    return tmp_path / "tests"


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("import subprocess\n", True),
        ("import subprocess as sp\n", True),
        ("import os, subprocess\n", True),
        ("from multiprocessing import Process\n", True),
        ("from multiprocessing.pool import Pool\n", True),
        ("def late():\n    from subprocess import run\n", True),
        ("from tests.servers.postgres import Postgres\n", True),
        ("from tests.helpers.server import go\n", True),
        ("from tests.helpers import (\n    other,\n    server,\n)\n", True),
        ("from tests import plain, helpers\n", True),
        ("from tests import plain\nfrom tests.plain import x\n", False),
        ("from tests import one\n", False),  # two that import each other
        ("import os, sys\n# subprocess\n", False),
        ("import subprocesses\n", False),
    ],
)
def test_a_module_is_left_out_when_it_or_a_helper_of_its_starts_processes(
    source: str, starts: bool, folder: Path
) -> None:
    module = folder / "test_it.py"
    module.write_text(source)
    assert fast.starts_something(module) is starts


SUITE = """
import pytest

@pytest.fixture
def served(valkey): return valkey

def test_quick(): pass
@pytest.mark.slow
def test_long(): pass
def test_with_a_server(postgres): pass
def test_with_a_server_behind_a_fixture(served): pass
def test_that_asks_for_a_server_by_its_name(request): request.getfixturevalue("valkey")
"""


def test_of_the_others_what_is_slow_or_asks_for_a_server_is_left_out(pytester: pytest.Pytester) -> None:
    pytester.syspathinsert(ROOT)
    pytester.makepyfile(SUITE)
    plugins = ("-p", "tests.house.fast", "-p", "tests.servers.fixtures", "-p", "no:cacheprovider")
    ran = pytester.runpytest_inprocess(*plugins, "--fast", "-v")
    ran.assert_outcomes(passed=1, deselected=3, skipped=1)
    ran.stdout.fnmatch_lines(["*test_quick PASSED*"])
