"""The API: what the page shows and does, as JSON, in the documents of the command line.

The tables of endpoints and of actions are the source of all: the routes, what is checked before a handler sees it, and
the OpenAPI document at /api/v1/openapi.json. What is not in them is not there, and the reverse. What is done is the
same table of actions as the page's, for calls that carry the token.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronce import __version__
from cronce.errors import BadInput, NotOnRecord
from cronce.look import counted_document, living_document, overview_document
from cronce.model import check_name
from cronce.monitor import read_jobs, read_lists, read_overview
from cronce.monitor.alerts import incident_document, incidents
from cronce.runtime.effects import review
from cronce.runtime.flow import Flow
from cronce.runtime.queries import (
    STATES_WANTED,
    JobLine,
    RunSeen,
    halted_and_carried,
    held,
    job_names,
    refuse_unknown,
    slot_named,
    with_hosts,
)
from cronce.runtime.run_lists import newest_runs
from cronce.runtime.why import Case, slot_meant, why
from cronce.telling import documents as told
from cronce.telling.documents import LEADERS, LOCK_LEASES, Leases
from cronce.telling.words import iso
from cronce.value import NamedTuple
from cronce.web.actions import ACTIONS, Action, ActionField, Document, named
from cronce.web.api_schemas import INSTANT, SCHEMAS, TEXT_SCHEMA, YES, Schema, one_of, ref, short_text
from cronce.web.requests import STATUSES, Json, Problem, document, read_instant
from cronce.web.site import Site, root_of, site_of

API_BASE: Final = "/api/v1"
DEFAULT_LIMIT: Final = 100


class ApiQuery(NamedTuple):
    """What was asked: of what, if of one thing, and the parameters that were given."""

    site: Site
    subject: str
    given: Mapping[str, Any]

    @property
    def limit(self) -> int:
        """As many as are asked for, or the usual number."""
        limit: int = self.given.get("limit", DEFAULT_LIMIT)
        return limit


Answers = Callable[[ApiQuery], Flow[Document]]


class Endpoint(NamedTuple):
    path: str
    """With {subject} for what is named in it."""
    name: str
    summary: str
    answer: str
    """The schema of what is answered."""
    parameters: tuple[ActionField, ...]
    subject: str
    """What is named, in words, if anything is."""
    answers: Answers


READ_ENDPOINTS: Final[list[Endpoint]] = []


def endpoint(
    path: str, name: str, summary: str, answer: str, *parameters: ActionField, subject: str = ""
) -> Callable[[Answers], Answers]:
    """Puts the function below it into the table."""

    def add(answers: Answers) -> Answers:
        READ_ENDPOINTS.append(Endpoint(path, name, summary, answer, parameters, subject, answers))
        return answers

    return add


# --- parameters -------------------------------------------------------------------------------------------------------

MAX_PER_PAGE: Final = 1_000


def _read(schema: Schema, text: str) -> Any:
    """What a text of the query says, as the schema has it."""
    match schema:
        case {"format": "date-time"}:
            return read_instant(text)
        case {"type": "boolean"}:
            if text not in ("true", "false"):
                raise BadInput("must be true or false")
            return text == "true"
        case {"type": "integer"}:
            if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MAX_PER_PAGE):
                raise BadInput(f"must be a number from 1 to {MAX_PER_PAGE:,}")
            return int(text)
        case {"enum": [*words]} if text not in words:
            raise BadInput(f"must be one of {', '.join(words)}")
    return text


# --- answering --------------------------------------------------------------------------------------------------------


async def respond(request: Request, endpoint: Endpoint) -> Response:
    asked = ApiQuery(site_of(request), request.path_params.get("subject", ""), _given(request, endpoint.parameters))
    return Json(await asked.site.ask(endpoint.answers(asked)))


def _given(request: Request, parameters: tuple[ActionField, ...]) -> dict[str, Any]:
    known = {one.name: one for one in parameters}
    given: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise Problem(400, f"there is no parameter {name[:60]!r}; known: {listed}")
        if name in given:
            raise Problem(400, f"{name} is given twice")
        try:
            given[name] = _read(known[name].schema, text)
        except BadInput as error:
            raise Problem(400, f"{name}={text[:60]}: {error}") from None
    return given


# --- acting -----------------------------------------------------------------------------------------------------------

BY: Final = ActionField("by", "Who acts, for the record", short_text(60, least=1))


async def act(request: Request, action: Action) -> Response:
    site = site_of(request)
    _refuse_without_token(request, site)
    subject = named(action.of, request.path_params["subject"])
    given = _checked(action, await document(request))
    by = f"{given.pop('by', 'token')} (api)"
    return Json(await site.act(by, lambda hand: action.act(hand, subject, given)))


def _refuse_without_token(request: Request, site: Site) -> None:
    """A browser's session is no token: it would come along with a request that another site made."""
    session = site.session(request)
    if site.keys is None:
        raise Problem(403, "this API is read-only: it was started without a token (--token-file, or $CRONCE_UI_TOKEN)")
    if session is None and (known := site.known(request)) and not known.word:
        raise Problem(403, "this token is for reading only")
    if session is None or session.word:
        raise Problem(401, "this needs the token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})


# --- what is said with it ---------------------------------------------------------------------------------------------


def body_schema(action: Action) -> Schema:
    fields = (*action.fields, BY)
    return {
        "type": "object",
        "properties": {field.name: {**field.schema, "description": field.label} for field in fields},
        "required": [field.name for field in fields if "enum" in field.schema],
        "additionalProperties": False,
    }


def _checked(action: Action, body: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in (*action.fields, BY)}
    for name, value in body.items():
        if name not in fields:
            raise Problem(422, f"there is no field {name[:60]!r}; known: {', '.join(fields)}")
        if not _fits(fields[name].schema, value):
            raise Problem(422, f"{name}: {value!r:.60} is not a possible value")
    for field in fields.values():
        if "enum" in field.schema and field.name not in body:
            raise Problem(422, f"{field.name} is missing; give {' or '.join(field.schema['enum'])}")
    return body


def _fits(schema: Schema, value: Any) -> bool:
    match schema:
        case {"enum": [*words]}:
            return value in words
        case {"type": "boolean"}:
            return isinstance(value, bool)
        case {"minLength": least, "maxLength": longest}:
            return isinstance(value, str) and len(value.strip()) >= least and len(value) <= longest
    return True


DEFAULT_SPAN: Final = timedelta(hours=1)

# --- what may be asked ------------------------------------------------------------------------------------------------

NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,127}$"
LIMIT_FIELD: Final = ActionField(
    "limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": MAX_PER_PAGE}
)
AFTER_FIELD: Final = ActionField("after", "where the list continues: the `next` of the answer before", TEXT_SCHEMA)
JOB_FIELD: Final = ActionField("job", "of this job only", {"type": "string", "pattern": NAME})
STATE: Final = ActionField("state", "in this state, or with this outcome", one_of(*STATES_WANTED))
MATCHING: Final = ActionField("matching", "whose name or schedule contains this", TEXT_SCHEMA)
WHAT: Final = ActionField("what", "of this job, slot or idempotent function only", TEXT_SCHEMA)
EVERYTHING: Final = ActionField("all", "also effects that are done, and those that the next run will do", YES)
OPEN_FIELD: Final = ActionField("open", "true: open alerts (the default); false: cleared alerts", YES)
START_FIELD: Final = ActionField("start", "from this instant (default: one hour before the end)", INSTANT)
END_FIELD: Final = ActionField("end", "until this instant (default: now)", INSTANT)

# --- the whole --------------------------------------------------------------------------------------------------------


@endpoint("/overview", "overview", "Overview of everything", "Overview")
def overview(asked: ApiQuery) -> Flow[Document]:
    return overview_document((yield from read_overview.overview()), asked.site.place)


# --- jobs -------------------------------------------------------------------------------------------------------------


@endpoint("/jobs", "jobs", "Jobs, by name", "Jobs", LIMIT_FIELD, AFTER_FIELD, MATCHING)
def jobs(asked: ApiQuery) -> Flow[Document]:
    given = asked.given
    after = check_name(given["after"]) if given.get("after") else ""
    found, lines = yield from read_jobs.job_lines(after, asked.limit, given.get("matching", ""), index=asked.site.index)
    _, served = yield from halted_and_carried()
    return {"jobs": [told.job_document(line, served) for line in lines], "total": found.total, "next": found.next}


@endpoint("/jobs/{subject}", "job", "One job with all its details", "JobView", subject="a job")
def job(asked: ApiQuery) -> Flow[Document]:
    name = named("jobs", asked.subject)
    view = yield from read_jobs.job_view(name)
    if view is None:
        raise (yield from _unknown(name))
    last = view.runs.runs[0] if view.runs.runs else None
    return {
        **told.job_document(JobLine(view.seen, view.next, last, view.stored), {name} if view.carried else ()),
        "halted": told.act_document(view.halted),
        "open": counted_document(view.open),
        "attention": counted_document(view.attention),
        "refused": [told.refusals_document(*one) for one in view.refused],
        "passed_over": [told.span_document(one) for one in view.seen.job.spans] if view.seen.job else [],
        "took": [{"slot": run.slot.key, "seconds": took.total_seconds()} for run, took in view.durations],
    }


@endpoint(
    "/jobs/{subject}/runs",
    "runsOfJob",
    "Its runs, newest first",
    "Runs",
    STATE,
    LIMIT_FIELD,
    AFTER_FIELD,
    subject="a job",
)
def runs_of_job(asked: ApiQuery) -> Flow[Document]:
    name = named("jobs", asked.subject)
    page = yield from _page(asked, name)
    if not page["runs"]:
        refuse_unknown(name, (yield from job_names()))
    return page


# --- runs -------------------------------------------------------------------------------------------------------------


@endpoint("/runs", "runs", "Runs, newest first", "Runs", JOB_FIELD, STATE, LIMIT_FIELD, AFTER_FIELD)
def runs(asked: ApiQuery) -> Flow[Document]:
    return (yield from _page(asked, asked.given.get("job")))


@endpoint("/runs/{subject}", "run", "A slot that is on record", "RunView", subject="a slot")
def run(asked: ApiQuery) -> Flow[Document]:
    """A slot that is on record."""
    slot = slot_named(named("runs", asked.subject))
    found = yield from why(slot.job, slot, asked.site.node.store.traits)
    if found is None or found.stories[0].run is None:
        raise NotOnRecord(f"there is no record of {slot.key}")
    return told.story_document(found.stories[0], found)


@endpoint("/why/{subject}", "why", "Why a slot ran or did not", "Why", subject="a slot, or a job")
def why_it(asked: ApiQuery) -> Flow[Document]:
    """A slot, on record or not, the one of a day, or those of a job that matter."""
    is_slot = "@" in asked.subject
    subject = asked.subject if is_slot else named("jobs", asked.subject)
    try:
        slot = (yield from slot_meant(subject)) if is_slot else None
    except BadInput as error:
        raise Problem(404, str(error)) from None
    name = slot.job if slot else subject
    found = yield from why(name, slot, asked.site.node.store.traits)
    if found is None:
        raise (yield from _unknown(name))
    if any(story.case in (Case.NO_SLOT, Case.NO_REQUEST) for story in found.stories):
        raise NotOnRecord(f"{subject} is not a slot of that job, and no run was requested for it by hand")
    return told.why_document(found)


@endpoint(
    "/timeline", "timeline", "The runs within a time range", "Timeline", START_FIELD, END_FIELD, JOB_FIELD, LIMIT_FIELD
)
def timeline(asked: ApiQuery) -> Flow[Document]:
    given = asked.given
    end = given.get("end", asked.site.now)
    start = given.get("start", end - DEFAULT_SPAN)
    if start >= end:
        raise Problem(400, "the end must be after the start")
    found = yield from read_overview.stretch(start, end, given.get("job"), given.get("limit", 1000))
    return {
        "now": iso(found.now),
        "start": iso(found.start),
        "end": iso(found.end),
        "whole_from": iso(found.whole_from),
        "runs": [{**told.run_document(one), "past": _past(one)} for one in found.runs],
        "refused": [told.refused_document(*one) for one in found.ghosts],
    }


# --- what else there is -----------------------------------------------------------------------------------------------


@endpoint("/holders", "holders", "Schedulers that are alive, or were lately", "Holders")
def holders(_asked: ApiQuery) -> Flow[Document]:
    now, found = yield from read_overview.holders()
    return {"holders": [living_document(one, now) for one in found]}


@endpoint("/locks", "locks", "Who holds which lock", "Locks", LIMIT_FIELD, AFTER_FIELD)
def locks(asked: ApiQuery) -> Flow[Document]:
    return _leases(asked, LOCK_LEASES)


@endpoint("/leaders", "leaders", "Who leads which group", "Leaders", LIMIT_FIELD, AFTER_FIELD)
def leaders(asked: ApiQuery) -> Flow[Document]:
    return _leases(asked, LEADERS)


def _leases(asked: ApiQuery, kind: Leases) -> Flow[Document]:
    page = yield from held(kind.prefix, asked.given.get("after", ""), asked.limit)
    return {kind.way: [told.held_document(one, kind) for one in page.held], "next": page.next}


@endpoint(
    "/effects", "effects", "Effects in doubt, and in progress", "Effects", WHAT, EVERYTHING, LIMIT_FIELD, AFTER_FIELD
)
def effects(asked: ApiQuery) -> Flow[Document]:
    given = asked.given
    what = given.get("what")
    if what is not None and review.names_effect(what):
        raise Problem(400, "`what` must be a job, a slot or an idempotent function, not a single effect")
    page = yield from review.effects(what, asked.limit, everything=given.get("all", False), after=given.get("after"))
    return {"effects": [told.effect_document(one) for one in page.effects], "next": page.next}


@endpoint("/alerts", "alerts", "Open alerts, or cleared alerts", "Alerts", OPEN_FIELD)
def alerts(asked: ApiQuery) -> Flow[Document]:
    page = yield from read_lists.alerts(open=asked.given.get("open", True))
    grouped = [incident_document(one) for one in incidents(page.alerts)]
    return {"alerts": [told.alert_document(one) for one in page.alerts], "incidents": grouped, "more": page.more}


@endpoint("/observed", "observed", "Calls that were only observed", "Observed")
def observed(_asked: ApiQuery) -> Flow[Document]:
    return {"observed": [told.observed_document(*one) for one in (yield from read_lists.observed()).items()]}


@endpoint("/beats", "beats", "Heartbeats of other schedulers", "Beats")
def beats(_asked: ApiQuery) -> Flow[Document]:
    return {"beats": [told.beats_document(*one) for one in (yield from read_lists.beats()).items()]}


# --- parts ------------------------------------------------------------------------------------------------------------


def _page(asked: ApiQuery, job: str | None) -> Flow[Document]:
    given = asked.given
    name = None if job is None else check_name(job)
    page = yield from newest_runs(name, given.get("state"), given.get("after"), asked.limit)
    return {"runs": [told.run_document(one) for one in (yield from with_hosts(page.runs))], "next": page.next}


def _unknown(name: str) -> Flow[NotOnRecord]:
    refuse_unknown(name, (yield from job_names()))
    return NotOnRecord(f"no job is called {name!r}")


def _past(one: RunSeen) -> list[Document]:
    return [told.past_document(past) for past in one.record.past] if one.record else []


_ALWAYS: Final = (400, 401, 414, 421, 429, 431, 503)
_ACTED: Final = (403, 404, 408, 409, 413, 415, 422)

_ANSWERS: Final = {
    ("jobs", "pause"): "Paused",
    ("jobs", "resume"): "Resumed",
    ("jobs", "trigger"): "AskedFor",
    ("runs", "rerun"): "AskedFor",
    ("runs", "cancel"): "Cancelled",
    ("runs", "resolve"): "Resolved",
    ("effects", "resolve"): "ResolvedEffect",
    ("alerts", "acknowledge"): "HandledAlert",
    ("alerts", "snooze"): "HandledAlert",
}
"""The schema of what comes of each."""


_SUBJECTS: Final = {"jobs": "a job", "runs": "a slot", "effects": "an effect", "alerts": "an alert, by its id"}


def openapi() -> dict[str, Any]:
    paths = {endpoint.path: {"get": _told(endpoint)} for endpoint in READ_ENDPOINTS}
    paths |= {action.route.replace(":path", ""): {"post": _act(action)} for action in ACTIONS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cronce", "version": __version__, "summary": "What the page shows and does, for programs"},
        "servers": [{"url": API_BASE}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _told(endpoint: Endpoint) -> dict[str, Any]:
    subject = [_subject(endpoint.subject)] if endpoint.subject else []
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*subject, *map(_parameter, endpoint.parameters)],
        "responses": _responses(endpoint.answer, (*_ALWAYS, *((404,) if endpoint.subject else ()))),
        "security": [{}, {"token": []}],
    }


def _act(action: Action) -> dict[str, Any]:
    fields = body_schema(action)
    return {
        "operationId": f"{action.name}{action.of.removesuffix('s').title()}",
        "summary": action.meaning,
        "parameters": [_subject(_SUBJECTS[action.of])],
        "requestBody": {
            "required": bool(fields["required"]),
            "content": {"application/json": {"schema": fields}},
        },
        "responses": _responses(_ANSWERS[action.of, action.name], (*_ALWAYS, *_ACTED)),
        "security": [{"token": []}],
    }


def _subject(words: str) -> dict[str, Any]:
    schema: Schema = {"type": "string", "minLength": 1}
    return {"name": "subject", "in": "path", "required": True, "description": words, "schema": schema}


def _parameter(one: ActionField) -> dict[str, Any]:
    return {"name": one.name, "in": "query", "required": False, "description": one.label, "schema": one.schema}


def _responses(answer: str, errors: tuple[int, ...]) -> dict[str, Any]:
    done = {"description": "success", "content": _json(ref(answer))}
    refused = {str(code): {"description": STATUSES[code][1], "content": _json(ref("Error"))} for code in sorted(errors)}
    return {"200": done, **refused}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


# --- routes -----------------------------------------------------------------------------------------------------------


async def described(request: Request) -> Response:
    """With the server that was asked: where this is mounted is known then."""
    return Json({**openapi(), "servers": [{"url": f"{root_of(request)}{API_BASE}"}]})


ROUTES: Final = (
    Route(f"{API_BASE}/openapi.json", described),
    *(Route(f"{API_BASE}{one.path}", partial(respond, endpoint=one)) for one in READ_ENDPOINTS),
    *(Route(f"{API_BASE}{one.route}", partial(act, action=one), methods=["POST"]) for one in ACTIONS),
)
