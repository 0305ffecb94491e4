"""What the API does: the same table of actions as the page's, for whoever sends the token with the call."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.web.actions import Action, Field, named
from cronce.web.api.schemas import ANY, TEXT, YES, Schema, one_of
from cronce.web.bodies import document
from cronce.web.problems import Json, Problem
from cronce.web.site import Site, site_of

BY: Final = Field("by", "Who acts, for the record", least=1, longest=60)

ANSWERS: Final = {
    ("jobs", "pause"): "Paused",
    ("jobs", "resume"): "Resumed",
    ("jobs", "trigger"): "AskedFor",
    ("runs", "rerun"): "AskedFor",
    ("runs", "cancel"): "Cancelled",
    ("runs", "resolve"): "Resolved",
    ("effects", "resolve"): "ResolvedEffect",
}
"""The schema of what comes of each."""


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
    match field.kind:
        case "choice":
            return one_of(*field.choices)
        case "yes":
            return YES
        case "json":
            return ANY
        case "text":
            return {**TEXT, "minLength": field.least, "maxLength": field.longest}


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
