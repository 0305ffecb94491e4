"""The shapes of what the API answers, as JSON Schema. A key that has nothing to say is there, and null."""

from typing import Any, Final, get_args

from cronce.monitor.survey import Life
from cronce.protocol.record import Outcome, State
from cronce.runtime.effects.seen import STATES
from cronce.runtime.why import Case

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
SECONDS: Final[Schema] = {"type": "number"}
YES: Final[Schema] = {"type": "boolean"}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
ANY: Final[Schema] = {}
OBJECT: Final[Schema] = {"type": "object"}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def whole(**keys: Schema) -> Schema:
    """An object with all of these keys, and no others."""
    return {"type": "object", "properties": keys, "required": list(keys), "additionalProperties": False}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _more(of: Schema, **keys: Schema) -> Schema:
    return whole(**of["properties"], **keys)


_TERM: Final = whole(
    holder=TEXT, fence=maybe(TEXT), started=maybe(INSTANT), ended=maybe(INSTANT), end=TEXT
)  # fmt: skip
_RUN: Final = whole(
    job=TEXT,
    slot=TEXT,
    state=one_of(*State, "unreadable"),
    outcome=maybe(one_of(*Outcome)),
    holder=maybe(TEXT),
    fence=maybe(TEXT),
    grant=maybe(NUMBER),
    started=maybe(INSTANT),
    finished=maybe(INSTANT),
    reason=maybe(TEXT),
    lapsed=YES,
    by=maybe(TEXT),
    payload=ANY,
    progress=maybe(many(NUMBER)),
)
_ACT: Final = whole(by=maybe(TEXT), at=maybe(INSTANT), reason=maybe(TEXT))
_JOB: Final = whole(
    job=TEXT,
    schedules=many(OBJECT),
    policies=OBJECT,
    next=maybe(INSTANT),
    carried=YES,
    paused=maybe(YES),
    pause=maybe(ref("Act")),
    floor=maybe(INSTANT),
    last=maybe(ref("Run")),
    stored=maybe(whole(revision=NUMBER, by=TEXT, at=maybe(INSTANT), definition=maybe(OBJECT))),
)
_EFFECT: Final = whole(
    effect=TEXT,
    state=one_of(*STATES),
    started=maybe(INSTANT),
    finished=maybe(INSTANT),
    holder=maybe(TEXT),
    reason=maybe(TEXT),
    result=ANY,
)
_REFUSED: Final = whole(job=TEXT, host=TEXT, slot=TEXT, at=maybe(INSTANT), why=TEXT)
_HELD: Final = whole(
    name=TEXT,
    state=TEXT,
    holder=maybe(TEXT),
    since=maybe(INSTANT),
    until=maybe(INSTANT),
    fence=maybe(TEXT),
    history=many(ref("Term")),
)
_STORY: Final = whole(
    slot=TEXT,
    case=one_of(*Case),
    sentence=TEXT,
    run=maybe(ref("Run")),
    past=many(ref("Past")),
    refused=many(whole(host=TEXT, at=maybe(INSTANT), why=TEXT)),
    effects=ref("Survey"),
    output=TEXT,
)
_SOME_RUNS: Final = whole(count=NUMBER, more=YES, runs=many(ref("Run")))

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": whole(error=TEXT),
    "Act": _ACT,
    "Term": _TERM,
    "Past": _more(_TERM, retried=maybe(INSTANT)),
    "Run": _RUN,
    "Job": _JOB,
    "Effect": _EFFECT,
    "Refused": _REFUSED,
    "Held": _HELD,
    "Survey": whole(counts=by_name(NUMBER), capped=many(TEXT), in_doubt=many(ref("Effect"))),
    "Story": _STORY,
    "SomeRuns": _SOME_RUNS,
    "Holder": whole(
        holder=TEXT,
        role=TEXT,
        workers=NUMBER,
        labels=by_name(TEXT),
        since=maybe(INSTANT),
        version=TEXT,
        beat=maybe(INSTANT),
        draining=YES,
        drained=maybe(ref("Act")),
        life=one_of(*get_args(Life)),
        running=NUMBER,
        skew=SECONDS,
    ),
    "Alert": whole(
        id=TEXT,
        kind=TEXT,
        subject=TEXT,
        severity=TEXT,
        text=TEXT,
        remedy=TEXT,
        since=maybe(INSTANT),
        cleared=maybe(INSTANT),
        times=NUMBER,
    ),
    # what is answered
    "Overview": whole(
        now=INSTANT,
        store=TEXT,
        halted=maybe(ref("Act")),
        alerts=many(ref("Alert")),
        holders=many(ref("Holder")),
        open=ref("SomeRuns"),
        attention=ref("SomeRuns"),
        in_doubt=whole(count=NUMBER, more=YES),
        newest=many(ref("Run")),
    ),
    "Jobs": whole(jobs=many(ref("Job")), total=NUMBER, next=maybe(TEXT)),
    "JobView": _more(
        _JOB,
        halted=maybe(ref("Act")),
        open=ref("SomeRuns"),
        attention=ref("SomeRuns"),
        refused=many(whole(host=TEXT, times=NUMBER, recent=many(ref("Refused")))),
        passed_over=many(whole(start=INSTANT, end=INSTANT, slots=maybe(NUMBER), reason=TEXT)),
        took=many(whole(slot=TEXT, seconds=SECONDS)),
    ),
    "Runs": whole(runs=many(ref("Run")), next=maybe(TEXT)),
    "RunView": ref("Story"),
    "Why": whole(
        job=TEXT,
        next=maybe(INSTANT),
        carried=YES,
        paused=maybe(YES),
        pause=maybe(ref("Act")),
        floor=maybe(INSTANT),
        refusals=by_name(NUMBER),
        effects=maybe(ref("Survey")),
        slots=many(ref("Story")),
    ),
    "Holders": whole(holders=many(ref("Holder"))),
    "Locks": whole(locks=many(ref("Held")), next=maybe(TEXT)),
    "Leaders": whole(leaders=many(ref("Held")), next=maybe(TEXT)),
    "Effects": whole(effects=many(ref("Effect")), next=maybe(TEXT)),
    "Alerts": whole(alerts=many(ref("Alert")), more=YES),
    "Observed": whole(
        observed=many(
            whole(
                name=TEXT,
                window=maybe(TEXT),
                calls=NUMBER,
                duplicates=NUMBER,
                recent=many(whole(slot=TEXT, at=maybe(INSTANT), by=TEXT, why=TEXT)),
            )
        )
    ),
    "Beats": whole(
        beats=many(whole(name=TEXT, every=TEXT, times=NUMBER, recent=many(whole(at=maybe(INSTANT), by=TEXT))))
    ),
    "Timeline": whole(
        now=INSTANT,
        start=INSTANT,
        end=INSTANT,
        whole_from=INSTANT,
        runs=many(_more(_RUN, past=many(ref("Past")))),
        refused=many(ref("Refused")),
    ),
    "Paused": whole(job=TEXT, paused=maybe(ref("Act")), changed=YES),
    "Resumed": whole(job=TEXT, was=maybe(ref("Act")), changed=YES),
    "AskedFor": whole(key=TEXT, new=YES, by=TEXT),
    "Cancelled": whole(slot=TEXT, asked=YES, outcome=maybe(TEXT), reason=maybe(TEXT), changed=YES),
    "Resolved": whole(slot=TEXT, due=YES, outcome=maybe(TEXT), changed=YES),
    "ResolvedEffect": _more(_EFFECT, changed=YES),
}
