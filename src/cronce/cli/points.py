"""The answers to a checklist, for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from cronce.audit.checklist import Answered
from cronce.audit.checklist.answers import VERDICTS, Answer, Evidence, Verdict
from cronce.cli.findings import told
from cronce.cli.table import Screen, Toned, paint

MARKS: Final[dict[Verdict, Toned]] = {
    "met": Toned("✓", "good"),
    "not met": Toned("✗", "bad"),
    "cannot tell": Toned("?", "odd"),
    "not relevant": Toned("–", "dim"),
}
MOST: Final = 3
"""Pieces of evidence that are shown; JSON has all."""


def checked(answered: Sequence[Answered], on: Screen) -> Iterator[str]:
    first: dict[int, str] = {}
    for name, points in groupby(answered, key=lambda one: one.checklist):
        yield paint(Toned(name, "busy"), on)
        for point in points:
            yield _head(point, on)
            said = first.setdefault(id(point.answer), f"{name} {point.number}")
            yield from _why(point.answer, on) if said == f"{name} {point.number}" else told(f"as {said}", on, "dim")
        yield ""
    counts = Counter(one.answer.verdict for one in answered)
    yield ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def _head(point: Answered, on: Screen) -> str:
    mark = MARKS[point.answer.verdict]
    head = f"{point.number:>4}. {point.text}: "
    return f"{paint(mark, on)}{paint(head, on)}{paint(Toned(point.answer.verdict, mark.tone), on)}"


def _why(answer: Answer, on: Screen) -> Iterator[str]:
    for one in answer.evidence[:MOST]:
        yield from told(_line(one), on, "dim")
    if len(answer.evidence) > MOST:
        yield from told(f"and {len(answer.evidence) - MOST} more", on, "dim")
    if answer.shows:
        yield from told(f"What would show it: {answer.shows}", on)


def _line(one: Evidence) -> str:
    return f"{one.place}: {one.text}" if one.place else one.text
