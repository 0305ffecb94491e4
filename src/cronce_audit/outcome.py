"""Which findings are reported, and which are set aside: by a comment, by the config, or by the baseline.

A baseline lists findings that are known already; only new ones fail. A finding is recognised by its rule, its path and
the text of its line without white space, not by the line's number, which changes with every edit above. A comment that
suppresses is left out of the text, so that adding one changes no other finding of the line. Equal lines of one file are
counted. The file holds hashes of lines, since it is committed and a line may hold a secret.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pathspec

from cronce.errors import BadInput
from cronce_audit.config import AuditSettings
from cronce_audit.engine import Report
from cronce_audit.model import Finding, Severity, Unparsed
from cronce_audit.suppressions import ABOUT_COMMENTS, without_suppression

VERSION: Final = 1


class Entry(NamedTuple):
    """A known finding, as the baseline has it."""

    path: str
    rule: str
    fingerprint: str


def fingerprints(findings: Iterable[Finding]) -> Mapping[Finding, str]:
    """A hash for each finding, which stays the same when the finding moves within its file."""
    seen: Counter[tuple[str, str, str]] = Counter()
    marks = {}
    for finding in sorted(findings, key=lambda finding: finding.order):
        line = finding.snippet if finding.rule in ABOUT_COMMENTS else without_suppression(finding.snippet)
        what = (finding.rule, finding.place.path, " ".join(line.split()))
        seen[what] += 1
        marks[finding] = hashlib.sha256(
            "\0".join((*what, str(seen[what]))).encode(errors="surrogateescape")
        ).hexdigest()[:20]
    return marks


def write(path: Path, entries: Iterable[Entry]) -> int:
    """One line for each entry, sorted, so that diffs are readable. Returns how many there are."""
    lines = [
        json.dumps({"path": one.path, "rule": one.rule, "fingerprint": one.fingerprint}) for one in sorted(entries)
    ]
    body = ",\n    ".join(lines)
    inner = f"\n    {body}\n  " if lines else ""
    try:
        path.write_text(f'{{\n  "version": {VERSION},\n  "findings": [{inner}]\n}}\n', encoding="utf-8")
    except OSError as error:
        raise BadInput(f"the baseline {path} cannot be written: {error.strerror}") from None
    return len(lines)


def read(path: Path) -> Sequence[Entry]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no baseline {path}; `cronce audit --write-baseline {path}` makes it") from None
    except OSError as error:
        raise BadInput(f"the baseline {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"the baseline {path} is damaged: it is not JSON; {_AGAIN}") from None
    if isinstance(told, dict) and told.get("version") not in (None, VERSION):
        raise BadInput(f"the baseline {path} is of another version of cronce; {_AGAIN}")
    try:
        return sorted(Entry(*(_text(one[key]) for key in Entry._fields)) for one in told["findings"])
    except (TypeError, KeyError):
        raise BadInput(f"the baseline {path} is damaged: it is not a list of findings; {_AGAIN}") from None


_AGAIN: Final = "write it again with --write-baseline"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


How = Literal["comment", "config", "baseline"]


class SetAside(NamedTuple):
    """A finding that is not reported, and why."""

    finding: Finding
    how: How
    reason: str


class AuditOutcome(NamedTuple):
    findings: Sequence[Finding]
    set_aside: Sequence[SetAside]
    gone: Sequence[Entry]
    """Entries of the baseline that are no longer found."""
    unparsed: Sequence[Unparsed]
    files: int
    """How many files of a known kind were read."""
    prints: Mapping[Finding, str]
    """The fingerprint of each finding, reported or set aside."""

    @property
    def is_empty(self) -> bool:
        """Whether there was no file of a known kind. A folder that could not be read is at line 0."""
        return not self.files and not any(one.place.line for one in self.unparsed)

    def fails(self, threshold: Severity | None) -> bool:
        return threshold is not None and any(finding.severity >= threshold for finding in self.findings)

    def entries(self) -> Iterator[Entry]:
        """The entries of a new baseline: all findings but those that are suppressed with a reason."""
        known = [one.finding for one in self.set_aside if one.how == "baseline"]
        for finding in (*self.findings, *known):
            yield Entry(finding.place.path, finding.rule, self.prints[finding])


def _of_file(finding: Finding, specs: Sequence[tuple[pathspec.GitIgnoreSpec, Mapping[str, str]]]) -> str:
    """Why the config leaves this rule out for this file; "" where it does not."""
    return next(
        (rules[finding.rule] for spec, rules in specs if finding.rule in rules and spec.match_file(finding.place.path)),
        "",
    )


def weigh(
    report: Report, settings: AuditSettings, baseline: Sequence[Entry], was_asked: Callable[[Entry], bool]
) -> AuditOutcome:
    """`was_asked`: whether this audit could have found an entry of the baseline, by its rule and path."""
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
    return AuditOutcome(told, aside, gone, report.unparsed, report.files, prints)
