"""cronce status effects and resolve: what is in doubt or in progress, and a person's word on it, or on a slot that
failed, was lost or is unknown."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cronce.cli import Arguments, refuse_outside, say
from cronce.cli.session import ACT_ARGUMENTS, STORE_AND_JSON, Actor, act, acting, looking, nothing, read_option
from cronce.cli.terminal import Text, screen, show, table, toned
from cronce.errors import BadInput, CronceError
from cronce.model import Mark, spell
from cronce.protocol.commands import Queued
from cronce.runtime.effects import review
from cronce.runtime.effects.adopt import Adoption, adopt, adoptable
from cronce.runtime.effects.liveness import RetryRefused
from cronce.runtime.effects.review import EffectList, EffectSeen
from cronce.runtime.flow import Flow
from cronce.runtime.queries import job_names, read_page, seen_runs, slot_named
from cronce.runtime.run_lists import final_runs
from cronce.telling.documents import effect_document, run_document
from cronce.telling.story import said_before, tell_doubts
from cronce.telling.words import safe

MAX_EFFECTS: Final = 10_000
EFFECTS_EPILOG = """
An effect is what a job does once for a slot (run.once) or for a thing (run.on), or a function that is idempotent for a
key. It is in doubt when the process that began it died or failed: it may have happened or not. Find out, and record the
answer with `cronce resolve`.

--adopt turns the recorded steps of a slot into effects on things, each with the key it was sent with. Work that a job
did before it used run.on is then not done again.

examples:
  cronce status effects
  cronce status effects billing --all
  cronce status effects charge/invoice:7
  cronce status effects billing@2026-03-29T01:00:00Z --json
  cronce status effects billing --adopt 'charge:*' --on invoice --what charge --dry-run
"""
DOUBTS_LISTED: Final = 200
RERUNS_SHOWN: Final = 20
"""Of the slots that an effect stopped, the newest."""

RESOLVE_EPILOG = """
resolve records what you found out; it runs nothing. rerun runs a slot once more, and skips what is done.

An effect that is in doubt: resolve it first. done: it happened, and a repeated call gets the result. retry: it did
not; the next run will do it. Then `cronce rerun SLOT` continues each slot that it stopped.

A slot that failed, was lost or is unknown, with no effect in doubt. done: a person checked its work, and it counts
as succeeded. retry: the slot itself is due again, with all its attempts. To run it again and keep its
record, use rerun.

You can change your mind: retry undoes done, and done undoes retry as long as no run has started since.

retry is refused while the process that began the work may be alive: a paused process would continue its work. The
message names what to check. After you have checked it, use --force.

examples:
  cronce resolve                                             what is in doubt
  cronce resolve billing@2026-03-29T01:00:00Z done --reason 'all 42 invoices are there'
  cronce resolve billing@2026-03-29T01:00:00Z retry
  cronce resolve charge/invoice:7 done --result '{"id": "ch_1"}'
"""


EFFECTS_ARGUMENTS: Final[Arguments] = {
    "what: [JOB|SLOT|NAME]": "only effects of this job or slot, or effects on things with this name; or one effect",
    "--adopt KEY": "turn the job's steps with such keys into effects on things; * is the id of the thing",
    "--on KIND": "with --adopt: what kind of thing it is, as in run.on(KIND, id)",
    "done: --what NAME": "with --adopt: what is done, as in .once(NAME, …)",
    "--dry-run": "with --adopt: only show what would be adopted",
    "--by NAME": "with --adopt: who acts, for the record (default: user@host)",
    "--all": "also list effects that are done, and those that the next run will do",
    "-n N": (100, "how many (default 100)"),
    **STORE_AND_JSON,
}


def run_effects(options: argparse.Namespace) -> None:
    refuse_outside("-n", options.n, MAX_EFFECTS)
    if options.adopt is not None:
        _adopt(options)
        return
    if options.on or options.done or options.dry_run:
        raise BadInput("--on, --what and --dry-run are for --adopt, such as --adopt 'charge:*'")
    with looking(options) as node:
        found = node.do(_found(options.what, options.n, everything=options.all))
    none = "no effect is on record" if options.all else "no effect is in doubt, and none in progress,"
    document = {"effects": [effect_document(one) for one in found.effects], "more": found.next is not None}
    show(options, document, "\n".join(_page(found)) if found.effects else nothing(none, options))


def _found(what: str | None, limit: int, *, everything: bool) -> Flow[EffectList]:
    found = yield from review.effects(what, limit, everything=everything)
    if what is not None and not found.effects:
        yield from _refuse_unknown(what)
    return found


def _refuse_unknown(what: str) -> Flow[None]:
    if review.names_effect(what):
        raise CronceError(f"there is no record of {what}; `cronce status effects --all` lists all effects")
    name = what.partition("@")[0]
    if not (yield from review.effects(name, 1, everything=True)).effects and name not in (yield from job_names()):
        raise CronceError(
            f"no job is called {name[:60]!r}, and no effect of this name is on record; `cronce status effects --all`"
            " lists all effects"
        )


def _page(found: EffectList) -> Iterator[str]:
    yield table(["effect", "state", "since", "holder", "why"], [_row(one) for one in found.effects], screen())
    if found.next:
        yield "there are more; a higher -n shows them"
    if any(one.state == "in doubt" for one in found.effects):
        yield (
            "\neach of these may have happened or not: find out, then run `cronce resolve EFFECT done` or `cronce"
            " resolve EFFECT retry`"
        )


def _row(one: EffectSeen) -> list[Text]:
    state = toned(one.state)
    if one.record is None:
        return [one.name, state, "", "", one.why]
    since = spell(one.record.started) if one.record.started else ""
    return [one.name, state, since, one.record.holder, one.why]


A_SLOT_OR_EFFECT: Final = (
    "such as billing@2026-03-29T01:00:00Z, or an effect: charge/invoice:7; without one, list what is in doubt"
)
RESOLVE_ARGUMENTS: Final[Arguments] = {
    "what: [SLOT|EFFECT]": A_SLOT_OR_EFFECT,
    "verdict: [{done,retry}]": "done: its work is complete; retry: it must run again",
    "--result JSON": "the result of an effect that is done (default null)",
    "--force": "retry even if its process may still be alive, or an effect of the slot is in doubt; check that first",
    **ACT_ARGUMENTS,
    **STORE_AND_JSON,
}


def run_resolve(options: argparse.Namespace) -> None:
    if options.what is None:
        _list_doubts(options)
        return
    if options.verdict is None:
        raise BadInput(f"add what you found out: `cronce resolve {options.what[:80]} done`, or `retry`")
    try:
        (_resolve_effect if review.names_effect(options.what) else _resolve_slot)(options)
    except RetryRefused as error:
        raise CronceError(safe(str(error))) from None


def _list_doubts(options: argparse.Namespace) -> None:
    """Slots that were lost or are unknown, and effects in doubt: what a person has to find out."""
    with looking(options) as node:
        runs = node.do(read_page(final_runs(Mark.ATTENTION, DOUBTS_LISTED)))
        slots = seen_runs(runs.cells, runs.now)
        effects = [
            one for one in node.do(_found(None, DOUBTS_LISTED, everything=False)).effects if one.state == "in doubt"
        ]
    document = {"slots": [run_document(one) for one in slots], "effects": [effect_document(one) for one in effects]}
    rows: list[list[Text]] = [
        [one.slot.key, toned(one.shown), one.record.reason if one.record else one.trouble] for one in slots
    ]
    rows += [[one.name, toned(one.state), one.why] for one in effects]
    page = table(["slot or effect", "state", "why"], rows, screen())
    text = f"{page}\n\ncheck what it did, then `cronce resolve NAME done`, or `cronce resolve NAME retry`"
    show(options, document, text if rows else nothing("nothing is in doubt", options))


# --- resolving a slot -------------------------------------------------------------------------------------------------


def _resolve_slot(options: argparse.Namespace) -> None:
    slot = slot_named(options.what)
    if options.result is not None:
        raise BadInput("only an effect has a result, such as charge/invoice:7")
    with acting(options) as actor:
        (run,) = actor.node.do(actor.operator.look([slot]))
        record = run.record if run else None
        said = options.verdict, options.reason
        reply = act(actor, "resolve", lambda operator: operator.resolve(slot, *said, force=options.force))
        survey = actor.node.do(review.doubts(review.of_slot(slot, record)))
        reruns = actor.node.do(actor.operator.open_reruns(slot))
    if survey.doubtful:
        lines = [f"  {line}" for line in tell_doubts(survey)]
        say("resolve", "\n".join(["some of its effects are still in doubt:", *lines]))
    for rerun in reruns:
        say("resolve", f"{rerun.key} is still due or running: `cronce cancel {rerun.key}` stops it")
    outcome = None if isinstance(reply, Queued) else reply.outcome
    text = f"{slot.key} counts as {outcome}" if outcome else f"{slot.key} is due again"
    document = {"slot": slot.key, "due": outcome is None, "outcome": outcome, "reruns": [one.key for one in reruns]}
    show(options, document, f"{text}{said_before(record, options.verdict)}")


# --- resolving an effect ----------------------------------------------------------------------------------------------


def _resolve_effect(options: argparse.Namespace) -> None:
    result = None if options.result is None else read_option("--result", options.result)
    with acting(options) as actor:
        before = actor.node.do(review.effect(review.effect_named(options.what)))
        record = before.record if before else None
        seen = _resolved(actor, options, result)
        stopped = [slot.key for slot in actor.node.do(review.stopped_by(seen))]
    said = "counts as done" if options.verdict == "done" else "is marked as not done; the next run will do it"
    said += said_before(record, options.verdict)
    document = {**effect_document(seen), "rerun": stopped[0] if stopped else None, "stopped": stopped}
    show(options, document, "\n".join([safe(f"{seen.name} {said}{_then(stopped)}"), *_reruns(stopped)]))


def _then(stopped: Sequence[str]) -> str:
    if len(stopped) > 1:
        return f". It stopped {len(stopped):,} slots; to continue them:"
    return f"; `cronce rerun {stopped[0]}` continues its slot" if stopped else ""


def _reruns(stopped: Sequence[str]) -> Iterator[str]:
    if len(stopped) < 2:
        return
    yield from (f"  cronce rerun {key}" for key in stopped[-RERUNS_SHOWN:])
    if len(stopped) > RERUNS_SHOWN:
        yield f"  and {len(stopped) - RERUNS_SHOWN:,} earlier slots: --json lists all"


def _resolved(actor: Actor, options: argparse.Namespace, result: Any) -> EffectSeen:
    said = options.what, options.verdict, options.reason, result
    return act(actor, "resolve", lambda operator: review.resolve_effect(operator, *said, force=options.force))


# --- adopting: steps that are on record for a slot become effects on things -------------------------------------------


def _adopt(options: argparse.Namespace) -> None:
    if not (options.what and options.on and options.done):
        raise BadInput("write cronce status effects JOB --adopt 'charge:*' --on invoice --what charge")
    with acting(options) as actor:
        found = actor.node.do(adoptable(options.what, options.adopt, options.on, options.done))
        if not found and not actor.node.do(review.effects(options.what, 1, everything=True)).effects:
            actor.node.do(actor.operator.job(options.what))  # one that is not known is refused
        if not options.dry_run:
            actor.node.do(adopt(actor.operator, found))
    document = {"adopted": [_adopted_document(one) for one in found], "dry_run": options.dry_run}
    show(options, document, "\n".join(_adopted_page(found, options)))


def _adopted_document(one: Adoption) -> dict[str, object]:
    return {
        "effect": one.target.name,
        "state": one.state,
        "key": one.step.name,
        "steps": [step.name for step in one.steps],
        "adopted": not one.hindrance,
        "reason": one.hindrance or None,
    }


def _adopted_page(found: Sequence[Adoption], options: argparse.Namespace) -> Iterator[str]:
    if not found:
        yield f"no step of {options.what} has a key like {options.adopt}"
        return
    rows: list[list[Text]] = [[one.target.name, toned(one.state), one.step.name, _remark(one)] for one in found]
    yield table(["effect", "state", "its key stays", "remark"], rows, screen())
    adopted = sum(not one.hindrance for one in found)
    yield f"\n{adopted:,} would be adopted" if options.dry_run else f"\n{adopted:,} adopted"


def _remark(one: Adoption) -> str:
    if one.hindrance:
        return f"not adopted: {one.hindrance}"
    more = len(one.steps) - 1
    return f"done {one.times_done} times" if one.times_done > 1 else f"and {more} more in doubt" if more else ""
