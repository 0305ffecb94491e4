"""What a body is given, and what a caller gets when there was none."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from cronce.errors import BadInput
from cronce.model import Fence, Slot
from cronce.runtime.keeper import Lease, Over
from cronce.runtime.ledger import Grant
from cronce.value import Value

Kind = Literal["held", "closed", "too old", "paused", "superseded"]


class Run:
    """One execution of a slot, handed to a body that has a parameter named `run`."""

    def __init__(self, lease: Lease, note_progress: Callable[[Lease, int, int], None]) -> None:
        """Who hears how far it is: the keeper of its lease, or in an isolated child the line to it."""
        self._lease, self._note_progress = lease, note_progress
        self.attempt = lease.grant.number
        """1 for the first, more after a takeover or a retry."""

    @property
    def over(self) -> Over | None:
        """Why its lease ended, if it did."""
        return self._lease.over

    @property
    def job(self) -> str:
        return self.slot.job

    @property
    def grant(self) -> Grant:
        """The right to run, as it was last renewed."""
        return self._lease.grant

    @property
    def slot(self) -> Slot:
        assert self.grant.slot is not None
        return self.grant.slot

    @property
    def at(self) -> datetime:
        """The slot's instant, in UTC: what the run is about, however late it is."""
        return self.slot.at

    @property
    def key(self) -> str:
        """The idempotency key for effects: the same in every attempt of the slot, and in a rerun of it."""
        return self.grant.record.key or self.slot.key

    @property
    def payload(self) -> Any:
        """What the run was triggered with, or else what its job gives to each; None if nothing."""
        text = self.grant.record.payload
        return json.loads(text) if text else None

    def progress(self, done: int, total: int) -> None:
        """Say how far the body is; `cronce runs` shows it. Call it as often as you like: it is told once a second."""
        if type(done) is not int or type(total) is not int or not 0 <= done <= total:
            raise BadInput(f"progress is a number of a total, such as 30 of 200, not {done!r:.40} of {total!r:.40}")
        self._note_progress(self._lease, done, total)

    @property
    def fence(self) -> Fence:
        """Higher in every later grant: a receiver that remembers the highest refuses a run that was taken over."""
        return self.grant.fence

    @property
    def trusted(self) -> bool:
        """Whether the body may still act. Asked of the clock each time: it costs a microsecond."""
        return self._lease.trusted

    def check(self) -> None:
        """Raise `TrustEnded` unless the body may still act."""
        self._lease.check()

    def __repr__(self) -> str:
        return f"<run {self.attempt} of {self.key}, fence {self.fence}>"


class Skipped(Value):
    """What a guarded call returns when its body did not run here. It is false; `reason` says why, for people."""

    kind: Kind
    reason: str
    slot: str = ""
    outcome: str | None = None
    """How the slot was closed, if it was: succeeded, failed, skipped, lost, unknown."""

    def __bool__(self) -> bool:
        return False
