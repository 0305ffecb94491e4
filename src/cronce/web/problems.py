"""What is said when something cannot be shown or done: to programs as {"error": …}, to people as a page."""

import json
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from cronce.errors import BadInput, CronceError, NotOnRecord, StoreError
from cronce.stores import mask_all
from cronce.web.site import here, is_part, site_of

RETRY_AFTER: Final = "2"
"""Seconds after which to ask again for what the store did not answer."""

TITLES: Final = {
    400: "That cannot be read",
    401: "The token is needed",
    403: "Not from here",
    404: "There is no such thing",
    405: "Not in this way",
    408: "Too slow",
    409: "Not as things stand",
    413: "Too much",
    414: "Too long",
    415: "In another form, please",
    421: "Another name",
    422: "That makes no sense",
    429: "Slower, please",
    431: "Too much",
    500: "A bug of ours",
    503: "The store does not answer",
}


class Json(JSONResponse):
    """In ASCII: half a character, which a payload may hold, has no other spelling."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Problem(Exception):
    """Something to be said with a status, from wherever it is noticed."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.headers = status, dict(headers or {})


def problem(request: HTTPConnection, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    told = mask_all(text)
    if speaks_json(request):
        return Json({"error": told}, status, headers)
    page = site_of(request).render(
        Request(request.scope), "trouble.html", status, status=status, title=TITLES.get(status, "No"), text=told
    )
    page.headers.update(headers or {})
    return page


def speaks_json(request: HTTPConnection) -> bool:
    if is_part(request):
        return False
    return here(request).startswith("/api/") or "text/html" not in request.headers.get("accept", "text/html, */*")


# --- from exceptions --------------------------------------------------------------------------------------------------


def status_of(error: CronceError) -> int:
    match error:
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


async def on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem(request, error.status, str(error), error.headers)


async def on_http(request: Request, error: Exception) -> Response:
    """What the routes refuse."""
    assert isinstance(error, HTTPException)
    place = here(request)[:200]
    said = {404: f"there is nothing at {place}", 405: f"{request.method} is not for {place}"}
    return problem(request, error.status_code, said.get(error.status_code, error.detail), error.headers)
