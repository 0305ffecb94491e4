"""What stands in a cell: the records of runs, jobs and whoever runs them. How they are spelled is `codec`'s."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, get_args

from cronce.errors import BadRecord
from cronce.model import Cell, Fence, Instant, Slot, read_fence, to_us
from cronce.policy import OnLost
from cronce.protocol.codec import (
    MICROSECOND,
    VERSION,
    Reader,
    count,
    dumps,
    each,
    flag,
    instant,
    maybe,
    of,
    offset,
    quoted,
    read,
    seconds,
    span,
    text,
    texts,
    us,
)
from cronce.protocol.lease import Sample
from cronce.value import NamedTuple

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
    retried: Instant | None = None  # when a person had it tried again; version 5 had only that, as `ended`


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
    every: timedelta = timedelta(seconds=10)  # the next beat comes so long after this one
    skew: timedelta = timedelta(0)  # its machine's clock is ahead of the store's by this much
    running: int = 0  # bodies at work there


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
_SPELL: Final[dict[str, Callable[[Any], Any]]] = {
    "lease": lambda span: span // MICROSECOND,
    "keep": lambda span: span // MICROSECOND,
    "under": str,
    "started": to_us,
    "finished": to_us,
    "progress": list,
    "past": lambda past: [
        [str(p.fence) if p.fence else None, p.holder, us(p.started), p.end, us(p.ended), us(p.retried)] for p in past
    ],
}


_FIELDS: Final = tuple(
    (name, default, _SPELL.get(name)) for name, default in zip(Record._fields[1:], _DEFAULT[1:], strict=True)
)


def encode(record: Record) -> str:
    """Only what differs from the defaults is written, so a record stays small."""
    fields: dict[str, Any] = {"v": VERSION, "state": record.state.value}
    for (name, default, spell), value in zip(_FIELDS, record[1:], strict=True):
        if value is not default and value != default:
            fields[name] = spell(value) if spell else value
    return dumps(fields)


def encode_turn(turn: Turn) -> str:
    return f'{{"v":{VERSION},"run":{quoted(turn.run)}}}'


def encode_job(job: Job) -> str:
    return dumps(
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
    return [act.by, us(act.at), act.reason] if act else None


def encode_act(act: Act | None) -> str:
    """An order that stands, or none."""
    return dumps({"v": VERSION, "act": _spelled_act(act)})


def encode_holder(holder: Holder) -> str:
    spelled = {
        "labels": dict(holder.labels),
        "since": to_us(holder.since),
        "every": holder.every // MICROSECOND,
        "skew": holder.skew // MICROSECOND,
    }
    return dumps({"v": VERSION, **holder._asdict(), **spelled})


def encode_bundle(bundle: Bundle) -> str:
    return dumps({"v": VERSION, "specs": dict(bundle.specs)})


def encode_stored(stored: Stored) -> str:
    return dumps({"v": VERSION, **stored._asdict(), "at": to_us(stored.at)})


def encode_position(position: Position) -> str:
    return dumps({"v": VERSION, "fence": str(position.fence), "value": position.value})


def encode_machine(machine: Machine) -> str:
    samples = [[s.began, s.ended, to_us(s.now)] for s in machine.samples]
    return dumps({"v": VERSION, "boot_id": machine.boot_id, "samples": samples})


def encode_refusals(refusals: Refusals) -> str:
    recent = [[r.slot, to_us(r.at), r.why] for r in refusals.recent]
    return dumps({"v": VERSION, "times": refusals.times, "recent": recent})


# --- reading ------------------------------------------------------------------------------------------------------


def _act(value: Any) -> Act:
    by, at, reason = of(list, value)
    return Act(text(by), maybe(instant)(at), text(reason))


def _progress(value: Any) -> tuple[int, int]:
    done, total = of(list, value)
    return count(done), count(total)


def _maker(value: Any) -> Maker:
    run, _, fence = text(value).rpartition(" ")
    return Maker(run, read_fence(fence))


def _on_lost(value: Any) -> OnLost:
    if value not in get_args(OnLost):
        raise ValueError
    choice: OnLost = value
    return choice


_RUN: Final[dict[str, Reader]] = {
    "state": State,
    "grant": count,
    "nonce": text,
    "holder": text,
    "lease": span,
    "on_lost": _on_lost,
    "attempts": count,
    "failures": count,
    "turn": text,
    "ask": text,
    "started": instant,
    "finished": instant,
    "outcome": Outcome,
    "reason": text,
    "past": each(Past, maybe(read_fence), text, maybe(instant), text, maybe(instant), maybe(instant)),
    "output": text,
    "by": text,
    "payload": text,
    "key": text,
    "progress": _progress,
    "under": _maker,
    "result": text,
    "keep": span,
    "joined": flag,
}
_TURN: Final[dict[str, Reader]] = {"run": text}
_JOB: Final[dict[str, Reader]] = {
    "floor": instant,
    "paused": maybe(_act),
    "specs": each(Spec, text, instant, text),
    "firing": text,
    "spans": each(Span, instant, instant, maybe(count), text),
    "purging": maybe(lambda pair: Purging(*map(instant, pair))),
}
_HOLDER: Final[dict[str, Reader]] = {
    "holder": text,
    "bundle": text,
    "role": text,
    "workers": count,
    "labels": texts,
    "since": instant,
    "cronce": text,
    "draining": flag,
    "gone": flag,
    "every": span,
    "skew": offset,
    "running": count,
}
_BUNDLE: Final[dict[str, Reader]] = {"specs": texts}
_ACT: Final[dict[str, Reader]] = {"act": maybe(_act)}
_STORED: Final[dict[str, Reader]] = {"revision": count, "definition": maybe(text), "by": text, "at": instant}
_POSITION: Final[dict[str, Reader]] = {"fence": read_fence, "value": text}
_MACHINE: Final[dict[str, Reader]] = {
    "boot_id": text,
    "samples": each(Sample, seconds, seconds, instant),
}
_REFUSALS: Final[dict[str, Reader]] = {"times": count, "recent": each(Refused, text, instant, text)}


def decode(text: str, key: str = "") -> Record:
    return read(text, key, Record, _RUN, optional=True)


def decode_turn(text: str, key: str = "") -> Turn:
    return read(text, key, Turn, _TURN)


def decode_job(text: str, key: str = "") -> Job:
    return read(text, key, Job, _JOB)


def decode_holder(text: str, key: str = "") -> Holder:
    return read(text, key, Holder, _HOLDER)


def decode_bundle(text: str, key: str = "") -> Bundle:
    return read(text, key, Bundle, _BUNDLE)


def decode_act(text: str, key: str = "") -> Act | None:
    act: Act | None = read(text, key, lambda act: act, _ACT)
    return act


def standing_act(cell: Cell) -> Act | None:
    """The order that stands in a cell, if one does. One that cannot be read stands all the same."""
    try:
        return decode_act(cell.value, cell.key) if cell.version else None
    except BadRecord as error:
        return Act("", reason=str(error))


def decode_stored(text: str, key: str = "") -> Stored:
    return read(text, key, Stored, _STORED)


def decode_position(text: str, key: str = "") -> Position:
    return read(text, key, Position, _POSITION)


def decode_machine(text: str, key: str = "") -> Machine:
    return read(text, key, Machine, _MACHINE)


def decode_refusals(text: str, key: str = "") -> Refusals:
    return read(text, key, Refusals, _REFUSALS)
