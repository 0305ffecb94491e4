"""What stands in a cell, and how it is spelled: versioned JSON, never pickle.

Every version ever written stays readable: a codec that changes a field's meaning, or adds one, raises VERSION and
upgrades old values while reading (`_UPGRADES`). A value of a newer version is refused, never guessed. So is anything
else that this codec would not have written, as BadRecord, whatever it is: cells are written whole, and a field that a
reader did not know and dropped would be lost.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeVar, get_args

from cronce.errors import BadRecord
from cronce.model import Fence, Instant, from_us, read_fence, to_us
from cronce.policy import OnLost
from cronce.protocol.lease import Sample
from cronce.value import NamedTuple

VERSION: Final = 2
PAST_KEPT: Final = 20
"""How many earlier grants a run, and how many spans a job remembers. Older grants are dropped (the grant number still
counts them), older spans are joined."""


# Words that records are written and read with: how a grant ended, why a slot was skipped, why some were passed over.
LAPSED: Final = "lapsed"
RELEASED: Final = "released"
NEVER_STARTED: Final = "never started"
TOO_LATE: Final = "too late to start"
STILL_RAN: Final = " still ran"
RESOLVED: Final = "resolved: "
EDITED: Final = "edited"
REGISTERED: Final = "registered"
PAUSED: Final = "paused"
PURGED: Final = "purged"
FORGOTTEN: Final = "unknown: the store forgot"


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
    """An earlier grant of the same slot, how it ended, and when that was noticed."""

    fence: Fence | None
    holder: str
    started: Instant | None
    end: str
    ended: Instant | None = None  # version 1 did not write it


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
    output: str = ""  # the end of what it printed, for people


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


class Machine(NamedTuple):
    """What a machine has seen of the store's clock since it was booted, for short-lived processes to go on from."""

    boot_id: str
    samples: tuple[Sample, ...]  # oldest first


class Refused(NamedTuple):
    """A claim that lost: of which slot, when, and why."""

    slot: str
    at: Instant
    why: str


class Refusals(NamedTuple):
    """What a machine was refused of a job: how often, and the last of them."""

    times: int
    recent: tuple[Refused, ...]


# --- spelling -----------------------------------------------------------------------------------------------------

_DEFAULT: Final = Record(State.DUE)
_MICROSECOND: Final = timedelta(microseconds=1)
_SPELL: Final[dict[str, Callable[[Any], Any]]] = {
    "lease": lambda span: span // _MICROSECOND,
    "started": to_us,
    "finished": to_us,
    "past": lambda past: [
        [str(p.fence) if p.fence else None, p.holder, _us(p.started), p.end, _us(p.ended)] for p in past
    ],
}


def _us(instant: Instant | None) -> int | None:
    return None if instant is None else to_us(instant)


_dumps = json.JSONEncoder(separators=(",", ":")).encode  # in ASCII: no store need agree on how text is encoded


def encode(record: Record) -> str:
    """Only what differs from the defaults is written, so a record stays small."""
    fields: dict[str, Any] = {"v": VERSION, "state": record.state.value}
    for name, value, default in zip(Record._fields[1:], record[1:], _DEFAULT[1:], strict=True):
        if value != default:
            spell = _SPELL.get(name)
            fields[name] = spell(value) if spell else value
    return _dumps(fields)


def encode_turn(turn: Turn) -> str:
    return _dumps({"v": VERSION, "run": turn.run})


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


def encode_holder(holder: Holder) -> str:
    return _dumps({"v": VERSION, "holder": holder.holder, "specs": dict(holder.specs)})


def encode_machine(machine: Machine) -> str:
    samples = [[s.began, s.ended, to_us(s.now)] for s in machine.samples]
    return _dumps({"v": VERSION, "boot_id": machine.boot_id, "samples": samples})


def encode_refusals(refusals: Refusals) -> str:
    recent = [[r.slot, to_us(r.at), r.why] for r in refusals.recent]
    return _dumps({"v": VERSION, "times": refusals.times, "recent": recent})


# --- reading: each field has a reader, which takes what was written and nothing else ----------------------------------

T = TypeVar("T")
Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    return _of(str, value)


def _whole(value: Any) -> int:
    return _of(int, value)


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:  # True is an int to isinstance, and never a number of ours
        raise TypeError
    return value


def _count(value: Any) -> int:
    if _whole(value) < 0:
        raise ValueError
    return int(value)


def _seconds(value: Any) -> float:
    if not isfinite(_of(float, value)):
        raise ValueError
    return float(value)


def _instant(value: Any) -> Instant:
    return from_us(_whole(value))


def _maybe(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    return lambda value: None if value is None else read(value)


def _each(make: Callable[..., T], *readers: Reader) -> Callable[[Any], tuple[T, ...]]:
    """A list of rows, each with these columns."""

    def row(values: Any) -> T:
        return make(*(read(value) for read, value in zip(readers, _of(list, values), strict=True)))

    return lambda rows: tuple(row(values) for values in _of(list, rows))


def _on_lost(value: Any) -> OnLost:
    if value not in get_args(OnLost):
        raise ValueError
    choice: OnLost = value
    return choice


_RUN: Final[dict[str, Reader]] = {
    "state": State,
    "grant": _count,
    "nonce": _text,
    "holder": _text,
    "lease": lambda us: timedelta(microseconds=_count(us)),
    "on_lost": _on_lost,
    "attempts": _count,
    "failures": _count,
    "turn": _text,
    "ask": _text,
    "started": _instant,
    "finished": _instant,
    "outcome": Outcome,
    "reason": _text,
    "past": _each(Past, _maybe(read_fence), _text, _maybe(_instant), _text, _maybe(_instant)),
    "output": _text,
}
_TURN: Final[dict[str, Reader]] = {"run": _text}
_JOB: Final[dict[str, Reader]] = {
    "floor": _instant,
    "paused": lambda value: _of(bool, value),
    "specs": _each(Spec, _text, _instant, _text),
    "firing": _text,
    "spans": _each(Span, _instant, _instant, _maybe(_count), _text),
    "purging": _maybe(lambda pair: Purging(*map(_instant, pair))),
}
_HOLDER: Final[dict[str, Reader]] = {
    "holder": _text,
    "specs": lambda specs: {_text(job): _text(digest) for job, digest in _of(dict, specs).items()},
}
_MACHINE: Final[dict[str, Reader]] = {
    "boot_id": _text,
    "samples": _each(Sample, _seconds, _seconds, _instant),
}
_REFUSALS: Final[dict[str, Reader]] = {"times": _count, "recent": _each(Refused, _text, _instant, _text)}


def decode(text: str, key: str = "") -> Record:
    return _read(text, key, Record, _RUN, optional=True)


def decode_turn(text: str, key: str = "") -> Turn:
    return _read(text, key, Turn, _TURN)


def decode_job(text: str, key: str = "") -> Job:
    return _read(text, key, Job, _JOB)


def decode_holder(text: str, key: str = "") -> Holder:
    return _read(text, key, Holder, _HOLDER)


def decode_machine(text: str, key: str = "") -> Machine:
    return _read(text, key, Machine, _MACHINE)


def decode_refusals(text: str, key: str = "") -> Refusals:
    return _read(text, key, Refusals, _REFUSALS)


_BROKEN: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError)
"""What reading something strange can raise: of the wrong type, out of range, incomplete, nested without end."""


def _with_ended(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 2 says when each earlier grant ended."""
    if "past" in fields:
        fields["past"] = [[*row, None] for row in fields["past"]]
    return fields


_UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {1: _with_ended}
"""From a version to the next: how old values become readable. Entries are added, never removed."""


def _read(text: str, key: str, make: Callable[..., T], readers: dict[str, Reader], *, optional: bool = False) -> T:
    try:
        fields = _fields(text, key)
        if not optional and fields.keys() != readers.keys():
            raise KeyError
        return make(**{name: readers[name](value) for name, value in fields.items()})
    except _BROKEN as error:
        raise BadRecord(f"the cell {key!r} holds something cronce did not write: {text[:80]!r}") from error


def _fields(text: str, key: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    version = _whole(fields.pop("v"))
    if version > VERSION:
        raise BadRecord(f"the cell {key!r} has format {version}, this cronce reads up to {VERSION}: upgrade cronce")
    if version < 1:
        raise ValueError
    for old in range(version, VERSION):
        fields = _UPGRADES[old](fields)
    return fields
