"""cronce drain: let schedulers claim nothing more, while they live."""

import argparse
import json

from cronce.cli.acting import acting, add_act
from cronce.errors import CronceError
from cronce.protocol.record import Act
from cronce.runtime.hand.acts import Stands, drain_cell
from cronce.runtime.holders import HolderSeen, holders
from cronce.telling.documents import act_document
from cronce.telling.words import by_whom, safe

EXAMPLES = """
What they run goes on to its end; they stay alive, and serve whatever else they serve. A label holds for processes that
start later, too. --off undoes it.

examples:
  cronce drain web-7:4711:1f2e3d
  cronce drain --label colour=blue --reason 'green takes over'
  cronce drain --label colour=blue --off
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("holder", nargs="?", metavar="HOLDER", help="one scheduler, as `cronce holders` names it")
    parser.add_argument("--label", metavar="NAME=VALUE", help="all schedulers with this label")
    parser.add_argument("--off", action="store_true", help="let them claim again")
    add_act(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    cell = drain_cell(options.holder, options.label)
    with acting(options) as actor:
        _, live = actor.desk.do(holders())
        concerned = [one.holder.holder for one in live if one.concerned(cell)]
        if options.holder and not options.off and not concerned:
            raise CronceError(_nobody(options.holder, live))
        stands = None if options.off else actor.desk.do(actor.hand.drain(cell, options.reason))
        was = actor.desk.do(actor.hand.undrain(cell)) if options.off else None
    if options.json:
        drained = act_document(stands.act) if stands else None
        changed = stands.new if stands else was is not None
        print(json.dumps({"drained": drained, "changed": changed, "holders": concerned}))
    else:
        whom = options.holder or options.label
        told = _drained(whom, stands) if stands else _undrained(whom, was)
        print("\n".join([safe(told), *(safe(f"  {name}") for name in concerned or ["no scheduler that lives now"])]))
    return 0


def _drained(whom: str, stands: Stands) -> str:
    return f"{whom} {'is drained' if stands.new else 'was drained before,'} {by_whom(stands.act)}"


def _undrained(whom: str, was: Act | None) -> str:
    return f"{whom} may claim again; it was drained {by_whom(was)}" if was else f"{whom} was not drained"


def _nobody(holder: str, live: list[HolderSeen]) -> str:
    names = ", ".join(one.holder.holder for one in live) or "none"
    return f"no scheduler that lives is called {holder[:60]!r}; there are: {names}"
