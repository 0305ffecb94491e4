"""What runs in this process just now: who has which turn, who shall stop, and what is to be told of it."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from math import inf
from typing import Final

from cronce.errors import BadRecord
from cronce.events import What
from cronce.model import Boot, Cell, Instant
from cronce.protocol.record import decode
from cronce.runtime.attempt import Attempt
from cronce.runtime.keeper import Keeper, Over
from cronce.runtime.ledger import Grant
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.waitlist import Candidate
from cronce.runtime.stored.allowed import Carried
from cronce.schedule import format_duration

HEEDED: Final = 500
"""How many of the runs a look asks for, whether they shall stop; the others learn it with their next renewal."""

LATE: Final = timedelta(seconds=5)
"""A slot that starts later than this after it was due is told of."""

STUBBORN: Final = 3.0
"""Seconds after which a body that was told to stop, and goes on, is told of."""

Tell = Callable[[What, str, str], None]
"""What happened, to which run, and more of it in words."""


class AtWork:
    """One thread's. `all` may be asked for by any."""

    def __init__(self, keeper: Keeper, tell: Tell) -> None:
        self._keeper, self._tell = keeper, tell
        self._running: dict[str, Attempt] = {}
        self._turns: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._stubborn: dict[str, Boot] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, cell: str) -> bool:
        return cell in self._running

    @property
    def all(self) -> list[Attempt]:
        return list(self._running.values())

    def turns(self, job: str) -> int:
        """How many runs of the job there are."""
        return self._turns[job]

    def employ(self, candidate: Candidate, grant: Grant, carried: Carried, now: Instant) -> Attempt:
        attempt = Attempt(self._keeper, carried.job, carried.work(), grant)
        self._running[grant.key] = attempt
        self._turns[carried.job.name] += 1
        slot = candidate.slot  # what waited for a turn, or was handed out, is as late as its instant says
        late = now - (candidate.due if slot.request else slot.at + candidate.terms.delay)
        if late > LATE and grant.number == 1:
            self._tell(What.LATE, grant.key, f"by {format_duration(timedelta(seconds=late // timedelta(seconds=1)))}")
        return attempt

    def dismiss(self, attempt: Attempt) -> None:
        if self._running.pop(attempt.lease.grant.key, None) is not None:
            self._turns[attempt.job.name] -= 1

    # --- stopping ---

    def asked_for(self) -> list[str]:
        """The cells of runs of which a look finds out whether somebody asks them to stop."""
        return list(islice(self._running, HEEDED))

    def heed(self, cell: Cell) -> None:
        """Most cells say nothing of the kind, so they are not read at length."""
        attempt = self._running[cell.key]
        if cell.fence == attempt.lease.grant.fence and '"ask":' in cell.value:
            with suppress(BadRecord):
                ask = decode(cell.value, cell.key).ask
                self._keeper.end(attempt.lease, Over("asked", f"asked to stop: {ask}"))

    # --- telling ---

    def tell(self, now: Instant, boot: Boot) -> None:
        """A run that goes on for longer than until the next slot of its job, or although it was told to stop, is told
        of once."""
        self._told = {one for one in self._told if one[0] in self._running}
        for key, attempt in self._running.items():
            if (gap := self._longer_than(attempt, now)) is not None and self._first(key, "overrun"):
                self._tell(What.OVERRUN, key, f"runs for longer than the {format_duration(gap)} to the next slot")
            over = attempt.lease.over
            if over is not None and self._first(key, "stop"):
                self._stubborn[key] = boot + STUBBORN
            if over is not None and boot >= self._stubborn.get(key, inf) and self._first(key, "stubborn"):
                LOGGER.warning(
                    "%s goes on, though it was told to stop (%s): it is in a call that cannot be interrupted, or"
                    " catches what stops it. It is fenced; isolate=True runs it where it can be killed",
                    attempt.lease.name,
                    over.why,
                )
        self._stubborn = {key: when for key, when in self._stubborn.items() if key in self._running}

    def _first(self, key: str, what: str) -> bool:
        first = (key, what) not in self._told
        self._told.add((key, what))
        return first

    def _longer_than(self, attempt: Attempt, now: Instant) -> timedelta | None:
        slot, started = attempt.run.slot, attempt.lease.grant.record.started
        gap = None if slot.request else attempt.job.gap_after(slot.at)
        return gap if gap is not None and started is not None and now - started > gap else None
