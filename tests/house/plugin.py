"""A pytest plugin that holds a full run to docs/requirements.md.

A suite can be green because the tests that matter did not run. So at the end of a full run every requirement that names
tests must have one that passed, or all of them must have been skipped for want of a server or tool, in the agreed words
(`needs`). Anything else fails the run. After any run, what was skipped in that way is printed, loudly.

Everything is read from reports, which xdist hands to the controller: with or without `-n`, one process judges.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house import needs, requirements

# Each of these runs a part of the suite, or none of it: such a run cannot tell what would have passed.
NARROWING = (
    "fast",
    "keyword",
    "markexpr",
    "deselect",
    "ignore",
    "ignore_glob",
    "lf",
    "stepwise",
    "collectonly",
    "setupplan",
)

PASSED = "passed"
Outcomes = Mapping[str, Iterable[str]]
"""What became of each test: `passed`, another outcome, or the reason it was skipped; every parameter set adds one."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Evidence(config), "cronce-evidence")


@dataclass(frozen=True)
class Gap:
    """A requirement that a full run did not show, and what became of the tests that should have."""

    requirement: requirements.Requirement
    results: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        told = (f"{test}: {', '.join(sorted(set(each))) or 'did not run'}" for test, each in self.results.items())
        return f"{self.requirement.number} {self.requirement.text} ({'; '.join(told)})"


class Evidence:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outcomes: defaultdict[str, list[str]] = defaultdict(list)
        self.gaps: list[Gap] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.outcomes[_plain(report.nodeid)].append(_outcome(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and report.nodeid not in self.outcomes:  # each xdist worker reports the same module
            self.outcomes[report.nodeid].append(_outcome(report))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        page = self.config.rootpath / requirements.PAGE
        if exitstatus == pytest.ExitCode.OK and page.is_file() and is_full(self.config):
            rows = requirements.read(page.read_text(encoding="utf-8"))
            self.gaps = [gap for row in rows if (gap := find_gap(row, self.outcomes))]
        if self.gaps:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        missing = list(_missing(self.outcomes))
        if missing:
            terminalreporter.section("SKIPPED FOR WANT OF A SERVER OR TOOL", sep="!", yellow=True, bold=True)
            for line in missing:
                terminalreporter.write_line(line, yellow=True)
        if self.gaps:
            terminalreporter.section("REQUIREMENTS THAT NOTHING SHOWED", sep="!", red=True, bold=True)
            for gap in self.gaps:
                terminalreporter.write_line(str(gap), red=True)
            terminalreporter.stats["unshown"] = [*self.gaps]  # so that the last line says so too


def is_full(config: pytest.Config) -> bool:
    """Whether the whole suite was asked for: all of `testpaths`, and nothing left out."""
    asked = {Path(config.invocation_params.dir, arg).resolve() for arg in config.args}
    whole = {Path(config.rootpath, path).resolve() for path in config.getini("testpaths")}
    return asked == whole and not any(config.getoption(name, None) for name in NARROWING)


def find_gap(requirement: requirements.Requirement, outcomes: Outcomes) -> Gap | None:
    """The gap, if the requirement names tests and not one passed, unless each lacked only a server or tool."""
    results = {test: list(_results(test, outcomes)) for test in requirement.tests}
    shown = any(PASSED in each for each in results.values())
    excused = all(each and all(map(needs.REASON.match, each)) for each in results.values())
    return None if shown or excused else Gap(requirement, results)


def _results(test: str, outcomes: Outcomes) -> Iterator[str]:
    """What became of a test, or of the module or class that was skipped before the test was even seen."""
    parts = test.split("::")
    for end in range(1, len(parts) + 1):
        yield from outcomes.get("::".join(parts[:end]), ())


def _missing(outcomes: Outcomes) -> Iterator[str]:
    skipped: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for test, results in outcomes.items():
        for match in filter(None, map(needs.REASON.match, results)):
            skipped[match["what"], match["install"]].append(test)
    for (what, install), tests in sorted(skipped.items()):
        yield f"{what}: {len(tests)} skipped in {_files(tests)}; to run them: {install}"


def _files(tests: Iterable[str]) -> str:
    return ", ".join(sorted({test.partition("::")[0] for test in tests}))


def _plain(nodeid: str) -> str:
    """Without parameters, and without the group that xdist adds: `tests/a.py::test_b[1]@browser`."""
    return nodeid.partition("[")[0].partition("@")[0]


def _outcome(report: pytest.TestReport | pytest.CollectReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed"
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.outcome
