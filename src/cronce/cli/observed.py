"""cronce observed: what ran twice where it was only observed, and what that cost."""

import argparse
import json
from datetime import timedelta
from typing import TYPE_CHECKING

from cronce.cli.looking import add_store, looking, nothing
from cronce.cli.table import Text, Toned, screen, table
from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError
from cronce.protocol.notices import Doubled, Observed
from cronce.runtime.flow import drive
from cronce.runtime.observe import ObservedSeen, observations
from cronce.schedule import parse_duration
from cronce.telling.notices import observed_document
from cronce.telling.words import away

if TYPE_CHECKING:
    from cronce.model import Instant

EXAMPLES = """
Functions under @cron.observe, jobs with mode="observe" and commands of `cronce exec --observe` run as before. Here is
how often they were called, how often that was once too often, and by whom last.

exit codes: 1 there were duplicates (with --since: as recently as that), else 0.

examples:
  cronce observed
  cronce observed newsletter --cost 0.12           twelve cents for each call that was too many
  cronce observed --since 1h                       for a monitoring system to call
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="of this function or job only")
    parser.add_argument("--cost", metavar="AMOUNT", help="what one call costs, in any currency")
    parser.add_argument("--since", metavar="SPAN", help="exit with 1 only for what is as recent")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    cost = None if options.cost is None else _cost(options.cost)
    since = None if options.since is None else parse_duration(options.since)
    with looking(options) as store:
        now, seen = drive(observations(options.name), store, SystemClock())
    if options.name is not None and not seen:
        raise CronceError(f"nothing is on record of {options.name}; `cronce observed` lists what is")
    if options.json:
        print(json.dumps({"observed": [_document(one, cost) for one in seen]}))
    elif seen:
        headers = ["name", "calls", "duplicates", *(["cost"] if cost is not None else []), "last duplicate"]
        print(table(headers, [_row(one, now, cost) for one in seen], screen()))
    else:
        print(nothing("nothing was observed", options))
    return int(any(_is_bad(one, now, since) for one in seen))


def _is_bad(one: ObservedSeen, now: "Instant", since: timedelta | None) -> bool:
    """What cannot be read is nothing that one could call clean."""
    if one.observed is None:
        return True
    last = _last(one.observed)
    return last is not None and (since is None or last.at >= now - since)


def _last(observed: Observed) -> Doubled | None:
    return max(observed.recent, key=lambda one: one.at, default=None)


def _cost(text: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = -1.0
    if not 0 <= cost < float("inf"):
        raise BadInput(f"--cost is what one call costs, such as 0.12, and this is {text[:40]!r}")
    return cost


def _total(observed: Observed, cost: float) -> float:
    return round(observed.doubled * cost, 6)


def _document(one: ObservedSeen, cost: float | None) -> dict[str, object]:
    observed = one.observed
    if observed is None:
        return {"name": one.name, "unreadable": True}
    return {**observed_document(one.name, observed), "cost": None if cost is None else _total(observed, cost)}


def _row(one: ObservedSeen, now: "Instant", cost: float | None) -> list[Text]:
    observed = one.observed
    if observed is None:
        return [one.name, Toned("unreadable", "bad"), "", *([] if cost is None else [""]), ""]
    last = _last(observed)
    duplicates = Toned(f"{observed.doubled:,}", "bad" if observed.doubled else "good")
    price = [] if cost is None else [f"{_total(observed, cost):,.2f}"]
    told = f"{away(last.at, now)} by {last.by}, {last.why}" if last else ""
    return [one.name, f"{observed.times:,}", duplicates, *price, told]
