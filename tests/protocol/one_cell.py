"""One cell, a store's clock and who speaks: the table's rule, then the write it asks for, as a ledger would do it."""

from datetime import timedelta
from typing import NamedTuple

from cronce.model import Cell, Epoch, Fence, Instant, Slot, Write
from cronce.policy import OnLost
from cronce.protocol.commands import (
    Answer,
    Claim,
    Granted,
)
from cronce.protocol.record import Record, decode, encode
from cronce.stores.base import judge_groups
from tests.protocol.views import AT, Facts, rule

LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


class Told(NamedTuple):
    """An answer, equal only to its own kind: to Python, tuples are equal when their fields are."""

    answer: Answer

    def __eq__(self, other: object) -> bool:
        return type(self.answer) is type(other) and self.answer == other

    def __hash__(self) -> int:
        return hash(self.answer)


class OneCell:
    def __init__(self, *, at: Instant | None = AT, floor: Instant | None = None) -> None:
        self.cell = Cell(Slot("billing", AT).cell, at=at)
        self.now = AT
        self.floor = floor
        self.epoch = Epoch(birth=1)

    @property
    def record(self) -> Record:
        return decode(self.cell.value, self.cell.key)

    @property
    def fence(self) -> Fence:
        assert self.cell.fence is not None
        return self.cell.fence

    def later(self, span: timedelta) -> None:
        self.now += span

    def lapse(self) -> None:
        self.later(LEASE)

    def forget(self) -> None:
        """The store begins another life; what stands in it was written in the one before."""
        self.epoch = Epoch(self.epoch.birth + 1, self.epoch.tally, self.epoch.tally)
        self.floor = self.now

    def say(self, command: object, *, watched: timedelta = timedelta(hours=1)) -> Told:
        """What the command comes to, for one who watched the store's clock run evenly for so long."""
        record = self.record if self.cell.version else None
        facts = Facts(self.now, self.floor, self.epoch.base, lambda _tolerance: watched)
        answer, change, *_ = rule(self.cell, record, command, facts)  # type: ignore[arg-type]
        if change is not None:
            write = Write(
                self.cell.key,
                self.cell.version,
                encode(change.record),
                change.mark,
                self.cell.at,
                change.grant,
                change.ttl,
            )
            [verdict], _, tally = judge_groups([write], [self.cell] if self.cell.version else [], self.epoch, self.now)
            assert verdict.refused is None
            self.cell, self.epoch = verdict.cell, self.epoch._replace(tally=tally)
        return Told(answer)

    def granted(self, nonce: str = "n1", holder: str = "web-1", on_lost: OnLost = "rerun", attempts: int = 1) -> Fence:
        """The fence of a claim that wins."""
        told = self.say(Claim(nonce, holder, LEASE, on_lost, attempts))
        assert isinstance(told.answer, Granted)
        return self.fence
