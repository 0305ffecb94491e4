"""The routes of the API, made from its table."""

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronce.web.actions import ACTIONS
from cronce.web.api.acts import act
from cronce.web.api.endpoints import BASE, respond
from cronce.web.api.openapi import action_path, openapi
from cronce.web.api.reads import READS
from cronce.web.problems import Json
from cronce.web.site import root_of


async def described(request: Request) -> Response:
    """With the server that was asked: where this is mounted is known then."""
    return Json({**openapi(), "servers": [{"url": f"{root_of(request)}{BASE}"}]})


def _in_route(place: str) -> str:
    """The name of an effect may have slashes in it."""
    return place.replace("{subject}", "{subject:path}") if place.startswith("/effects/") else place


ROUTES: Final = (
    Route(f"{BASE}/openapi.json", described),
    *(Route(f"{BASE}{one.path}", partial(respond, endpoint=one)) for one in READS),
    *(
        Route(f"{BASE}{_in_route(action_path(action))}", partial(act, action=action), methods=["POST"])
        for action in ACTIONS
    ),
)
