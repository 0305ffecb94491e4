"""The OpenAPI document, made from the table of endpoints: what is not in the table is not there, and the reverse."""

from typing import Any, Final

from cronce import __version__
from cronce.web.actions import ACTIONS, Action
from cronce.web.api.acts import ANSWERS, body_schema
from cronce.web.api.endpoints import BASE, Endpoint, Parameter
from cronce.web.api.reads import READS
from cronce.web.api.schemas import SCHEMAS, Schema, ref

_ERRORS: Final = {
    400: "it cannot be read",
    401: "the token is needed, or wrong",
    403: "it was started without a token, and only tells",
    404: "there is no such thing",
    405: "not by this method",
    408: "the body came too slowly",
    409: "not as things stand",
    413: "too much",
    414: "too long an address",
    415: "not JSON",
    421: "not by this name",
    422: "it makes no sense",
    429: "too many wrong tokens",
    431: "too long headers",
    503: "the store does not answer",
}
_ALWAYS: Final = (400, 401, 414, 421, 429, 431, 503)
_NAMED: Final = (404,)
_ACTED: Final = (403, 404, 408, 409, 413, 415, 422)

_EXAMPLES: Final = {"jobs": "billing", "runs": "billing@2026-03-29T01:00:00Z"}


def openapi() -> dict[str, Any]:
    paths = {endpoint.path: {"get": _read(endpoint)} for endpoint in READS}
    paths |= {action_path(action): {"post": _act(action)} for action in ACTIONS}
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


def action_path(action: Action) -> str:
    return f"/{action.of}/{{subject}}/{action.name}"


def _read(endpoint: Endpoint) -> dict[str, Any]:
    subject = [_subject(endpoint.subject)] if endpoint.subject else []
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*subject, *map(_parameter, endpoint.parameters)],
        "responses": _responses(endpoint.answer, (*_ALWAYS, *(_NAMED if endpoint.subject else ()))),
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
        "responses": _responses(ANSWERS[action.of, action.name], (*_ALWAYS, *_ACTED)),
        "security": [{"token": []}],
    }


def _subject(words: str) -> dict[str, Any]:
    schema: Schema = {"type": "string", "minLength": 1}
    return {"name": "subject", "in": "path", "required": True, "description": words, "schema": schema}


def _parameter(one: Parameter) -> dict[str, Any]:
    return {"name": one.name, "in": "query", "required": False, "description": one.means, "schema": one.schema}


def _responses(answer: str, errors: tuple[int, ...]) -> dict[str, Any]:
    done = {"description": "so it is", "content": _json(ref(answer))}
    refused = {str(code): {"description": _ERRORS[code], "content": _json(ref("Error"))} for code in sorted(errors)}
    return {"200": done, **refused}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
