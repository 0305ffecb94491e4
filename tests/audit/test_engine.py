"""The engine: facts from all files first, then the rules; what cannot be read is reported; two runs tell the same."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

from cronce_audit import engine
from cronce_audit.engine import BUG, audit, files
from cronce_audit.model import Confidence, Facts, Found, Place, Reader, Rule, Severity, Source, Unreadable, readers
from tests.audit.trees import YEAR, report_on


def _words(source: Source) -> Iterator[Place]:
    """Each line that says `twice` is a fact; a line that says `broken` cannot be read, `bug` is one of ours."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        if line == "broken":
            raise Unreadable(number, "it says so")
        if line == "bug":
            raise ValueError("oops")
        if line == "twice":
            yield source.place(number)


def _found(facts: Facts) -> Iterator[Found]:
    """Only the combination counts: one in all the tree is none."""
    places = facts.of(Place)
    if len(places) > 1:
        for place in places:
            yield Found(place, f"one of {len(places)}")


_twice = Rule("CR999", "said-twice", Severity.WARNING, Confidence.HIGH, "say it once", _found)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Rule:
    reader = Reader("words", lambda path: path.suffix == ".words", _words)
    known = [next(one for one in readers() if one.name == "suppressions"), reader]
    monkeypatch.setattr(engine, "readers", lambda: known)
    monkeypatch.setattr(engine, "rules", lambda: {_twice.id: _twice})
    return _twice


def _audit(root: Path) -> engine.Report:
    return audit(root, list(files(root, [])), YEAR)


@pytest.mark.usefixtures("toy")
def test_rules_see_the_facts_of_all_files_together(tmp_path: Path) -> None:
    (tmp_path / "a.words").write_text("x\n  twice\ntwice\n")
    assert _audit(tmp_path).findings == []
    (tmp_path / "b.words").write_text("twice\n")
    (tmp_path / "c.other").write_text("twice\n")
    report = _audit(tmp_path)
    assert [(str(one.place), one.rule, one.message, one.snippet) for one in report.findings] == [
        ("a.words:3", "CR999", "one of 2", "twice"),
        ("b.words:1", "CR999", "one of 2", "twice"),
    ]
    assert report.files == 2


@pytest.mark.usefixtures("toy")
def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.words").write_text("twice\nbroken\n")
    (tmp_path / "b.words").write_text("twice\ntwice\n")
    (tmp_path / "c.words").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "d.words").write_text("bug\n")
    report = _audit(tmp_path)
    assert [str(one.place) for one in report.findings] == ["a.words:1", "b.words:1", "b.words:2"]
    assert [(str(one.place), one.why) for one in report.unparsed] == [
        ("a.words:2", "words: it says so"),
        ("c.words:1", "it is not UTF-8 text"),
        ("d.words:1", f"words: {BUG}: ValueError: oops"),
    ]


@pytest.mark.usefixtures("toy")
def test_a_finding_with_a_reason_against_it_is_counted_and_not_told(tmp_path: Path) -> None:
    (tmp_path / "a.words").write_text("# cronce: ignore[CR999] both are meant\ntwice\n\n\ntwice\n")
    report = _audit(tmp_path)
    assert [str(one.place) for one in report.findings] == ["a.words:5"]
    assert [(str(one.place), by.reason) for one, by in report.suppressed] == [("a.words:2", "both are meant")]


def test_many_processes_tell_what_one_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        (tmp_path / f"m{number:03}.py").write_text(f"# cronce: ignore\nx = {number}\n")
    (tmp_path / "broken.py").write_text("import apscheduler\ndef (:\n")
    alone = _audit(tmp_path)
    monkeypatch.setattr(engine, "ALONE", 0)
    seen: list[int] = []
    together = audit(tmp_path, list(files(tmp_path, [])), YEAR, seen.append)
    assert together.findings == alone.findings
    assert len(alone.findings) == 300
    assert together.unparsed == alone.unparsed
    assert [one.place.path for one in alone.unparsed] == ["broken.py"]
    assert seen[-1] == 301
    assert seen == sorted(seen)


def test_the_first_reader_is_for_every_file_that_another_one_wants() -> None:
    assert next(one for one in readers() if one.name == "suppressions").wants(PurePosixPath("anything at all"))


def test_a_file_that_goes_away_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("# cronce: ignore\n")
    report = audit(tmp_path, ["a.py", "gone.py"], YEAR)
    assert [str(one.place) for one in report.findings] == ["a.py:1"]
    assert [(one.place.path, one.why) for one in report.unparsed] == [("gone.py", "No such file or directory")]


@pytest.mark.parametrize("text", ["import redis\nx = " + "[" * 5_000, "import redis\nx = " + "-" * 20_000 + "1"])
def test_what_is_nested_too_deeply_is_said_to_be(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    (unparsed,) = _audit(tmp_path).unparsed
    assert BUG not in unparsed.why
    assert unparsed.place.path == "a.py"


def test_no_module_needs_one_that_needs_it() -> None:
    """One that only works when another was imported before it breaks the command, and no other test."""
    package = Path(engine.__file__).parents[1]
    paths = {".".join(path.relative_to(package).with_suffix("").parts): path for path in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items() if name.startswith("cronce_audit")}
    needs: dict[str, set[str]] = {}
    for module, path in modules.items():
        imports = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        named = {f"{node.module}.{one.name}" for node in imports for one in node.names}
        needs[module] = {known for name in named for known in (name, name.rpartition(".")[0]) if known in modules}
        needs[module] -= {"cronce_audit", module}
    assert {*TopologicalSorter(needs).static_order()} == modules.keys()  # which a circle has no order for


@pytest.mark.parametrize(
    ("folder", "severity"),
    [("", Severity.ERROR), ("examples/", Severity.WARNING), ("docs/a/", Severity.WARNING), ("app/", Severity.ERROR)],
)
def test_examples_and_docs_are_down_one_level(tmp_path: Path, folder: str, severity: Severity) -> None:
    found = report_on(tmp_path, {f"{folder}crontab": "0 3 * * * /app/sync\n" * 2}).findings
    assert [one.severity for one in found if one.rule == "CR404"] == [severity]


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("compose.yaml", "error"),
        ("compose.prod.yaml", "error"),
        ("usr/local/compose.yaml", "error"),
        ("docker/dev/compose.yaml", "warning"),
        ("docker-compose.override.yml", "warning"),
        ("docker/local/compose.yaml", "warning"),
    ],
)
def test_what_is_for_development_is_down_one_level(tmp_path: Path, path: str, severity: str) -> None:
    beats = "services:\n  beat:\n    image: shop\n    command: celery -A shop beat\n    scale: 2\n"
    assert [one.severity.word for one in report_on(tmp_path, {path: beats}).findings] == [severity]


@pytest.mark.parametrize(("package", "found"), [("shop", True), ("apscheduler", False), ("src/celery", False)])
def test_a_scheduler_librarys_own_source_is_no_finding(tmp_path: Path, package: str, found: bool) -> None:
    app = """\
        from apscheduler.schedulers.background import BackgroundScheduler
        from flask import Flask

        app = Flask(__name__)
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.start()
        """
    tree = {f"{package}/__init__.py": "", "app.py": app, "Procfile": "web: gunicorn -w 4 app:app\n"}
    assert [one.rule for one in report_on(tmp_path, tree).findings if one.rule == "CR201"] == ["CR201"] * found
