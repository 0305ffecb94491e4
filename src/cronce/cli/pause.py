"""cronce pause, resume and drain: no slot of a job is granted, or schedulers claim nothing, until it is undone."""

import argparse
import json

from cronce.cli.session import Actor, acting, add_act
from cronce.cli.terminal import show
from cronce.errors import BadInput, CronceError
from cronce.protocol.record import Act
from cronce.runtime.operations import Stands, drain_cell
from cronce.runtime.queries import HolderSeen, holders, runs
from cronce.telling.documents import act_document, paused_document, resumed_document
from cronce.telling.words import by_whom, safe

SHOWN = 5
PAUSE_EPILOG = """
What runs goes on: `cronce cancel SLOT` stops it. What falls due meanwhile does not run when the job is resumed.

examples:
  cronce pause order-sync --reason 'the shop is being moved'
  cronce pause --all                                            the kill switch
"""
RESUME_EPILOG = """
What fell due while it was paused does not run now; `cronce backfill` runs it after all. Under --all, jobs that were
paused one by one stay so.

examples:
  cronce resume order-sync
  cronce resume --all
"""
DRAIN_EPILOG = """
What they run goes on to its end; they stay alive, and serve whatever else they serve. A label holds for processes that
start later, too. --off undoes it.

examples:
  cronce drain web-7:4711:1f2e3d
  cronce drain --label colour=blue --reason 'green takes over'
  cronce drain --label colour=blue --off
"""


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_jobs(parser)
    add_act(parser)


def run_pause(options: argparse.Namespace) -> None:
    _refuse_unclear(options)
    with acting(options) as actor:
        _find_jobs(actor, options.job)
        done = {name: actor.desk.do(actor.hand.pause(name, options.reason)) for name in options.job}
        everything = actor.desk.do(actor.hand.pause_all(options.reason)) if options.all else None
        if options.json:
            told = [{"job": name, **paused_document(one)} for name, one in done.items()]
            print(json.dumps({"jobs": told, "all": paused_document(everything) if everything else None}))
        else:
            acts = {None: everything} if everything else done
            print("\n".join(safe(line) for name, one in acts.items() for line in _paused(name, one, actor)))


def _paused(name: str | None, stands: Stands, actor: Actor) -> list[str]:
    """That it is paused, and what runs of it all the same."""
    whom = name or "everything"
    if not stands.new:
        return [f"{whom} was paused before, {by_whom(stands.act)}"]
    running = [one.slot.key for one in actor.desk.do(runs(name, "running", SHOWN))]
    return [
        f"{whom} is paused {by_whom(stands.act)}",
        *(f"  {key} goes on; `cronce cancel {key}` stops it" for key in running),
    ]


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    _add_jobs(parser)
    add_act(parser, reason=False)


def run_resume(options: argparse.Namespace) -> None:
    _refuse_unclear(options)
    with acting(options) as actor:
        _find_jobs(actor, options.job)
        done = {name: actor.desk.do(actor.hand.resume(name)) for name in options.job}
        everything = actor.desk.do(actor.hand.resume_all()) if options.all else None
    told = [{"job": name, **resumed_document(act)} for name, act in done.items()]
    acts = {"everything": everything} if options.all else done
    show(
        options,
        {"jobs": told, "all": resumed_document(everything) if options.all else None},
        "\n".join(safe(_resumed(name, act)) for name, act in acts.items()),
    )


def _resumed(name: str, act: Act | None) -> str:
    return f"{name} is resumed; it was paused {by_whom(act)}" if act else f"{name} was not paused"


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="*", metavar="JOB", help="these jobs")
    parser.add_argument("--all", action="store_true", help="everything, whatever its name")


def _refuse_unclear(options: argparse.Namespace) -> None:
    if bool(options.job) == options.all:
        raise BadInput("name the jobs that are meant, or say --all")


def _find_jobs(actor: Actor, names: list[str]) -> None:
    """All of them, before anything is done to one."""
    for name in names:
        actor.desk.do(actor.hand.job(name))


# --- schedulers -------------------------------------------------------------------------------------------------------


def add_drain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("holder", nargs="?", metavar="HOLDER", help="one scheduler, as `cronce holders` names it")
    parser.add_argument("--label", metavar="NAME=VALUE", help="all schedulers with this label")
    parser.add_argument("--off", action="store_true", help="let them claim again")
    add_act(parser)


def run_drain(options: argparse.Namespace) -> None:
    cell = drain_cell(options.holder, options.label)
    with acting(options) as actor:
        _, live = actor.desk.do(holders())
        concerned = [one.holder.holder for one in live if one.concerned(cell)]
        if options.holder and not options.off and not concerned:
            raise CronceError(_nobody(options.holder, live))
        stands = None if options.off else actor.desk.do(actor.hand.drain(cell, options.reason))
        was = actor.desk.do(actor.hand.undrain(cell)) if options.off else None
    drained = act_document(stands.act) if stands else None
    changed = stands.new if stands else was is not None
    whom = options.holder or options.label
    told = _drained(whom, stands) if stands else _undrained(whom, was)
    text = "\n".join([safe(told), *(safe(f"  {name}") for name in concerned or ["no scheduler that lives now"])])
    show(options, {"drained": drained, "changed": changed, "holders": concerned}, text)


def _drained(whom: str, stands: Stands) -> str:
    return f"{whom} {'is drained' if stands.new else 'was drained before,'} {by_whom(stands.act)}"


def _undrained(whom: str, was: Act | None) -> str:
    return f"{whom} may claim again; it was drained {by_whom(was)}" if was else f"{whom} was not drained"


def _nobody(holder: str, live: list[HolderSeen]) -> str:
    names = ", ".join(one.holder.holder for one in live) or "none"
    return f"no scheduler that lives is called {holder[:60]!r}; there are: {names}"
