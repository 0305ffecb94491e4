"""The corpus of labels, and how findings are scored by it."""

from cronce_audit.model import Confidence, Finding, Place, Severity, rules
from tests.audit.corpus.score import Label, Labelled, Verdict, half_of, hazards, labelled, score


def test_the_unseen_half_holds_what_its_name_is_hashed_to_and_nothing_that_was_seen() -> None:
    seen = {one.repo for one in labelled("seen")}
    assert [one.repo for one in labelled("unseen") if half_of(one.repo) != "unseen" or one.repo in seen] == []


def test_the_seen_half_is_large_enough_and_its_labels_are_about_known_hazards() -> None:
    found = labelled("seen")
    assert len(found) == len({one.repo for one in found}) == 487
    labels = [label for one in found for label in one.labels]
    assert {label.about for label in labels} - set(hazards()) == {"any"}
    assert {(label.verdict, label.level) for label in labels} <= {
        (verdict, level) for verdict in ("must", "must-not", "may") for level in ("warning", "info")
    }


def test_every_rule_about_a_tree_is_about_a_hazard() -> None:
    named = {rule for about in hazards().values() for rule in about}
    assert named - set(rules()) == set()
    assert {rule for rule in rules() if not rule.startswith(("CR0", "CR9"))} - named == set()


def finding(line: int, severity: Severity = Severity.WARNING, rule: str = "CR404") -> Finding:
    return Finding(rule, "same-job-twice", severity, Confidence.HIGH, Place("crontab", line), "", "", "")


def label(line: int, verdict: Verdict, level: str = "warning") -> Label:
    return Label("crontab", line, verdict, "job-in-two-places", level, "so it is")


def judged(found: list[Finding], labels: list[Label]) -> tuple[list[str], int]:
    told = score([(Labelled("a/b", "c", labels), found, lambda _, line: line)])
    return [one.verdict for one in told.told], told.found


def test_a_finding_is_right_wrong_too_loud_or_unlabelled() -> None:
    assert judged([finding(5)], [label(7, "must")]) == (["right"], 1)
    assert judged([finding(5)], [label(9, "must")]) == (["unlabelled"], 0)
    assert judged([finding(5)], [label(5, "must-not")]) == (["wrong"], 0)
    assert judged([finding(5)], [label(5, "may", "info")]) == (["too loud"], 0)
    assert judged([finding(5, Severity.INFO)], [label(5, "may")]) == (["right"], 0)
    assert judged([finding(5, rule="CR501")], [label(5, "must")]) == (["unlabelled"], 0)
    assert judged([finding(900)], [label(0, "must")]) == (["right"], 1)


def test_a_hazard_that_is_told_as_information_only_counts_as_found_and_is_listed() -> None:
    told = score([(Labelled("a/b", "c", [label(5, "must")]), [finding(5, Severity.INFO)], lambda _, line: line)])
    assert (told.found, [one.lower for one in told.missed]) == (1, [True])
