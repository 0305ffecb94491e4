"""What has ended here, until it is said to the store: again and again, as long as it can be trusted."""

from collections import deque
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from cronce.errors import BodyFailed, DatabaseUnavailable
from cronce.model import Boot
from cronce.protocol.commands import Finish, Release, Stale
from cronce.protocol.record import Outcome
from cronce.runtime.attempt import Attempt, End, finish_of, too_late
from cronce.runtime.ledger import Grant
from cronce.runtime.log import LOGGER
from cronce.runtime.task import Unsure
from cronce.value import NamedTuple

PUT_OFF: Final = 0.3
"""Seconds for which saying may wait, while others are started."""

SAID_BESIDE: Final = 50
SAID_AT_ONCE: Final = 500
"""How many are said in one swap, beside claims and without."""

UNWELL: Final = timedelta(seconds=10)
"""Until what could not be begun is tried again, here or elsewhere."""


class Said(NamedTuple):
    """An attempt that is over. `awaited`: slots of its job may wait for its turn."""

    attempt: Attempt
    end: End
    awaited: bool = False

    @property
    def word(self) -> tuple[Grant, Finish | Release, bool]:
        """What is said of it, and whether others should hear."""
        grant, ending = self.attempt.lease.grant, self.end.ending
        if ending is None:
            unwell = isinstance(self.end.error, Exception)  # or it was stopped before it could begin
            return grant, Release(grant.fence, UNWELL if unwell else timedelta(0)), True
        return grant, finish_of(self.attempt, ending), self.awaited

    def tell(self) -> None:
        """A line for each failure; where it happened only if that is this process, which others have told already."""
        ending, attempt = self.end.ending, self.attempt
        if ending is None and isinstance(self.end.error, DatabaseUnavailable):
            LOGGER.warning("%s is given back, and tried again: %s", attempt.lease.name, self.end.error)
        if ending is None or ending.outcome is not Outcome.FAILED:
            return
        of = f", attempt {attempt.run.attempt} of {attempt.job.retries + 1}" if attempt.job.retries else ""
        own = None if self.end.over or isinstance(self.end.error, BodyFailed) else self.end.error
        LOGGER.error("%s failed%s: %s", attempt.lease.name, of, ending.reason or "no reason given", exc_info=own)


class Endings:
    """One thread's, but for `add`, which any may call."""

    def __init__(self, holder: str) -> None:
        self._holder = holder
        self._new: deque[Said] = deque()
        self._unsaid: list[Said] = []
        self._said_at: Boot = 0.0
        self.given_up = 0
        """How many runs ended here whose end is not on record, and never will be."""

    def __len__(self) -> int:
        return len(self._new) + len(self._unsaid)

    @property
    def new(self) -> bool:
        """Whether something has ended that was not looked at yet."""
        return bool(self._new)

    def add(self, attempt: Attempt, end: End) -> None:
        self._new.append(Said(attempt, end))

    def pop_new(self) -> Iterable[Said]:
        """What has ended since the last time; whoever takes it keeps it."""
        while self._new:
            yield self._new.popleft()

    def keep(self, said: Iterable[Said]) -> None:
        """To be said, or said again."""
        self._unsaid = [*self._unsaid, *said]

    def take(self, boot: Boot, starting: Collection[str]) -> list[Said]:
        """What is said now. While slots of these jobs are started in the same breath, starting goes before saying, for
        a moment: only some are said, and those of the same jobs, since a slot is never tried before the end of an
        earlier one of its job is said."""
        unsaid = self._unsaid
        if not starting or boot >= self._said_at + PUT_OFF:
            self._unsaid, self._said_at = unsaid[SAID_AT_ONCE:], boot
            return unsaid[:SAID_AT_ONCE]
        now = [place < SAID_BESIDE or said.attempt.job.name in starting for place, said in enumerate(unsaid)]
        self._unsaid = [said for said, at_once in zip(unsaid, now, strict=True) if not at_once]
        return [said for said, at_once in zip(unsaid, now, strict=True) if at_once]

    def heard(self, said: Said, answer: object) -> None:
        """What the store said to it."""
        ending, lease = said.end.ending, said.attempt.lease
        match answer:
            case Unsure() if lease.trusted and answer.passing:
                self.keep([said])
            case Unsure(why) if ending is not None:
                self.given_up += 1
                LOGGER.error("%s %s, but that could not be recorded: %s", lease.name, ending.outcome, why)
            case Stale(by) if ending is not None:
                self.given_up += 1
                LOGGER.error("%s", too_late(lease, ending, by, self._holder))
