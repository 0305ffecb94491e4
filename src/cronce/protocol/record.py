"""What stands in a cell, and how it is spelled: versioned JSON, never pickle.

Every version ever written stays readable: a codec that changes a field's meaning, or adds one, raises VERSION and
upgrades old values while reading (`_UPGRADES`). A value of a newer version is refused, never guessed. So is anything
else that this codec would not have written, as BadRecord, whatever it is: cells are written whole, and a field that a
reader did not know and dropped would be lost.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeVar, get_args

from cronce.errors import BadRecord
from cronce.model import Cell, Fence, Instant, Slot, from_us, read_fence, to_us
from cronce.policy import OnLost
from cronce.protocol.lease import Sample
from cronce.value import NamedTuple

VERSION: Final = 4
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
COMMITTED: Final = "its transaction was committed"
UNSAYABLE: Final = "done, but what it returned could not be kept: "
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


DOUBTFUL: Final = (Outcome.LOST, Outcome.UNKNOWN)
"""Nobody knows whether it happened."""


class Past(NamedTuple):
    """An earlier grant of the same slot, how it ended, and when that was noticed."""

    fence: Fence | None
    holder: str
    started: Instant | None
    end: str
    ended: Instant | None = None  # version 1 did not write it


class Maker(NamedTuple):
    """A run that makes a step: its cell, and the fence of its grant."""

    run: str
    fence: Fence

    def __str__(self) -> str:
        return f"{self.run} {self.fence}"


class Record(NamedTuple):
    """A run, a lock, a leadership or an effect. on_lost, lease and attempts are as written with the grant, never as the
    reader has them."""

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
    by: str = ""  # who asked for it, if it was asked for by hand
    payload: str = ""  # what it was asked for with, as JSON
    key: str = ""  # the key that its effects go by, where it is not the slot's own
    progress: tuple[int, int] | None = None  # so much is done, of so much
    under: Maker | None = None  # of a step: the run that makes it
    result: str = ""  # of an effect that is done: what came of it, as JSON
    keep: timedelta | None = None  # of an effect: for how long it is known, once it is done
    joined: bool = False  # it may complete in the user's database, which is asked before it is closed as lost


def effects_key(record: Record | None, slot: Slot) -> str:
    """What the effects of a run go by: the key of its slot, unless it was asked for by hand and says another."""
    return (record.key if record else "") or slot.key


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


class Act(NamedTuple):
    """What somebody did by hand, and when."""

    by: str
    at: Instant | None = None  # version 2 did not write it
    reason: str = ""


class Job(NamedTuple):
    """What every claim of a job rests on."""

    floor: Instant
    paused: Act | None = None
    specs: tuple[Spec, ...] = ()
    firing: str = ""
    spans: tuple[Span, ...] = ()
    purging: Purging | None = None


class Holder(NamedTuple):
    """A live scheduler. The jobs that it carries stand in a bundle, which all of one deploy share."""

    holder: str
    bundle: str
    role: str
    workers: int
    labels: Mapping[str, str]
    since: Instant
    cronce: str
    draining: bool = False
    gone: bool = False  # it left on purpose


class Bundle(NamedTuple):
    """Jobs, and which version of each."""

    specs: Mapping[str, str]


class Stored(NamedTuple):
    """A job that lives in the store: its definition as JSON, or None once it was removed; by whom, and since when. The
    revision rises with each change, also beyond a removal."""

    revision: int
    definition: str | None
    by: str
    at: Instant


class Position(NamedTuple):
    """How far somebody has come, as JSON, and by which fence: a cursor of a job, or what a receiver has seen."""

    fence: Fence
    value: str = ""


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
    "keep": lambda span: span // _MICROSECOND,
    "under": str,
    "started": to_us,
    "finished": to_us,
    "progress": list,
    "past": lambda past: [
        [str(p.fence) if p.fence else None, p.holder, _us(p.started), p.end, _us(p.ended)] for p in past
    ],
}


def _us(instant: Instant | None) -> int | None:
    return None if instant is None else to_us(instant)


_quoted = json.encoder.encode_basestring_ascii  # in ASCII: no store need agree on how text is encoded


def _dumps(fields: dict[str, Any]) -> str:
    """What `json.dumps` would say. That makes its encoder anew for each value, which takes longer than to encode one:
    and a run writes four."""
    return "".join(_chunks(fields, 0))


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    plain = json.JSONEncoder(separators=(",", ":"))
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if make is None:  # a Python without C
        return lambda value, _level: (plain.encode(value),)
    encoder: Callable[[Any, int], Iterable[str]] = make(
        None, plain.default, _quoted, None, ":", ",", plain.sort_keys, plain.skipkeys, plain.allow_nan
    )
    return encoder


_chunks: Final = _encoder()


_FIELDS: Final = tuple(
    (name, default, _SPELL.get(name)) for name, default in zip(Record._fields[1:], _DEFAULT[1:], strict=True)
)


def encode(record: Record) -> str:
    """Only what differs from the defaults is written, so a record stays small."""
    fields: dict[str, Any] = {"v": VERSION, "state": record.state.value}
    for (name, default, spell), value in zip(_FIELDS, record[1:], strict=True):
        if value is not default and value != default:
            fields[name] = spell(value) if spell else value
    return _dumps(fields)


def encode_turn(turn: Turn) -> str:
    return f'{{"v":{VERSION},"run":{_quoted(turn.run)}}}'


def encode_job(job: Job) -> str:
    return _dumps(
        {
            "v": VERSION,
            "floor": to_us(job.floor),
            "paused": _spelled_act(job.paused),
            "specs": [[s.digest, to_us(s.first), s.text] for s in job.specs],
            "firing": job.firing,
            "spans": [[to_us(s.start), to_us(s.end), s.slots, s.reason] for s in job.spans],
            "purging": [to_us(job.purging.upto), to_us(job.purging.ready)] if job.purging else None,
        }
    )


def _spelled_act(act: Act | None) -> list[Any] | None:
    return [act.by, _us(act.at), act.reason] if act else None


def encode_act(act: Act | None) -> str:
    """An order that stands, or none."""
    return _dumps({"v": VERSION, "act": _spelled_act(act)})


def encode_holder(holder: Holder) -> str:
    return _dumps({"v": VERSION, **holder._asdict(), "labels": dict(holder.labels), "since": to_us(holder.since)})


def encode_bundle(bundle: Bundle) -> str:
    return _dumps({"v": VERSION, "specs": dict(bundle.specs)})


def encode_stored(stored: Stored) -> str:
    return _dumps({"v": VERSION, **stored._asdict(), "at": to_us(stored.at)})


def encode_position(position: Position) -> str:
    return _dumps({"v": VERSION, "fence": str(position.fence), "value": position.value})


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


def _flag(value: Any) -> bool:
    return _of(bool, value)


def _count(value: Any) -> int:
    if _whole(value) < 0:
        raise ValueError
    return int(value)


def _span(value: Any) -> timedelta:
    return timedelta(microseconds=_count(value))


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


def _texts(value: Any) -> dict[str, str]:
    return {_text(name): _text(text) for name, text in _of(dict, value).items()}


def _act(value: Any) -> Act:
    by, at, reason = _of(list, value)
    return Act(_text(by), _maybe(_instant)(at), _text(reason))


def _progress(value: Any) -> tuple[int, int]:
    done, total = _of(list, value)
    return _count(done), _count(total)


def _maker(value: Any) -> Maker:
    run, _, fence = _text(value).rpartition(" ")
    return Maker(run, read_fence(fence))


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
    "lease": _span,
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
    "by": _text,
    "payload": _text,
    "key": _text,
    "progress": _progress,
    "under": _maker,
    "result": _text,
    "keep": _span,
    "joined": _flag,
}
_TURN: Final[dict[str, Reader]] = {"run": _text}
_JOB: Final[dict[str, Reader]] = {
    "floor": _instant,
    "paused": _maybe(_act),
    "specs": _each(Spec, _text, _instant, _text),
    "firing": _text,
    "spans": _each(Span, _instant, _instant, _maybe(_count), _text),
    "purging": _maybe(lambda pair: Purging(*map(_instant, pair))),
}
_HOLDER: Final[dict[str, Reader]] = {
    "holder": _text,
    "bundle": _text,
    "role": _text,
    "workers": _count,
    "labels": _texts,
    "since": _instant,
    "cronce": _text,
    "draining": _flag,
    "gone": _flag,
}
_BUNDLE: Final[dict[str, Reader]] = {"specs": _texts}
_ACT: Final[dict[str, Reader]] = {"act": _maybe(_act)}
_STORED: Final[dict[str, Reader]] = {"revision": _count, "definition": _maybe(_text), "by": _text, "at": _instant}
_POSITION: Final[dict[str, Reader]] = {"fence": read_fence, "value": _text}
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


def decode_bundle(text: str, key: str = "") -> Bundle:
    return _read(text, key, Bundle, _BUNDLE)


def decode_act(text: str, key: str = "") -> Act | None:
    act: Act | None = _read(text, key, lambda act: act, _ACT)
    return act


def standing_act(cell: Cell) -> Act | None:
    """The order that stands in a cell, if one does. One that cannot be read stands all the same."""
    try:
        return decode_act(cell.value, cell.key) if cell.version else None
    except BadRecord as error:
        return Act("", reason=str(error))


def decode_stored(text: str, key: str = "") -> Stored:
    return _read(text, key, Stored, _STORED)


def decode_position(text: str, key: str = "") -> Position:
    return _read(text, key, Position, _POSITION)


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


def _with_acts(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 3 says who paused a job; and a holder names its bundle, where it listed its jobs before."""
    if "paused" in fields:
        fields["paused"] = ["", None, ""] if _of(bool, fields["paused"]) else None
    if "holder" in fields and "specs" in fields:
        bundled = {
            "bundle": "",
            "role": "both",
            "workers": 0,
            "labels": {},
            "since": 0,
            "cronce": "",
            "draining": False,
            "gone": False,
        }
        fields = {"holder": fields["holder"], **bundled}
    return fields


def _with_effects(fields: dict[str, Any]) -> dict[str, Any]:
    """Version 4 knows effects: fields that earlier ones never wrote."""
    return fields


_UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    1: _with_ended,
    2: _with_acts,
    3: _with_effects,
}
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
