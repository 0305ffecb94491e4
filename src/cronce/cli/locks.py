"""cronce locks: who holds which lock, and who held it before."""

import argparse
import json

from cronce.cli.documents import past_document
from cronce.cli.looking import add_store, looking, tone
from cronce.cli.table import Text, Toned, screen, table
from cronce.cli.words import iso
from cronce.clock import SystemClock
from cronce.errors import CronceError
from cronce.model import Instant, spell
from cronce.runtime.flow import drive
from cronce.runtime.look import LockSeen, locks

EXAMPLES = """
examples:
  cronce locks
  cronce locks reindex
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="this lock, with its history")
    add_store(parser)
    parser.epilog = EXAMPLES


def run(options: argparse.Namespace) -> int:
    with looking(options) as store:
        found = drive(locks(), store, SystemClock())
    if options.name is not None:
        found = [lock for lock in found if lock.name == options.name]
        if not found:
            raise CronceError(
                f"nobody ever held a lock {options.name[:60]!r}; `cronce locks` lists those that were held"
            )
    if options.json:
        print(json.dumps({"locks": [_document(lock) for lock in found]}))
    else:
        print(_page(found, with_history=options.name is not None))
    return 0


def _document(lock: LockSeen) -> dict[str, object]:
    record = lock.record
    held = record is not None and lock.state in ("held", "lapsed")
    return {
        "name": lock.name,
        "state": lock.state,
        "holder": record.holder if record and held else None,
        "since": iso(record.started) if record and held else None,
        "until": iso(lock.cell.until) if lock.state != "free" else None,
        "fence": str(lock.cell.fence) if held else None,
        "history": [past_document(past) for past in reversed(record.past)] if record else [],
    }


def _page(found: list[LockSeen], *, with_history: bool) -> str:
    if not found:
        return "nobody ever held a lock"
    on = screen()
    page = table(["lock", "state", "holder", "since", "until"], [_row(lock) for lock in found], on)
    past = [past for lock in found if lock.record for past in reversed(lock.record.past)]
    if with_history and past:
        rows: list[list[Text]] = [[one.holder, _spelled(one.started), _spelled(one.ended), one.end] for one in past]
        page += "\n\n" + table(["held before by", "from", "to", "end"], rows, on)
    return page


def _row(lock: LockSeen) -> list[Text]:
    state = Toned(lock.state, tone(lock.state))
    if lock.record is None or lock.state == "free":
        return [lock.name, state, "", "", ""]
    until = _spelled(lock.cell.until)
    if lock.state == "resting":
        return [lock.name, state, "", "", until]
    return [lock.name, state, lock.record.holder, _spelled(lock.record.started), until]


def _spelled(instant: Instant | None) -> str:
    return spell(instant) if instant else ""
