"""One command on its way to an answer, and the answers that are not the protocol's own."""

from dataclasses import dataclass, field
from typing import NamedTuple

from cronce.model import EPOCH, Boot, Cell, Instant, Slot
from cronce.policy import Overlap
from cronce.protocol.decide import Answer, Claim, Command, Queue, Skip


class Busy(NamedTuple):
    """The slot is free, but the job's turns are taken: by that run, until then at least."""

    run: str
    until: Instant | None


class Paused(NamedTuple):
    """Somebody paused the job."""


class Superseded(NamedTuple):
    """A newer version of the job is alive elsewhere, and fires it."""

    firing: str


class Unsure(NamedTuple):
    """The store did not say. Nobody may run on this."""

    why: str


Reply = Answer | Busy | Paused | Superseded | Unsure


@dataclass(slots=True, eq=False)
class Task:
    """One command on its way to an answer. `run` and `turns` are as last read, or guessed to be absent and free."""

    command: Command
    run: Cell
    slot: Slot | None = None
    turns: list[Cell] = field(default_factory=list)
    overlap: Overlap = "skip"
    digest: str = ""
    register_at: Instant | None = None  # the floor to register an unknown job with; None: at the store's now
    birth: int = 0
    now: Instant = EPOCH
    began: Boot = 0.0
    unread: bool = False
    guessed: bool = False  # the run was not read yet, but taken to be absent
    answer: Reply | None = None

    @property
    def rests_on_job(self) -> bool:
        """Only what may create a run rests on the facts of its job."""
        return self.slot is not None and isinstance(self.command, Claim | Queue | Skip)

    def read(self, cell: Cell) -> None:
        """Take in a cell as it stands now: the run, or one of the turns."""
        if cell.key == self.run.key:
            self.guessed = False
            self.run = cell if cell.version else Cell(cell.key, at=self.slot.at if self.slot else None)
        for place, turn in enumerate(self.turns):
            if turn.key == cell.key:
                self.turns[place] = cell
