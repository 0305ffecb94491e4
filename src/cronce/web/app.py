"""The page and its API as one ASGI application, to serve by itself or to mount in another.

Where the parts are: `site` is what they share, `gate` stands before all of them, `actions` are for those who have the
token, `live` tells pages that something changed, `api` is the same for programs. What there is to see is
in `pages` and `timeline`.

A page is a flow that reads the store, and says what its template is given:

    def overview_page(request: Request) -> Flow[Shown]:
        now, lines = yield from listed()
        return {"now": now, "lines": lines}

Its template extends its `layout` and fills the block `main`, which is all that is rendered for a request with the
header `X-Fragment: 1`. Every template has `link("jobs", name, state="lost")`, `static("style.css")`, `here`, `query`,
`can_act`, `can_log_in`, `by`, `csrf`, `site`, `version`, and the words `away`, `ago`, `short`, `spell`, `iso`, `fine`,
`moment`, `by_whom`, `tone`, `icon_of`, `brief`, `coded`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from cronce.errors import BadInput, CronceError
from cronce.monitor.metrics import CONTENT_TYPE
from cronce.runtime.app import Cronce
from cronce.runtime.clock_repair import clock_doubt
from cronce.web import actions, api, gate, live, pages
from cronce.web.requests import on_cronce, on_http
from cronce.web.security import PageTokens, read_proxies
from cronce.web.site import Site, site_of


def application(
    cron: Cronce | str,
    *,
    token: str | None = None,
    look_token: str | None = None,
    report: Path | str | None = None,
    names: Collection[str] | None = None,
    private: bool = True,
    trusted_proxies: Collection[str] = (),
) -> Starlette:
    """The page of a store. It is private: reading needs the `token`, or the `look_token`, which does not allow acting.
    With private=False everyone who reaches it can read it, and without a token no one can act. `report` is what
    `cronce audit --json` printed. It answers to these host `names` and this machine's own; None leaves that check to
    the application it is mounted in."""
    if private and token is None and look_token is None:
        raise BadInput(
            "the page is private and needs a token: application(cron, token=…). To let everyone who reaches it read"
            " it: application(cron, private=False)"
        )
    if token is not None and token == look_token:
        raise BadInput("the token for acting and the token for reading are the same: use two different ones")
    site = Site(
        Cronce(cron) if isinstance(cron, str) else cron,
        None if token is None else PageTokens(token),
        looking=None if look_token is None else PageTokens(look_token, acts=False),
        proxies=read_proxies(trusted_proxies, "trusted_proxies"),
        names=names,
        private=private,
        owned=isinstance(cron, str),
        findings=None if report is None else _findings(Path(report)),
    )
    made = Starlette(
        routes=_routes(),
        middleware=[Middleware(gate.Gate, site=site)],
        exception_handlers={CronceError: on_cronce, HTTPException: on_http},
        lifespan=_lifespan,
    )
    made.router.redirect_slashes = False  # it would lead to wherever the Host header says
    made.state.site = site
    made.state.live = live.LiveUpdates(site)
    return made


def _routes() -> Sequence[BaseRoute]:
    static = Mount("/static", StaticFiles(packages=[("cronce.web", "static")]))
    ours = [*gate.ROUTES, *actions.ROUTES, *live.ROUTES, *HEALTH, *api.ROUTES]
    return [*ours, *pages.ROUTES, static]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Served by itself, it opens the store before the first request and closes it at the end. Mounted in another
    application, this is never called."""
    opening = asyncio.create_task(app.state.site.begin())
    yield
    await asyncio.wait([opening], timeout=1)
    app.state.site.close()


def _findings(report: Path) -> dict[str, Any]:
    """What the auditor wrote."""
    try:
        found = json.loads(report.read_bytes())
        if not isinstance(found, dict) or not isinstance(found.get("findings"), list):
            raise ValueError("there is no list of findings in it")
        if not all(isinstance(one, dict) and "rule" in one for one in found["findings"]):
            raise ValueError("a finding in it has no rule")
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{report} is not what `cronce audit --json` prints: {error}") from None
    return found


# --- for programs that restart the page, wait for it, or scrape it ----------------------------------------------------


async def healthz(_request: Request) -> Response:
    """It answers, whatever the store does."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """Whether the store answers, and its clock is believed. Everyone may ask this, so it says no more."""
    try:
        node = await site_of(request).opened()
        doubt = await site_of(request).ask(clock_doubt(node.ledger))
    except CronceError:
        return PlainTextResponse("the store does not answer\n", 503)
    if doubt is not None:
        return PlainTextResponse("the store's clock is not trusted\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """What this process counts: mounted in an application that runs jobs, those are among it."""
    site = site_of(request)
    return Response(await site.do(site.metrics.text), media_type=CONTENT_TYPE)


HEALTH: Final = (Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics))
