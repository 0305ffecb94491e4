"""What stands in a cell, and how it is spelled: versioned JSON, never pickle.

Every version ever written stays readable: a codec that changes a field's meaning raises VERSION and upgrades old
values while reading (`_UPGRADES`). A value of a newer version is refused, never guessed.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cronce.errors import BadRecord
from cronce.model import Fence, Instant, from_us, read_fence, to_us
from cronce.policy import OnLost

VERSION: Final = 1
PAST_KEPT: Final = 20
"""How many earlier grants a run, and how many spans a job remembers. Older grants are dropped (the grant number still
counts them), older spans are joined."""


class State(StrEnum):
    DUE = "due"  # nobody's yet, or given back before it started
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


class Past(NamedTuple):
    """An earlier grant of the same slot, and how it ended."""

    fence: Fence | None
    holder: str
    started: Instant | None
    end: str


class Record(NamedTuple):
    """A run, a lock or a leadership. on_lost, lease and attempts are as written with the grant, never the reader's."""

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


class Turn(NamedTuple):
    """The right of a job to run at all: which run has it."""

    run: str = ""


class Span(NamedTuple):
    """Slots that a policy, an edit or a forgetful store passed over: one record for all of them."""

    start: Instant
    end: Instant
    slots: int | None
    reason: str


class Spec(NamedTuple):
    """One version of a job as some deploy declared it, and when it was first seen."""

    digest: str
    first: Instant
    text: str = ""


class Purging(NamedTuple):
    """A purge announced: the floor is raised, the cells below it go when no claim can rest on the old floor."""

    upto: Instant
    ready: Instant


class Job(NamedTuple):
    """What every claim of a job rests on."""

    floor: Instant
    paused: bool = False
    specs: tuple[Spec, ...] = ()
    firing: str = ""
    spans: tuple[Span, ...] = ()
    purging: Purging | None = None


class Holder(NamedTuple):
    """A live process: which version of which job it carries."""

    holder: str
    specs: Mapping[str, str]


# --- spelling -----------------------------------------------------------------------------------------------------

_DEFAULT: Final = Record(State.DUE)
_SPELL: Final[dict[str, Callable[[Any], Any]]] = {
    "lease": lambda span: span // timedelta(microseconds=1),
    "started": to_us,
    "finished": to_us,
    "past": lambda past: [
        [str(p.fence) if p.fence else None, p.holder, to_us(p.started) if p.started else None, p.end] for p in past
    ],
}
_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "state": State,
    "lease": lambda us: timedelta(microseconds=us),
    "started": from_us,
    "finished": from_us,
    "outcome": Outcome,
    "past": lambda past: tuple(
        Past(read_fence(f) if f else None, holder, from_us(at) if at is not None else None, end)
        for f, holder, at, end in past
    ),
}

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode(record: Record) -> str:
    """Only what differs from the defaults is written, so a record stays small."""
    fields: dict[str, Any] = {"v": VERSION, "state": record.state.value}
    for name, value, default in zip(Record._fields[1:], record[1:], _DEFAULT[1:], strict=True):
        if value != default:
            spell = _SPELL.get(name)
            fields[name] = spell(value) if spell else value
    return _dumps(fields)


def decode(text: str, key: str = "") -> Record:
    fields = _loads(text, key)
    try:
        return Record(**{name: _READ[name](value) if name in _READ else value for name, value in fields.items()})
    except (TypeError, ValueError, KeyError) as error:
        raise _unreadable(text, key) from error


def encode_turn(turn: Turn) -> str:
    return _dumps({"v": VERSION, "run": turn.run})


def decode_turn(text: str, key: str = "") -> Turn:
    return Turn(run=str(_loads(text, key).get("run", "")))


def encode_job(job: Job) -> str:
    return _dumps(
        {
            "v": VERSION,
            "floor": to_us(job.floor),
            "paused": job.paused,
            "specs": [[s.digest, to_us(s.first), s.text] for s in job.specs],
            "firing": job.firing,
            "spans": [[to_us(s.start), to_us(s.end), s.slots, s.reason] for s in job.spans],
            "purging": [to_us(job.purging.upto), to_us(job.purging.ready)] if job.purging else None,
        }
    )


def decode_job(text: str, key: str = "") -> Job:
    fields = _loads(text, key)
    try:
        return Job(
            floor=from_us(fields["floor"]),
            paused=bool(fields["paused"]),
            specs=tuple(Spec(digest, from_us(first), text) for digest, first, text in fields["specs"]),
            firing=str(fields["firing"]),
            spans=tuple(Span(from_us(a), from_us(b), slots, reason) for a, b, slots, reason in fields["spans"]),
            purging=Purging(*map(from_us, fields["purging"])) if fields["purging"] else None,
        )
    except (TypeError, ValueError, KeyError) as error:
        raise _unreadable(text, key) from error


def encode_holder(holder: Holder) -> str:
    return _dumps({"v": VERSION, "holder": holder.holder, "specs": dict(holder.specs)})


def decode_holder(text: str, key: str = "") -> Holder:
    fields = _loads(text, key)
    try:
        return Holder(str(fields["holder"]), {str(job): str(digest) for job, digest in fields["specs"].items()})
    except (AttributeError, KeyError) as error:
        raise _unreadable(text, key) from error


_UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""From a version to the next: how old values become readable. Entries are added, never removed."""


def _loads(text: str, key: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        version = fields.pop("v")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(text, key) from error
    if not isinstance(version, int) or version > VERSION:
        raise BadRecord(f"the cell {key!r} has format {version!r}, this cronce reads up to {VERSION}: upgrade cronce")
    for old in range(version, VERSION):
        fields = _UPGRADES[old](fields)
    return dict(fields)


def _unreadable(text: str, key: str) -> BadRecord:
    return BadRecord(f"the cell {key!r} holds something cronce did not write: {text[:80]!r}")
