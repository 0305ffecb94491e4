"""The site: what all its pages and its API share (`app.state.site`, or `site_of(request)`), and what stands around
every page."""

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response

from cronce import __version__
from cronce.clock import SystemClock
from cronce.errors import CronceError, StoreUnavailable
from cronce.model import SWITCH, Instant, spell
from cronce.monitor.figures import PreventedTotals
from cronce.monitor.metrics import Metrics
from cronce.monitor.read_jobs import JobIndex
from cronce.monitor.read_lists import open_alerts
from cronce.protocol.notices import Prevented
from cronce.protocol.record import Act, standing_act
from cronce.runtime.app import Cronce
from cronce.runtime.flow import Flow
from cronce.runtime.node import Node
from cronce.runtime.operations import Operator
from cronce.runtime.queries import load
from cronce.stores import mask_all
from cronce.telling.words import ago, away, by_whom, fine, iso, moment, safe, short, tone
from cronce.value import NamedTuple
from cronce.web.markup import brief, coded, icon_of
from cronce.web.security import BrowserSession, Network, PageTokens, WrongTokens

T = TypeVar("T")

READER_THREADS: Final = 8
"""Threads that read at once: as many as a store has connections."""

STORE_TIMEOUT: Final = 10.0
"""Seconds after which a page says that the store does not answer."""

RESULT_COOKIE: Final = "cronce_came"
RESULT_SECONDS: Final = 60
"""Seconds that the result of an act waits for the page that shows it."""


def site_of(request: HTTPConnection) -> "Site":
    site = request.app.state.site
    assert isinstance(site, Site)
    return site


class Site:
    """One store, seen from the web. `names` are the hosts that it answers to, besides this machine's own; None: any.

    Nothing is opened before something is asked: an application that is mounted in another is told of no beginning."""

    def __init__(
        self,
        cron: Cronce,
        keys: PageTokens | None = None,
        *,
        names: Collection[str] | None = None,
        private: bool = False,
        owned: bool = False,
        findings: Mapping[str, Any] | None = None,
        looking: PageTokens | None = None,
        proxies: Collection[Network] = (),
    ) -> None:
        self.cron = cron
        self.keys = keys
        self.doors = tuple(door for door in (keys, looking) if door is not None)
        """The tokens: the first lets one act, the other only read."""
        self.proxies = proxies
        """Proxies whose X-Forwarded-For is believed."""
        self.names = names
        self.private = private
        """Whether reading needs a token, too."""
        self._owned = owned
        """Whether the site opened this Cronce itself, and closes it."""
        self.findings = findings
        """What an audit found, as `cronce audit --json` has it, if a report is given."""
        self.clock = SystemClock()
        self.guesses = WrongTokens()
        self.index = JobIndex()
        self.prevented = PreventedTotals()
        self.metrics = Metrics(cron)
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="cronce-page")
        self._opening = threading.Lock()
        self._node: Node | None = None

    # --- the store ---

    @property
    def node(self) -> Node:
        """A connection to the store of its own, so that page views do not delay claims. It is opened on first use, so
        ask for it in a thread. Then another thread walks over the jobs, and the next request need not wait for it."""
        with self._opening:
            if self._node is None:
                work = self.cron.at_work().node
                self._node = Node(work.connect(), work.clock, work.connect, lambda _event: None)
                self._readers.submit(self._node.do, self.index.keep_up())
                self._readers.submit(self._node.do, self.prevented.count(self._node.ledger.client, work.clock.boot()))
            return self._node

    def count_prevented(self) -> Prevented | None:
        """Duplicates that were prevented, as last counted; they are counted again beside this."""
        node, boot = self._node, self.clock.boot()
        if node is not None:
            self._readers.submit(node.do, self.prevented.count(node.ledger.client, boot))
        return self.prevented.of_all()

    @property
    def place(self) -> str:
        """The store, for people: without its password."""
        return self.cron.place

    @property
    def now(self) -> Instant:
        """By this machine's clock. Where a flow has the store's, use that."""
        return self.clock.wall()

    async def opened(self) -> Node:
        """The node, once there is a line to the store."""
        return await self.do(lambda: self.node)

    async def ask(self, flow: Flow[T]) -> T:
        """What comes of a flow, on a thread."""
        return await self.do(lambda: self.node.do(flow))

    async def begin(self) -> None:
        """Open the store before the first request. If it does not answer, the next request says so."""
        with suppress(CronceError):
            await self.opened()

    async def act(self, by: str, act: Callable[[Operator], Flow[T]]) -> T:
        """What comes of an act by hand, recorded under this name."""
        try:
            return await self.do(lambda: self.node.do(act(Operator(self.node.ledger, by, self.cron.jobs))))
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error}. It may have been done anyway: check before you repeat it") from None

    async def do(self, work: Callable[[], T]) -> T:
        waiting = asyncio.get_running_loop().run_in_executor(self._readers, work)
        try:
            return await asyncio.wait_for(waiting, STORE_TIMEOUT)
        except TimeoutError:
            raise StoreUnavailable(f"{self.place} has not answered for {STORE_TIMEOUT:g} s") from None

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._opening:
            node, self._node = self._node, None
        if node is not None and node.store.traits.shared:
            node.store.close()
        if self._owned:
            self.cron.close()

    # --- who asks ---

    def session(self, request: HTTPConnection) -> BrowserSession | None:
        """Who asks, if they may act."""
        found = self.known(request)
        return found if found and found.acts else None

    def known(self, request: HTTPConnection) -> BrowserSession | None:
        """Who asks, if they have a token: the gate has looked."""
        found = request.scope.get("cronce.session")
        return found if isinstance(found, BrowserSession) else None

    # --- pages ---

    def render(self, request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
        """A page; with the header `X-Fragment: 1` only its main part, for a page that is open already."""
        layout, came = ("part.html", "") if is_part(request) else ("base.html", self._told_before(request))
        text = _templates().get_template(template).render(**self._shared(request), layout=layout, came=came, **context)
        page = HTMLResponse(text.encode(errors="replace"), status)
        if came:
            page.delete_cookie(RESULT_COOKIE, path=f"{root_of(request)}/", httponly=True, samesite="strict")
        return page

    def tell_next(self, request: Request, answer: Response, text: str) -> None:
        """What came of an act, shown once, on the page after it. It travels in a signed cookie of this session, so that
        no one else can put a text on the page."""
        session = self.session(request)
        assert self.keys is not None
        assert session is not None
        sealed, root = self.keys.seal(session.told, text.encode(errors="replace")), f"{root_of(request)}/"
        answer.set_cookie(RESULT_COOKIE, sealed, max_age=RESULT_SECONDS, path=root, httponly=True, samesite="strict")

    def _told_before(self, request: Request) -> str:
        """What came of the act before, if this is the page after one."""
        session, sealed = self.session(request), request.cookies.get(RESULT_COOKIE)
        said = self.keys.unseal(session.told, sealed) if self.keys and session and session.word and sealed else None
        return said.decode() if said else ""

    def _shared(self, request: Request) -> dict[str, Any]:
        session, known = self.session(request), self.known(request)
        root = root_of(request)

        return {
            "link": partial(path, root=root),
            "static": lambda name: path("static", name, root=root),
            "site": self,
            "here": here(request),
            "whole": whole(request),
            "is_known": not self.private or known is not None,
            "query": request.query_params,
            "can_act": session is not None,
            "can_log_in": bool(self.doors),
            "by": known.by if known else "",
            "csrf": known.word if known else "",
        }


def root_of(request: HTTPConnection) -> str:
    """Where this is mounted. The gate notes it: what is mounted in here would change what the scope says."""
    return str(request.scope["cronce.root"])


def here(request: HTTPConnection) -> str:
    """Which page is asked for, wherever this is mounted."""
    place = str(request.scope["path"]).removeprefix(root_of(request))
    return place if place.startswith("/") else "/"


def whole(request: HTTPConnection) -> str:
    """The page that is asked for, with all that is asked of it: where one comes back to after logging in."""
    query = request.scope.get("query_string", b"").decode("latin-1")
    return quote(here(request), safe="/@:", errors="replace") + (f"?{query}" if query else "")


def is_part(request: HTTPConnection) -> bool:
    """Whether only the main part of a page is asked for."""
    return request.headers.get("x-fragment") == "1"


def path(*parts: object, root: str = "", **query: object) -> str:
    """The way to a page: ("jobs", "billing", page=2) is /jobs/billing?page=2, below whatever this is mounted at. What
    is None is left out of the query."""
    way = "/".join(quote(str(part), safe="@:", errors="replace") for part in parts)
    given = {name: value for name, value in query.items() if value is not None}
    return f"{root}/{way}" + (f"?{urlencode(given, errors='replace')}" if given else "")


@cache
def _templates() -> Environment:
    """All sites of a process share what is compiled."""
    loader = PackageLoader("cronce.web")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.auto_reload = False  # an upgrade in place would mix two versions
    made.globals.update(version=__version__, away=away, short=short, spell=spell, iso=iso, fine=fine, moment=moment)
    made.globals.update(ago=ago, by_whom=by_whom, tone=tone, icon_of=icon_of, brief=brief, coded=coded)
    made.filters.update(safe_text=safe, masked=mask_all)
    return made


# --- around every page: how many alerts are open, and whether everything is paused ------------------------------------


Shown = Mapping[str, Any]
"""What a template is given."""


class PageFrame(NamedTuple):
    alerts: int
    halted: Act | None
    """Who paused everything, if it is paused."""


async def show(request: Request, template: str, flow: Callable[[Request], Flow[Shown]]) -> Response:
    """The page that comes of a flow, in its frame. It says what the store's `now` was: its scripts count from there."""
    site = site_of(request)
    try:
        shown = await site.ask(_framed(flow(request)))
    except NotFoundPage as error:
        return site.render(request, "trouble.html", 404, status=404, title="Not found", text=safe(str(error)))
    page = site.render(request, template, **shown)
    page.headers["X-Now"] = str(iso(shown["now"]))
    return page


def _framed(flow: Flow[Shown]) -> Flow[Shown]:
    """With its frame and the store's now, unless it has read those itself."""
    shown = yield from flow
    if "frame" in shown:
        return shown
    loaded = yield from load([SWITCH])
    alerts = yield from open_alerts()
    return {"now": loaded.now, **shown, "frame": PageFrame(alerts, standing_act(loaded.cells[0]))}


# --- what is not there ------------------------------------------------------------------------------------------------


class NotFoundPage(Exception):
    """A page of something that is not there."""

    def __init__(self, why: str, name: str) -> None:
        super().__init__(f"{why}: {name[:80]}")
