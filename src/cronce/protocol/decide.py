"""`decide`: what a command means for what was read, and the writes that make the answer true. Pure, and total.

    view, command ──► gates ──► table ──► turn ──► Decision(answer, change)        once its writes have won
                                                or  Need                            read this first, and ask again

This is the whole argument why a slot runs once. `gates` and `table` have an essay each; `lease` has the
arithmetic of time. The loop (`runtime.loop`) calls `decide`, and sends the writes to the store.
"""

from collections.abc import Collection
from typing import assert_never

from cronce.model import ABSENT, FREE, Cell, Instant, Mark, Refusal, Write, run_again
from cronce.protocol.commands import (
    Answer,
    Busy,
    Change,
    Claim,
    Command,
    Decision,
    Early,
    Errand,
    Finished,
    Queue,
    Resolve,
    Skip,
    Stale,
)
from cronce.protocol.gates import DECIDE_AGAIN, GATES, Need, free_turn, job_of, no_turn, rests_on_job
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE
from cronce.protocol.record import FREED, Job, Turn, encode, encode_job, encode_turn
from cronce.protocol.store_clock import HARMLESS_ERROR, Doubt, dated, doubted, is_dated
from cronce.protocol.table import rule
from cronce.protocol.view import View


def decide(view: View, command: Command) -> Decision | Need:
    rests = rests_on_job(view, command)
    if rests and view.known is None:
        return DECIDE_AGAIN
    job = job_of(view, command)
    new = job if rests and view.known is not None and job is not view.known.job else None
    for gate in GATES:
        answer = gate(view, command, job)
        if answer is not None:
            return Decision(answer, job=new)
    return _with_turn(view, command, rule(view, command), new)


def _with_turn(view: View, command: Command, ruled: Decision, job: Job | None) -> Decision | Need:
    answer, change = ruled.answer, ruled.change
    also = settled_by(view, answer)
    if change is None:
        return DECIDE_AGAIN if view.guessed else Decision(answer, job=job, also=also)
    if view.doubt is not None and (unsure := doubted(view.doubt, command, change)) is not None:
        return Decision(unsure)
    if view.held_turn:
        held = next((turn for turn in view.turns if turn.key == view.held_turn), None)
        return Decision(answer, change, held, job, also) if held else Need(turns=(view.held_turn,))
    if not (change.grant and view.turns and isinstance(command, Claim)):
        return Decision(answer, change, job=job, also=also)
    turn = free_turn(view, command)
    if turn is None:
        return _without_turn(view, command, job)
    return Decision(answer, Change(change.record._replace(turn=turn.key), *change[1:]), turn, job)


def settled_by(view: View, answer: Answer) -> tuple[Errand, ...]:
    """A rerun or a backfill that succeeded settles what it ran again, if that had failed, was lost or is unknown."""
    if view.slot is None or not view.slot.request or not isinstance(answer, Finished) or not answer.outcome.is_success:
        return ()
    return tuple((again.cell, Resolve("done", f"by {view.slot.key}")) for again in run_again(view.slot))


def _without_turn(view: View, command: Claim, job: Job | None) -> Decision | Need:
    found = no_turn(view, command)
    if isinstance(found, Need):
        return found
    match found.instead:
        case Skip() | Queue():
            return rule(view, found.instead)._replace(job=job, also=found.also)
        case Early() | Busy():
            return Decision(found.instead, job=job, also=found.also)
        case _:
            assert_never(found.instead)


def refused(
    command: Command, not_before: Instant | None, refusals: Collection[Refusal | None], doubt: Doubt | None = None
) -> Answer | None:
    """The answer to a claim that the store refused as too early or too late. None: read and decide again, because the
    store's clock jumped, the facts were too old, or only its group was refused."""
    if doubt is not None or not isinstance(command, Claim):
        return None
    if Refusal.LATE in refusals:
        return Stale("") if command.lands_by is not None else None
    return Early(not_before) if Refusal.EARLY in refusals else None


# --- the writes -----------------------------------------------------------------------------------------------------


def writes_of(view: View, command: Command, decision: Decision) -> list[Write]:
    """The writes of a decision: the run's and, if it takes, holds or frees a turn, the turn's."""
    change, turn = decision.change, decision.turn
    if change is None:
        return []
    group = None if turn is None else view.number
    change = dated(view.doubt, change) if view.doubt else change
    run = Write(
        view.run.key,
        view.run.version,
        encode(change.record),
        change.mark,
        at=view.run.at,
        grant=change.grant,
        ttl=change.ttl,
        not_before=not_before(view, command, change),
        not_after=not_after(view, command, change),
        group=group,
    )
    return [run] if turn is None else [run, turn_write(view, turn, change)]


def turn_write(view: View, turn: Cell, change: Change) -> Write:
    """A turn that was not read is expected to be free; a held one is named by its version."""
    seen = FREE if turn.version == ABSENT or turn.mark is Mark.FREE else turn.version
    if change.record.is_running:
        return Write(turn.key, seen, encode_turn(Turn(view.run.key)), Mark.OPEN, ttl=change.ttl, group=view.number)
    return Write(turn.key, seen, FREED, Mark.FREE, ttl=change.ttl, group=view.number)


def job_write(view: View, job: Job) -> Write:
    """One for all decisions of a batch that rest on the same job."""
    assert view.known is not None
    return Write(view.known.cell.key, view.known.cell.version, encode_job(job), Mark.OPEN)


def not_before(view: View, command: Command, change: Change) -> Instant | None:
    """No slot starts before its instant. After the store forgot, no lock, turn, key or run by hand is granted before
    its last holder lost it. This assumes that all versions of a job, and all uses of a key, have leases of one length.
    What is dated rests on the clock as read."""
    if not (change.grant and isinstance(command, Claim)):
        return view.store_now - HARMLESS_ERROR if is_dated(command, change) else None
    epoch, slot = view.epoch, view.slot
    at = slot.at + command.delay if slot else None
    if not epoch.forgot or command.under or (slot and not change.record.turn and not slot.request):
        return at
    gone = epoch.born + (change.record.lease if slot or change.record.keep is not None else LOCK_LEASE)
    return gone if at is None else max(at, gone)


def not_after(view: View, command: Command, change: Change) -> Instant | None:
    """A first write rests on the job's facts, a first start on its deadline, and a step on the lease of its run."""
    first = view.run.version == ABSENT
    limit = view.store_now + HARMLESS_ERROR if is_dated(command, change) else None
    if view.known and first and rests_on_job(view, command):
        limit = view.known.read + FACTS_AGE
    if not (change.grant and isinstance(command, Claim)):
        return limit
    return min(filter(None, (limit, command.start_by if first else None, command.lands_by)), default=None)
