"""The records in cells: of runs, of jobs, and of the processes that run them. `codec` defines how they are spelled."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from itertools import compress
from operator import ne
from typing import Any, Final, get_args

from cronce.errors import BadRecord
from cronce.model import MICROSECOND, Cell, Fence, Instant, Slot, read_fence, to_us
from cronce.policy import OnLost
from cronce.protocol.codec import (
    RECORD_VERSION,
    Decoder,
    count,
    dumps,
    each,
    encoded,
    flag,
    instant,
    maybe,
    of,
    one_of,
    pair,
    quoted,
    span,
    spelled,
    text,
)
from cronce.value import NamedTuple

REASON_KEPT: Final = 500
"""How many characters of a run's end reason are kept."""

MOST_LAPSED: Final = 10  # holders in a row
PAST_KEPT: Final = 20
"""How many earlier grants a run keeps, and how many spans a job keeps. Older grants are dropped (the grant number still
counts them); older spans are joined."""

# Texts that records are written and read with: how a grant ended, why a slot was skipped, why slots were passed over.
LAPSED: Final = "lapsed"
RELEASED: Final = "released"
NEVER_STARTED: Final = "never started"
TOO_LATE: Final = "too late to start"
STILL_RAN: Final = " had not ended"
RESOLVED: Final = "resolved: "
SUPERSEDED: Final = "superseded by "
COMMITTED: Final = "its transaction was committed"
UNSAYABLE: Final = "done, but what it returned could not be kept: "
EDITED: Final = "edited"
REGISTERED: Final = "registered"
PAUSED: Final = "paused"
PURGED: Final = "purged"
FORGOTTEN: Final = "unknown: the store forgot"


class State(StrEnum):
    DUE = "due"  # no process holds it, or it was given back before it started
    WAITING = "waiting"  # due, and waiting for the job's turn
    RUNNING = "running"  # granted; whether its lease is live is a question of now, not a state
    RETRYING = "retrying"  # failed, and may be claimed again from `until` on
    CLOSED = "closed"


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    LOST = "lost"
    UNKNOWN = "unknown"
    TOO_OLD = "too old"

    @property
    def is_success(self) -> bool:
        return self is Outcome.SUCCEEDED

    @property
    def is_failure(self) -> bool:
        return self is Outcome.FAILED

    @property
    def is_doubt(self) -> bool:
        return self in DOUBTFUL

    @property
    def is_bad(self) -> bool:
        """It ran, or may have, and did not succeed: a person may resolve it."""
        return self in (Outcome.FAILED, *DOUBTFUL)

    @property
    def ran(self) -> bool:
        return self not in (Outcome.SKIPPED, Outcome.TOO_OLD)


DOUBTFUL: Final = (Outcome.LOST, Outcome.UNKNOWN)
"""It is not known whether it happened."""


class Past(NamedTuple):
    """An earlier grant of the same slot, how it ended, and when that was noticed."""

    fence: Fence | None
    holder: str
    started: Instant | None
    end: str
    ended: Instant | None = None  # version 1 did not write it
    retried: Instant | None = None  # when a person retried it; version 5 had only that, as `ended`


class Maker(NamedTuple):
    """A run that makes a step: its cell, and the fence of its grant."""

    run: str
    fence: Fence

    def __str__(self) -> str:
        return f"{self.run} {self.fence}"


class Record(NamedTuple):
    """A run, a lock, a leadership or an effect. on_lost, lease and attempts are those written with the grant, never the
    reader's."""

    state: State
    grant: int = 0
    nonce: str = ""
    holder: str = ""
    lease: timedelta = timedelta(0)
    on_lost: OnLost = "skip"
    attempts: int = 1
    failures: int = 0
    turn: str = ""
    ask: str = ""
    started: Instant | None = None
    finished: Instant | None = None
    outcome: Outcome | None = None
    reason: str = ""
    past: tuple[Past, ...] = ()
    output: str = ""  # the end of its output, for people
    by: str = ""  # the person who requested it, if one did
    payload: str = ""  # the payload it was requested with, as JSON
    key: str = ""  # the key of its effects, if it is not the slot's own
    progress: tuple[int, int] | None = None  # done, and total
    under: Maker | None = None  # of a step: the run that makes it
    result: str = ""  # of an effect that is done: its result, as JSON
    keep: timedelta | None = None  # of an effect: how long it stays known, once it is done
    joined: bool = False  # it may complete in the user's database, which is asked before it is closed as lost
    least: timedelta = timedelta(0)  # of a lock: kept for so long after its grant, even if its holder dies
    overdue: str = ""  # while it runs: why it was asked to stop, some time ago

    @property
    def is_running(self) -> bool:
        """It was granted and has not ended; its lease may be live or expired."""
        return self.state is State.RUNNING

    @property
    def is_waiting(self) -> bool:
        return self.state is State.WAITING

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    @property
    def in_doubt(self) -> bool:
        """It is closed, and it is not known whether it happened."""
        return self.outcome is not None and self.outcome.is_doubt

    @property
    def resolved(self) -> bool:
        """A person recorded how it ended; the time of that record is not when it ended."""
        return self.reason.startswith(RESOLVED)

    @property
    def superseded(self) -> bool:
        """A newer rerun took its place; its own words may say so of other things."""
        return self.reason.rpartition("; ")[2].startswith(SUPERSEDED)

    def took(self, now: Instant | None = None) -> timedelta | None:
        """How long it ran, or has run by now. None if not known: a lost run is finished when the loss is noticed."""
        ended = now if self.is_running else self.finished
        told = not self.resolved and self.outcome is not Outcome.LOST
        return ended - self.started if told and ended and self.started else None

    @property
    def closes_as_lost(self) -> bool:
        """Whether it is closed if its holder is gone; if not, it may be granted again. A run that was asked to stop
        does not start again. Nor does a run whose last MOST_LAPSED holders all died: the run itself may kill them."""
        ends = [past.end for past in self.past[-MOST_LAPSED:]]
        return self.on_lost == "skip" or bool(self.ask) or ends == [LAPSED] * MOST_LAPSED


def effects_key(record: Record | None, slot: Slot) -> str:
    """The key of a run's effects: that of its slot, unless a person requested the run with another key."""
    return (record.key if record else "") or slot.key


class Turn(NamedTuple):
    """The right of a job to run: which run holds it."""

    run: str = ""


class SpanRecord(NamedTuple):
    """Slots that a policy, an edit or a forgetful store passed over: one record for all of them."""

    start: Instant
    end: Instant
    slots: int | None
    reason: str


class Spec(NamedTuple):
    """One version of a job, as a deploy declared it, and when it was first seen."""

    digest: str
    first: Instant
    text: str = ""


class Purging(NamedTuple):
    """An announced purge: the floor is raised, and cells below it are deleted when no claim can rest on the old
    floor."""

    upto: Instant
    ready: Instant


class Act(NamedTuple):
    """What a person did, and when."""

    by: str
    at: Instant | None = None  # version 2 did not write it
    reason: str = ""


class Job(NamedTuple):
    """What every claim of a job rests on."""

    floor: Instant
    paused: Act | None = None
    specs: tuple[Spec, ...] = ()
    firing: str = ""
    spans: tuple[SpanRecord, ...] = ()
    purging: Purging | None = None
    code: str = ""  # where its function is, as module:name, or which command it is


# --- spelling -----------------------------------------------------------------------------------------------------

_SPELL: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("lease", "keep", "least"), lambda span: span // MICROSECOND),
    "under": str,
    "started": to_us,
    "finished": to_us,
    "progress": list,
    "past": spelled,
}


_FIELDS: Final = tuple((name, _SPELL.get(name)) for name in Record._fields)
_DEFAULTS: Final = (None, *Record(State.DUE)[1:])  # a state is always written


def encode(record: Record) -> str:
    """Only what differs from the defaults is written, so a record stays small."""
    fields: dict[str, Any] = {"v": RECORD_VERSION}
    for (name, spell), value in compress(zip(_FIELDS, record, strict=True), map(ne, record, _DEFAULTS)):
        fields[name] = spell(value) if spell else value
    return dumps(fields)


def encode_turn(turn: Turn) -> str:
    return f'{{"v":{RECORD_VERSION},"run":{quoted(turn.run)}}}'


FREED: Final = encode_turn(Turn())


def encode_job(job: Job) -> str:
    return encoded(job._asdict(), ("code",))


def encode_act(act: Act | None) -> str:
    return encoded({"act": act})


# --- reading ------------------------------------------------------------------------------------------------------


def _act(value: Any) -> Act:
    by, at, reason = of(list, value)
    return Act(text(by), maybe(instant)(at), text(reason))


def _maker(value: Any) -> Maker:
    run, _, fence = text(value).rpartition(" ")
    return Maker(run, read_fence(fence))


decode: Final = Decoder(
    Record,
    sparse=True,
    state=State,
    grant=count,
    nonce=text,
    holder=text,
    lease=span,
    on_lost=one_of(get_args(OnLost)),
    attempts=count,
    failures=count,
    turn=text,
    ask=text,
    started=instant,
    finished=instant,
    outcome=Outcome,
    reason=text,
    past=each(Past, maybe(read_fence), text, maybe(instant), text, maybe(instant), maybe(instant)),
    output=text,
    by=text,
    payload=text,
    key=text,
    progress=pair,
    under=_maker,
    result=text,
    keep=span,
    joined=flag,
    least=span,
    overdue=text,
)
decode_turn: Final = Decoder(Turn, run=text)
decode_job: Final = Decoder(
    Job,
    floor=instant,
    paused=maybe(_act),
    specs=each(Spec, text, instant, text),
    firing=text,
    spans=each(SpanRecord, instant, instant, maybe(count), text),
    purging=maybe(lambda pair: Purging(*map(instant, pair))),
    newer={"code": text},
)
decode_act: Final[Decoder[Act | None]] = Decoder(lambda act: act, act=maybe(_act))


def standing_act(cell: Cell) -> Act | None:
    """The order in force in a cell, if any. An order that cannot be read is still in force."""
    try:
        return decode_act(cell.value, cell.key) if cell.version else None
    except BadRecord as error:
        return Act("", reason=str(error))
