"""An answer to a point of a checklist, and what it can be drawn from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cronce_audit.checklist.mentions import Mention
from cronce_audit.model import Facts, Finding, Place
from cronce_audit.outcome import Outcome

Verdict = Literal["met", "not met", "cannot tell", "not relevant"]
VERDICTS: Final[tuple[Verdict, ...]] = ("not met", "cannot tell", "met", "not relevant")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an answer rests on. Without a place it is about the tree."""

    text: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    verdict: Verdict
    evidence: Sequence[Evidence] = ()
    shows: str = ""
    """Of what cannot be told: what would show it."""


def met(*evidence: Evidence | str) -> Answer:
    return Answer("met", _evidence(evidence))


def not_met(*evidence: Evidence | str) -> Answer:
    return Answer("not met", _evidence(evidence))


def cannot_tell(shows: str, *evidence: Evidence | str) -> Answer:
    return Answer("cannot tell", _evidence(evidence), shows)


def not_relevant(why: str) -> Answer:
    return Answer("not relevant", (Evidence(why),))


def _evidence(given: Iterable[Evidence | str]) -> Sequence[Evidence]:
    return tuple(Evidence(one) if isinstance(one, str) else one for one in given)


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of a tree."""

    outcome: Outcome
    facts: Facts
    mentions: Sequence[Mention] = field(default=())

    def found(self, *names: str) -> list[Evidence]:
        """What rules of these names found; also what is in the baseline, for it is there. What somebody looked at and
        gave a reason for is not."""
        known = [one.finding for one in self.outcome.set_aside if one.how == "baseline"]
        return [_of(one) for one in (*self.outcome.findings, *known) if one.name in names]

    def mentioned(self, *what: str) -> list[Evidence]:
        return [Evidence(f"`{one.words}`", one.place) for one in self.mentions if one.what in what]


def _of(finding: Finding) -> Evidence:
    return Evidence(f"{finding.rule}: {finding.message}", finding.place)
