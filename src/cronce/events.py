"""Facts: what happened, told once, by the ledger. Logs, metrics, the monitor and the page are folds over these."""

from enum import StrEnum

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
    SILENT = "does not answer"
    ANSWERS = "answers again"


class Event(NamedTuple):
    """`key` is the cell it happened to, `holder` who did it, `at` the store's now, `detail` the outcome or reason.

    `seconds`: a body started so long after its slot, or ended after so long."""

    what: What
    key: str
    holder: str
    at: Instant
    fence: Fence | None = None
    detail: str = ""
    seconds: float | None = None
