"""What is held by a lease, and who held it before: locks and leaders, each in its own words."""

import argparse
import json
from collections.abc import Callable

from cronce.cli.looking import add_store, looking, nothing, tone
from cronce.cli.table import Text, Toned, screen, table
from cronce.clock import SystemClock
from cronce.errors import CronceError
from cronce.model import Fence, Instant, spell
from cronce.protocol.record import Past
from cronce.runtime.flow import Flow, drive
from cronce.runtime.look import HeldSeen
from cronce.telling.documents import held_document
from cronce.value import NamedTuple


class Words(NamedTuple):
    """How a kind of lease is spoken of. `of` is what states and ends are called here, `fence` the column of fences, if
    there is one."""

    verb: str
    noun: str
    never: str
    holder: str
    before: str
    look: Callable[[], Flow[list[HeldSeen]]]
    fence: str = ""
    of: Callable[[str], str] = str


def add_arguments(parser: argparse.ArgumentParser, words: Words, example: str) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"this {words.noun}, with its history")
    add_store(parser)
    parser.epilog = f"\nexamples:\n  cronce {words.verb}\n  cronce {words.verb} {example}\n"


def run(options: argparse.Namespace, words: Words) -> int:
    with looking(options) as store:
        found = drive(words.look(), store, SystemClock())
    if options.name is not None:
        found = [one for one in found if one.name == options.name]
        if not found:
            raise CronceError(f"{words.never} {options.name[:60]!r}; `cronce {words.verb}` lists those that there were")
    if options.json:
        print(json.dumps({words.verb: [held_document(one, words.of) for one in found]}))
    else:
        page = _page(found, words, with_history=options.name is not None)
        print(page if found else nothing(words.never, options))
    return 0


def _page(found: list[HeldSeen], words: Words, *, with_history: bool) -> str:
    on = screen()
    columns = [words.noun, "state", words.holder, *_fence(words.fence, words), "since", "until"]
    page = table(columns, [_row(one, words) for one in found], on)
    past = [past for one in found if one.record for past in reversed(one.record.past)]
    if with_history and past:
        columns = [words.before, *_fence(words.fence, words), "from", "to", "end"]
        page += "\n\n" + table(columns, [_past_row(one, words) for one in past], on)
    return page


def _row(one: HeldSeen, words: Words) -> list[Text]:
    state = Toned(words.of(one.state), tone(one.state))
    none = _fence("", words)
    if one.record is None or one.state == "free":
        return [one.name, state, "", *none, "", ""]
    until = _spelled(one.cell.until)
    if one.state == "resting":
        return [one.name, state, "", *none, "", until]
    fence = _fence(one.cell.fence, words)
    return [one.name, state, one.record.holder, *fence, _spelled(one.record.started), until]


def _past_row(past: Past, words: Words) -> list[Text]:
    fence = _fence(past.fence, words)
    return [past.holder, *fence, _spelled(past.started), _spelled(past.ended), words.of(past.end)]


def _fence(fence: Fence | str | None, words: Words) -> list[str]:
    return [str(fence or "")] if words.fence else []


def _spelled(instant: Instant | None) -> str:
    return spell(instant) if instant else ""
