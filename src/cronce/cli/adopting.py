"""cronce effects --adopt: steps that are on record for a slot become effects on things."""

import argparse
from collections.abc import Iterator, Sequence

from cronce.cli.effects import EFFECT_TONES
from cronce.cli.session import acting
from cronce.cli.terminal import Text, Toned, screen, show, table
from cronce.errors import BadInput
from cronce.runtime.effects.adopt import Adoption, adopt, adoptable
from cronce.runtime.effects.review import any_effect, of_job


def run_adopt(options: argparse.Namespace) -> None:
    if not (options.what and options.on and options.done):
        raise BadInput("write cronce effects JOB --adopt 'charge:*' --on invoice --what charge")
    with acting(options) as actor:
        found = actor.desk.do(adoptable(options.what, options.adopt, options.on, options.done))
        if not found and not actor.desk.do(any_effect(of_job(options.what))):
            actor.desk.do(actor.hand.job(options.what))  # one that is not known is refused
        if not options.dry_run:
            actor.desk.do(adopt(actor.hand, found))
    document = {"adopted": [_document(one) for one in found], "dry_run": options.dry_run}
    show(options, document, "\n".join(_page(found, options)))


def _document(one: Adoption) -> dict[str, object]:
    return {
        "effect": one.target.name,
        "state": one.state,
        "key": one.step.name,
        "steps": [step.name for step in one.steps],
        "adopted": not one.hindrance,
        "reason": one.hindrance or None,
    }


def _page(found: Sequence[Adoption], options: argparse.Namespace) -> Iterator[str]:
    if not found:
        yield f"no step of {options.what} has a key like {options.adopt}"
        return
    yield table(["effect", "state", "its key stays", "remark"], [_row(one) for one in found], screen())
    adopted = sum(not one.hindrance for one in found)
    yield f"\n{adopted:,} would be adopted" if options.dry_run else f"\n{adopted:,} adopted"


def _row(one: Adoption) -> list[Text]:
    return [one.target.name, Toned(one.state, EFFECT_TONES[one.state]), one.step.name, _remark(one)]


def _remark(one: Adoption) -> str:
    if one.hindrance:
        return f"not adopted: {one.hindrance}"
    more = len(one.steps) - 1
    return f"done {one.times_done} times" if one.times_done > 1 else f"and {more} more in doubt" if more else ""
