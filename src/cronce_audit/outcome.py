"""What is told of what was found, and what is set aside: by a comment, by the project's config, by its baseline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pathspec

from cronce_audit.baseline import Entry, fingerprints
from cronce_audit.config import Settings
from cronce_audit.engine import Report
from cronce_audit.model import Finding, Severity, Unparsed

How = Literal["comment", "config", "baseline"]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A finding that is not told, and why."""

    finding: Finding
    how: How
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    findings: Sequence[Finding]
    set_aside: Sequence[SetAside]
    gone: Sequence[Entry]
    """Of the baseline: what is not found any more."""
    unparsed: Sequence[Unparsed]
    files: int
    prints: Mapping[Finding, str]
    """The fingerprint of each finding, told or set aside."""

    def fails(self, threshold: Severity | None) -> bool:
        return threshold is not None and any(finding.severity >= threshold for finding in self.findings)

    def entries(self) -> Iterator[Entry]:
        """What a baseline holds that is written now: all but what has a reason of its own."""
        known = [one.finding for one in self.set_aside if one.how == "baseline"]
        for finding in (*self.findings, *known):
            yield Entry(finding.place.path, finding.rule, self.prints[finding])


def _of_file(finding: Finding, specs: Sequence[tuple[pathspec.GitIgnoreSpec, Mapping[str, str]]]) -> str:
    """The reason for which a rule is not told of this file; "" where there is none."""
    return next(
        (rules[finding.rule] for spec, rules in specs if finding.rule in rules and spec.match_file(finding.place.path)),
        "",
    )


def weigh(report: Report, settings: Settings, baseline: Sequence[Entry], was_asked: Callable[[Entry], bool]) -> Outcome:
    """`was_asked`: whether an entry of the baseline could have been found this time, by its rule and its path."""
    prints = fingerprints([*report.findings, *(finding for finding, _ in report.suppressed)])
    known = {entry.fingerprint for entry in baseline}
    told: list[Finding] = []
    specs = [(pathspec.GitIgnoreSpec.from_lines([pattern]), rules) for pattern, rules in settings.per_file_ignores]
    aside = [SetAside(finding, "comment", by.reason) for finding, by in report.suppressed]
    for finding in report.findings:
        if finding.confidence < settings.min_confidence:
            continue
        reason = settings.ignore.get(finding.rule) or _of_file(finding, specs)
        if reason:
            aside.append(SetAside(finding, "config", reason))
        elif prints[finding] in known:
            aside.append(SetAside(finding, "baseline", "it was there before"))
        else:
            told.append(finding)
    there = set(prints.values())
    gone = [entry for entry in baseline if entry.fingerprint not in there and was_asked(entry)]
    aside.sort(key=lambda one: one.finding.order)
    return Outcome(told, aside, gone, report.unparsed, report.files, prints)
