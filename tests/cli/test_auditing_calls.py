"""cronce audit: calls that make no sense, and what is said to help."""

import os
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cronce.cli import main
from cronce_audit.model import readers
from tests.house.needs import needs

BAD = "x = 1  # cronce: ignore\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "app.py").write_text(BAD)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--checklist", "--write-baseline", "b.json"), "a baseline holds findings, and --checklist prints points"),
        (
            ("--checklist", "--format", "sarif"),
            "--checklist prints text, or JSON with --json: sarif can hold findings only",
        ),
        (("--checklist", "--live"), "--checklist checks a repository"),
        (("--live", "."), "--live checks this machine; leave out the path"),
        (("explian", "CR101"), "there is no file or folder explian; did you mean `cronce audit explain`?"),
        (("rule",), "did you mean `cronce audit rules`?"),
        (("nowhere",), "nowhere: there is no such file or directory"),
        (("--select", "CR001,CR9999"), "there is no rule 'CR9999'"),
    ],
)
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, says in err) == ("", True), err
    assert not Path("b.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch",), "nosuch: there is no such file or directory"),
        (("--select", "CR999"), "there is no rule 'CR999'"),
        ((), "there is no baseline"),
    ],
)
def test_a_baseline_that_is_missing_hides_no_other_mistake(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text('[tool.cronce.audit]\nbaseline = "missing.json"\n')
    assert main(["audit", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_path_that_is_called_nearly_as_an_action_is_read() -> None:
    Path("rule").mkdir()
    Path("rule/app.py").write_text(BAD)
    assert main(["audit", "rule"]) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--select", "CR002,CR101"), 0), (("--select", "CR101, CR001"), 1), (("--ignore", "CR002,cr001"), 0)],
)
def test_rules_may_be_named_with_commas_between_them(words: tuple[str, ...], code: int) -> None:
    assert main(["audit", *words]) == code


def test_of_a_file_whose_name_says_nothing_it_is_told_which_names_do(capsys: pytest.CaptureFixture[str]) -> None:
    Path("uc").write_text("*/5 * * * * /opt/sync.sh\n")
    assert main(["audit", "uc"]) == 3
    assert capsys.readouterr().err == (
        "cronce audit: nothing to audit: uc: cronce does not know this kind of file by its name;"
        " a crontab must be called crontab, *.crontab or *.cron, or be in cron.d\n"
    )


def test_help_fits_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def as_nobody(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code and the output of an audit by one who may not read everything."""
    import_module("cronce.cli.auditing")  # later on it may not be read either
    readers()
    told = folder.with_suffix(".out")
    with told.open("w") as out:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            os.chdir(folder)
            if os.getuid() == 0:
                os.setuid(65534)
            code = 99
            try:
                with os.fdopen(1, "w", closefd=False) as stdout, pytest.MonkeyPatch.context() as patch:
                    patch.setattr("sys.stdout", stdout)
                    patch.setattr("sys.stderr", stdout)
                    code = main(["audit", *words])
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, told.read_text()


def test_a_folder_that_may_not_be_looked_into_is_told_as_unread() -> None:
    if os.getuid() != 0:
        needs("root", "run the tests as root: files of one user are looked at by another")
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = Path(name, "project")
        for path in ("app.py", "shut/a.py", "listed/b.py", "listed/c.jpeg"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("x = 1\n")
        entry = '{"path": "shut/a.py", "rule": "CR001", "fingerprint": "1"}'
        (root / "base.json").write_text(f'{{"version": 1, "findings": [{entry}]}}')
        (root / "shut").chmod(0)
        (root / "listed").chmod(0o744)
        code, told = as_nobody(root, "--strict", "--baseline", "base.json")
        named = [as_nobody(root, path) for path in ("shut", "shut/a.py")]
        for folder in ("shut", "listed"):
            (root / folder).chmod(0o755)
    denied = "not read\n       Permission denied\n\n"
    unclean = "2 files or folders could not be read, so this is not a clean result (--strict fails then)"
    assert told == f"listed/b.py:1 {denied}shut {denied}{unclean}; 1 file read\n"
    assert code == 4
    assert named[0][0] == 3
    assert named[0][1].startswith(f"shut {denied}cronce audit: nothing to audit")
    assert named[1] == (2, f"cronce audit: {root}/shut/a.py cannot be read: Permission denied\n")
