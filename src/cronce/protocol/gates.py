"""What a claim needs besides the run's own cell: the job that it rests on, gates that let it pass, and a turn.

*A gate* is a function of the view, the command and the job that it rests on. It returns an answer, or None: pass. A new
reason not to run is a new gate, or a row of the table; no other module decides.

*Paused* and *superseded* apply to every command that would start a run: a claim, and a slot that a scheduler records as
due. Runs on record go on: they renew, end and are settled while their job is paused.

*Turns* limit how many runs of a job go on at once. A turn is a cell, and a job with limited overlap has as many as its
limit. A run and its turn are written as one group, so neither is ever held without the other. If the table would grant
a claim and no turn is free, the job's overlap decides what becomes of it.

*Nothing is closed on a guess.* A turn that an earlier decision of the same batch takes is not taken yet: its write may
fail. So a claim that finds only such turns is decided again once that write has landed or failed.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from cronce.model import ABSENT, EPOCH, Cell, Instant, Mark, slot_of_cell
from cronce.protocol.commands import (
    Answer,
    Ask,
    Busy,
    Claim,
    Closed,
    Command,
    Early,
    Errand,
    Paused,
    Queue,
    Settle,
    Skip,
    Superseded,
    Unsure,
)
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.record import STILL_RAN, Job, Maker, Outcome, State, decode_turn
from cronce.protocol.specs import after_forgetting, fires_alike
from cronce.protocol.view import View
from cronce.value import NamedTuple

# --- the job ------------------------------------------------------------------------------------------------------


_CREATE: Final = (Claim, Queue, Skip)  # a union in place would be made anew with each call, and that is slow


def rests_on_job(view: View, command: Command) -> bool:
    return view.slot is not None and isinstance(command, _CREATE)


def job_of(view: View, command: Command) -> Job | None:
    """The job that a decision rests on: as it was read, or as this decision's own write will make it."""
    if view.known is None:
        return None
    job = view.known.job
    if job is None:
        first = command.first if isinstance(command, _CREATE) else None
        job = Job(floor=first_floor(view.known.read, first))
    return after_forgetting(job, view.epoch, view.traits)


def first_floor(now: Instant, first: Instant | None) -> Instant:
    """Where a new job begins: now. One whose trigger is outside begins right before the slot it fired for: the call
    itself is the evidence that this slot is due."""
    return now if first is None else min(first, now) - timedelta(seconds=1)


def floor_of(view: View, command: Command) -> Instant | None:
    """Up to where a slot without a record is closed. A run asked for by hand has no floor; nor has a lock. A step has
    the floor of a store that forgot: its slot may have run before."""
    if view.slot is None:
        return forgotten_floor(view.epoch, view.traits) if maker_of(command) else None
    if view.slot.request:
        return None
    job = job_of(view, command)
    return job.floor if job else forgotten_floor(view.epoch, view.traits)


def maker_of(command: Command) -> Maker | None:
    """The run that makes this step, for a step that is to begin."""
    return command.under if isinstance(command, Claim) else None


# --- the gates ----------------------------------------------------------------------------------------------------

Gate = Callable[[View, Command, Job | None], Answer | None]


def asked_before_forgetting(view: View, _command: Command, _job: Job | None) -> Answer | None:
    """A person asked for a run, got no answer, and the store forgot meanwhile: nothing tells whether it ran. The answer
    is *unsure*."""
    if view.slot and view.slot.request and view.unheard_in not in (0, view.epoch.birth):
        return Unsure(
            "the store lost data during the request: the run may have been requested and done already;"
            " check, then ask again"
        )
    return None


def paused(view: View, command: Command, job: Job | None) -> Answer | None:
    """The job is paused, or all jobs are: nothing starts. Runs go on, and what people ask for is put on record."""
    return Paused() if job and (job.paused or view.halted) and _digest(command) is not None else None


def superseded(_view: View, command: Command, job: Job | None) -> Answer | None:
    """Another version of the job fires it, with other slots: a deploy is under way, or was rolled back."""
    digest = _digest(command) if job and job.firing else None
    return Superseded(job.firing) if job and digest and not fires_alike(job, digest) else None


def unasked(view: View, command: Command, _job: Job | None) -> Answer | None:
    """What a person asks for is on record from then on: a claim never makes it. Without a record it was purged."""
    if isinstance(command, Claim) and view.slot and view.slot.request and view.run.version == ABSENT:
        return Closed(Outcome.TOO_OLD, "the request for it was withdrawn")
    return None


def _digest(command: Command) -> str | None:
    """The job version of a command that would start a run; None: the command starts nothing."""
    if isinstance(command, Claim):
        return command.digest
    return command.digest or None if isinstance(command, Queue) else None


GATES: Final[tuple[Gate, ...]] = (asked_before_forgetting, paused, superseded, unasked)

# --- turns --------------------------------------------------------------------------------------------------------


class Need(NamedTuple):
    """It cannot be decided yet. Read again what the view names, and these turns; have these commands decided."""

    turns: tuple[str, ...] = ()
    first: tuple[Errand, ...] = ()


class NoTurn(NamedTuple):
    """No turn is free. Holds the answer, or the command that the claim becomes, and which runs to ask to stop."""

    instead: Early | Busy | Skip | Queue
    also: tuple[Errand, ...] = ()


DECIDE_AGAIN: Final = Need()


def free_turn(view: View, command: Claim) -> Cell | None:
    """A turn that may be free. Claimants start at different turns, so that they spread."""
    first = int(command.nonce[:8] or "0", 16) % len(view.turns)
    for turn in (*view.turns[first:], *view.turns[:first]):
        if (turn.version == ABSENT or turn.mark is Mark.FREE) and turn.key not in view.reserved:
            return turn
    return None


def no_turn(view: View, command: Claim) -> Need | NoTurn:
    """All turns are taken. A run whose lease expired is settled first; then the job's overlap decides."""
    due = view.slot.at + command.delay if view.slot else None
    if due is not None and view.now < due:
        return NoTurn(Early(due))
    if any(turn.key in view.reserved for turn in view.turns):
        return DECIDE_AGAIN
    runs = {decode_turn(turn.value, turn.key).run: turn.until for turn in view.turns}
    gone = {run: until for run, until in runs.items() if until is not None and until <= view.now}
    unsettled = tuple((run, Settle()) for run in gone if run not in view.beside)
    if unsettled or not all(view.beside[run] for run in gone):
        return Need(first=unsettled)
    if gone:  # its lease expired, but this process has not watched the store's clock long enough to act
        return NoTurn(Busy(*next(iter(gone.items()))))
    run, until = min(runs.items(), key=lambda one: one[1] or EPOCH)
    if (view.record is not None and view.record.grant > 0) or not runs.keys().isdisjoint(view.ended):
        return NoTurn(Busy(run, until))
    if command.overlap == "skip":
        return NoTurn(Skip(f"{slot_of_cell(run).key}{STILL_RAN}", first=command.first))
    return _waiting(view, command, run, until)


def _waiting(view: View, command: Claim, run: str, until: Instant | None) -> NoTurn:
    """Under replace, a run is asked to stop; but not a run of a later slot, which may have started while a turn was
    free."""
    earlier = view.slot is not None and slot_of_cell(run).at < view.slot.at
    asks = command.overlap == "replace" and earlier and run not in view.beside
    also = ((run, Ask(f"replaced by {view.run.key}")),) if asks else ()
    if view.record is not None and view.record.state is State.WAITING:
        return NoTurn(Busy(run, until), also)
    return NoTurn(Queue(waiting=True, first=command.first), also)
