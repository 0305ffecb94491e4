"""The watch over docs/requirements.md, tried on small suites of its own."""

import shutil
from pathlib import Path

import pytest

from tests.house import needs

ROOT = Path(__file__).parents[2]
SKIPS_FOR_GCC = "from tests.house.needs import needs\ndef test_one(): needs('gcc', 'apt-get install gcc')\n"
UNSHOWN = "*REQUIREMENTS THAT NOTHING SHOWED*"


class Suite:
    """A project with one requirement, which names `test_one` and, on demand, others."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.syspathinsert(ROOT)
        pytester.makeini("[pytest]\ntestpaths = tests\naddopts = --import-mode=importlib")
        (pytester.path / "tests").mkdir()
        self.maps("tests/test_it.py::test_one")

    def maps(self, *ids: str) -> None:
        page = self.pytester.mkdir("docs") if not Path("docs").exists() else Path("docs")
        row = f"| 7 | Nodes are coordinated | core | {' '.join(f'`{test}`' for test in ids)} |"
        (page / "requirements.md").write_text(row)

    def has(self, source: str, name: str = "test_it.py") -> None:
        (self.pytester.path / "tests" / name).write_text(source)

    def run(self, *args: str) -> pytest.RunResult:
        plugins = ("tests.house.plugin", "xdist.plugin", "no:cacheprovider")
        return self.pytester.runpytest(*(word for name in plugins for word in ("-p", name)), *args)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    # The outer run may itself be an xdist worker; the inner one must not take itself for the same.
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each of its workers would load all that we use
    return Suite(pytester)


# Where the reports come from differs under xdist; how they are judged does not, so that is tried once, below.
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
class TestFullRun:
    def test_fails_when_the_mapped_test_was_skipped_for_another_reason(self, suite: Suite, workers: list[str]) -> None:
        suite.has("import pytest\ndef test_one(): pytest.skip('flaky today')\ndef test_two(): pass")
        result = suite.run(*workers)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([UNSHOWN, "7 Nodes are coordinated (*test_one: flaky today)", "*1 unshown*"])

    def test_passes_loudly_when_the_mapped_test_lacked_a_tool(self, suite: Suite, workers: list[str]) -> None:
        suite.has(SKIPS_FOR_GCC)
        result = suite.run(*workers)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            [
                "*SKIPPED FOR WANT OF A SERVER OR TOOL*",
                "gcc: 1 skipped in tests/test_it.py; to run them: apt-get install gcc",
            ]
        )

    def test_passes_when_the_whole_module_lacked_a_tool(self, suite: Suite, workers: list[str]) -> None:
        suite.has("from tests.house.needs import needs\nneeds('gcc', 'apt-get install gcc')")
        suite.has("def test_else(): pass", "test_else.py")
        result = suite.run(*workers)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["gcc: 1 skipped in tests/test_it.py; *"])

    def test_fails_when_the_whole_module_was_skipped_for_another_reason(self, suite: Suite, workers: list[str]) -> None:
        suite.has("import pytest\npytest.importorskip('no_such_module')")
        suite.has("def test_else(): pass", "test_else.py")
        result = suite.run(*workers)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([UNSHOWN, "7 *could not import 'no_such_module'*"])


def test_a_full_run_passes_when_a_mapped_test_passed(suite: Suite) -> None:
    suite.has("def test_one(): pass")
    assert suite.run().ret == pytest.ExitCode.OK


def test_a_test_of_a_group_that_passed_shows_the_requirement(suite: Suite) -> None:
    suite.has("import pytest\n@pytest.mark.xdist_group('browser')\ndef test_one(): pass")
    assert suite.run("-n", "1", "--dist", "loadgroup").ret == pytest.ExitCode.OK


def test_a_full_run_fails_when_the_mapped_test_did_not_run(suite: Suite) -> None:
    suite.has("def test_two(): pass")
    result = suite.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([UNSHOWN, "7 *test_one: did not run)"])


def test_a_full_run_fails_when_the_mapped_test_is_expected_to_fail(suite: Suite) -> None:
    suite.has("import pytest\n@pytest.mark.xfail\ndef test_one(): assert False")
    result = suite.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([UNSHOWN, "7 *test_one: xfailed)"])


def test_one_parameter_set_that_passes_shows_the_requirement(suite: Suite) -> None:
    suite.has(
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_one(n):\n    if n == 1: pytest.skip('flaky today')"
    )
    assert suite.run().ret == pytest.ExitCode.OK


def test_one_of_several_tests_that_passes_shows_the_requirement(suite: Suite) -> None:
    suite.maps("tests/test_it.py::test_one", "tests/test_it.py::TestMore::test_two")
    suite.has(SKIPS_FOR_GCC + "class TestMore:\n    def test_two(self): pass")
    assert suite.run().ret == pytest.ExitCode.OK


def test_one_good_reason_does_not_excuse_a_bad_one(suite: Suite) -> None:
    suite.maps("tests/test_it.py::test_one", "tests/test_it.py::test_two")
    suite.has(SKIPS_FOR_GCC + "import pytest\ndef test_two(): pytest.skip('flaky today')")
    result = suite.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([UNSHOWN, "7 *needs gcc: apt-get install gcc; *test_two: flaky today)"])


def test_a_skip_from_a_fixture_counts_as_the_tests_own(suite: Suite) -> None:
    fixture = "import pytest\n@pytest.fixture\ndef server(): pytest.skip('not today')\n"
    suite.has(fixture + "def test_one(server): pass")
    assert suite.run().ret == pytest.ExitCode.TESTS_FAILED


def test_prose_alone_is_not_asked_to_run(suite: Suite) -> None:
    suite.maps("docs/page.md#section")
    suite.has("def test_two(): pass")
    assert suite.run().ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    "narrowed",
    [["-k", "two"], ["-m", "not slow"], ["tests/test_it.py::test_two"], ["--deselect", "tests/test_it.py::test_one"]],
    ids=" ".join,
)
def test_a_narrowed_run_is_not_held_to_the_page(suite: Suite, narrowed: list[str]) -> None:
    suite.has("import pytest\ndef test_one(): pytest.skip('flaky today')\ndef test_two(): pass")
    assert suite.run(*narrowed).ret == pytest.ExitCode.OK


def test_naming_the_whole_suite_is_still_a_full_run(suite: Suite) -> None:
    suite.has("def test_two(): pass")
    assert suite.run("tests").ret == pytest.ExitCode.TESTS_FAILED


def test_a_reason_must_name_what_is_missing_and_what_to_install() -> None:
    assert needs.reason("gcc", "apt-get install gcc") == "needs gcc: apt-get install gcc"
    with pytest.raises(ValueError, match="does not read as"):
        needs.reason("gcc", "")


def test_a_tool_that_is_there_is_returned_and_one_that_is_not_is_a_skip() -> None:
    assert needs.tool("sh", "a POSIX system") == shutil.which("sh")
    with pytest.raises(pytest.skip.Exception, match=r"^needs no-such-tool: nowhere to be had$"):
        needs.tool("no-such-tool", "nowhere to be had")
