"""What a person asks for. cronce pause and resume: a job, all jobs, or a scheduler, which is called draining. cronce
trigger, rerun and cancel: single runs, or a backfill of many, and waiting for their end."""

import argparse
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import count
from typing import Final, NamedTuple

from cronce.cli import Arguments, add_arguments, pasteable, refuse_outside, say
from cronce.cli.session import ACT_ARGUMENTS, BY_ARGUMENT, STORE_AND_JSON, Actor, act, acting, read_option
from cronce.cli.terminal import bar, show
from cronce.errors import BadInput, CronceError
from cronce.model import Slot, job_cell
from cronce.protocol.commands import Asked, Closed
from cronce.runtime.call import OLDER
from cronce.runtime.effects.liveness import RetryRefused
from cronce.runtime.operations import (
    BACKFILL_BATCH,
    MOST_BACKFILLED,
    RequestedRun,
    StandingOrder,
    Stretch,
    ask_to_backfill,
    backfill_parts,
    backfill_stretch,
    drain_cell,
)
from cronce.runtime.queries import HolderSeen, RunSeen, halted_and_carried, holders, load, seen_job, slot_named
from cronce.runtime.run_lists import runs
from cronce.telling.documents import act_document, cancelled_document, paused_document, resumed_document, run_document
from cronce.telling.words import by_whom, counted, safe

PAUSE_EPILOG = """
Runs in progress go on: `cronce cancel SLOT` stops one. Slots that fall due during the pause do not run afterwards.

--scheduler stops a process from taking new work: its runs go on to their end, and the process stays alive. --label
does this for all schedulers with this label, also for those that start later.

examples:
  cronce pause order-sync --reason 'the shop is being moved'
  cronce pause --all                                            every job
  cronce pause --scheduler web-7:4711:1f2e3d
  cronce pause --label colour=blue --reason 'green takes over'
"""
RESUME_EPILOG = """
Slots that fell due during the pause do not run now; `cronce rerun JOB --from … --to …` runs them. --all does
not resume jobs that were paused one by one.

examples:
  cronce resume order-sync
  cronce resume --all
  cronce resume --label colour=blue
"""


PAUSED_ARGUMENTS: Final = {
    "[JOB...]": "these jobs",
    "--all": "every job",
    "--scheduler HOLDER": "one scheduler, as `cronce status` names it",
    "--label NAME=VALUE": "all schedulers with this label",
}
PAUSE_ARGUMENTS: Final[Arguments] = {**PAUSED_ARGUMENTS, **ACT_ARGUMENTS, **STORE_AND_JSON}
RESUME_ARGUMENTS: Final = {**PAUSED_ARGUMENTS, **BY_ARGUMENT, **STORE_AND_JSON}


def run_pause(options: argparse.Namespace) -> None:
    if _means_scheduler(options):
        _drain(options, off=False)
        return
    with acting(options) as actor:
        _find_jobs(actor, options.job)
        done = {name: actor.node.do(actor.operator.pause(name, options.reason)) for name in options.job}
        everything = actor.node.do(actor.operator.pause_all(options.reason)) if options.all else None
        told = [{"job": name, **paused_document(one)} for name, one in done.items()]
        acts = {} if options.json else {None: everything} if everything else done
        lines = [safe(line) for name, one in acts.items() for line in _paused(name, one, actor)]
    show(options, {"jobs": told, "all": paused_document(everything) if everything else None}, "\n".join(lines))


def _paused(name: str | None, stands: StandingOrder, actor: Actor) -> list[str]:
    """That it is paused, and what runs of it all the same."""
    whom = name or "everything"
    if not stands.new:
        return [f"{whom} was already paused {by_whom(stands.act)}"]
    running = [one.slot.key for one in actor.node.do(runs(name, "running", RUNS_TOLD)) if not one.lapsed]
    return [
        f"{whom} is paused {by_whom(stands.act)}",
        *(f"  {key} goes on; `cronce cancel {key}` stops it" for key in running),
    ]


def run_resume(options: argparse.Namespace) -> None:
    if _means_scheduler(options):
        _drain(options, off=True)
        return
    with acting(options) as actor:
        _find_jobs(actor, options.job)
        done = {name: actor.node.do(actor.operator.resume(name)) for name in options.job}
        everything = actor.node.do(actor.operator.resume_all()) if options.all else None
    told = [{"job": name, **resumed_document(act)} for name, act in done.items()]
    acts = {"everything": everything} if options.all else done
    lines = [
        safe(f"{name} is resumed; it was paused {by_whom(act)}" if act else f"{name} was not paused")
        for name, act in acts.items()
    ]
    show(options, {"jobs": told, "all": resumed_document(everything) if options.all else None}, "\n".join(lines))


def _means_scheduler(options: argparse.Namespace) -> bool:
    said = bool(options.job), bool(options.all), bool(options.scheduler or options.label)
    if sum(said) != 1:
        raise BadInput("name one or more jobs, or give --all; or name a scheduler with --scheduler or --label")
    return said[2]


def _find_jobs(actor: Actor, names: list[str]) -> None:
    """All of them, before any is changed."""
    for name in names:
        actor.node.do(actor.operator.job(name))


# --- schedulers -------------------------------------------------------------------------------------------------------


DRAIN_ARGUMENTS: Final[Arguments] = {
    "scheduler: [HOLDER]": "one scheduler, as `cronce status` names it",
    "--label NAME=VALUE": "all schedulers with this label",
    "--off": "let them take new work again",
    **ACT_ARGUMENTS,
    **STORE_AND_JSON,
}
"""As `cronce pause --scheduler HOLDER` was spelled before, and its `resume`."""


def run_drain(options: argparse.Namespace) -> None:
    _drain(options, off=options.off)


def _drain(options: argparse.Namespace, *, off: bool) -> None:
    cell = drain_cell(options.scheduler, options.label)
    with acting(options) as actor:
        _, live = actor.node.do(holders())
        concerned = [one.holder.holder for one in live if one.concerned(cell)]
        if options.scheduler and not off and not concerned:
            raise CronceError(_no_such_scheduler(options.scheduler, live))
        stands = None if off else actor.node.do(actor.operator.drain(cell, options.reason))
        was = actor.node.do(actor.operator.undrain(cell)) if off else None
    drained = act_document(stands.act) if stands else None
    changed = stands.new if stands else was is not None
    if stands:
        told = f"takes no new work: {'paused' if stands.new else 'it was already paused'} {by_whom(stands.act)}"
    else:
        told = f"takes new work again; it was paused {by_whom(was)}" if was else "was not paused"
    lines = [f"{options.scheduler or options.label} {told}"]
    lines += [f"  {name}" for name in concerned or ["no live scheduler"]]
    show(options, {"drained": drained, "changed": changed, "holders": concerned}, "\n".join(map(safe, lines)))


def _no_such_scheduler(holder: str, live: list[HolderSeen]) -> str:
    names = ", ".join(one.holder.holder for one in live) or "none"
    return f"no live scheduler is called {holder[:60]!r}; live: {names}"


WAIT_POLL: Final = 0.25
"""Seconds between two looks at what is waited for."""

ASK_EVERY: Final = 8
"""At each so many looks it is asked who would run it."""

TRIGGER_EPILOG = """
Prints the key of the run; a scheduler starts it within two seconds. The run waits for its turn.

examples:
  cronce trigger billing --payload '{"month": "2026-03"}' --wait
  cronce trigger billing --id march        the same id starts only one run
"""
RERUN_EPILOG = """
With a slot: prints the key of the new run. The run uses the slot's effect keys, so effects that are done are not
repeated; --fresh repeats them, except effects on things. While a rerun of the slot is open, a second request starts
nothing. A lost slot runs again when its process is known to be dead. If you have checked that yourself, use --force.

With a job, --from and --to: a backfill. Each slot from --from up to, not including, --to gets one run, unless it has
succeeded or is open. Repeating the command adds no runs. The command waits for the runs to end. Ctrl-C ends only the
waiting: the same command waits again, and --cancel drops the runs that have not started. A day begins at midnight in
the job's time zone.

examples:
  cronce rerun billing@2026-03-29T01:00:00Z
  cronce rerun billing@2026-03-29T01:00:00Z --fresh --wait
  cronce rerun billing --from 2026-03-01 --to 2026-03-08 --dry-run
  cronce rerun billing --from 2026-03-01T00:00:00Z --to 2026-03-01T06:00:00Z
"""
CANCEL_EPILOG = """
A slot that is running: its holder gets the request within seconds, stops the run if it can, and does not retry it. A
slot that is due, waiting or retrying is closed as skipped. A closed slot stays as it is.

examples:
  cronce cancel billing@2026-03-29T01:00:00Z --reason 'wrong month'
"""


# --- waiting for runs -------------------------------------------------------------------------------------------------


class WaitResult(NamedTuple):
    """What came of it: the runs that are over, and why the others were not waited for."""

    over: list[RunSeen]
    left: int = 0
    obstacle: str = ""

    @property
    def code(self) -> int:
        return 0 if not self.obstacle and all(succeeded(one) for one in self.over) else 1


def succeeded(one: RunSeen) -> bool:
    return one.record is not None and one.record.succeeded


def wait_for(actor: Actor, slots: Sequence[Slot], look: Callable[[Sequence[RunSeen], int], None]) -> WaitResult:
    """Wait until these runs of one job are over, unless no process can run them. Each time, `look` gets the runs that
    were seen and how many are over."""
    left, over, looks = deque(slots), list[RunSeen](), count()
    while left:
        part = [left.popleft() for _ in range(min(BACKFILL_BATCH, len(left)))]
        found = [one for one in actor.node.do(actor.operator.look(part)) if one is not None]
        over += [one for one in found if _is_over(one)]
        going_on = [one for one in found if not _is_over(one)]
        left.extend(one.slot for one in going_on)
        look(found, len(over))
        running = any(one.record and one.record.is_running for one in going_on)
        asks = bool(left) and not running and next(looks) % ASK_EVERY == 0
        obstacle = _obstacle(actor, left[0].job, len(left)) if asks else ""
        if obstacle:
            return WaitResult(over, len(left), obstacle)
        time.sleep(WAIT_POLL if going_on else 0)
    return WaitResult(over)


def _is_over(one: RunSeen) -> bool:
    return one.record is None or one.record.is_closed


def _obstacle(actor: Actor, name: str, many: int = 1) -> str:
    """Why no process runs the job's due slots now; empty if one does."""
    job = actor.node.do(actor.operator.job(name))
    halted = actor.operator.ledger.know.halted
    if halted:
        return f"everything is paused {by_whom(halted)}"
    if job and job.paused:
        return f"{name} is paused {by_whom(job.paused)}"
    if name in actor.node.do(halted_and_carried())[1]:
        return ""
    (cell,) = actor.node.do(load([job_cell(name)])).cells
    if not cell.version or seen_job(cell).is_scheduled:
        return f"no live scheduler runs {name}; start `cronce run app:cron`"
    run = "runs it" if many == 1 else f"runs them, at most {OLDER} at a time"
    return f"{NEXT_CALL} of {name} {run}"


NEXT_CALL: Final = "the next call"
"""How it begins where calls from outside run the job: all is well, and it takes until then."""


# --- asking for runs --------------------------------------------------------------------------------------------------


WAIT_ARGUMENT: Final = {"--wait": "wait until the run ends: exit 0 if it succeeded, else 1"}
TRIGGER_ARGUMENTS: Final[Arguments] = {
    "JOB": "which job",
    "--payload JSON": "what the run is given: JSON of up to 64 KB",
    "--id ID": ("", "an id for the run: a request with the same id starts nothing new"),
    **WAIT_ARGUMENT,
    **BY_ARGUMENT,
    **STORE_AND_JSON,
}
RERUN_ARGUMENTS: Final = {
    "slot: SLOT|JOB": "a slot such as billing@2026-03-29T01:00:00Z; or a job, with --from and --to",
    "--fresh": "also repeat the slot's effects, under a new key; effects on things are not repeated",
    "--force": "rerun even if the process that ran the slot may still be alive; check that first",
    **WAIT_ARGUMENT,
}
BACKFILL_RANGE: Final[Arguments] = {
    "start: --from WHEN": "the first instant or day",
    "end: --to WHEN": "the instant or day to stop at, not included",
    "--most N": (MOST_BACKFILLED, f"at most this many slots (default {MOST_BACKFILLED:,})"),
}
BACKFILL_WAYS: Final = {
    "--dry-run": "only show how many would run; request nothing",
    "--no-wait": "request the runs, and do not wait for them to end",
    "--cancel": "cancel runs of an earlier backfill that have not started",
}
CANCEL_ARGUMENTS: Final[Arguments] = {
    "SLOT...": "a slot such as billing@2026-03-29T01:00:00Z",
    **ACT_ARGUMENTS,
    **STORE_AND_JSON,
}


def run_trigger(options: argparse.Namespace) -> int:
    payload = None if options.payload is None else read_option("--payload", options.payload)
    with acting(options) as actor:
        return _tell_request(actor, actor.node.do(actor.operator.trigger(options.job, payload, options.id)), options)


def add_rerun_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a backfill of many slots")
    add_arguments(group, BACKFILL_RANGE)
    add_arguments(group.add_mutually_exclusive_group(), BACKFILL_WAYS)
    add_arguments(parser, BY_ARGUMENT | STORE_AND_JSON)


def run_rerun(options: argparse.Namespace) -> int:
    if "@" not in options.slot or options.start or options.end:
        return _run_backfill(options)
    _refuse_day(options.slot)
    slot = slot_named(options.slot)
    with acting(options) as actor:
        (before,) = actor.node.do(actor.operator.look([slot]))
        try:
            asked = act(actor, "rerun", lambda operator: operator.rerun(slot, fresh=options.fresh, force=options.force))
        except RetryRefused as error:
            raise CronceError(safe(str(error))) from None
        if asked.new and before is not None and succeeded(before) and not options.json:
            say(options.verb, f"{slot.key} had succeeded; it runs again")
        return _tell_request(actor, asked, options)


def _refuse_day(text: str) -> None:
    """A day may have many slots: it is a time range, and not a slot without a time zone."""
    job, _, when = text.partition("@")
    try:
        day = date.fromisoformat(when)
    except ValueError:
        return
    upto = day + timedelta(days=1) if day < date.max else day
    raise BadInput(
        f"{text[:80]!r} is a day, not a slot. Give one slot, such as {job[:60]}@{day}T01:00:00Z, or the day as a time"
        f" range: `cronce rerun {job[:60]} --from {day} --to {upto}`"
    )


def _tell_request(actor: Actor, request: RequestedRun, options: argparse.Namespace) -> int:
    """Tell of a run that was asked for, and of its end if that is waited for."""
    key = request.slot.key
    if not options.json:
        print(key, flush=True)
        if not request.new:
            say(options.verb, "it was already requested")
    waited = wait_for(actor, [request.slot], _show_progress) if options.wait else None
    if not options.wait and (obstacle := _before(actor, request.slot)):
        say(options.verb, obstacle if obstacle.startswith(NEXT_CALL) else f"it will not start yet: {obstacle}")
    if options.json:
        ended = run_document(waited.over[0]) if waited and waited.over else None
        print(json.dumps({"key": key, "new": request.new, "by": actor.operator.by, "run": ended}))
    elif waited is not None:
        print(safe(_end(waited)))
    return waited.code if waited else 0


def _before(actor: Actor, slot: Slot) -> str:
    """Why no process will run it; empty if one will, or if it is over."""
    (one,) = actor.node.do(actor.operator.look([slot]))
    return _obstacle(actor, slot.job) if one is not None and not _is_over(one) else ""


def _show_progress(found: Sequence[RunSeen], _over: int) -> None:
    for one in found:
        if one.record and one.record.progress:
            bar(str(one.record.state), *one.record.progress)


def _end(waited: WaitResult) -> str:
    if waited.obstacle:
        return f"it has not started: {waited.obstacle}"
    (one,) = waited.over
    reason = one.record.reason if one.record else one.trouble
    return f"{one.shown}{f': {reason}' if reason else ''}"


def run_cancel(options: argparse.Namespace) -> None:
    slots = [slot_named(text) for text in options.slot]
    with acting(options) as actor:
        done = {slot.key: _cancel(actor, slot, options.reason) for slot in slots}
    document = {"slots": [{"slot": key, **cancelled_document(reply)} for key, reply in done.items()]}
    show(options, document, "\n".join(safe(f"{key} {_cancelled(reply)}") for key, reply in done.items()))


def _cancel(actor: Actor, slot: Slot, reason: str) -> Asked | Closed:
    return act(actor, "cancel", lambda operator: operator.cancel(slot, reason))


def _cancelled(reply: Asked | Closed) -> str:
    if isinstance(reply, Asked):
        return "is running; its holder is asked to stop it"
    nothing = "" if reply.reason.startswith("cancelled by ") else "; nothing was cancelled"
    return f"is closed: {reply.outcome}{f', {reply.reason}' if reply.reason else ''}{nothing}"


# --- a backfill -------------------------------------------------------------------------------------------------------

RUNS_TOLD = 5
SLOTS_LISTED: Final = 100
MAX_BACKFILLED: Final = 1_000_000
WAIT_HINT = "the runs stay requested: the same command waits for them again, --cancel drops them"


def _run_backfill(options: argparse.Namespace) -> int:
    job = options.slot
    if not (options.start and options.end) or "@" in job:
        raise BadInput(
            f"give one slot, such as {job.partition('@')[0][:60]}@2026-03-29T01:00:00Z (`cronce runs` lists them), or a"
            " job with --from WHEN and --to WHEN"
        )
    refuse_outside("--most", options.most, MAX_BACKFILLED)
    with acting(options) as actor:
        settles = not (options.dry_run or options.cancel)
        asked_for = (job, options.start, options.end, options.most)
        stretch = actor.node.do(backfill_stretch(actor.operator, *asked_for, settles=settles))
        if not options.json:
            print(_surveyed(job, stretch), flush=True)
        try:
            asked, waited = _backfill(actor, stretch, options)
            obstacle = _obstacle(actor, job, len(asked)) if asked and waited is None else ""
        except KeyboardInterrupt:
            print(f"\ncronce rerun: {WAIT_HINT}", file=sys.stderr)
            return 130
    if options.json:
        print(json.dumps(_document(job, stretch, asked, waited)))
    else:
        lines = _ended(waited, stretch) if waited else _not_waited(job, stretch, asked, obstacle, options)
        print(pasteable("\n".join(map(safe, lines))))
    if waited is not None and waited.obstacle.startswith(NEXT_CALL):
        waited = waited._replace(obstacle="")
    return 1 if waited is not None and (waited.code or stretch.ended) else 0


def _backfill(actor: Actor, stretch: Stretch, options: argparse.Namespace) -> tuple[list[Slot], WaitResult | None]:
    """The runs that were asked for, and what became of all that were, if that was waited for."""
    if options.dry_run:
        return [], None
    if options.cancel:
        _call_off(actor, stretch.asked)
        return [], None
    asked = _ask(actor, stretch.wanted)
    if options.no_wait:
        return asked, None
    slots = [*stretch.asked, *asked]
    return asked, wait_for(actor, slots, lambda _surveyed, over: bar("running", over, len(slots)))


def _ask(actor: Actor, wanted: Sequence[Slot]) -> list[Slot]:
    asked: list[Slot] = []
    for part in backfill_parts(wanted):
        asked += actor.node.do(ask_to_backfill(actor.operator, part))
        bar("asking", len(asked), len(wanted))
    return asked


def _call_off(actor: Actor, slots: Sequence[Slot]) -> None:
    for place, slot in enumerate(slots, 1):
        actor.node.do(actor.operator.cancel(slot))
        bar("cancelling", place, len(slots))


def _counts(stretch: Stretch) -> dict[str, int]:
    return {
        "wanted": len(stretch.wanted),
        "succeeded": stretch.succeeded,
        "open": stretch.busy,
        "ended": len(stretch.ended),
    }


def _surveyed(job: str, stretch: Stretch) -> str:
    slots = counted(sum(_counts(stretch).values()), "slot")
    return (
        f"{job}: {slots}; {stretch.succeeded:,} succeeded, {stretch.busy:,} open,"
        f" {len(stretch.ended):,} failed in an earlier backfill; {len(stretch.wanted):,} to run"
    )


def _not_waited(
    job: str, stretch: Stretch, asked: Sequence[Slot], obstacle: str, options: argparse.Namespace
) -> list[str]:
    if options.dry_run:
        more = len(stretch.wanted) - SLOTS_LISTED
        slots = [f"  {slot.key}" for slot in stretch.wanted[:SLOTS_LISTED]] + ([f"  and {more:,} more"] * (more > 0))
        return [*slots, "nothing was requested: this was a dry run"]
    if options.cancel:
        return [f"{counted(len(stretch.asked), 'run')} cancelled"]
    then = [obstacle if obstacle.startswith(NEXT_CALL) else f"they will not start yet: {obstacle}"] if obstacle else []
    return [f"{counted(len(asked), 'run')} requested; `cronce runs {job}` lists them", *then]


def _ended(waited: WaitResult, stretch: Stretch) -> list[str]:
    outcomes = Counter(one.shown for one in waited.over)
    lines = [", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))] if outcomes else []
    if waited.obstacle:
        lines.append(f"{waited.left:,} have not started: {waited.obstacle}")
    in_vain = [*stretch.ended, *(one for one in waited.over if not succeeded(one))]
    lines += [
        f"  {one.slot.key} {one.shown}; `cronce rerun {one.slot.key}` runs it again" for one in in_vain[:RUNS_TOLD]
    ]
    return (
        [*lines, f"  and {len(in_vain) - RUNS_TOLD:,} more"] if len(in_vain) > RUNS_TOLD else lines or ["nothing to do"]
    )


def _document(job: str, stretch: Stretch, asked: Sequence[Slot], waited: WaitResult | None) -> dict[str, object]:
    runs = [run_document(one) for one in waited.over] if waited else None
    return {
        "job": job,
        "slots": _counts(stretch),
        "asked": [slot.key for slot in asked],
        "runs": runs,
        "obstacle": waited.obstacle or None if waited else None,
    }
