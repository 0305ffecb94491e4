"""cronce effects: what is in doubt, and what is in progress. How effects are told of stands here, too."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Final

from cronce.cli.looking import add_store, looking, nothing
from cronce.cli.table import Text, Tone, Toned, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError
from cronce.model import spell
from cronce.runtime.effects.seen import (
    EffectSeen,
    EffectState,
    Listed,
    any_effect,
    effect,
    effect_named,
    effects,
    names_effect,
    places,
)
from cronce.runtime.flow import Flow, drive
from cronce.runtime.look import job_names
from cronce.telling.documents import effect_document

MOST: Final = 10_000
EXAMPLES = """
An effect is what a body does by run.once, or a function that is idempotent for a key. It is in doubt when it was begun,
and whoever was at it is gone or failed: it may have happened or not. `cronce resolve` says which.

examples:
  cronce effects
  cronce effects billing --all
  cronce effects billing@2026-03-29T01:00:00Z --json
"""
_TONES: Final[Mapping[EffectState, Tone]] = {
    "done": "good",
    "in doubt": "bad",
    "unreadable": "bad",
    "in progress": "busy",
    "not done": "odd",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "of this job, this slot or this idempotent function only; or one effect"
    parser.add_argument("what", nargs="?", metavar="JOB|SLOT|NAME", help=what)
    parser.add_argument("--all", action="store_true", help="also what is done, and what failed and may be begun again")
    parser.add_argument("-n", type=int, default=100, metavar="N", help="how many (default 100)")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    if not 1 <= options.n <= MOST:
        raise BadInput(f"-n is 1 to {MOST:,}, and this is {options.n}")
    with looking(options) as store:
        found = drive(_found(options.what, options.n, everything=options.all), store, SystemClock())
    if options.json:
        print(json.dumps({"effects": [effect_document(one) for one in found.effects], "more": found.more}))
    elif found.effects:
        print("\n".join(_page(found)))
    else:
        none = "no effect is on record" if options.all else "no effect is in doubt, and none in progress,"
        print(nothing(none, options))
    return 0


def _found(what: str | None, limit: int, *, everything: bool) -> Flow[Listed]:
    if what is not None and names_effect(what):
        named = effect_named(what)
        one = yield from effect(named)
        if one is None:
            raise CronceError(f"nothing is known of {named.name}; `cronce effects --all` lists what is")
        return Listed((one,), more=False)
    prefixes = yield from places(what)
    found = yield from effects(prefixes, limit, everything=everything)
    if what is not None and not found.effects:
        yield from _refuse_unknown(what.partition("@")[0])
    return found


def _refuse_unknown(name: str) -> Flow[None]:
    if not (yield from any_effect((yield from places(name)))) and name not in (yield from job_names()):
        raise CronceError(
            f"no job is called {name[:60]!r}, and no idempotent function of which anything is on record; `cronce"
            " effects --all` lists what is"
        )


def _page(found: Listed) -> Iterator[str]:
    yield table(["effect", "state", "since", "holder", "why"], [_row(one) for one in found.effects], screen())
    if found.more:
        yield f"and more; these are {len(found.effects):,}, and -n shows others"
    if any(one.state == "in doubt" for one in found.effects):
        yield "\nwhat is in doubt may have happened or not: find out, then say `cronce resolve EFFECT done` or `retry`"


def _row(one: EffectSeen) -> list[Text]:
    state = Toned(one.state, _TONES[one.state])
    if one.record is None:
        return [one.name, state, "", "", one.why]
    since = spell(one.record.started) if one.record.started else ""
    return [one.name, state, since, one.record.holder, one.why]


# --- as others tell of them -----------------------------------------------------------------------------------------
