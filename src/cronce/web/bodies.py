"""What comes with a request, read within bounds: forms of browsers, JSON of programs, times in a query."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import EPOCH, Instant
from cronce.schedule import parse_instant
from cronce.web.problems import Problem

LONGEST: Final = 256 * 1024
"""Bytes. A payload is up to 64 KB of JSON, and a form spells some of its signs as three."""

FIELDS: Final = 20

SLOW: Final = 10.0
"""Seconds in which a body has come."""

_FAR: Final = datetime(2200, 1, 1, tzinfo=UTC)


async def form(request: Request) -> dict[str, str]:
    """What was filled in; of a field that comes twice, the last."""
    _expect(request, "application/x-www-form-urlencoded")
    body = await _body(request)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS))
    except ValueError:
        raise Problem(400, "that is no form of ours") from None


async def document(request: Request) -> dict[str, Any]:
    """A JSON object; nothing at all is an empty one."""
    body = await _body(request)
    if not body:
        return {}
    _expect(request, "application/json")
    try:
        found = read_json(body.decode())
    except ValueError as error:
        raise Problem(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(422, "the body is a JSON object")
    return found


def read_json(text: str) -> Any:
    """JSON as it is defined: without NaN, and not so deep that it cannot be read. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is too deep") from None


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _expect(request: Request, kind: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise Problem(415, f"the body comes as {kind}")


async def _body(request: Request) -> bytes:
    """However it is sent, and whatever it says of its length."""
    try:
        return await asyncio.wait_for(_whole(request), SLOW)
    except TimeoutError:
        raise Problem(408, f"the body did not come in {SLOW:g} s", {"Connection": "close"}) from None


async def _whole(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > LONGEST:
            raise Problem(413, f"a body has {LONGEST:,} bytes at most", {"Connection": "close"})
        parts.append(part)
    return b"".join(parts)


def read_instant(text: str) -> Instant:
    """A time that one can reckon with, also a span before it and after."""
    found = parse_instant(text)
    if not EPOCH <= found <= _FAR:
        raise BadInput("it is a time from 1970 on, and not too far from today")
    return found
