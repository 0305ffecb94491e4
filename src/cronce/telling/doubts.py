"""Effects that are in doubt, in sentences, and what to say of them."""

from collections.abc import Iterator
from shlex import quote

from cronce.model import spell
from cronce.runtime.effects.seen import STATES, Survey
from cronce.telling.words import safe


def counted(survey: Survey) -> str:
    """3 done, 1,000 or more in doubt."""
    return ", ".join(
        f"{survey.counts[state]:,}{' or more' if state in survey.capped else ''} {state}"
        for state in STATES
        if survey.counts.get(state)
    )


def tell_doubts(survey: Survey) -> Iterator[str]:
    """What is in doubt, why, and what to say of it. A key may hold anything that can be printed, so it is quoted."""
    for one in survey.doubtful:
        began = f", begun by {one.record.holder}" if one.record else ""
        since = f" at {spell(one.record.started)}" if one.record and one.record.started else ""
        yield safe(f"{one.name}{began}{since}: {one.why}")
        yield from verdicts(one.name)
    left = survey.counts.get("in doubt", 0) - len(survey.doubtful)
    if left > 0:
        yield f"and {left:,}{' or more' if 'in doubt' in survey.capped else ''}: `cronce effects` lists them"


def verdicts(name: str) -> Iterator[str]:
    """The commands for one that is in doubt."""
    quoted = quote(safe(name))
    yield f"  it happened:  cronce resolve {quoted} done"
    yield f"  it did not:   cronce resolve {quoted} retry"
