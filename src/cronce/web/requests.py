"""What comes with a request, read within bounds: forms of browsers, JSON of programs, times in a query. And errors: for
programs as {"error": …}, for people as a page.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from cronce.errors import BadInput, CronceError, NotOnRecord, StoreError
from cronce.model import EPOCH, Instant
from cronce.schedule import parse_instant
from cronce.stores import mask_all
from cronce.telling.words import read_json
from cronce.web.site import here, is_part, site_of

RETRY_AFTER: Final = "2"
"""Seconds after which to ask again for what the store did not answer."""

STATUSES: Final = {
    400: ("Bad request", "the request cannot be read"),
    401: ("The token is needed", "the token is missing or wrong"),
    403: ("Not allowed", "not allowed: it is read-only, or the token is for reading"),
    404: ("Not found", "not found"),
    405: ("Method not allowed", "method not allowed"),
    408: ("Too slow", "the request body came too slowly"),
    409: ("Not possible now", "not possible in the present state"),
    413: ("Too large", "the request body is too large"),
    414: ("Address too long", "the address is too long"),
    415: ("Wrong content type", "not JSON"),
    421: ("Wrong host name", "the host name is not allowed"),
    422: ("Wrong input", "a value is wrong or missing"),
    429: ("Too many requests", "too many wrong tokens"),
    431: ("Headers too large", "the headers are too large"),
    500: ("A bug in cronce", "a bug in cronce"),
    503: ("The store does not answer", "the store does not answer"),
}
"""The title of the page that says so, and how the API describes it."""


class Json(JSONResponse):
    """In ASCII: half a character, which a payload may hold, has no other spelling."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Problem(HTTPException):
    """An error with its HTTP status."""

    def __str__(self) -> str:
        return self.detail


def problem(request: HTTPConnection, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    told = mask_all(text)
    if speaks_json(request):
        return Json({"error": told}, status, headers)
    title, _ = STATUSES.get(status, ("No", ""))
    shown = {"status": status, "title": title, "text": told}
    page = site_of(request).render(Request(request.scope), "trouble.html", status, **shown)
    page.headers.update(headers or {})
    return page


def speaks_json(request: HTTPConnection) -> bool:
    if is_part(request):
        return False
    return here(request).startswith("/api/") or "text/html" not in request.headers.get("accept", "text/html, */*")


# --- from exceptions --------------------------------------------------------------------------------------------------


def status_of(error: CronceError | HTTPException) -> int:
    match error:
        case HTTPException():
            return error.status_code
        case BadInput():
            return 400
        case NotOnRecord():
            return 404
        case StoreError():
            return 503
        case _:
            return 409


async def on_cronce(request: Request, error: Exception) -> Response:
    assert isinstance(error, CronceError)
    status = status_of(error)
    return problem(request, status, str(error), {"Retry-After": RETRY_AFTER} if status == 503 else None)


async def on_http(request: Request, error: Exception) -> Response:
    """What is refused by us, or by the routes."""
    assert isinstance(error, HTTPException)
    place = here(request)[:200]
    said = {404: f"there is nothing at {place}", 405: f"{request.method} is not allowed for {place}"}
    text = error.detail if isinstance(error, Problem) else said.get(error.status_code, error.detail)
    return problem(request, error.status_code, text, error.headers)


# --- what comes with a request ----------------------------------------------------------------------------------------


MAX_BODY_BYTES: Final = 256 * 1024
"""Bytes. A payload is up to 64 KB of JSON, and a form spells some of its signs as three."""

MAX_FORM_FIELDS: Final = 20

BODY_TIMEOUT: Final = 10.0
"""Seconds in which a request body has to arrive."""

_LATEST_INSTANT: Final = datetime(2200, 1, 1, tzinfo=UTC)


async def form(request: Request) -> dict[str, str]:
    """What was filled in; of a field that comes twice, the last."""
    _expect(request, "application/x-www-form-urlencoded")
    body = await _body(request)
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
        )
    except ValueError:
        raise Problem(400, "that is not a form of this page") from None


async def document(request: Request) -> dict[str, Any]:
    """A JSON object; nothing at all is an empty one."""
    body = await _body(request)
    if not body:
        return {}
    _expect(request, "application/json")
    try:
        found = read_json(body.decode())
    except ValueError as error:
        raise Problem(400, f"the request body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(422, "the request body must be a JSON object")
    return found


def _expect(request: Request, kind: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise Problem(415, f"the request body must be sent as {kind}")


async def _body(request: Request) -> bytes:
    """Whatever it says of its own length."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise Problem(
                        413, f"a request body may have {MAX_BODY_BYTES:,} bytes at most", {"Connection": "close"}
                    )
    except TimeoutError:
        raise Problem(
            408, f"the request body did not arrive within {BODY_TIMEOUT:g} s", {"Connection": "close"}
        ) from None
    return bytes(body)


def read_instant(text: str) -> Instant:
    """A time that is far enough from the ends of what Python can express."""
    found = parse_instant(text)
    if not EPOCH <= found <= _LATEST_INSTANT:
        raise BadInput("the time must be after 1970, and not too far from today")
    return found
