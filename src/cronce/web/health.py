"""For whoever restarts the page, waits for it, or counts: /healthz, /readyz and /metrics."""

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cronce.errors import CronceError
from cronce.monitor.metrics.exposition import CONTENT_TYPE
from cronce.runtime.effects.seen import load
from cronce.web.site import site_of


async def healthz(_request: Request) -> Response:
    """It answers, whatever the store does."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Whether the store answers. Why it does not is for those who may look: here anybody may."""
    try:
        await site_of(request).ask(load([]))
    except CronceError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """What this process counts: mounted in an application that runs jobs, those are among it."""
    site = site_of(request)
    return Response(await site.do(site.metrics.text), media_type=CONTENT_TYPE)


ROUTES: Final = (Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics))
