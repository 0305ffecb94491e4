"""What is told of findings that are many, or say the same: ten thousand jobs that fail together are ten alerts and one
more, and not ten thousand messages."""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Final

from cronce.monitor.model import Finding, Kind, worst_first

EACH: Final = 10
"""Of a kind, so many stand by themselves."""

MORE: Final = "*"
"""What the rest of them is about: no job is called that."""


def gathered(found: Iterable[Finding], standing: Collection[str] = ()) -> list[Finding]:
    """The worst first. Those that stand go on by themselves. While the rest of a kind stands nobody moves out of it,
    so that as they recover, one by one, nothing is told until they all have."""
    ordered = sorted(_news(list(found), standing), key=lambda one: (one.kind, worst_first(one)))
    told: list[Finding] = []
    for kind, group in groupby(ordered, key=lambda one: one.kind):
        same = list(group)
        alone = [one for one in same if one.id in standing]
        others = [one for one in same if one.id not in standing]
        room = 0 if f"{kind}/{MORE}" in standing else max(EACH - len(alone), 0)
        told += [*alone, *others[:room], *_rest(kind, others[room:])]
    return sorted(told, key=worst_first)


def _news(found: list[Finding], standing: Collection[str]) -> Iterator[Finding]:
    """Where no scheduler is alive no slot runs: that is said once, and not of each job."""
    nobody = any(one.kind is Kind.SILENT and not one.subject for one in found)
    for one in found:
        follows = nobody and one.kind in (Kind.MISSED, Kind.LATE)
        if not follows or one.id in standing or f"{one.kind}/{MORE}" in standing:
            yield one


def _rest(kind: Kind, rest: list[Finding]) -> Iterator[Finding]:
    if rest:
        first = rest[0]
        text = f"{kind}: and {len(rest):,} more, such as {first.subject}: {first.text}"
        yield Finding(kind, MORE, first.severity, text, min(one.since for one in rest), first.remedy)
