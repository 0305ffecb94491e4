"""Acting on a store from the command line: who acts, and waiting for what was asked for."""

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from cronce.cli.looking import add_store, looking
from cronce.cli.progress import bar
from cronce.clock import SystemClock
from cronce.errors import BadInput
from cronce.model import Slot
from cronce.protocol.record import Outcome, State
from cronce.runtime.desk import Desk
from cronce.runtime.hand.acts import AskedFor, Hand, who
from cronce.runtime.hand.backfill import AT_ONCE
from cronce.runtime.holders import carried
from cronce.runtime.look import RunSeen
from cronce.stores import mask
from cronce.stores.default import choose, open_chosen
from cronce.telling.documents import run_document
from cronce.telling.words import by_whom, safe

if TYPE_CHECKING:
    from cronce.stores.base import Store

LOOK: Final = 0.25
"""Seconds between two looks at what is waited for."""

ASK_EVERY: Final = 8
"""At each so many looks it is asked who would run it."""


def add_act(parser: argparse.ArgumentParser, *, reason: bool = True) -> None:
    if reason:
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the record")
    parser.add_argument("--by", metavar="NAME", help="who acts, for the record (default: user@host)")
    add_store(parser)


class Actor(NamedTuple):
    """Who acts, and the store."""

    desk: Desk
    hand: Hand


@contextmanager
def acting(options: argparse.Namespace, *, make: bool = False) -> Iterator[Actor]:
    """Acting, with `make` also on a store that is not there yet."""
    with (_making if make else looking)(options) as store:
        desk = Desk(store, SystemClock(), lambda: store, lambda _event: None)
        yield Actor(desk, Hand(desk.ledger, who() if options.by is None else options.by))


@contextmanager
def _making(options: argparse.Namespace) -> "Iterator[Store]":
    chosen = choose(options.store)
    with closing(open_chosen(chosen)) as store:
        if not store.traits.shared:
            raise BadInput(f"{mask(chosen.url)} ends with this process: nobody else would see it; name a file")
        yield store


def read_payload(text: str) -> Any:
    return read_json("--payload", text)


def read_json(option: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{option} is JSON, and {text[:60]!r} is none: {error}") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


# --- waiting for runs ---------------------------------------------------------------------------------------------


class Waited(NamedTuple):
    """What came of it: the runs that are over, and why the others were not waited for."""

    over: list[RunSeen]
    left: int = 0
    obstacle: str = ""

    @property
    def code(self) -> int:
        return 0 if not self.obstacle and all(succeeded(one) for one in self.over) else 1


def succeeded(one: RunSeen) -> bool:
    return one.record is not None and one.record.outcome is Outcome.SUCCEEDED


def wait_for(actor: Actor, slots: Sequence[Slot], show: Callable[[Sequence[RunSeen], int], None]) -> Waited:
    """Wait until these runs of one job are over; not if nobody is there to run them. `show` is told of each look: the
    runs that it saw, and how many are over."""
    left, over, looks = deque(slots), list[RunSeen](), count()
    while left:
        part = [left.popleft() for _ in range(min(AT_ONCE, len(left)))]
        found = [one for one in actor.desk.do(actor.hand.look(part)) if one is not None]
        over += [one for one in found if _is_over(one)]
        going_on = [one for one in found if not _is_over(one)]
        left.extend(one.slot for one in going_on)
        show(found, len(over))
        running = any(one.record and one.record.state is State.RUNNING for one in going_on)
        obstacle = _obstacle(actor, left[0].job) if left and not running and next(looks) % ASK_EVERY == 0 else ""
        if obstacle:
            return Waited(over, len(left), obstacle)
        time.sleep(LOOK if going_on else 0)
    return Waited(over)


def _is_over(one: RunSeen) -> bool:
    return one.record is None or one.record.state is State.CLOSED


def _obstacle(actor: Actor, name: str) -> str:
    """Why nobody will run what is due of the job, if so."""
    job = actor.desk.do(actor.hand.job(name))
    halted = actor.hand.ledger.know.halted
    if halted:
        return f"everything is paused {by_whom(halted)}"
    if job and job.paused:
        return f"{name} is paused {by_whom(job.paused)}"
    return "" if name in actor.desk.do(carried()) else f"no live scheduler carries {name}"


# --- one run ------------------------------------------------------------------------------------------------------


def add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait for its end: exit 0 if it succeeded, else 1")


def asked(actor: Actor, request: AskedFor, options: argparse.Namespace) -> int:
    """Tell of a run that was asked for, and of its end if that is waited for."""
    key = request.slot.key
    if not options.json:
        print(key, flush=True)
        if not request.new:
            print(f"cronce {options.verb}: it was asked for before", file=sys.stderr)
    waited = wait_for(actor, [request.slot], _show_progress) if options.wait else None
    if not options.wait and (obstacle := _before(actor, request.slot)):
        print(f"cronce {options.verb}: it is due, and {obstacle}", file=sys.stderr)
    if options.json:
        ended = run_document(waited.over[0]) if waited and waited.over else None
        print(json.dumps({"key": key, "new": request.new, "by": actor.hand.by, "run": ended}))
    elif waited is not None:
        print(safe(_end(waited)))
    return waited.code if waited else 0


def _before(actor: Actor, slot: Slot) -> str:
    """Why nobody will run it, if it is not over."""
    (one,) = actor.desk.do(actor.hand.look([slot]))
    return _obstacle(actor, slot.job) if one is not None and not _is_over(one) else ""


def _show_progress(found: Sequence[RunSeen], _over: int) -> None:
    for one in found:
        if one.record and one.record.progress:
            bar(str(one.record.state), *one.record.progress)


def _end(waited: Waited) -> str:
    if waited.obstacle:
        return f"it is due, and not waited for: {waited.obstacle}"
    (one,) = waited.over
    reason = one.record.reason if one.record else one.trouble
    return f"{one.shown}{f': {reason}' if reason else ''}"
