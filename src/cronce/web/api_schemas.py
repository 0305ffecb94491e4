"""The shapes of what the API answers, as JSON Schema. A key that has nothing to say is there, and null.

A shape is written as its keys, each with what it holds: `shape("job grant?:int started?:instant runs:Run[]")` has a
text, a number or null, an instant or null, and a list of runs. `int{}` is an object of numbers by name.
"""

from typing import Any, Final, get_args

from cronce.protocol.record import Outcome, State
from cronce.runtime.effects.review import STATES
from cronce.runtime.queries import Life
from cronce.runtime.why import Case

Schema = dict[str, Any]


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def short_text(longest: int, least: int = 0) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": longest}


TEXT_SCHEMA: Final[Schema] = {"type": "string"}
YES: Final[Schema] = {"type": "boolean"}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
ANY: Final[Schema] = {}

_PLAIN_TYPES: Final[dict[str, Schema]] = {
    "": TEXT_SCHEMA,
    "yes": YES,
    "int": {"type": "integer"},
    "seconds": {"type": "number"},
    "instant": INSTANT,
    "object": {"type": "object"},
    "any": ANY,
    "state": one_of(*State, "unreadable"),
    "outcome": one_of(*Outcome),
    "effect": one_of(*STATES),
    "case": one_of(*Case),
    "life": one_of(*get_args(Life)),
}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def shape(keys: str, **more: Schema) -> Schema:
    """An object with all of these keys, and no others."""
    known = {name.rstrip("?"): _held(name, kind) for name, _, kind in (key.partition(":") for key in keys.split())}
    known |= more
    return {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}


def _held(name: str, kind: str) -> Schema:
    of = kind.rstrip("[]{}")
    schema = _PLAIN_TYPES[of] if of in _PLAIN_TYPES else ref(of)
    if kind.endswith("[]"):
        schema = many(schema)
    elif kind.endswith("{}"):
        schema = {"type": "object", "additionalProperties": schema}
    return maybe(schema) if name.endswith("?") else schema


_TERM: Final = "holder fence? started?:instant ended?:instant end"
_RUN: Final = (
    "job slot state:state outcome?:outcome holder? fence? grant?:int started?:instant finished?:instant reason?"
    " lapsed:yes host_gone:yes fate? by? payload:any progress?:int[]"
)
_JOB_SHAPE: Final = (
    "job schedules:object[] policies:object next?:instant carried:yes paused?:yes pause?:Act floor?:instant last?:Run"
)
_STORED: Final = maybe(shape("revision:int by at?:instant definition?:object"))
_EFFECT: Final = "effect state:effect started?:instant finished?:instant holder? reason? result:any"

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": shape("error"),
    "Act": shape("by? at?:instant reason?"),
    "Term": shape(_TERM),
    "Past": shape(f"{_TERM} retried?:instant"),
    "Run": shape(_RUN),
    "Job": shape(_JOB_SHAPE, stored=_STORED),
    "Effect": shape(_EFFECT),
    "Refused": shape("job host slot at?:instant why"),
    "Held": shape("name state holder? since?:instant until?:instant fence? history:Term[]"),
    "Survey": shape("counts:int{} capped:[] in_doubt:Effect[]"),
    "Story": shape(
        "slot case:case sentence run?:Run past:Past[] effects:Survey output",
        refused=many(shape("host at?:instant why")),
    ),
    "SomeRuns": shape("count:int more:yes runs:Run[]"),
    "Holder": shape(
        "holder role workers:int labels:{} since?:instant version tzdata beat?:instant draining:yes drained?:Act"
        " life:life running:int skew:seconds"
    ),
    "Handled": shape("by at?:instant reason? until?:instant"),
    "Alert": shape(
        "id kind subject severity text remedy since?:instant cause slots:[] effects:[] cleared?:instant times:int"
        " handled?:Handled"
    ),
    "Incident": shape("id cause severity since?:instant alerts:[] slots:[] effects:[] handled?:Handled"),
    # what is answered
    "Overview": shape(
        "now:instant store halted?:Act alerts:Alert[] holders:Holder[] open:SomeRuns attention:SomeRuns newest:Run[]",
        in_doubt=shape("count:int more:yes"),
    ),
    "Jobs": shape("jobs:Job[] total:int next?"),
    "JobView": shape(
        f"{_JOB_SHAPE} halted?:Act open:SomeRuns attention:SomeRuns",
        stored=_STORED,
        refused=many(shape("host times:int recent:Refused[]")),
        passed_over=many(shape("start:instant end:instant slots?:int reason")),
        took=many(shape("slot seconds:seconds")),
    ),
    "Runs": shape("runs:Run[] next?"),
    "RunView": ref("Story"),
    "Why": shape(
        "job next?:instant carried:yes paused?:yes pause?:Act floor?:instant refusals:int{} effects?:Survey"
        " slots:Story[]"
    ),
    "Holders": shape("holders:Holder[]"),
    "Locks": shape("locks:Held[] next?"),
    "Leaders": shape("leaders:Held[] next?"),
    "Effects": shape("effects:Effect[] next?"),
    "Alerts": shape("alerts:Alert[] incidents:Incident[] more:yes"),
    "Observed": shape(
        "",
        observed=many(
            shape("name window? calls:int duplicates:int", recent=many(shape("slot at?:instant by why"))),
        ),
    ),
    "Beats": shape("", beats=many(shape("name every times:int", recent=many(shape("at?:instant by"))))),
    "Timeline": shape(
        "now:instant start:instant end:instant whole_from:instant refused:Refused[]",
        runs=many(shape(f"{_RUN} past:Past[]")),
    ),
    "Paused": shape("job paused?:Act changed:yes"),
    "Resumed": shape("job was?:Act changed:yes"),
    "AskedFor": shape("key new:yes by"),
    "Cancelled": shape("slot asked:yes outcome? reason? changed:yes"),
    "Resolved": shape("slot due:yes outcome? changed:yes note?"),
    "HandledAlert": shape("id alerts:[] handled?:Handled"),
    "ResolvedEffect": shape(f"{_EFFECT} changed:yes note?"),
}
