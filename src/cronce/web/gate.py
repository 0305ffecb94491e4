"""The gate before all pages: what is refused whoever asks, who may look, and the headers of every answer.

It is plain ASGI, and reads headers alone: an answer that goes on for hours passes it as any other.
"""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronce.runtime.log import LOGGER
from cronce.web.problems import Problem, problem
from cronce.web.security import COOKIE, HEADERS, Session, strange_host
from cronce.web.site import Site, here, path, root_of, whole

LONGEST_URL: Final = 2_000
LONGEST_HEADERS: Final = 32_768

OPEN: Final = ("/healthz", "/readyz", "/login")
"""What is seen without a token, also where all else needs one; and what pages look like."""


class Gate:
    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["cronce.root"] = scope.get("root_path", "")
        request = HTTPConnection(scope)
        answer = self._malformed(request) or self._refused(request) or self._app
        sending = Guarded(send)
        try:
            await answer(scope, receive, sending)
        except Exception as error:
            if sending.begun:
                raise
            LOGGER.error("the page could not answer %s %s", scope["method"], here(request), exc_info=error)
            bug = problem(request, 500, "that is a bug, and the log of the page has more of it")
            await bug(scope, receive, sending)

    def _malformed(self, request: HTTPConnection) -> Response | None:
        """What nobody sends who means well."""
        scope = request.scope
        if strange_host(request.headers.get("host", ""), self._site.names):
            return problem(request, 421, "this page does not go by that name; `cronce ui --name HOST` adds one")
        if len(scope["path"]) + len(scope.get("query_string", b"")) > LONGEST_URL:
            return problem(request, 414, f"an address has {LONGEST_URL:,} characters at most")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEADERS:
            return problem(request, 431, f"headers have {LONGEST_HEADERS:,} bytes at most")
        if not scope["path"].startswith("/") or not scope["path"].isprintable() or "\\" in scope["path"]:
            return problem(request, 400, "that is no address of a page")
        return None

    def _refused(self, request: HTTPConnection) -> Response | None:
        """Note who asks; refuse a wrong token, and where one is needed even to look, whoever has none."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        session, site = None, self._site
        if site.keys is not None and scheme.lower() == "bearer":
            if refusal := refuse_token(request, site, token.strip()):
                return problem(request, refusal.status, str(refusal), refusal.headers)
            session = Session("api")
        elif site.keys is not None and (cookie := request.cookies.get(COOKIE)):
            session = site.keys.session(cookie, site.now)
        request.scope["cronce.session"] = session
        return self._barred(request) if site.private and session is None else None

    def _barred(self, request: HTTPConnection) -> Response | None:
        place = here(request)
        if place in OPEN or place.startswith("/static/"):
            return None
        if place.startswith("/api/") or place in ("/live", "/metrics") or request.scope["method"] != "GET":
            return problem(request, 401, "this needs the token: Authorization: Bearer …")
        after = whole(request)
        fits = len(after) < LONGEST_URL // 3  # each sign of it may take three there
        return RedirectResponse(path("login", root=root_of(request), next=after if fits else place), 303)


def refuse_token(request: HTTPConnection, site: Site, token: str) -> Problem | None:
    """Why this token does not open; None: it does."""
    address, now = request.client.host if request.client else "", site.clock.boot()
    if wait := site.guesses.wait(address, now):
        return Problem(
            429, "too many wrong tokens came from your address; wait a minute", {"Retry-After": f"{wait:.0f}"}
        )
    if site.keys is not None and site.keys.opens(token):
        return None
    site.guesses.wrong(address, now)
    return Problem(401, "that is not the token")


class Guarded:
    """An answer on its way out, with the headers that each has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
