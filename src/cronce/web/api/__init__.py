"""The API: what the page shows and does, as JSON, in the documents of the command line.

The tables of endpoints and of actions are the source of all: the routes, what is checked before a handler sees it, and
the OpenAPI document at /api/v1/openapi.json. What is not in them is not there, and the reverse.
"""

from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronce import __version__
from cronce.web.actions import ACTIONS, Action
from cronce.web.api.endpoints import BASE, Endpoint, Parameter, act, body_schema, respond
from cronce.web.api.reads import READS
from cronce.web.api.schemas import SCHEMAS, Schema, ref
from cronce.web.requests import STATUSES, Json
from cronce.web.site import root_of

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
}
"""The schema of what comes of each."""


def openapi() -> dict[str, Any]:
    paths = {endpoint.path: {"get": _read(endpoint)} for endpoint in READS}
    paths |= {action.route.replace(":path", ""): {"post": _act(action)} for action in ACTIONS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cronce", "version": __version__, "summary": "What the page shows and does, for programs"},
        "servers": [{"url": BASE}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _read(endpoint: Endpoint) -> dict[str, Any]:
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
        "parameters": [_subject({"jobs": "a job", "runs": "a slot", "effects": "an effect"}[action.of])],
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


def _parameter(one: Parameter) -> dict[str, Any]:
    return {"name": one.name, "in": "query", "required": False, "description": one.means, "schema": one.schema}


def _responses(answer: str, errors: tuple[int, ...]) -> dict[str, Any]:
    done = {"description": "so it is", "content": _json(ref(answer))}
    refused = {str(code): {"description": STATUSES[code][1], "content": _json(ref("Error"))} for code in sorted(errors)}
    return {"200": done, **refused}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


# --- routes -----------------------------------------------------------------------------------------------------------


async def described(request: Request) -> Response:
    """With the server that was asked: where this is mounted is known then."""
    return Json({**openapi(), "servers": [{"url": f"{root_of(request)}{BASE}"}]})


ROUTES: Final = (
    Route(f"{BASE}/openapi.json", described),
    *(Route(f"{BASE}{one.path}", partial(respond, endpoint=one)) for one in READS),
    *(Route(f"{BASE}{one.route}", partial(act, action=one), methods=["POST"]) for one in ACTIONS),
)
