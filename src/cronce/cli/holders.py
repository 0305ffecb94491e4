"""cronce holders, beat, locks and leaders: the schedulers that are alive, a sign of life of one that is not ours, and
who holds or held what by a lease."""

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import Final

from cronce.cli.session import TONES, acting, add_store, looking, nothing, show_table
from cronce.cli.terminal import Text, Toned, screen, show, table
from cronce.clock import SystemClock
from cronce.errors import CronceError
from cronce.model import Instant, check_name, spell
from cronce.protocol.record import Past
from cronce.runtime.background import SignOfLife, forget_beats, write_notes
from cronce.runtime.flow import Flow
from cronce.runtime.queries import HeldSeen, HolderSeen, holders, leaders, locks
from cronce.schedule import format_duration
from cronce.telling.documents import held_document, holder_document, leader_says
from cronce.telling.words import ago, by_whom
from cronce.value import NamedTuple

LOCKS_EPILOG: Final = """
examples:
  cronce locks
  cronce locks reindex
"""
LEADERS_EPILOG: Final = """
examples:
  cronce leaders
  cronce leaders indexer
"""

# --- schedulers -------------------------------------------------------------------------------------------------------


add_holders_arguments = add_store


def run_holders(options: argparse.Namespace) -> None:
    with looking(options) as desk:
        now, live = desk.do(holders())
    headers = ["holder", "role", "workers", "labels", "since", "version", "last beat", "state"]
    document = {"holders": [holder_document(one) for one in live]}
    show_table(options, document, headers, [_holder_row(one, now) for one in live], "no scheduler is alive")


def _holder_row(one: HolderSeen, now: Instant) -> list[Text]:
    holder = one.holder
    labels = " ".join(f"{name}={value}" for name, value in sorted(holder.labels.items()))
    since, beat = spell(holder.since), ago(one.beat, now)
    return [holder.holder, holder.role, str(holder.workers), labels, since, holder.cronce, beat, _state(one)]


def _state(one: HolderSeen) -> Toned:
    if one.drained is not None:
        return Toned(f"drained {by_whom(one.drained)}", "odd")
    return Toned("draining", "odd") if one.holder.draining else Toned("at work", "busy")


# --- locks and leaders ------------------------------------------------------------------------------------------------


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


def _add_arguments(parser: argparse.ArgumentParser, words: Words) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"this {words.noun}, with its history")
    add_store(parser)


def _run(options: argparse.Namespace, words: Words) -> None:
    with looking(options) as desk:
        found = desk.do(words.look())
    if options.name is not None:
        found = [one for one in found if one.name == options.name]
        if not found:
            raise CronceError(f"{words.never} {options.name[:60]!r}; `cronce {words.verb}` lists those that there were")
    page = _page(found, words, with_history=options.name is not None) if found else nothing(words.never, options)
    show(options, {words.verb: [held_document(one, words.of) for one in found]}, page)


def _page(found: list[HeldSeen], words: Words, *, with_history: bool) -> str:
    headers = [words.noun, "state", words.holder, words.fence, "since", "until"]
    page = _table(headers, [_row(one, words) for one in found])
    past = [past for one in found if one.record for past in reversed(one.record.past)]
    if with_history and past:
        headers = [words.before, words.fence, "from", "to", "end"]
        page += "\n\n" + _table(headers, [_past_row(one, words) for one in past])
    return page


def _table(headers: list[str], rows: list[list[Text]]) -> str:
    """Without the column of fences, where it has no header."""
    shown = [[cell for header, cell in zip(headers, row, strict=True) if header] for row in rows]
    return table(list(filter(None, headers)), shown, screen())


def _row(one: HeldSeen, words: Words) -> list[Text]:
    state = Toned(words.of(one.state), TONES.get(one.state))
    if one.record is None or one.state == "free":
        return [one.name, state, "", "", "", ""]
    until = _spelled(one.cell.until)
    if one.state == "resting":
        return [one.name, state, "", "", "", until]
    return [one.name, state, one.record.holder, str(one.cell.fence or ""), _spelled(one.record.started), until]


def _past_row(past: Past, words: Words) -> list[Text]:
    return [past.holder, str(past.fence or ""), _spelled(past.started), _spelled(past.ended), words.of(past.end)]


def _spelled(instant: Instant | None) -> str:
    return spell(instant) if instant else ""


LOCKS: Final = Words("locks", "lock", "nobody ever held a lock", "holder", "held before by", locks)
LEADERS: Final = Words(
    "leaders", "group", "nobody ever led a group", "leader", "led before by", leaders, "term", leader_says
)
add_locks_arguments, run_locks = partial(_add_arguments, words=LOCKS), partial(_run, words=LOCKS)
add_leaders_arguments, run_leaders = partial(_add_arguments, words=LEADERS), partial(_run, words=LEADERS)


# --- a sign of life ---------------------------------------------------------------------------------------------------

BEAT_EPILOG = """
Let the scheduler that is to be watched start it at every interval, beside its jobs. Who watches (`cronce watch`) raises
an alert when it was silent for two intervals, and when it beats more than twice within one: there are two of it.

examples:
  * * * * *  cronce beat web-1-cron                  a line of its own in the crontab
  */5 * * * *  cronce beat nightly --every 5m        by its own schedule
  cronce beat web-1-cron --remove                    it was taken down on purpose
"""


def add_beat_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the scheduler's name, the same at each beat")
    parser.add_argument("--every", default="1m", metavar="SPAN", help="how often it beats (default: 1m)")
    parser.add_argument("--remove", action="store_true", help="expect no more of it")
    add_store(parser)
    parser.set_defaults(by=None)


def run_beat(options: argparse.Namespace) -> None:
    """Quiet, as all that cron starts should be."""
    check_name(options.name)
    clock = SystemClock()
    beat = SignOfLife(options.name, options.every, clock.boot())
    with acting(options, make=not options.remove) as actor:
        client = actor.desk.ledger.client
        if options.remove:
            known = actor.desk.do(forget_beats(client, options.name))
            show(options, {"removed": known}, _removed(options.name, known=known))
            return
        actor.desk.do(write_notes(client, [beat], clock.boot))
    if options.json:
        print(json.dumps({"beat": options.name, "every": format_duration(beat.every), "by": beat.by}))


def _removed(name: str, *, known: bool) -> str:
    return f"{name} is not expected any more" if known else f"nothing was expected of {name}"
