"""The table: what a command does to the run that was read. No I/O, no clock, no threads.

THEORY OF OPERATION

A slot, a lock and a leadership are each one cell. A process reads the cell, asks `decide` what its command means, and
swaps the new value in under the version it read. If another process was faster, the store refuses the swap, the refusal
carries the cell that won, and `decide` is asked again. So every step of every process is one row of TABLE, and the
order of steps is the order of versions: the argument below is about one cell at a time. `gates` holds what keeps a
command from reaching the table, and what a grant needs besides the run's cell. `decide` combines the two.

*Claimed once.* A cell leaves NOTHING by one write that expects it absent; the store lets one such write win. After
that, it is granted again only by the rows LAPSED (under rerun), QUEUED, IDLE and, once it has lapsed, MINE. Each names
the version it read, and each draws a higher fence. (MINE, while live, renews under its fence: a read-back.)

*Mine.* A claim draws a nonce; a grant draws a fence. The nonce answers one question after a lost reply: "was it my
write that landed?" It belongs to one call of claim, so two threads, or a forked child, are two claimants. Every later
command names the fence. A holder whose lease has lapsed is still MINE until another process acts on the lapse: its
renew and finish are true, and harmless. Its *trust* has ended before that (`lease`), and trust never returns.

*Lapsed is not a state.* It is `now ≥ until` on the store's clock. A reader believes it only after it watched that clock
run evenly for a whole lease (`View.even`), and of a slot only once its holder could be heard (`View.heard`). Otherwise
the cell reads as HELD. What follows is the on_lost written with the grant, whatever policy or version the reader has.

*Closed once.* Only a person's resolve reopens a CLOSED cell. (EXPIRED is an effect that was to be remembered for a
limited time.) If the fence that closed it sends the same finish again, the answer is finished: the first reply may be
lost.

*The floor.* An absent cell at or below the floor is closed: it was purged, edited away, or skipped on purpose (BELOW).
A cell that exists follows its own row, so slots of one job may close in any order.

*A store that forgot.* A cell that was written in an earlier life of the store and is not closed may have run since, and
no record can show it (FORGOTTEN), unless its instant lies after the birth: no slot is granted before its instant. It is
closed as unknown, for a person to check. Absent cells up to the birth are below the floor (`specs.after_forgetting`).

*Effects.* An effect is a claim on a cell that closes with a result: no other protocol. An effect of a slot has a cell
for each slot, one on a thing a single cell. A step has no lease of its own; it is over when its run is over. An effect
that began and never ended is closed as lost, so it is in doubt: on_lost is skip, and a caller that may safely repeat it
must declare so.
"""

from collections.abc import Callable, Mapping, Sequence
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
from cronce.protocol.gates import floor_of, maker_of
from cronce.protocol.lease import hearing, tolerance
from cronce.protocol.record import (
    COMMITTED,
    DOUBTFUL,
    LAPSED,
    MOST_LAPSED,
    NEVER_STARTED,
    PAST_KEPT,
    REASON_KEPT,
    RELEASED,
    RESOLVED,
    TOO_LATE,
    Maker,
    Outcome,
    Past,
    Record,
    State,
)
from cronce.protocol.store_clock import is_ahead
from cronce.protocol.view import View

# --- the row of a run -----------------------------------------------------------------------------------------------


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


def row(view: View, command: Command) -> Row:
    """Which row of the table applies to what was read."""
    cell, record = view.run, view.record
    if record is None:
        return Row.BELOW if _below(cell, floor_of(view, command)) else Row.NOTHING
    if record.state is State.CLOSED:
        return Row.EXPIRED if is_expired(cell, record, view.now) else Row.CLOSED
    if _is_forgotten(view, command):
        return Row.FORGOTTEN
    if record.state is not State.RUNNING:
        return _idle_row(cell, view.now)
    if is_mine(cell, record, command):
        return Row.MINE
    return Row.LAPSED if lapsed(view, command) else Row.HELD


def _below(cell: Cell, floor: Instant | None) -> bool:
    return floor is not None and cell.at is not None and cell.at <= floor


def _is_forgotten(view: View, command: Command) -> bool:
    """It was written in an earlier life of the store. For a lock, a leadership or a key, earlier lives do not matter:
    none is granted before the last holder has lost it (`decide.not_before`)."""
    if view.run.version > view.epoch.base or (view.slot is None and maker_of(command) is None):
        return False
    floor = floor_of(view, command)
    return floor is None or _below(view.run, floor)


def is_expired(cell: Cell, record: Record, now: Instant) -> bool:
    """An effect in doubt never expires."""
    done = record.outcome is Outcome.SUCCEEDED and record.keep is not None
    return done and cell.until is not None and now >= cell.until


def _idle_row(cell: Cell, now: Instant) -> Row:
    if cell.until is not None and now < cell.until:
        return Row.RESTING
    return Row.QUEUED if cell.fence is None else Row.IDLE


_BY_FENCE: Final = (Renew, Finish, Release)


def is_mine(cell: Cell, record: Record, command: Command) -> bool:
    """A claim is matched by its nonce, every later command by its fence."""
    if isinstance(command, Claim):
        return record.nonce == command.nonce
    return isinstance(command, _BY_FENCE) and cell.fence == command.fence


def lapsed(view: View, command: Command) -> bool:
    """Its lease expired on the store's clock, this reader watched that clock for long enough to believe it, and the
    holder of a slot could be heard, or a person acts. A step has no lease: it is over when its run is over."""
    cell, record = view.run, view.stands
    if record.under is not None:
        return _is_over(view, record.under, maker_of(command))
    if cell.until is None or (view.now < cell.until and not is_ahead(cell.until, view.now)):
        return False
    ago = max(view.now - cell.until, timedelta(0)) + record.lease
    for_person = isinstance(command, Settle) and command.for_person
    if view.slot and not for_person and view.heard(view.sample, ago) < hearing(record.lease):
        return False
    return view.even(cell, view.sample, tolerance(record.lease)) >= record.lease


def _is_over(view: View, maker: Maker, mine: Maker | None) -> bool:
    """Whether the run that began a step is over. It also is if the same slot was granted again since, to this
    caller."""
    return maker in view.over or (mine is not None and maker.run == mine.run and maker.fence < mine.fence)


# --- the rules: (view, command) → decision ----------------------------------------------------------------------------

_NEW: Final = Record(State.DUE)

NOTHING_RAN: Final = (RELEASED, NEVER_STARTED)  # how a grant ends under which nothing ran


def grant(view: View, command: Claim) -> Decision:
    return _granted(view, command, view.record or _NEW)


def _granted(view: View, command: Claim, old: Record, taken_over: str = "") -> Decision:
    late = command.start_by is not None and view.now > command.start_by
    if late and all(past.end in NOTHING_RAN for past in old.past):
        return _close(view, old, Outcome.SKIPPED, TOO_LATE)
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
        started=view.now,
        past=old.past,
        by=old.by,
        payload=old.payload or command.payload,
        key=old.key or command.key,
        under=command.under,
        keep=command.keep,
        joined=command.joined,
        least=command.least,
    )
    return Decision(Granted(new.grant, taken_over), Change(new, Mark.OPEN, max(new.lease, new.least), grant=True))


def take_over(view: View, command: Claim) -> Decision:
    """By the on_lost written with the grant, never the reader's. A lock or a leadership can be taken over any number of
    times."""
    if view.stands.closes_as_lost and (view.slot is not None or view.stands.on_lost == "skip"):
        return lose(view, command)
    return _granted(view, command, _ended(view, LAPSED), view.stands.holder)


def read_back(view: View, command: Claim) -> Decision:
    """This claim's own write landed, but its reply was lost. The fence stays the same, but the cell is written: another
    process may have seen it lapsed, and its takeover must find another version. Nothing ran under this grant, so if it
    has lapsed it is granted anew, whatever on_lost is."""
    record, until = view.stands, view.run.until
    if until is not None and view.now < until:
        return Decision(Granted(record.grant), Change(record, Mark.OPEN, record.lease))
    return _granted(view, command, _ended(view, NEVER_STARTED))


def grant_anew(view: View, command: Claim) -> Decision:
    """The earlier completion has expired."""
    return _granted(view, command, Record(State.DUE, grant=view.stands.grant))


def settle(view: View, command: Command) -> Decision:
    if isinstance(command, Settle) and command.committed and command.asked == view.run.fence:
        return _close(view, view.stands, Outcome.SUCCEEDED, COMMITTED)
    if view.stands.closes_as_lost:
        return lose(view, command)
    idle = _ended(view, LAPSED)._replace(state=State.DUE, turn="", ask="")
    return Decision(Settled(), Change(idle, Mark.OPEN))


def lose(view: View, command: Command) -> Decision:
    """A run that may be committed in the user's database is not lost before that database was asked; but a person may
    close it."""
    asked = isinstance(command, Resolve) or (isinstance(command, Settle) and command.asked == view.run.fence)
    if view.stands.joined and not asked:
        return ask(view, command) if isinstance(command, Ask) else held(view, command)
    return _close(view, view.stands, Outcome.LOST, _gone(view.stands))


def _gone(record: Record) -> str:
    worn_out = ", nor did those before it" if record.on_lost == "rerun" else ""
    more = f", after it was asked to stop: {record.ask}" if record.ask else worn_out
    if record.under is not None:
        return f"its run at {record.holder} is over"
    return f"its holder {record.holder} did not renew its lease{more}"


def renew(view: View, command: Renew) -> Decision:
    """A limit ends renewing; it never shortens a lease that is already trusted. A lock is kept for its least time."""
    record, until = view.stands, view.run.until
    held = max(view.now - (record.started or view.now), timedelta(0))  # the store's clock may have been set back
    kept = record.least - held
    ttl = max(record.lease if command.ttl is None else min(record.lease, command.ttl), kept)
    shorter = command.ttl is not None and until is not None and view.now + ttl < until
    told = record._replace(progress=command.progress or record.progress, overdue=command.overdue or record.overdue)
    return Decision(Renewed(record.ask), Change(told, Mark.OPEN, None if shorter else ttl))


def ended_as(
    outcome: Outcome, reason: str, doubts: Sequence[str], undone: Sequence[str] = (), *, committed: bool
) -> tuple[Outcome, str]:
    """How to close a run whose job function ended this way. A doubtful end is for a person, and is not retried. Work
    that was rolled back is a failure, whatever the function reported. Committed work is recorded in the user's
    database."""
    left = [*doubts, *undone]
    if doubts or (undone and (committed or outcome is Outcome.SUCCEEDED)):
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        closed_as = Outcome.UNKNOWN if doubts or committed else Outcome.FAILED
        return closed_as, f"{left[0][: REASON_KEPT - len(more)]}{more}"
    if committed and outcome is Outcome.FAILED:
        return Outcome.SUCCEEDED, f"{COMMITTED}; then {reason}"[:REASON_KEPT]
    return outcome, reason


def finish(view: View, command: Finish) -> Decision:
    record = view.stands
    if command.ended is not None:
        ended = min(max(command.ended, record.started or command.ended), view.now)
        view = view._replace(sample=view.sample._replace(now=ended))
    if command.outcome is Outcome.FAILED:
        again = command.cut_short and record.on_lost == "rerun"
        failures = record.failures + (0 if again else 1)
        if not (command.final or record.ask) and (again or failures < record.attempts):
            end = f"failed: {command.reason}" if command.reason else "failed"
            record = _past(record, _grant_of(view, end))
            retry = record._replace(state=State.RETRYING, failures=failures, turn="", ask="", output=command.output)
            return Decision(Finished(command.outcome, retrying=True), Change(retry, _idle(record), command.backoff))
    closed = record._replace(output=command.output, result=command.result)
    asked = f"it was asked to stop, but ended by itself: {record.ask}" if record.ask and not command.final else ""
    reason = "; ".join(filter(None, (command.reason, asked)))[:REASON_KEPT]
    return Decision(Finished(command.outcome), _closing(view, closed, command.outcome, reason))


def finish_again(view: View, command: Finish) -> Decision:
    """The fence that ended it may report the same end again: its reply was lost. Any other fence, or any other end, is
    stale; so is a report about an effect that a person has resolved with another result."""
    record = view.stands
    said = Outcome.FAILED if record.state is State.RETRYING else record.outcome
    if view.run.fence != command.fence or (said, record.result) != (command.outcome, command.result):
        return Decision(Stale(record.holder))
    return Decision(Finished(command.outcome, retrying=record.state is State.RETRYING))


def release(view: View, command: Release) -> Decision:
    idle = _ended(view, RELEASED)._replace(state=State.DUE, turn="", ask="")
    return Decision(Released(), Change(idle, _idle(view.stands), command.rest))


def _idle(record: Record) -> Mark:
    return Mark.OPEN if record.keep is None else Mark.FREE  # no process needs to hear of it again


def release_again(view: View, command: Release) -> Decision:
    return Decision(Released() if view.run.fence == command.fence else Stale(view.stands.holder))


def queue(view: View, command: Queue) -> Decision:
    state, record = State.WAITING if command.waiting else State.DUE, view.record
    if record is not None and record.state is state:
        return Decision(Queued(command.waiting))
    new = record or Record(state, by=command.by, payload=command.payload, key=command.key)
    return Decision(Queued(command.waiting), Change(new._replace(state=state), Mark.OPEN))


def skip(view: View, command: Skip) -> Decision:
    if command.untouched and view.record is not None:
        return Decision(Queued(waiting=False))
    return _close(view, view.record or _NEW, Outcome.SKIPPED, command.reason)


def ask(view: View, command: Ask) -> Decision:
    """The lease stays as it is (no ttl): asking is not renewing."""
    if view.stands.ask:
        return Decision(Asked())
    return Decision(Asked(), Change(view.stands._replace(ask=command.reason), Mark.OPEN, ttl=None))


def forget(view: View, _command: Command) -> Decision:
    return _close(view, view.stands, Outcome.UNKNOWN, "the store forgot what became of it")


def resolve(view: View, command: Resolve) -> Decision:
    """One resolve can replace another: retry replaces done and, if no run has begun since, done replaces retry. Both
    stay on record."""
    record = view.stands
    retried = not record.is_closed and any(past.retried for past in record.past[-1:])
    said = record.resolved and not (view.slot and record.reason.startswith(f"{RESOLVED}by {view.slot.key}"))  # a rerun
    if command.verdict == "superseded":
        return supersede(view, command)
    if record.outcome in (Outcome.FAILED, Outcome.LOST, Outcome.UNKNOWN):  # it ended then, however late a person looks
        end = ": ".join(filter(None, (record.outcome, record.reason)))
        record = _past(record, _grant_of(view, end)._replace(ended=record.finished))
    elif not (said if command.verdict == "retry" else retried):
        return closed(view, command) if record.is_closed else nothing(view, command)
    if command.verdict == "done":
        known = record._replace(result=command.result or record.result)
        return _close(view, known, Outcome.SUCCEEDED, f"{RESOLVED}{command.reason}")
    *before, last = record.past
    words = f"{last.end}, {record.reason}" if record.resolved else last.end
    last = last._replace(end=f"{words}, retried: {command.reason}"[: 4 * REASON_KEPT], retried=view.now)
    was = record._replace(past=(*before, last), outcome=None, reason="", finished=None, result="")
    again = was._replace(state=State.DUE, failures=0, turn="", ask="")
    return Decision(Queued(waiting=False), Change(again, Mark.OPEN))


def supersede(view: View, command: Resolve) -> Decision:
    record = view.stands
    if record.outcome is None or not record.outcome.is_bad or record.superseded:
        return closed(view, command) if record.is_closed else nothing(view, command)
    reason = "; ".join(filter(None, (record.reason, command.reason)))
    return Decision(Closed(record.outcome, reason), Change(record._replace(reason=reason), Mark.CLOSED))


def held(view: View, _command: Command) -> Decision:
    return Decision(Held(view.stands.holder, view.run.until))


def early(view: View, _command: Command) -> Decision:
    return Decision(Early(view.run.until))


def closed(view: View, _command: Command) -> Decision:
    return Decision(Closed(view.stands.outcome or Outcome.UNKNOWN, view.stands.reason))


def too_old(view: View, command: Command) -> Decision:
    floor = floor_of(view, command)
    upto = spell(floor) if floor else ""
    return Decision(Closed(Outcome.TOO_OLD, f"slots up to {upto} are closed if they have no record"))


def below(view: View, command: Claim) -> Decision:
    """A step of a slot from before the store forgot, which a person runs again: the step may already be done."""
    if command.under is None:
        return too_old(view, command)
    return _close(view, _NEW, Outcome.UNKNOWN, "the store forgot whether it was done, or it is new")


def stale(view: View, _command: Command) -> Decision:
    return Decision(Stale(view.record.holder if view.record else ""))


def nothing(_view: View, _command: Command) -> Decision:
    return Decision(Nothing())


def _close(view: View, record: Record, outcome: Outcome, reason: str) -> Decision:
    return Decision(Closed(outcome, reason), _closing(view, record, outcome, reason))


def _closing(view: View, record: Record, outcome: Outcome, reason: str) -> Change:
    mark = Mark.ATTENTION if outcome in DOUBTFUL else Mark.CLOSED
    final = record._replace(state=State.CLOSED, outcome=outcome, reason=reason, finished=view.now, ask="")
    return Change(final, mark, final.keep or timedelta(0))


def _ended(view: View, end: str) -> Record:
    return _past(view.stands, _grant_of(view, end))


def _grant_of(view: View, end: str) -> Past:
    return Past(view.run.fence, view.stands.holder, view.stands.started, end, view.now)


def _past(record: Record, was: Past) -> Record:
    kept = [*record.past, was]  # older grants under which nothing ran are dropped first: the others are counted
    first = next((one for one in kept[:-MOST_LAPSED] if one.end in NOTHING_RAN), kept[0])
    return record._replace(past=tuple(one for one in kept if len(kept) <= PAST_KEPT or one is not first))


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
        Settle: nothing, Ask: nothing, Resolve: resolve,
    },
    Row.IDLE: {
        Claim: grant, Renew: stale, Finish: finish_again, Release: release_again, Queue: queue, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: resolve,
    },
    Row.RESTING: {
        Claim: early, Renew: stale, Finish: finish_again, Release: release_again, Queue: early, Skip: skip,
        Settle: nothing, Ask: nothing, Resolve: resolve,
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


def rule(view: View, command: Command) -> Decision:
    decision: Decision = TABLE[row(view, command)][type(command)](view, command)
    return decision
