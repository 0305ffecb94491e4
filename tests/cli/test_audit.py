"""cronce audit: exit codes, formats, config and baseline."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cronce.cli
from cronce.cli import main

FORMATS = ("people", "json", "sarif", "github")
BAD = "x = 1  # cronce: ignore\n"
"""An error."""
IDLE = "x = 1  # cronce: ignore[CR001] looked at\n"
"""An info."""
BROKEN = "import apscheduler\ndef (:\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(**texts: str) -> None:
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main(["audit", "--json", *words])
    return json.loads(capsys.readouterr().out)


def lines(document: Any) -> list[str]:
    return [f"{one['rule']} {one['path']}:{one['line']}" for one in document["findings"]]


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("x = 1\n", (), 0),
        (BAD, (), 1),
        (BAD, ("--fail-on", "never"), 0),
        (BAD, ("--ignore", "CR001"), 0),
        (BAD, ("--select", "CR002"), 0),
        (BAD, ("--exclude", "app.py", "--exclude", "y"), 3),
        (IDLE, (), 0),
        (IDLE, ("--fail-on", "info"), 1),
        (IDLE, ("--fail-on", "info", "--ignore", "suppression-of-nothing"), 0),
        (BROKEN, (), 0),
        (BROKEN, ("--strict",), 4),
        (BROKEN + BAD, ("--strict",), 4),
        (BROKEN + BAD, (), 1),
        (BAD, ("--ignore", "CR99"), 2),
        (BAD, ("--zone", "Mars/Olympus"), 2),
        (BAD, ("nowhere.py",), 2),
        (BAD, ("--baseline", "nowhere.json"), 2),
        (BAD, ("--output", "no/such/folder.json"), 2),
    ],
)
@pytest.mark.parametrize("format_", ["people", "json", "github"])
def test_the_exit_code_says_whether_it_is_clean(text: str, words: tuple[str, ...], code: int, format_: str) -> None:
    write(app=text)
    assert main(["audit", "--format", format_, *words]) == code


def test_where_no_file_is_of_a_known_kind_there_is_nothing_to_audit(capsys: pytest.CaptureFixture[str]) -> None:
    Path("photo.jpeg").write_bytes(b"\xff\xd8")
    assert main(["audit"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.split(";")[0]) == ("", "cronce audit: nothing to audit: no file of a known kind was found")


def test_the_document_names_rule_path_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=f"\n{BAD}", broken=BROKEN)
    document = told(capsys)
    assert lines(document) == ["CR001 app.py:2"]
    assert [(one["path"], one["line"]) for one in document["unparsed"]] == [("broken.py", 2)]
    assert document["files"] == 1


def test_a_file_that_is_not_read_is_not_counted_and_nothing_is_called_clean(capsys: pytest.CaptureFixture[str]) -> None:
    write(app="x = 1\n", broken=BROKEN)
    unclean = "1 file could not be read, so this is not a clean result (--strict fails then)"
    assert main(["audit"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{unclean}; 1 file read"
    assert main(["audit", "--statistics"]) == 0
    assert capsys.readouterr().out == f"{unclean}\n"
    assert main(["audit", "--strict", "broken.py"]) == 4
    assert capsys.readouterr().out.splitlines()[-1] == f"{unclean}; 0 files read"
    assert main(["audit", "broken.py"]) == 0
    write(bad=BAD)
    assert main(["audit"]) == 1
    assert "1 error; 1 not read; 2 files read" in capsys.readouterr().out


def test_paths_may_be_several_and_overlap_and_are_told_from_the_root(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/x.py", "a/y.py", "b/z.py", "c/w.py"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(BAD)
    assert lines(told(capsys, "b", "a/y.py", "a")) == ["CR001 a/x.py:1", "CR001 a/y.py:1", "CR001 b/z.py:1"]
    monkeypatch.chdir("a")
    assert lines(told(capsys)) == ["CR001 a/x.py:1", "CR001 a/y.py:1"]
    assert main(["audit", "../b"]) == 1
    assert f"{repository}/b/z.py:1:1 error CR001" in capsys.readouterr().out


def test_several_paths_are_told_from_the_folder_that_holds_them_as_in_what_is_said_of_them(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a", "b"):
        Path(path).mkdir()
        Path(path, "x.py").write_text(BAD)
    monkeypatch.chdir("a")
    assert main(["audit", "../b", "."]) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out if "CR001" in line][:2] == ["a/x.py", "b/x.py"]
    assert out[-1] == f"paths are from {repository}"


def test_below_the_root_it_is_said_that_there_is_more(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("shop/api").mkdir(parents=True)
    Path("shop/api/app.py").write_text("x = 1\n")
    monkeypatch.chdir("shop/api")
    more = f"only shop/api/ of {repository} was read; `cronce audit ../..` reads all of it\n"
    for words in ([], ["."]):
        assert main(["audit", *words]) == 0
        assert capsys.readouterr().out == f"nothing found; 1 file read\n{more}"
    here = f"only shop/ of {repository} was read; `cronce audit` reads all of it\n"
    monkeypatch.chdir(repository)
    for path in ("shop", "shop/", "./shop"):
        assert main(["audit", path]) == 0
        assert capsys.readouterr().out == f"nothing found; 1 file read\n{here}"
    monkeypatch.chdir("shop")
    assert main(["audit", "api"]) == 0
    assert capsys.readouterr().out.endswith(
        f"only shop/api/ of {repository} was read; `cronce audit ..` reads all of it\n"
    )
    for folder, path in ((".", "."), ("shop/api", "app.py")):  # the root, and a file
        monkeypatch.chdir(repository / folder)
        assert main(["audit", path]) == 0
        assert capsys.readouterr().out == "nothing found; 1 file read\n"


def test_a_folder_that_is_in_no_repository_is_all_that_there_is_to_read(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".git").rmdir()
    Path("shop").mkdir()
    Path("shop/app.py").write_text("x = 1\n")
    assert main(["audit", "shop"]) == 0
    assert capsys.readouterr().out == "nothing found; 1 file read\n"
    Path("cronce.toml").write_text("[audit]\n")
    assert main(["audit", "shop"]) == 0
    assert "only shop/ of " in capsys.readouterr().out


def test_what_a_gitignore_above_leaves_out_is_not_read_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("made/by").mkdir(parents=True)
    Path("made/by/program.py").write_text(BAD)
    Path(".gitignore").write_text("by/\n")
    assert lines(told(capsys, "made")) == []
    assert lines(told(capsys, "made/by")) == ["CR001 made/by/program.py:1"]


def test_tests_are_read_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    write(test_app=BAD, app="x = 1\n")
    assert lines(told(capsys)) == []
    assert lines(told(capsys, "--tests")) == ["CR001 test_app.py:1"]


def test_a_folder_that_is_called_as_an_action_is_written_with_a_dot(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules").mkdir()
    Path("rules/a.py").write_text(BAD)
    assert lines(told(capsys, "./rules")) == ["CR001 rules/a.py:1"]
    assert "rules" in told(capsys, "rules")


def test_the_config_counts_and_the_command_line_beats_it(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=BAD, old=BAD)
    Path("pyproject.toml").write_text(
        '[tool.cronce.audit]\nexclude = ["old.py"]\nfail-on = "never"\nignore = { CR002 = "later" }\n'
    )
    assert main(["audit"]) == 0
    assert main(["audit", "--fail-on", "error"]) == 1
    capsys.readouterr()
    write(idle=IDLE)
    document = told(capsys)
    assert lines(document) == ["CR001 app.py:1"]
    assert document["suppressed"] == [
        {"rule": "CR002", "path": "idle.py", "line": 1, "by": "config", "reason": "later"}
    ]
    Path("pyproject.toml").write_text("[tool.cronce.audit]\nfailon = 3\n")
    assert main(["audit"]) == 2
    assert "there is no key 'failon'; did you mean 'fail-on'?" in capsys.readouterr().err


def test_with_a_baseline_only_what_is_new_fails_and_what_is_mended_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=BAD, other=BAD)
    assert main(["audit", "--write-baseline", "base.json"]) == 0
    assert capsys.readouterr().out == (
        "base.json: 2 findings written; from now on only other findings fail the audit, with --baseline base.json\n"
    )
    Path("cronce.toml").write_text('[audit]\nbaseline = "base.json"\n')
    assert main(["audit"]) == 0
    assert "nothing new; 2 in the baseline; 2 files read" in capsys.readouterr().out

    write(app=f"\n\ny = 2\n{BAD}", other="")
    assert main(["audit", "app.py"]) == 0  # it has moved; and nobody asked about the other
    assert capsys.readouterr().out == "nothing new; 1 in the baseline; 1 file read\n"
    assert main(["audit"]) == 0
    assert (
        "1 of the baseline is no longer found: write a new baseline with --write-baseline\n" in capsys.readouterr().out
    )

    write(app=f"{BAD}{BAD}")
    assert main(["audit"]) == 1
    assert "1 error; 1 in the baseline; 2 files read" in capsys.readouterr().out
    capsys.readouterr()
    assert main(["audit", "--write-baseline", "base.json"]) == 0
    assert capsys.readouterr().out == "base.json: 2 findings written; from now on only other findings fail the audit\n"
    assert main(["audit"]) == 0

    Path("app.py").write_bytes(b"\xff")
    capsys.readouterr()
    assert told(capsys)["gone"] == []  # what cannot be read may still hold it


def test_a_comment_on_its_line_makes_a_known_finding_neither_new_nor_gone(capsys: pytest.CaptureFixture[str]) -> None:
    job = 'import redis\nclient = redis.Redis()\nclient.set("lock", "me", nx=True)'
    write(app=f"{job}\n")
    assert main(["audit", "--write-baseline", "base.json"]) == 0
    [known] = json.loads(Path("base.json").read_text())["findings"]
    capsys.readouterr()
    write(app=f"{job}  # cronce: ignore[CR404] not about this\n")
    assert lines(told(capsys, "--baseline", "base.json")) == ["CR002 app.py:3"]
    write(app=f"{job}  # cronce: ignore[{known['rule']}] looked at\n")
    document = told(capsys, "--baseline", "base.json")
    assert (document["findings"], document["gone"]) == ([], [])
    assert [one["by"] for one in document["suppressed"]] == ["comment"]


def test_a_baseline_that_is_damaged_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=BAD)
    Path("base.json").write_text("{")
    assert main(["audit", "--baseline", "base.json"]) == 2
    assert "the baseline base.json is damaged" in capsys.readouterr().err


def test_output_goes_to_a_file_and_people_still_read(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=BAD)
    assert main(["audit", "--format", "sarif", "--output", "out.sarif"]) == 1
    [run] = json.loads(Path("out.sarif").read_text())["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["CR001"]
    assert "app.py:1:1 error CR001" in capsys.readouterr().out
    assert main(["audit", "--output", "out.txt"]) == 1
    assert Path("out.txt").read_text() == capsys.readouterr().out


def test_sarif_declares_all_rules_that_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    write(app="x = 1\n")
    main(["audit", "--format", "sarif"])
    [run] = json.loads(capsys.readouterr().out)["runs"]
    declared = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert declared == [rule["rule"] for rule in told(capsys, "rules")["rules"]]
    assert declared[:2] == ["CR001", "CR002"]


def test_what_is_suppressed_is_counted_and_told_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    write(app=f"# cronce: ignore[CR001] broken on purpose\n{BAD}")
    assert main(["audit"]) == 0
    assert capsys.readouterr().out == "nothing found; 1 suppressed; 1 file read\n"
    assert main(["audit", "--suppressed"]) == 0
    assert "CR001       app.py:2  comment  broken on purpose\n" in capsys.readouterr().out


def test_a_password_in_a_line_is_not_told_in_any_format(capsys: pytest.CaptureFixture[str]) -> None:
    url = "redis://me:hunter2@db/0"
    write(
        app=f'x = "{url}"  # cronce: ignore\n',
        meant=f"x = 1  # cronce: ignore[supression-of-nothing] {url}\n",
        reason=f"# cronce: ignore[CR001] {url}\n{BAD}",
    )
    for format_ in FORMATS:
        main(["audit", "--format", format_, "--suppressed"])
        out = capsys.readouterr().out
        assert "CR001" in out
        assert "hunter2" not in out


def test_without_the_extra_its_name_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cronce.cli.auditing", "cronce_audit.engine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr(cronce.cli, "auditing", raising=False)
    monkeypatch.setitem(sys.modules, "pathspec", None)
    assert main(["audit"]) == 2
    assert capsys.readouterr().err == "cronce audit: the auditor needs pathspec: pip install 'cronce[audit]'\n"


def test_paths_on_both_sides_of_an_option_are_told_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["audit", "a", "--json", "b"])
    assert end.value.code == 2
    assert "give all paths together" in capsys.readouterr().err


def test_it_tells_the_same_whatever_the_hash_seed() -> None:
    """Also of a file whose name is no text."""
    write(app=BAD + IDLE, b=BAD, broken=BROKEN)
    Path(os.fsdecode(b"caf\xe9.py")).write_text(BAD)
    code = f"from cronce.cli import main\nfor name in {FORMATS}: main(['audit', '--format', name, '--output', name])"
    seen = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8:replace"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        seen.append([done.stdout, *(Path(name).read_bytes() for name in FORMATS)])
    assert [text.count(b"caf") > 0 for text in seen[0]] == [True] * 5
    assert seen[0] == seen[1]


# Rules, and one of them


def test_rules_are_listed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "rules"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert header.split() == ["rule", "severity", "confidence", "name"]
    assert first.split() == ["CR001", "error", "high", "suppression-without-rule-or-reason"]


def test_a_rule_is_explained_with_its_samples_and_what_is_found_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "explain", "cr001"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CR001 suppression-without-rule-or-reason  error\n\nA comment that silences the auditor")
    assert "\n    app.py\n  > # cronce: ignore\n    import os\n\n  > x = os.name  # cronce: ignore[CR101]\n" in out
    assert "```" not in out
    [rule] = told(capsys, "explain", "suppression-of-nothing")["rules"]
    assert (rule["rule"], rule["page"].splitlines()[0]) == ("CR002", "# CR002 suppression-of-nothing")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "which rule? `cronce audit rules` lists them"),
        (("CR99",), "there is no rule 'CR99'; `cronce audit rules` lists them"),
        (("supression-of-nothing",), "did you mean 'suppression-of-nothing'?"),
    ],
)
def test_a_rule_that_there_is_not_is_said_so(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "explain", *words]) == 2
    assert says in capsys.readouterr().err


# The checklist, and a machine


def test_the_checklist_is_answered_and_fails_if_a_point_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    write(app="x = 1\n")
    assert main(["audit", "--checklist"]) == 1
    out = capsys.readouterr().out
    assert "✗  10. The pipeline runs this audit: not met\n       no pipeline" in out
    assert "?  14. After a deploy, duplicates are looked for within 30 minutes: cannot tell\n       What would" in out
    assert (
        "–   1. Several nodes with one schedule are kept apart by a lock: not relevant\n"
        "       same answer as point 7 under *schedulers*\n" in out
    )
    Path("Makefile").write_text("lint:\n\tcronce audit\n")
    assert main(["audit", "--checklist"]) == 0
    assert "\n✓  10. The pipeline runs this audit: met\n       Makefile:2: `cronce audit`\n" in capsys.readouterr().out


def test_the_checklist_lists_all_places_of_a_point_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """It said "and 2 more", and nothing showed them."""
    write(app="x = 1\n")
    Path("Makefile").write_text("lint:\n" + "\tcronce audit\n" * 5)
    assert main(["audit", "--checklist"]) == 0
    assert capsys.readouterr().out.count("       and 2 more (--all shows them)\n") == 1
    assert main(["audit", "--checklist", "--all"]) == 0
    shown = capsys.readouterr().out
    assert [shown.count(f"       Makefile:{line}: `cronce audit`\n") for line in range(2, 7)] == [1] * 5


def test_the_checklist_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    write(app="x = 1\n")
    document = told(capsys, "--checklist")
    assert list(document) == ["points", "counts"]
    assert sum(document["counts"].values()) == len(document["points"]) == 30
    assert document["points"][9] == {
        "checklist": "schedulers",
        "number": 10,
        "point": "The pipeline runs this audit",
        "answer": "not met",
        "evidence": [
            {
                "path": None,
                "line": None,
                "text": "no pipeline, pre-commit config or Makefile here runs `cronce audit`",
            }
        ],
        "shows": None,
    }
    assert main(["audit", "--checklist", "--json", "--output", "out.json"]) == 1
    assert json.loads(Path("out.json").read_text()) == document
    assert "The pipeline runs this audit: not met" in capsys.readouterr().out
    assert document["points"][13]["shows"].startswith("`cronce audit dupes … --since 30m`")


def test_this_machine_is_looked_at_and_no_path_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, "--live", "--select", "CR901")
    assert document["files"] > 0
    assert {one["rule"] for one in document["findings"]} <= {"CR901"}
    assert main(["audit", "--live", "."]) == 2
    assert "--live checks this machine" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("words", "drawn"), [((), True), (("--no-progress",), False)])
def test_a_bar_is_drawn_on_a_terminal(words: tuple[str, ...], drawn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    write(app="x = 1\n")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["audit", *words]) == 0
    assert ("1/1" in terminal.getvalue()) is drawn


TWICE = "0 3 * * * /app/sync\n" * 3
OVERLAP = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: sync}
spec:
  schedule: "*/5 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a, command: [sync]}]}}}}
"""


def test_statistics_count_by_rule(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "crontab").write_text(TWICE)
    assert main(["audit", "--statistics", "--select", "CR4"]) == 1
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["found", "rule", "severity", "name"],
        ["2", "CR404", "error", "same-job-twice"],
    ]


def test_what_is_certain_is_mended_and_the_rest_is_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "job.yaml").write_text(OVERLAP)
    (repository / "crontab").write_text(TWICE)
    assert main(["audit", "--fix", "--select", "CR501,CR404", "--json"]) == 1
    out = capsys.readouterr()
    assert [one["rule"] for one in json.loads(out.out)["findings"]] == ["CR404", "CR404"]
    assert out.err == (
        "cronce audit: job.yaml:5: set `concurrencyPolicy: Forbid` (CR501)\n"
        "cronce audit: 1 fixed; 2 errors left to you\n"
    )
    assert "  concurrencyPolicy: Forbid\n" in (repository / "job.yaml").read_text()


@pytest.mark.parametrize(
    ("files", "last"),
    [
        ({"job.yaml": OVERLAP, "crontab": TWICE}, "1 fixed; 2 errors left to you"),
        ({"crontab": TWICE}, "nothing to fix; 2 errors left to you"),
        ({"job.yaml": OVERLAP}, "1 fixed"),
        ({"app.py": "x = 1\n"}, "nothing to fix"),
    ],
)
def test_the_last_line_counts_what_was_fixed_and_what_is_left(
    files: dict[str, str], last: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (repository / name).write_text(text)
    main(["audit", "--fix", "--select", "CR501,CR404"])
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_a_fix_is_told_with_the_path_from_the_working_directory(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "k8s").mkdir()
    (repository / "k8s/job.yaml").write_text(OVERLAP)
    monkeypatch.chdir("k8s")
    main(["audit", "--fix", "--select", "CR501", ".."])
    out = capsys.readouterr()
    assert out.err == f"cronce audit: {repository}/k8s/job.yaml:5: set `concurrencyPolicy: Forbid` (CR501)\n"


def test_the_config_selects_and_the_command_line_beats_it(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "crontab").write_text(TWICE)
    (repository / "cronce.toml").write_text('[audit]\nselect = ["CR5"]\n')
    assert main(["audit"]) == 0
    assert main(["audit", "--select", "CR404"]) == 1
    capsys.readouterr()
