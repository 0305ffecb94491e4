"""What is not there, and what may have been meant."""

from difflib import get_close_matches
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.monitor.reading.index import JobIndex
from cronce.runtime.flow import Flow
from cronce.telling.words import safe
from cronce.web.site import site_of

SHOWN: Final = 5


class Missing(Exception):
    """A page of something that is not there."""

    def __init__(self, why: str, name: str, near: list[str]) -> None:
        super().__init__(f"{why}: {name[:80]}")
        self.near = near


def near(name: str, index: JobIndex) -> Flow[list[str]]:
    """Jobs that are called like it."""
    yield from index.keep_up()
    names = index.search(limit=len(index)).names
    within = [one for one in names if name.lower() in one.lower()] if len(name) > 1 else []
    return list(dict.fromkeys((*get_close_matches(name[:128], names, n=SHOWN), *within)))[:SHOWN]


def not_found(request: Request, error: Missing) -> Response:
    said = {"title": "There is no such thing", "text": safe(str(error)), "near": error.near}
    return site_of(request).render(request, "trouble.html", 404, status=404, **said)
