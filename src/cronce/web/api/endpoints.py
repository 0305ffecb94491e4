"""An endpoint: where it is, what may be asked of it, what it answers; and what is refused before that."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.errors import BadInput
from cronce.runtime.look import WANTED
from cronce.value import NamedTuple
from cronce.web.api.schemas import INSTANT, TEXT, YES, Schema, one_of
from cronce.web.bodies import read_instant
from cronce.web.problems import Json, Problem
from cronce.web.site import Site, site_of

BASE: Final = "/api/v1"
NAME: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,127}$"

Document = dict[str, object]


class Parameter(NamedTuple):
    """Something that may be said in the query."""

    name: str
    schema: Schema
    means: str
    read: Callable[[str], Any]


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
    answers: Callable[[Asked], Awaitable[Document]]
    parameters: tuple[Parameter, ...] = ()
    subject: str = ""
    """What is named, in words, if anything is."""


# --- parameters -------------------------------------------------------------------------------------------------------


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= MOST):
        raise BadInput(f"it is a number from 1 to {MOST:,}")
    return int(text)


def _yes(text: str) -> bool:
    if text not in ("true", "false"):
        raise BadInput("it is true or false")
    return text == "true"


def _wanted(text: str) -> str:
    if text not in WANTED:
        raise BadInput(f"it is one of {', '.join(WANTED)}")
    return text


MOST: Final = 1_000
LIMIT: Final = Parameter("limit", {"type": "integer", "minimum": 1, "maximum": MOST}, "how many at most", _number)
AFTER: Final = Parameter("after", TEXT, "where to go on: the `next` of the answer before", str)
JOB: Final = Parameter("job", {"type": "string", "pattern": NAME}, "of this job only", str)
STATE: Final = Parameter("state", one_of(*WANTED), "in this state, or with this outcome", _wanted)
MATCHING: Final = Parameter("matching", TEXT, "whose name or schedule contains this", str)
WHAT: Final = Parameter("what", TEXT, "of this job, slot or idempotent function only", str)
EVERYTHING: Final = Parameter("all", YES, "also what is done, or failed and may be begun again", _yes)
OPEN: Final = Parameter("open", YES, "true: those that stand (as without it); false: those that were cleared", _yes)
START: Final = Parameter("start", INSTANT, "from then on (without it: the hour before the end)", read_instant)
END: Final = Parameter("end", INSTANT, "up to then (without it: now)", read_instant)


# --- answering --------------------------------------------------------------------------------------------------------


async def respond(request: Request, endpoint: Endpoint) -> Response:
    asked = Asked(site_of(request), request.path_params.get("subject", ""), _given(request, endpoint.parameters))
    return Json(await endpoint.answers(asked))


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
            given[name] = known[name].read(text)
        except BadInput as error:
            raise Problem(400, f"{name}={text[:60]}: {error}") from None
    return given
