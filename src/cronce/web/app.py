"""The page and its API as one ASGI application, to serve by itself or to mount in another.

Where the parts are: `site` is what they share, `gate` stands before all of them, `login`, `confirm` and `actions` are
for whoever has the token, `live` tells pages that something changed, `api` is the same for programs. What there is to
see is in `pages` and `timeline`, each of which lists its own routes.

A page is an async function of a request, and asks the store by flows:

    async def overview(request: Request) -> Response:
        site = site_of(request)
        now, lines = await site.ask(listed())
        return site.render(request, "overview.html", now=now, lines=lines)

Its template extends base.html and fills the block `main`, which is all that is rendered for a request with the header
`X-Fragment: 1`. Every template has `link("jobs", name, state="lost")`, `static("style.css")`, `here`, `query`,
`can_act`, `can_log_in`, `by`, `csrf`, `site`, `version`, and the words `away`, `ago`, `short`, `spell`, `iso`, `fine`,
`moment`, `by_whom`, and whatever `pages.WORDS` adds.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from cronce.errors import BadInput, CronceError
from cronce.runtime.app import Cronce
from cronce.web import confirm, health, live, login, pages, timeline
from cronce.web.api import routes as api
from cronce.web.gate import Gate
from cronce.web.problems import Problem, on_cronce, on_http, on_problem
from cronce.web.security import Keys
from cronce.web.site import Site


def application(
    cron: Cronce | str,
    *,
    token: str | None = None,
    report: Path | str | None = None,
    names: Collection[str] | None = None,
    private: bool = False,
) -> Starlette:
    """The page of a store. Without a token it only shows; `private` needs one to look, too. `report` is what
    `cronce audit --json` printed. It answers to these `names` and this machine's own; None leaves that to whatever it
    is mounted in."""
    if private and token is None:
        raise BadInput("a page that is private needs a token: application(cron, token=…, private=True)")
    site = Site(
        Cronce(cron) if isinstance(cron, str) else cron,
        None if token is None else Keys(token),
        names=names,
        private=private,
        owned=isinstance(cron, str),
        words=pages.WORDS,
        findings=None if report is None else _findings(Path(report)),
    )
    made = Starlette(
        routes=_routes(),
        middleware=[Middleware(Gate, site=site)],
        exception_handlers={CronceError: on_cronce, Problem: on_problem, HTTPException: on_http},
        lifespan=_lifespan,
    )
    made.router.redirect_slashes = False  # it would lead to wherever the Host header says
    made.state.site = site
    made.state.live = live.Live(site)
    return made


def _routes() -> Sequence[BaseRoute]:
    static = Mount("/static", StaticFiles(packages=[("cronce.web", "static")]))
    ours = [*login.ROUTES, *confirm.ROUTES, *live.ROUTES, *health.ROUTES, *api.ROUTES]
    return [*ours, *pages.ROUTES, *timeline.ROUTES, static]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Served by itself it opens the store before anybody asks, and hangs up at the end; mounted, nobody calls this."""
    opening = asyncio.create_task(app.state.site.begin())
    yield
    await asyncio.wait([opening], timeout=1)
    app.state.site.close()


def _findings(report: Path) -> dict[str, Any]:
    """What the auditor wrote."""
    try:
        found = json.loads(report.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{report} is not what `cronce audit --json` prints: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("findings"), list):
        raise BadInput(f"{report} is not what `cronce audit --json` prints: there is no list of findings in it")
    if not all(isinstance(one, dict) and "rule" in one for one in found["findings"]):
        raise BadInput(f"{report} is not what `cronce audit --json` prints: a finding in it is of no rule")
    return found
