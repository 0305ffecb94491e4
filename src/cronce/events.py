"""Facts: what happened, told once, by the ledger. Logs, metrics, the monitor and the page are folds over these."""

from enum import StrEnum
from typing import Final

from cronce.model import Fence, Instant
from cronce.value import NamedTuple


class What(StrEnum):
    GRANTED = "granted"
    TAKEN_OVER = "taken over"
    REFUSED = "refused"
    STARTED = "started"
    ENDED = "ended"
    RELEASED = "released"
    QUEUED = "queued"
    ASKED = "asked to stop"
    RETRYING = "retrying"
    CLOSED = "closed"
    STALE = "stale"
    DEPOSED = "deposed"
    REGISTERED = "registered"
    EDITED = "edited"
    PURGED = "purged"
    LATE = "late"
    OVERRUN = "overrun"
    MISSED = "missed"
    DOUBLED = "doubled"
    DRAINED = "claims no more"
    RESUMED = "claims again"
    FORGOT = "the store forgot"
    DOUBTED = "the store may have forgotten"
    LEAPT = "clock is not believed"
    STEADY = "clock is believed again"
    SILENT = "does not answer"
    ANSWERS = "answers again"


BARRED: Final = ("paused", "superseded", "too old")
"""How refusals begin that no other process is the reason of."""


class Event(NamedTuple):
    """`key` is the cell it happened to, `holder` who did it, `at` the store's now, `detail` the outcome or reason, in
    words for people. What a program needs of those it asks for below.

    `seconds`: a body started so long after its slot, or ended after so long."""

    what: What
    key: str
    holder: str
    at: Instant
    fence: Fence | None = None
    detail: str = ""
    seconds: float | None = None

    @property
    def outcome(self) -> str:
        """How a body ended, or as what a slot is closed; in `detail` the reason may follow."""
        return self.detail.partition(":")[0]

    @property
    def in_doubt(self) -> bool:
        """A slot is closed, and nobody knows what came of it: a person should."""
        return self.what is What.CLOSED and self.outcome in ("lost", "unknown")

    @property
    def barred(self) -> bool:
        """A claim was refused, and not because another process has or had the slot."""
        return self.what is What.REFUSED and self.detail.startswith(BARRED)

    @property
    def number(self) -> int:
        """Which attempt started, or how many slots were missed."""
        return next((int(word) for word in self.detail.split() if word.isdecimal()), 0)
