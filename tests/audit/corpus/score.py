"""The score of findings against labels."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from cronce_audit.model import Finding, Severity

HERE: Final = Path(__file__).parent
NEAR: Final = 3
"""Lines that a finding may be away from its label."""

Half = Literal["seen", "unseen"]
Verdict = Literal["must", "must-not", "may"]


class Label(NamedTuple):
    """What a reader says of one place. Line 0 is the whole file."""

    path: str
    line: int
    verdict: Verdict
    about: str
    level: str
    why: str


class Labelled(NamedTuple):
    repo: str
    commit: str
    labels: Sequence[Label]


Objects = Callable[[str, int], int]
"""The first line of the object that a line of a file is in; the line itself where objects are not told apart."""


class Told(NamedTuple):
    """A finding, and the label that speaks of it."""

    repo: str
    finding: Finding
    label: Label | None

    @property
    def verdict(self) -> str:
        if self.label is None:
            return "unlabelled"
        if self.label.verdict == "must-not":
            return "wrong"
        loud = self.finding.severity >= Severity.WARNING and self.label.level == "info"
        return "too loud" if loud else "right"

    def __str__(self) -> str:
        one = self.finding
        where = f"{self.repo} {one.place} {one.severity.word} {one.rule} {one.name}"
        return f"{where}: {self.label.why}" if self.label else where


class Missed(NamedTuple):
    """A hazard that was not told, or less loudly than it should be."""

    repo: str
    label: Label
    lower: bool

    def __str__(self) -> str:
        told = "told as info only" if self.lower else "not told"
        return f"{self.repo} {self.label.path}:{self.label.line} {self.label.about} ({told}): {self.label.why}"


class Score(NamedTuple):
    told: Sequence[Told]
    missed: Sequence[Missed]
    musts: int

    def at(self, *severities: Severity) -> Counter[str]:
        """How many of each verdict, among findings of these severities."""
        return Counter(one.verdict for one in self.told if one.finding.severity in severities)

    @property
    def found(self) -> int:
        return self.musts - sum(not one.lower for one in self.missed)


def half_of(repo: str) -> Half:
    return "seen" if int(hashlib.sha256(repo.lower().encode()).hexdigest()[0], 16) % 2 == 0 else "unseen"


def labelled(half: Half) -> Sequence[Labelled]:
    path = HERE / f"{half}.json"
    if not path.exists():
        return []
    return [Labelled(one["repo"], one["commit"], [Label(**label) for label in one["labels"]]) for one in _load(path)]


def hazards() -> Mapping[str, frozenset[str]]:
    """The rules that are about a hazard."""
    found: dict[str, list[str]] = json.loads((HERE / "hazards.json").read_text())
    return {name: frozenset(rules) for name, rules in found.items()}


def _load(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def objects(root: Path) -> Objects:
    """Of YAML: a document of a manifest, a service of a compose file, a job of a list."""

    def first(path: str, line: int) -> int:
        if not path.endswith((".yaml", ".yml", ".tpl")) or not (root / path).is_file():
            return line
        above = (root / path).read_text(errors="replace").split("\n")[:line]
        is_manifest = any(text.startswith("kind:") for text in (root / path).read_text(errors="replace").split("\n"))
        starts = _DOCUMENT if is_manifest else _ENTRY
        return next((number for number in range(len(above), 0, -1) if starts.match(above[number - 1])), 1)

    return first


_DOCUMENT: Final = re.compile(r"---")
_ENTRY: Final = re.compile(r"  ?[\w.-]+:|[\w.-]+:")


def score(found: Iterable[tuple[Labelled, Sequence[Finding], Objects]]) -> Score:
    told: list[Told] = []
    missed: list[Missed] = []
    musts = 0
    for one, findings, object_of in found:
        fits = _Fits(hazards(), object_of)
        told += (Told(one.repo, finding, fits.label(finding, one.labels)) for finding in findings)
        for label in one.labels:
            if label.verdict == "must":
                musts += 1
                missed += fits.missed(one.repo, label, findings)
    return Score(told, missed, musts)


class _Fits(NamedTuple):
    known: Mapping[str, frozenset[str]]
    object_of: Objects

    def __call__(self, finding: Finding, label: Label) -> bool:
        return (
            finding.place.path == label.path
            and finding.rule in self.known.get(label.about, {finding.rule})
            and (
                not label.line
                or abs(finding.place.line - label.line) <= NEAR
                or self.object_of(label.path, label.line) == self.object_of(label.path, finding.place.line)
            )
        )

    def label(self, finding: Finding, labels: Sequence[Label]) -> Label | None:
        """The nearest that fits; of those at one line, what must be said first."""
        order = ("must", "may", "must-not")
        near = [label for label in labels if self(finding, label)]
        return min(near, key=lambda one: (abs(one.line - finding.place.line), order.index(one.verdict)), default=None)

    def missed(self, repo: str, label: Label, findings: Sequence[Finding]) -> Iterator[Missed]:
        said = [finding.severity for finding in findings if self(finding, label)]
        if not any(severity >= Severity[label.level.upper()] for severity in said):
            yield Missed(repo, label, lower=bool(said))
