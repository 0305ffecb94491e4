"""An endpoint: where it is, what may be asked of it or said with it, and what is refused before that.

What is told is `reads`; what is done is the same table of actions as the page's, for whoever sends the token with the
call.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.errors import BadInput
from cronce.runtime.flow import Flow
from cronce.value import NamedTuple
from cronce.web.actions import Action, Document, Field, named
from cronce.web.api.schemas import ANY, TEXT, YES, Schema, one_of
from cronce.web.requests import Json, Problem, document, read_instant
from cronce.web.site import Site, site_of

BASE: Final = "/api/v1"


class Parameter(NamedTuple):
    """Something that may be said in the query."""

    name: str
    schema: Schema
    means: str


class Asked(NamedTuple):
    """What was asked: of what, if of one thing, and the parameters that were given."""

    site: Site
    subject: str
    given: Mapping[str, Any]


class Endpoint(NamedTuple):
    path: str
    """With {subject} for what is named in it."""
    name: str
    summary: str
    answer: str
    """The schema of what is answered."""
    answers: Callable[[Asked], Flow[Document]]
    parameters: tuple[Parameter, ...] = ()
    subject: str = ""
    """What is named, in words, if anything is."""


# --- parameters -------------------------------------------------------------------------------------------------------

MOST: Final = 1_000


def _read(schema: Schema, text: str) -> Any:
    """What a text of the query says, as the schema has it."""
    match schema:
        case {"format": "date-time"}:
            return read_instant(text)
        case {"type": "boolean"}:
            if text not in ("true", "false"):
                raise BadInput("it is true or false")
            return text == "true"
        case {"type": "integer"}:
            if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST):
                raise BadInput(f"it is a number from 1 to {MOST:,}")
            return int(text)
        case {"enum": [*words]} if text not in words:
            raise BadInput(f"it is one of {', '.join(words)}")
    return text


# --- answering --------------------------------------------------------------------------------------------------------


async def respond(request: Request, endpoint: Endpoint) -> Response:
    asked = Asked(site_of(request), request.path_params.get("subject", ""), _given(request, endpoint.parameters))
    return Json(await asked.site.ask(endpoint.answers(asked)))


def _given(request: Request, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    known = {one.name: one for one in parameters}
    given: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise Problem(400, f"there is no parameter {name[:60]!r} here; there are: {listed}")
        if name in given:
            raise Problem(400, f"{name} is given twice")
        try:
            given[name] = _read(known[name].schema, text)
        except BadInput as error:
            raise Problem(400, f"{name}={text[:60]}: {error}") from None
    return given


# --- acting -----------------------------------------------------------------------------------------------------------

BY: Final = Field("by", "Who acts, for the record", least=1, longest=60)


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
        raise Problem(403, "this API only tells: it was started without a token (--token-file, or $CRONCE_UI_TOKEN)")
    if session is None or session.word:
        raise Problem(401, "this needs the token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})


# --- what is said with it ---------------------------------------------------------------------------------------------


def body_schema(action: Action) -> Schema:
    fields = (*action.fields, BY)
    return {
        "type": "object",
        "properties": {field.name: {**_schema(field), "description": field.label} for field in fields},
        "required": [field.name for field in fields if field.kind == "choice"],
        "additionalProperties": False,
    }


def _schema(field: Field) -> Schema:
    schemas = {
        "choice": one_of(*field.choices),
        "yes": YES,
        "json": ANY,
        "text": {**TEXT, "minLength": field.least, "maxLength": field.longest},
    }
    return schemas[field.kind]


def _checked(action: Action, body: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in (*action.fields, BY)}
    for name, value in body.items():
        if name not in fields:
            raise Problem(422, f"there is no {name[:60]!r} to say here; there are: {', '.join(fields)}")
        if not _fits(fields[name], value):
            raise Problem(422, f"{name}: {value!r:.60} is not what it can be")
    for field in fields.values():
        if field.kind == "choice" and field.name not in body:
            raise Problem(422, f"{field.name} is to be said: {' or '.join(field.choices)}")
    return body


def _fits(field: Field, value: Any) -> bool:
    match field.kind:
        case "choice":
            return value in field.choices
        case "yes":
            return isinstance(value, bool)
        case "json":
            return True
        case "text":
            return isinstance(value, str) and len(value.strip()) >= field.least and len(value) <= field.longest
