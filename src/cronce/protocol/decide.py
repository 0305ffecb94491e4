"""The protocol: what a command does to what was read. A table; no I/O, no clock, no threads.

THEORY OF OPERATION

A slot, a lock and a leadership are each one cell. Whoever wants something loads the cell, asks `decide` what that
means, and swaps the new value in under the version it read. If another was faster the swap is refused, the refusal
carries the cell that won, and `decide` is asked again. So every step of every process is one row of TABLE, and the
order of steps is the order of versions: the argument below is about one cell at a time.

*Claimed once.* A cell leaves NOTHING by one write that expects it absent; the store lets one such write win. From
then on it is granted again only by the rows LAPSED (under rerun), QUEUED, IDLE and, once it has lapsed, MINE, each
naming the version it read, each drawing a higher fence. (MINE, while live, renews under its fence: a read-back.)

*Mine.* A claim draws a nonce; a grant draws a fence. The nonce answers one question, "was it my write that landed?",
after a lost reply; it belongs to one call of claim, so that two threads, or a forked child, are two claimants. Every
later command names the fence. A holder whose lease has lapsed is still MINE as long as nobody acted on it: then its
renew and finish are true, and harmless. Its *trust* has ended before that (`lease`), and trust never returns.

*Lapsed is not a state.* It is `now ≥ until` on the store's clock, believed only by a reader that watched that clock run
evenly for a whole lease (`Facts.even`); otherwise the cell reads as HELD. What follows is the on_lost written
with the grant: a reader with another opinion, or another version of the code, changes nothing.

*Closed once.* CLOSED has no way back but a person's resolve. A finish by the fence that closed it, with the outcome it
closed with, is answered as finished, so a lost reply is harmless; any other word is stale.

*The floor.* An absent cell at or below the floor is closed: it was purged, edited away, or skipped on purpose (BELOW).
A cell that exists follows its own row, so slots of one job may close in any order.

*A store that forgot.* A cell that was written in an earlier life of the store and is not closed may have run since,
and nothing can tell (FORGOTTEN), unless its instant lies after the birth: no slot is granted before its instant. It is
closed as unknown for a person to see. Absent cells up to the birth are below the floor (`specs.after_forgetting`).

*Effects.* An effect is a claim on a cell that closes with a result: no other protocol. A step of a run has no lease of
its own; it is over with the run that makes it, which the next run of the slot knows at once. What was begun and never
ended is closed as lost, and by that in doubt: on_lost is skip for all of them, and whoever may do it again says so.

*Turns.* Where a job's overlap is limited, a run holds one of the job's turns, a cell of its own. That is no part of
this table: a run and its turn are written as one group, so what holds of the run holds of its turn (`plans`).
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

from cronce.model import Cell, Instant, Mark, spell
from cronce.protocol.commands import (
    Ask,
    Asked,
    Change,
    Claim,
    Closed,
    Command,
    Decision,
    Early,
    Finish,
    Finished,
    Granted,
    Held,
    Nothing,
    Queue,
    Queued,
    Release,
    Released,
    Renew,
    Renewed,
    Resolve,
    Settle,
    Settled,
    Skip,
    Stale,
)
from cronce.protocol.lease import tolerance
from cronce.protocol.record import (
    COMMITTED,
    DOUBTFUL,
    LAPSED,
    NEVER_STARTED,
    PAST_KEPT,
    RELEASED,
    RESOLVED,
    TOO_LATE,
    Maker,
    Outcome,
    Past,
    Record,
    State,
)
from cronce.value import NamedTuple

# --- what was read ------------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """What a decision rests on besides the cell."""

    now: Instant
    floor: Instant | None = None
    base: int = 0
    even: Callable[[timedelta], timedelta] = lambda _tolerance: timedelta(0)
    over: Callable[[Maker], bool] = lambda _maker: False
    """Of a run that makes a step: whether it is over, as whoever asks can tell."""


class Row(StrEnum):
    NOTHING = "nothing"
    BELOW = "nothing, at or below the floor"
    QUEUED = "due or waiting"
    IDLE = "released or retrying"
    RESTING = "retrying, its time not come"
    HELD = "held by another"
    MINE = "held, mine"
    LAPSED = "held, lapsed"
    FORGOTTEN = "open, from before the store forgot"
    CLOSED = "closed"
    EXPIRED = "done, and kept for long enough"


def row(cell: Cell, record: Record | None, command: Command, facts: Facts) -> Row:
    """Where what was read stands in the table."""
    if record is None:
        return Row.BELOW if _below(cell, facts.floor) else Row.NOTHING
    if record.state is State.CLOSED:
        return Row.EXPIRED if is_expired(cell, record, facts.now) else Row.CLOSED
    if cell.version <= facts.base and (facts.floor is None or _below(cell, facts.floor)):
        return Row.FORGOTTEN
    if record.state is not State.RUNNING:
        return _idle_row(cell, facts.now)
    if is_mine(cell, record, command):
        return Row.MINE
    return Row.LAPSED if lapsed(cell, record, facts) else Row.HELD


def _below(cell: Cell, floor: Instant | None) -> bool:
    return floor is not None and cell.at is not None and cell.at <= floor


def is_expired(cell: Cell, record: Record, now: Instant) -> bool:
    """What is in doubt never expires."""
    done = record.outcome is Outcome.SUCCEEDED and record.keep is not None
    return done and cell.until is not None and now >= cell.until


def _idle_row(cell: Cell, now: Instant) -> Row:
    if cell.until is not None and now < cell.until:
        return Row.RESTING
    return Row.QUEUED if cell.fence is None else Row.IDLE


def is_mine(cell: Cell, record: Record, command: Command) -> bool:
    """A claim by its nonce, everything later by its fence."""
    if isinstance(command, Claim):
        return record.nonce == command.nonce
    return isinstance(command, Renew | Finish | Release) and cell.fence == command.fence


def lapsed(cell: Cell, record: Record, facts: Facts) -> bool:
    """Its lease passed on the store's clock, and that clock was watched for long enough to be believed. A step has no
    lease of its own: it is over with its run."""
    if record.under is not None:
        return facts.over(record.under)
    if cell.until is None or facts.now < cell.until:
        return False
    return facts.even(tolerance(record.lease)) >= record.lease


# --- the rules: (cell, record, command, facts) → decision -----------------------------------------------------------

_NEW: Final = Record(State.DUE)


NOTHING_RAN: Final = (RELEASED, NEVER_STARTED)
"""How a grant ends under which nothing ran."""


def grant(cell: Cell, record: Record | None, command: Claim, facts: Facts, *, taken_over: str = "") -> Decision:
    old = record or _NEW
    started = any(past.end not in NOTHING_RAN for past in old.past)
    if not started and command.start_by is not None and facts.now > command.start_by:
        return skip(cell, record, Skip(TOO_LATE), facts)
    new = Record(
        State.RUNNING,
        grant=old.grant + 1,
        nonce=command.nonce,
        holder=command.holder,
        lease=command.lease,
        on_lost=command.on_lost,
        attempts=command.attempts,
        failures=old.failures,
        turn=old.turn,
        started=facts.now,
        past=old.past,
        by=old.by,
        payload=old.payload or command.payload,
        key=old.key,
        under=command.under,
        keep=command.keep,
        joined=command.joined,
    )
    return Decision(Granted(new.grant, taken_over), Change(new, Mark.OPEN, command.lease, grant=True))


def take_over(cell: Cell, record: Record, command: Claim, facts: Facts) -> Decision:
    """By the on_lost written with the grant, never the reader's. What was asked to stop does not begin again."""
    if closes_as_lost(record):
        return lose(cell, record, command, facts)
    return grant(cell, _ended(cell, record, LAPSED, facts), command, facts, taken_over=record.holder)


def read_back(cell: Cell, record: Record, command: Claim, facts: Facts) -> Decision:
    """My own write, its reply lost. The same fence, but not without a write: somebody may have looked while it seemed
    lapsed, and a takeover that is on its way must find another version. Nothing ran under it, so if it has lapsed it is
    granted anew, whatever on_lost says."""
    if cell.until is not None and facts.now < cell.until:
        return Decision(Granted(record.grant), Change(record, Mark.OPEN, record.lease))
    return grant(cell, _ended(cell, record, NEVER_STARTED, facts), command, facts)


def grant_anew(cell: Cell, record: Record, command: Claim, facts: Facts) -> Decision:
    """What was done is not known any more."""
    return grant(cell, Record(State.DUE, grant=record.grant), command, facts)


def settle(cell: Cell, record: Record, command: Command, facts: Facts) -> Decision:
    if isinstance(command, Settle) and command.committed and command.asked == cell.fence:
        return _close(cell, record, Outcome.SUCCEEDED, COMMITTED, facts)
    if closes_as_lost(record):
        return lose(cell, record, command, facts)
    idle = _ended(cell, record, LAPSED, facts)._replace(state=State.DUE, turn="", ask="")
    return Decision(Settled(), Change(idle, Mark.OPEN))


def lose(cell: Cell, record: Record, command: Command, facts: Facts) -> Decision:
    """What may be committed in the user's database is not lost before that was asked; but a person may say so."""
    asked = isinstance(command, Resolve) or (isinstance(command, Settle) and command.asked == cell.fence)
    if record.joined and not asked:
        return ask(cell, record, command, facts) if isinstance(command, Ask) else held(cell, record, command, facts)
    return _close(cell, record, Outcome.LOST, _gone(record), facts)


def closes_as_lost(record: Record) -> bool:
    """What a run comes to whose holder is gone: it is closed, or may be granted again."""
    return record.on_lost == "skip" or bool(record.ask)


def _gone(record: Record) -> str:
    asked = f", after it was asked to stop: {record.ask}" if record.ask else ""
    return f"its holder {record.holder} was gone{asked}"


def renew(cell: Cell, record: Record, command: Renew, facts: Facts) -> Decision:
    """A limit ends renewing; it never shortens a lease that is trusted already."""
    ttl = record.lease if command.ttl is None else min(record.lease, command.ttl)
    shorter = command.ttl is not None and cell.until is not None and facts.now + ttl < cell.until
    told = record._replace(progress=command.progress or record.progress)
    return Decision(Renewed(record.ask), Change(told, Mark.OPEN, None if shorter else ttl))


def finish(cell: Cell, record: Record, command: Finish, facts: Facts) -> Decision:
    said = record._replace(output=command.output)
    if command.outcome is Outcome.FAILED:
        again = command.cut_short and record.on_lost == "rerun"
        failures = record.failures + (0 if again else 1)
        if not (command.final or record.ask) and (again or failures < record.attempts):
            past = _ended(cell, said, f"failed: {command.reason}" if command.reason else "failed", facts)
            retry = past._replace(state=State.RETRYING, failures=failures, turn="", ask="")
            mark = Mark.OPEN if record.keep is None else Mark.FREE  # of a key nobody need ever hear again
            return Decision(Finished(command.outcome, retrying=True), Change(retry, mark, command.backoff))
    closed = _close(cell, said._replace(result=command.result), command.outcome, command.reason, facts)
    return closed._replace(answer=Finished(command.outcome))


def finish_again(cell: Cell, record: Record, command: Finish, _facts: Facts) -> Decision:
    """The fence that ended it may say so again: its reply was lost. Anyone else, and any other word, is stale, also one
    about an effect that a person has resolved with another result."""
    said = Outcome.FAILED if record.state is State.RETRYING else record.outcome
    if cell.fence != command.fence or (said, record.result) != (command.outcome, command.result):
        return Decision(Stale(record.holder))
    return Decision(Finished(command.outcome, retrying=record.state is State.RETRYING))


def release(cell: Cell, record: Record, command: Release, facts: Facts) -> Decision:
    idle = _ended(cell, record, RELEASED, facts)._replace(state=State.DUE, turn="", ask="")
    return Decision(Released(), Change(idle, Mark.OPEN, command.rest))


def release_again(cell: Cell, record: Record, command: Release, _facts: Facts) -> Decision:
    return Decision(Released() if cell.fence == command.fence else Stale(record.holder))


def queue(_cell: Cell, record: Record | None, command: Queue, _facts: Facts) -> Decision:
    state = State.WAITING if command.waiting else State.DUE
    if record is not None and record.state is state:
        return Decision(Queued(command.waiting))
    new = record or Record(state, by=command.by, payload=command.payload, key=command.key)
    return Decision(Queued(command.waiting), Change(new._replace(state=state), Mark.OPEN))


def skip(cell: Cell, record: Record | None, command: Skip, facts: Facts) -> Decision:
    return _close(cell, record or _NEW, Outcome.SKIPPED, command.reason, facts)


def ask(_cell: Cell, record: Record, command: Ask, _facts: Facts) -> Decision:
    """The lease stays as it is (no ttl): asking is not renewing."""
    if record.ask:
        return Decision(Asked())
    return Decision(Asked(), Change(record._replace(ask=command.reason), Mark.OPEN, ttl=None))


def forget(cell: Cell, record: Record, _command: Command, facts: Facts) -> Decision:
    return _close(cell, record, Outcome.UNKNOWN, "the store forgot what became of it", facts)


def resolve(cell: Cell, record: Record, command: Resolve, facts: Facts) -> Decision:
    if record.outcome not in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN):
        return closed(cell, record, command, facts)
    if command.verdict == "done":
        was = _looked_at(cell, record, str(record.outcome))
        known = was._replace(result=command.result or was.result)
        return _close(cell, known, Outcome.SUCCEEDED, f"{RESOLVED}{command.reason}", facts)
    again = _looked_at(cell, record, f"{record.outcome}, retried: {command.reason}", facts.now)._replace(
        state=State.DUE, outcome=None, reason="", finished=None, failures=0, turn="", ask=""
    )
    return Decision(Queued(waiting=False), Change(again, Mark.OPEN))


def held(cell: Cell, record: Record, _command: Command, _facts: Facts) -> Decision:
    return Decision(Held(record.holder, cell.until))


def early(cell: Cell, _record: Record, _command: Command, _facts: Facts) -> Decision:
    return Decision(Early(cell.until))


def closed(_cell: Cell, record: Record, _command: Command, _facts: Facts) -> Decision:
    return Decision(Closed(record.outcome or Outcome.UNKNOWN, record.reason))


def too_old(_cell: Cell, _record: None, _command: Command, facts: Facts) -> Decision:
    floor = spell(facts.floor) if facts.floor else ""
    return Decision(Closed(Outcome.TOO_OLD, f"up to {floor} slots without a record are closed"))


def below(cell: Cell, record: None, command: Claim, facts: Facts) -> Decision:
    """A step of a slot from before the store forgot, which somebody runs again by hand: it may be done."""
    if command.under is None:
        return too_old(cell, record, command, facts)
    return _close(cell, _NEW, Outcome.UNKNOWN, "the store forgot whether it was done, or it is new", facts)


def stale(_cell: Cell, record: Record | None, _command: Command, _facts: Facts) -> Decision:
    return Decision(Stale(record.holder if record else ""))


def nothing(_cell: Cell, _record: Record | None, _command: Command, _facts: Facts) -> Decision:
    return Decision(Nothing())


def _close(_cell: Cell, record: Record, outcome: Outcome, reason: str, facts: Facts) -> Decision:
    mark = Mark.ATTENTION if outcome in DOUBTFUL else Mark.CLOSED
    final = record._replace(state=State.CLOSED, outcome=outcome, reason=reason, finished=facts.now, ask="")
    return Decision(Closed(outcome, reason), Change(final, mark, final.keep or timedelta(0)))


def _ended(cell: Cell, record: Record, end: str, facts: Facts) -> Record:
    """The grant becomes part of the past."""
    return _past(record, Past(cell.fence, record.holder, record.started, end, facts.now))


def _looked_at(cell: Cell, record: Record, end: str, retried: Instant | None = None) -> Record:
    """It ended when it was closed, however much later a person looked."""
    return _past(record, Past(cell.fence, record.holder, record.started, end, record.finished, retried))


def _past(record: Record, was: Past) -> Record:
    return record._replace(past=(*record.past, was)[-PAST_KEPT:])


# --- the table ------------------------------------------------------------------------------------------------------

Rule = Callable[..., Decision]

TABLE: Final[Mapping[Row, Mapping[type[Command], Rule]]] = {
    Row.NOTHING: {
        Claim: grant, Renew: stale, Finish: stale, Release: stale, Queue: queue, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: nothing,
    },
    Row.BELOW: {
        Claim: below, Renew: stale, Finish: stale, Release: stale, Queue: too_old, Skip: too_old,
        Settle: nothing, Ask: nothing, Resolve: nothing,
    },
    Row.QUEUED: {
        Claim: grant, Renew: stale, Finish: stale, Release: stale, Queue: queue, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: nothing,
    },
    Row.IDLE: {
        Claim: grant, Renew: stale, Finish: finish_again, Release: release_again, Queue: queue, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: nothing,
    },
    Row.RESTING: {
        Claim: early, Renew: stale, Finish: finish_again, Release: release_again, Queue: early, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: nothing,
    },
    Row.HELD: {
        Claim: held, Renew: stale, Finish: stale, Release: stale, Queue: held, Skip: held,
        Settle: held, Ask: ask, Resolve: held,
    },
    Row.MINE: {
        Claim: read_back, Renew: renew, Finish: finish, Release: release,
    },
    Row.LAPSED: {
        Claim: take_over, Renew: stale, Finish: stale, Release: stale, Queue: settle, Skip: settle,
        Settle: settle, Ask: settle, Resolve: settle,
    },
    Row.FORGOTTEN: {
        Claim: forget, Renew: stale, Finish: stale, Release: stale, Queue: forget, Skip: forget,
        Settle: forget, Ask: forget, Resolve: forget,
    },
    Row.CLOSED: {
        Claim: closed, Renew: stale, Finish: finish_again, Release: stale, Queue: closed, Skip: closed,
        Settle: nothing, Ask: nothing, Resolve: resolve,
    },
    Row.EXPIRED: {
        Claim: grant_anew, Renew: stale, Finish: finish_again, Release: stale, Queue: closed, Skip: closed,
        Settle: nothing, Ask: nothing, Resolve: closed,
    },
}  # fmt: skip


def decide(cell: Cell, record: Record | None, command: Command, facts: Facts) -> Decision:
    """What the command means for what was read."""
    rule = TABLE[row(cell, record, command, facts)][type(command)]
    return rule(cell, record, command, facts)
