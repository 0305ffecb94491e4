"""What is explored: how many claimants, on which terms, and what may go wrong how often."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from cronce.policy import OnLost


class ExploredFault(StrEnum):
    CRASH = "crash"  # a process dies, a fresh one takes its place; what it had sent is on its way all the same
    LOST = "lost"  # a claimant gives up waiting: its request arrives later, or has arrived and the reply is lost
    JUMP = "jump"  # the store's clock jumps
    EMPTY = "empty"  # the store is emptied
    COPY = "copy"  # the store is copied
    RESTORE = "restore"  # and puts the copy in its place


class ExploredFaults(NamedTuple):
    """How often each may still happen."""

    crash: int = 0
    lost: int = 0
    jump: int = 0
    empty: int = 0
    copy: int = 0
    restore: int = 0


class Config(NamedTuple):
    name: str
    terms: tuple[OnLost, ...]  # of each claimant
    faults: ExploredFaults = ExploredFaults()
    lease: int = 2  # ticks
    attempts: int = 1
    keeper: bool = True  # runs renew their lease
    sweeper: bool = False  # claimants also settle what lapsed without wanting to run it
    prompt: bool = False  # a reply is heard as soon as it is given; requests may take long all the same
    skew: int = 0  # readings of the store's clock differ by up to this many ticks
    jump: int = 0  # by how many ticks the clock jumps, when it does

    @property
    def story(self) -> str:
        """What may happen besides claims, slow messages, pauses, starts, ends and releases."""
        return ", ".join([*self._ways(), *self._faults()]) or "nothing else"

    def _ways(self) -> Iterator[str]:
        if self.keeper:
            yield "renewals"
        if self.attempts > 1:
            yield f"{self.attempts} attempts"
        if self.sweeper:
            yield "sweeps"
        if self.prompt:
            yield "replies heard at once"
        if self.skew:
            yield f"readings of the clock {self.skew} apart"

    def _faults(self) -> Iterator[str]:
        if self.faults.crash:
            yield f"{self.faults.crash} crash"
        if self.faults.lost:
            yield f"{self.faults.lost} lost reply or late write"
        if self.faults.jump:
            yield f"the store's clock jumps {abs(self.jump)} {'ahead' if self.jump > 0 else 'back'}"
        if self.faults.empty:
            yield "the store is emptied"
        if self.faults.restore:
            yield "an old copy of the store is put back"


_SKIP: Final[tuple[OnLost, ...]] = ("skip", "skip")
_RERUN: Final[tuple[OnLost, ...]] = ("rerun", "rerun")
_MIXED: Final[tuple[OnLost, ...]] = ("skip", "rerun")

SMALL_CONFIGS: Final = (
    Config("skip", _SKIP, ExploredFaults(crash=1)),
    Config("rerun", _RERUN),
    Config("rerun, no renewals", _RERUN, ExploredFaults(lost=1), keeper=False),
    Config("skip, swept", _SKIP, attempts=2, sweeper=True, keeper=False),
    Config("skip, clock ahead", _SKIP, ExploredFaults(jump=1), jump=4),
    Config("three, rerun", ("rerun", *_RERUN), prompt=True),
)
"""Few enough states for the test suite."""

LARGE: Final = (
    Config("skip, faults", _SKIP, ExploredFaults(crash=1, lost=1)),
    Config("rerun, faults", _RERUN, ExploredFaults(crash=1, lost=1), keeper=False),
    Config("rerun, lost replies", _RERUN, ExploredFaults(lost=1)),
    Config("skip and rerun", _MIXED, ExploredFaults(crash=1)),
    Config("long lease", _SKIP, lease=5),
    Config("skip, retried", _SKIP, ExploredFaults(crash=1), attempts=2),
    Config("rerun, retried", _RERUN, attempts=2),
    Config("rerun, swept", _RERUN, ExploredFaults(lost=1), sweeper=True, keeper=False),
    Config("rerun, clock ahead", _RERUN, ExploredFaults(jump=1), jump=4),
    Config("clock back", _SKIP, ExploredFaults(jump=1), jump=-2),
    Config("clock back, lost reply", _RERUN, ExploredFaults(lost=1, jump=1), jump=-2, keeper=False),
    Config("uneven clock", _SKIP, skew=1),
    Config("uneven clock, rerun", _RERUN, ExploredFaults(lost=1), skew=1, keeper=False),
    Config("emptied", _RERUN, ExploredFaults(empty=1)),
    Config("put back", _SKIP, ExploredFaults(copy=1, restore=1), keeper=False),
    Config("three, skip", ("skip", *_SKIP), ExploredFaults(crash=1), prompt=True),
    Config("three, lost replies", ("rerun", *_RERUN), ExploredFaults(lost=1), prompt=True, keeper=False),
    Config("three, skip and rerun", ("rerun", *_MIXED), prompt=True),
    Config("three, slow replies", ("rerun", *_RERUN), keeper=False),
)

ALL_CONFIGS: Final = (*SMALL_CONFIGS, *LARGE)
