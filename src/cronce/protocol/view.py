"""What a decision rests on: everything that was read about a run, and what this reader may believe of it."""

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Final

from cronce.model import Boot, Cell, Epoch, Instant, Slot, Traits
from cronce.protocol.lease import Sample
from cronce.protocol.record import Job, Maker, Record, State
from cronce.protocol.store_clock import Doubt
from cronce.value import NamedTuple

Even = Callable[[Cell, Sample, timedelta], timedelta]
"""How long, back from that reading and with this tolerance, no holder can have renewed a lease that seems expired, as
far as this reader has watched."""

Heard = Callable[[Sample, timedelta], timedelta]
"""For how long, up to that reading, a holder that renewed so long before it could be heard (`lease.heard`)."""


def nothing_yet(*_reading: object) -> timedelta:
    """The answer of a reader that has not watched the store yet."""
    return timedelta(0)


class KnownJob(NamedTuple):
    """A job as read: at which store time, in which life of the store, and until when (boot clock) it may be used."""

    cell: Cell
    job: Job | None
    read: Instant
    birth: int = 0
    fresh: Boot = 0.0


NO_TRAITS: Final = Traits("")


class View(NamedTuple):
    """All of it was read in one life of the store. A lock, a leadership and an effect have no slot."""

    run: Cell
    record: Record | None
    sample: Sample
    """The clocks when it was read."""
    slot: Slot | None = None
    turns: tuple[Cell, ...] = ()
    """The turns that a claim may take, and those that the run is known to hold."""
    over: Collection[Maker] = ()
    guessed: bool = False
    """The run was not read, but assumed absent. That may lead to a write, which then fails; never to a refusal."""
    unheard_in: int = 0
    """The life of the store in which a write of this command first got no answer."""
    known: KnownJob | None = None
    """The job; None: unread, or read too long ago."""
    number: int = 0
    """Its place in the batch, and the group number of its writes."""
    halted: bool = False
    """All jobs are paused. From here on it holds for every command of a batch."""
    epoch: Epoch = Epoch()
    traits: Traits = NO_TRAITS
    even: Even = nothing_yet
    heard: Heard = nothing_yet
    doubt: Doubt | None = None
    """Why the store's clock is not trusted."""
    reserved: Collection[str] = ()
    """Turns that are taken by earlier decisions of the same batch, whose writes have not landed yet."""
    beside: Mapping[str, bool] = {}
    """Runs that other commands of the batch are about: whether they have their answers."""
    ended: Collection[str] = ()
    """Runs that have ended in this process, whose ends could not be recorded yet."""

    def within(self, around: "View", known: KnownJob | None, number: int = 0) -> "View":
        return tuple.__new__(View, (*self[:8], known, number, *around[10:]))  # by place: done for every command

    @property
    def now(self) -> Instant:
        return self.sample.now

    @property
    def store_now(self) -> Instant:
        """The store's own reading, even if it is not believed."""
        return self.now if self.doubt is None else self.now + self.doubt.off

    @property
    def stands(self) -> Record:
        assert self.record is not None
        return self.record

    @property
    def held_turn(self) -> str:
        """The turn that the run holds: a process that changes the run changes its turn too."""
        return self.record.turn if self.record is not None and self.record.state is State.RUNNING else ""
