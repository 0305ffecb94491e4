"""What a project says about its audits, where that is found, and what is refused."""

from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce_audit.config import AuditSettings, Project, find_project, rule_named, rules_named
from cronce_audit.model import GONE, Confidence, Severity, rules
from cronce_audit.outcome import weigh
from tests.audit.trees import report_on

EVERYTHING = """
[tool.cronce.audit]
exclude = ["legacy/", "*.gen.py"]
ignore = { CR002 = "tidied up in spring", suppression-without-rule-or-reason = "  so be it " }
fail-on = "error"
min-confidence = "medium"
baseline = "audit.json"
zone = "Europe/Berlin"
tests = true
pages = "https://example.org/rules/"
select = ["CR00", "CR101"]
locks = ["shop.locking.only_here"]
per-file-ignores = { "scripts/" = { CR404 = "run by hand" } }
"""


def told(root: Path, text: str, name: str = "pyproject.toml") -> AuditSettings:
    (root / name).write_text(text)
    return find_project([root]).settings


def test_every_key_is_read(tmp_path: Path) -> None:
    assert told(tmp_path, EVERYTHING) == AuditSettings(
        exclude=("legacy/", "*.gen.py"),
        ignore={"CR002": "tidied up in spring", "CR001": "so be it"},
        fail_on=Severity.ERROR,
        min_confidence=Confidence.MEDIUM,
        baseline=tmp_path / "audit.json",
        zone="Europe/Berlin",
        tests=True,
        pages="https://example.org/rules/",
        select=("CR001", "CR002", "CR101"),
        locks=("shop.locking.only_here",),
        per_file_ignores=(("scripts/", {"CR404": "run by hand"}),),
    )


def test_cronce_toml_has_it_in_a_shorter_table_and_goes_first(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(EVERYTHING)
    assert told(tmp_path, '[audit]\nfail-on = "never"\n', "cronce.toml") == AuditSettings(fail_on=None)


def test_without_a_word_about_audits_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "cronce.toml").write_text('url = "sqlite:///x.db"\n')
    assert told(tmp_path, "[project]\nname = 'x'\n") == AuditSettings()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('excludes = ["a"]', "there is no key 'excludes'; did you mean 'exclude'?"),
        ('xyz = "a"', "there is no key 'xyz'; there are exclude, ignore, fail-on"),
        ('exclude = "a"', "exclude: this must be a list of patterns"),
        ('ignore = ["CR001"]', "ignore: each rule has a reason"),
        ('ignore = { CR001 = " " }', "ignore: CR001 has no reason"),
        ('ignore = { CR99 = "why" }', "ignore: there is no rule 'CR99'"),
        ('ignore = { suppresion-of-nothing = "why" }', "did you mean 'suppression-of-nothing'"),
        ('fail-on = "high"', "fail-on: 'high' is not one of info, warning, error, never"),
        ("min-confidence = 3", "min-confidence: 3 is not one of low, medium, high"),
        ('zone = "Mars/Olympus"', "zone: there is no time zone 'Mars/Olympus'"),
        ('tests = "yes"', "tests: this must be true or false"),
        ("pages = 3", "pages: this must be a text"),
        ('baseline = ""', "baseline: this must be a text"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_file_and_the_key(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        told(tmp_path, f"[tool.cronce.audit]\n{line}\n")
    assert str(refused.value).startswith(f"{tmp_path / 'pyproject.toml'}: ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "pyproject.toml",
            "[tool.cronce.adit]\n",
            "there is no table [tool.cronce.adit]; did you mean [tool.cronce.audit]?",
        ),
        ("pyproject.toml", "[tool.cronce.Audit]\n", "did you mean [tool.cronce.audit]?"),
        ("cronce.toml", "[audits]\n", "there is no table [audits]; did you mean [audit]?"),
    ],
)
def test_a_table_that_is_called_nearly_so_is_refused(name: str, text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        told(tmp_path, text, name)
    assert str(refused.value).startswith(f"{tmp_path / name}: ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["[tool.cronce.unit]\n", "[tool.adit]\n", "[tool]\ncronce = 3\n", "[tool.cronce.audits]\n[tool.cronce.audit]\n"],
)
def test_other_tables_are_left_alone(text: str, tmp_path: Path) -> None:
    assert told(tmp_path, text) == AuditSettings()


@pytest.mark.parametrize("text", ["[tool.cronce.audit\n", "tool.cronce.audit = 3\n"])
def test_a_file_that_is_no_toml_or_no_table_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"pyproject\.toml"):
        told(tmp_path, text)


def test_the_nearest_config_above_the_first_path_counts_and_its_folder_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(EVERYTHING)
    inner = tmp_path / "services" / "api" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "services/api/cronce.toml").write_text('[audit]\nzone = "UTC"\n')
    assert find_project([inner]) == Project(tmp_path / "services/api", AuditSettings(zone="UTC"), "cronce.toml")
    assert find_project([tmp_path / "services"]).settings.zone == "Europe/Berlin"


def test_what_is_outside_a_repository_does_not_speak_for_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(EVERYTHING)
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/src").mkdir()
    assert find_project([tmp_path / "repository/src"]) == Project(tmp_path / "repository", AuditSettings(), None)


def test_without_a_repository_the_root_is_here_or_what_holds_all_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here/a", "here/b", "there"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "there/app.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    assert find_project([Path("a"), Path("b")]).root == tmp_path / "here"
    assert find_project([tmp_path / "there"]).root == tmp_path / "there"
    assert find_project([tmp_path / "there/app.py"]).root == tmp_path / "there"
    assert find_project([Path("a"), tmp_path / "there/app.py"]).root == tmp_path


def test_a_rule_goes_by_its_id_and_by_its_name() -> None:
    assert [rule_named(word).id for word in ("CR001", "cr001", "suppression-of-nothing")] == [
        "CR001",
        "CR001",
        "CR002",
    ]


def test_the_beginning_of_ids_means_all_that_begin_so() -> None:
    assert [rule.id for rule in rules_named(["CR00", "cr211,CR211", "suppression-of-nothing"])] == [
        "CR001",
        "CR002",
        "CR211",
    ]
    assert {rule.id[:3] for rule in rules_named(["CR7"])} == {"CR7"}
    with pytest.raises(BadInput, match="there is no rule 'CR6x'"):
        rules_named(["CR6x"])


def test_a_file_may_be_left_out_of_a_rule_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="CR404 has no reason"):
        told(tmp_path, '[tool.cronce.audit]\nper-file-ignores = { "scripts/" = { CR404 = "" } }\n')
    settings = AuditSettings(per_file_ignores=(("old/", {"CR404": "switched off"}),))
    twice = "0 3 * * * /app/sync\n" * 2
    report = report_on(tmp_path, {"old/crontab": twice, "new/crontab": twice})
    outcome = weigh(report, settings, [], lambda _: True)
    assert [one.place.path for one in outcome.findings if one.rule == "CR404"] == ["new/crontab"]
    assert [(one.finding.place.path, one.how, one.reason) for one in outcome.set_aside] == [
        ("old/crontab", "config", "switched off")
    ]


def test_a_rule_that_is_gone_is_accepted_with_a_note_and_one_that_moved_means_the_other(tmp_path: Path) -> None:
    text = """
[tool.cronce.audit]
select = ["CR711", "CR301", "CR1"]
ignore = { CR512 = "we keep logs elsewhere", CR303 = "looked at" }
per-file-ignores = { "old/" = { CR803 = "not deployed" } }
"""
    settings = told(tmp_path, text)
    assert settings.select[0] == "CR301"
    assert settings.ignore == {"CR302": "looked at"}
    assert settings.per_file_ignores == (("old/", {"CR702": "not deployed"}),)
    assert settings.notes == (
        "CR711 is now part of CR301",
        "CR512 was removed: cronce no longer checks this",
        "CR303 is now part of CR302",
        "CR803 is now part of CR702",
    )
    assert rule_named("cr711").id == "CR301"
    with pytest.raises(BadInput, match="CR512 was removed"):
        rule_named("CR512")


def test_no_rule_is_both_here_and_gone_and_what_it_became_is_here() -> None:
    assert set(GONE) & set(rules()) == set()
    assert {new for new in GONE.values() if new} <= set(rules())
