"""The figures of the docs come from docs/proof.json. The runner that writes it can be resumed and loses no result."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cronce.testing.effects_table import ZERO
from cronce.testing.receivers import EffectGuard
from tests.faults.billing.matrix import combinations, totals
from tests.faults.neighbours.__main__ import Row
from tests.faults.neighbours.book import Counted
from tests.faults.neighbours.setups import SETUPS
from tests.house import requirements
from tests.house.needs import tool
from tests.proof import pages
from tests.proof.parts import PARTS, REPORT, Part, read_json, read_report
from tests.proof.record import FILE, Record, Result, Source
from tests.proof.run import Runner, spent

ROOT = Path(__file__).parents[2]
EMPTY = Record(Path("/nonexistent/proof.json"))


# --- the pages ---


def test_every_figure_of_the_docs_is_what_the_record_shows() -> None:
    """If not: `python -m tests.proof --docs`."""
    assert [str(page.relative_to(ROOT)) for page in pages.outdated(Record())] == []


def marked() -> list[str]:
    return [found["name"] for page in pages.pages() for found in pages.MARKED.finditer(page.read_text("utf-8"))]


def test_every_mark_has_an_end_and_every_region_stands_on_a_page() -> None:
    texts = [page.read_text("utf-8") for page in pages.pages()]
    assert sum(text.count("<!-- proof: ") for text in texts) == len(marked())
    assert {*pages.REGIONS, pages.ALL_PARTS} <= {*marked()}


def test_every_region_and_result_is_of_a_part_that_exists() -> None:
    known = {part.name for part in PARTS}
    assert len(known) == len(PARTS)
    assert {part for part, _ in pages.REGIONS.values()} <= known
    assert Record().results().keys() <= known
    durations = {name.removeprefix(pages.DURATION) for name in marked() if name.startswith(pages.DURATION)}
    assert durations <= known


def test_every_test_that_a_part_names_exists() -> None:
    named = [word for part in PARTS for word in part.words if word.startswith("tests/")]
    assert named
    missing = [word for word in named if not (ROOT / word.partition("::")[0]).is_file()]
    assert missing + [word for word in named if "::" in word and not requirements.has_test(word, ROOT)] == []


def test_where_a_part_has_no_result_the_page_says_so_and_shows_no_figure() -> None:
    for name in [*pages.REGIONS, f"{pages.DURATION}billing"]:
        text = pages.region(name, EMPTY)
        assert text.startswith("(no result on record: `make proof PART=")
        assert not re.search(r"\d", text)
    rows = pages.parts_table(EMPTY).splitlines()[2:]
    assert [row.split(" | ")[2:] for row in rows] == [["", "", "", "", "", "no result yet |"]] * len(PARTS)


def test_marks_within_a_line_stay_in_it_and_marks_on_lines_of_their_own_keep_them() -> None:
    text = "a <!-- proof: mutants -->1<!-- /proof --> b\n<!-- proof: effects -->\nold\nrows\n<!-- /proof -->\nc\n"
    new = pages.rewritten(text, EMPTY)
    said = "(no result on record: `make proof PART={}`)"
    assert new == text.replace("1<!", f"{said.format('mutants')}<!").replace("old\nrows", said.format("simulator"))


def test_a_mark_that_names_nothing_is_an_error() -> None:
    with pytest.raises(pages.Unknown, match="there is no region 'nothing'"):
        pages.rewritten("<!-- proof: nothing -->1<!-- /proof -->", EMPTY)


def test_what_a_page_should_say_is_written_into_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("<!-- proof: mutants -->99<!-- /proof --> mutants\n")
    record = Record(tmp_path / "proof.json")
    record.passed("mutants", result(figures={"mutants": {"a": 1, "b": 2}}))
    assert pages.write(record, tmp_path) == [page]
    assert page.read_text() == "<!-- proof: mutants -->2<!-- /proof --> mutants\n"
    assert pages.write(record, tmp_path) == []


def test_what_is_on_record_shows_what_the_docs_say_of_it() -> None:
    results = Record().results()
    if known := results.get("neighbours"):
        setups = [Row({word: Counted(**counts) for word, counts in setup.items()}) for setup in known.figures.values()]
        assert known.figures.keys() == SETUPS.keys()
        assert all(setup.shown for setup in setups)
    if known := results.get("billing-nights"):
        plays = known.figures["plays"]
        assert {(play["way"], play["receiver"], play["store"]) for play in plays} == {*map(tuple, combinations())}
        assert min(play["kills"] for play in plays) >= 5
        total = totals(plays)
        assert (total["invoices"] >= 2000, total["kills"] >= 100, total["pauses"] >= 50) == (True, True, True)
        assert (total["charged_once"] + total["waiting"], total["once_after"]) == (total["invoices"],) * 2
        assert (total["unexplained"], total["duplicates"]) == (0, 0)
    if known := results.get("simulator"):
        effects = known.figures["effects"]
        assert [(way, column) for way in EffectGuard for column in ZERO[way] if effects[way][column]] == []
        assert effects[EffectGuard.NOTHING]["repeats"] > 1000  # what the others prevent


def test_the_record_is_written_as_the_runner_writes_it() -> None:
    """So that a part that is run again changes only its own lines."""
    text = FILE.read_text("utf-8")
    assert text == json.dumps(dict(sorted(json.loads(text).items())), indent=1, ensure_ascii=False) + "\n"


# --- the runner, on small parts in a repository of their own ---


def result(figures: dict[str, object] | None = None, commit: str = "1234567", **fields: object) -> Result:
    known = Result("2026-03-29T01:00Z", commit, dirty=False, seconds=67, settings={}, figures=figures or {}, load=2.2)
    return known._replace(**fields)  # type: ignore[arg-type]


def part(name: str, code: str, **settings: str) -> Part:
    return Part(name, f"about {name}", ("-c", code), read_json, lambda figures: f"counted {figures['n']}", settings)


def prints(n: int, name: str = "one", **settings: str) -> Part:
    return part(name, f"print('{{\"n\": {n}}}')", **settings)


class Bench:
    """A repository with a file of code and a page, and a record outside of both."""

    def __init__(self, folder: Path) -> None:
        self.root, self.screen = folder / "repo", io.StringIO()
        (self.root / "docs").mkdir(parents=True)
        self.record = Record(self.root / "docs" / "proof.json")
        tool("git", "apt-get install git")
        self.git("init", "-q")
        self.commit("code.py", "1")

    def git(self, *words: str) -> str:
        author = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *author, *words], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, file: str, text: str) -> None:
        (self.root / file).write_text(text)
        self.git("add", file)
        self.git("commit", "-q", "-m", "a change")

    def run(self, *parts: Part, fresh: bool = False) -> list[str]:
        runner = Runner(self.record, self.root, self.root.parent / "work", self.screen)
        return [outcome.verdict for outcome in runner.run(parts, fresh=fresh)]

    @property
    def said(self) -> str:
        return self.screen.getvalue()

    def n(self, name: str = "one") -> int:
        count: int = self.record.results()[name].figures["n"]
        return count


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_part_that_passes_is_kept_with_its_date_commit_and_figures(bench: Bench) -> None:
    assert bench.run(prints(7, SIZE="big")) == ["passed"]
    kept = bench.record.results()["one"]
    assert kept.source == Source(bench.git("rev-parse", "--short=7", "HEAD"), dirty=False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", kept.date)
    assert (kept.settings, kept.figures, kept.failed) == ({"SIZE": "big"}, {"n": 7}, None)
    assert bench.said.startswith("1 of 1  one: about one\n1 of 1  one: passed after ")
    assert bench.said.endswith(": counted 7\n")


def test_a_part_gets_its_settings_from_the_environment(bench: Bench) -> None:
    assert bench.run(part("one", "import os; print('{\"n\": %s}' % os.environ['SIZE'])", SIZE="5")) == ["passed"]
    assert bench.n() == 5


def test_what_passed_before_on_this_commit_is_not_run_again(bench: Bench) -> None:
    bench.run(prints(1))
    assert bench.run(prints(2), prints(3, "two")) == ["done before", "passed"]
    assert "one: passed before, on " in bench.said
    assert "FRESH=1 repeats it" in bench.said
    assert (bench.n(), bench.n("two")) == (1, 3)


def test_fresh_repeats_it(bench: Bench) -> None:
    bench.run(prints(1))
    assert bench.run(prints(2), fresh=True) == ["passed"]
    assert bench.n() == 2


def test_a_commit_of_code_makes_it_old_and_a_commit_of_prose_does_not(bench: Bench) -> None:
    bench.run(prints(1))
    bench.commit("docs/proof.json", bench.record.file.read_text())
    bench.commit("README.md", "news")
    assert bench.run(prints(2)) == ["done before"]
    bench.commit("code.py", "2")
    assert bench.run(prints(2)) == ["passed"]


def test_with_uncommitted_changes_nothing_counts_as_done_and_the_record_says_so(bench: Bench) -> None:
    bench.run(prints(1))
    (bench.root / "code.py").write_text("not committed")
    assert bench.run(prints(2)) == ["passed"]
    assert bench.record.results()["one"].dirty
    bench.git("checkout", "-q", "code.py")
    assert bench.run(prints(3)) == ["passed"]
    assert not bench.record.results()["one"].dirty


def test_another_size_is_run_again(bench: Bench) -> None:
    bench.run(prints(1, SIZE="1"))
    assert bench.run(prints(2, SIZE="10")) == ["passed"]


FAILS = part("one", "print('what went wrong'); raise SystemExit(3)")


def test_a_part_that_fails_leaves_the_earlier_result_and_later_parts_run(bench: Bench) -> None:
    bench.run(prints(1))
    bench.commit("code.py", "2")
    assert bench.run(FAILS, prints(2, "two")) == ["failed", "passed"]
    assert (bench.n(), bench.n("two")) == (1, 2)
    assert "(exit code 3); the result of " in bench.said
    assert "    what went wrong" in bench.said
    assert bench.record.failures()["one"]["commit"] == bench.git("rev-parse", "--short=7", "HEAD")


def test_a_part_that_failed_is_run_again_until_it_passes(bench: Bench) -> None:
    assert bench.run(FAILS) == ["failed"]
    assert "there is no earlier result" in bench.said
    assert bench.record.results() == {}
    assert bench.run(prints(1)) == ["passed"]
    assert bench.record.failures() == {}
    bench.run(FAILS, fresh=True)
    assert bench.run(prints(2)) == ["passed"]


def test_a_part_without_figures_has_failed(bench: Bench) -> None:
    assert bench.run(part("one", "print('no JSON')")) == ["failed"]
    assert "(no figures: " in bench.said


def test_a_failure_is_on_the_page_beside_the_earlier_result(bench: Bench) -> None:
    name = PARTS[0].name
    bench.record.failed(name, "2026-03-30T01:00Z", Source("abcdef0", dirty=False))
    assert pages.parts_table(bench.record).splitlines()[2].endswith("| failed on 2026-03-30 at abcdef0 |")
    bench.record.passed(name, result(figures={"configurations": []}))
    assert pages.parts_table(bench.record).splitlines()[2].endswith("| 2026-03-29 | 1234567 | 1:07 min | 2 | passed |")
    bench.record.failed(name, "2026-03-30T01:00Z", Source("abcdef0", dirty=False))
    assert pages.parts_table(bench.record).splitlines()[2].endswith("| passed; later failed on 2026-03-30 at abcdef0 |")


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (67, "1:07 min"), (3723, "1:02:03")])
def test_a_duration_is_spelled_for_people(seconds: float, text: str) -> None:
    assert spent(seconds) == text


# --- reading figures ---

REPORTED = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="0" skipped="1" tests="3" time="0.5">
<testcase classname="test_it" name="test_counts" file="test_it.py" line="3" time="0.001">
<properties><property name="play" value="{&quot;slots&quot;: 3}" /></properties></testcase>
<testcase classname="test_it" name="test_more" file="test_it.py" line="6" time="0.001" />
<testcase classname="test_it" name="test_needs_a_server" file="test_it.py" line="8" time="0.001">
<skipped type="pytest.skip" message="needs a server">test_it.py:8: needs a server</skipped></testcase>
</testsuite></testsuites>"""


def test_what_tests_note_is_read_from_their_report(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text(REPORTED)
    assert read_report(tmp_path) == {"passed": 2, "skipped": 1, "plays": [{"slots": 3}]}


def test_a_part_of_which_every_test_was_skipped_has_no_figures(tmp_path: Path) -> None:
    root = ElementTree.fromstring(REPORTED)
    (suite,) = root
    for case in [case for case in suite if case.find("skipped") is None]:
        suite.remove(case)
    ElementTree.ElementTree(root).write(tmp_path / REPORT)
    with pytest.raises(ValueError, match="every test was skipped"):
        read_report(tmp_path)


def test_a_command_line_that_names_no_part_lists_those_there_are() -> None:
    words = [sys.executable, "-m", "tests.proof", "nothing"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"there is no part nothing; there are: {PARTS[0].name}, ")
