"""One command on its way to an answer, and the answers that are not the protocol's own."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cronce.errors import StoreError, StoreUnavailable
from cronce.model import EPOCH, Cell, Instant, Slot
from cronce.policy import Overlap
from cronce.protocol.commands import (
    Answer,
    Claim,
    Command,
    Queue,
    Skip,
)
from cronce.protocol.lease import Sample
from cronce.protocol.record import Maker, Record, State, decode
from cronce.value import Value, aside

NO_SAMPLE: Final = Sample(0.0, 0.0, EPOCH)


class Busy(Value):
    """The slot is free, but the job's turns are taken: by that run, until then at least."""

    run: str
    until: Instant | None


class Paused(Value):
    """Somebody paused the job."""


class Superseded(Value):
    """Another version of the job fires it, by facts of up to half a minute ago: ask again, it may be yours by then."""

    firing: str


class Unsure(Value):
    """The store did not say, or said something unreadable. Nobody may run on this."""

    why: str
    error: StoreError | None = aside(default=None)
    unreadable: bool = aside(default=False)

    @property
    def passing(self) -> bool:
        """Whether it may help to ask again: not until a person has acted, if the store cannot be used, or read."""
        return not self.unreadable and (self.error is None or isinstance(self.error, StoreUnavailable))


Reply = Answer | Busy | Paused | Superseded | Unsure


class Task:
    """One command on its way to an answer. `run` and `turns` are as last read, or guessed to be absent and free."""

    def __init__(
        self,
        command: Command,
        run: Cell,
        slot: Slot | None = None,
        *,
        turns: Iterable[Cell] = (),
        overlap: Overlap = "skip",
        digest: str = "",
        register_at: Instant | None = None,
        delay: timedelta = timedelta(0),
        wakes: bool = False,
        quiet: bool = False,
        lands_by: Instant | None = None,
        over: frozenset[Maker] = frozenset(),
        birth: int = 0,
        sample: Sample = NO_SAMPLE,
        unread: bool = False,
        guessed: bool = False,
        decoded: tuple[str, Record | None] = ("", None),
    ) -> None:
        self.command = command
        self.run = run
        self.slot = slot
        self.turns = list(turns)
        self.overlap = overlap
        self.digest = digest
        self.register_at = register_at  # the floor to register an unknown job with; None: at the store's now
        self.delay = delay  # how long after its instant the slot may start at the earliest
        self.wakes = wakes  # others wait for what this brings about, whatever it is
        self.quiet = quiet  # no event is told of it: there are thousands, and whoever asks tells what matters
        self.lands_by = lands_by  # the write that grants it lands by then, or not at all
        self.over = over  # runs that are known to be over
        self.birth = birth
        self.sample = sample  # of the clocks, by the reply that brought what was read
        self.unread = unread
        self.guessed = guessed  # the run was not read yet, but taken to be absent
        self.decoded = decoded  # the run's record, by its text: versions of two lives may coincide
        self.unheard_in = 0  # the life of the store in which it was written first, and no answer came
        self.answer: Reply | None = None

    @property
    def under(self) -> Maker | None:
        """Of a step that is to be begun: the run that makes it."""
        return self.command.under if isinstance(self.command, Claim) else None

    @property
    def now(self) -> Instant:
        return self.sample.now

    @property
    def record(self) -> Record | None:
        if self.decoded[0] != self.run.value:
            self.decoded = (self.run.value, decode(self.run.value, self.run.key) if self.run.version else None)
        return self.decoded[1]

    @property
    def held_turn(self) -> str:
        """The turn that the run has as it was read; whoever changes the run changes it too."""
        return self.record.turn if self.record is not None and self.record.state is State.RUNNING else ""

    @property
    def rests_on_job(self) -> bool:
        """Only what may create a run rests on the facts of its job."""
        return self.slot is not None and isinstance(self.command, Claim | Queue | Skip)

    def read(self, cell: Cell) -> None:
        """Take in a cell as it stands now: the run, or one of the turns."""
        if cell.key == self.run.key:
            self.guessed = False
            self.run = cell if cell.version else Cell(cell.key, at=self.run.at)
        for place, turn in enumerate(self.turns):
            if turn.key == cell.key:
                self.turns[place] = cell
