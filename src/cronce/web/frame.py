"""What stands around every page: how many alerts are open, and whether somebody stopped everything."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.model import Mark
from cronce.protocol.record import Act
from cronce.runtime.flow import Flow
from cronce.runtime.look import halted, read_page
from cronce.stores.base import Scan
from cronce.telling.words import iso
from cronce.value import NamedTuple
from cronce.web.site import site_of

COUNTED: Final = 100
"""Open alerts, at most: nobody needs to know how many more there are."""

Shown = Mapping[str, Any]
"""What a template is given."""


class Frame(NamedTuple):
    alerts: int
    halted: Act | None
    """Who stopped everything."""


def frame() -> Flow[Frame]:
    page = yield from read_page(Scan("alert/", mark=Mark.OPEN, limit=COUNTED))
    return Frame(len(page.cells), (yield from halted()))


async def show(request: Request, template: str, flow: Flow[Shown]) -> Response:
    """The page that comes of a flow, in its frame. It says what the store's `now` was: its scripts count from there."""
    site = site_of(request)
    around, shown = await site.ask(_framed(flow))
    page = site.render(request, template, frame=around, **shown)
    page.headers["X-Now"] = str(iso(shown["now"]))
    return page


def _framed(flow: Flow[Shown]) -> Flow[tuple[Frame, Shown]]:
    shown = yield from flow
    return (yield from frame()), shown
