"""The gate before all pages: malformed requests, who may read, and the headers of every answer. And logging in: one
gives a name and the token once, and may act for as long as the session lasts.

The gate is plain ASGI, and reads headers alone: an answer that goes on for hours passes it as any other.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cronce.runtime.log import LOGGER
from cronce.runtime.operations import check_text
from cronce.web.requests import Problem, form, problem
from cronce.web.security import COOKIE, SESSION_LASTS, BrowserSession, PageTokens, address_of, same_word
from cronce.web.site import Site, here, path, root_of, site_of, whole

LONGEST_URL: Final = 2_000
LONGEST_HEADERS: Final = 32_768

OPEN_PATHS: Final = ("/healthz", "/readyz", "/login")
"""What needs no token, also where all else does; static files need none either."""

LONGEST_NAME: Final = 60

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
"""What this machine calls itself."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # no-referrer would also keep from us where our own forms come from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer."""


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
        begun = False

        async def sending(message: Message) -> None:
            """With the headers that each answer has."""
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await answer(scope, receive, sending)
        except Exception as error:
            if begun:
                raise
            LOGGER.error("the page could not answer %s %s", scope["method"], here(request), exc_info=error)
            bug = problem(request, 500, "this is a bug in cronce; the log of the page has the details")
            await bug(scope, receive, sending)

    def _malformed(self, request: HTTPConnection) -> Response | None:
        """Requests that no browser sends by itself."""
        scope = request.scope
        if strange_host(request.headers.get("host", ""), self._site.names):
            return problem(request, 421, "the page does not allow this host name; `cronce ui --name HOST` adds one")
        if len(scope["path"]) + len(scope.get("query_string", b"")) > LONGEST_URL:
            return problem(request, 414, f"an address may have {LONGEST_URL:,} characters at most")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LONGEST_HEADERS:
            return problem(request, 431, f"headers may have {LONGEST_HEADERS:,} bytes at most")
        if not scope["path"].startswith("/") or not scope["path"].isprintable() or "\\" in scope["path"]:
            return problem(request, 400, "that is not the address of a page")
        return None

    def _refused(self, request: HTTPConnection) -> Response | None:
        """Note who asks; refuse a wrong token and, where reading needs one, a request without."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        session, site = None, self._site
        if site.doors and scheme.lower() == "bearer":
            opened = open_door(request, site, token.strip())
            if isinstance(opened, Problem):
                return problem(request, opened.status_code, str(opened), opened.headers)
            session = BrowserSession("api", acts=opened is site.keys)
        elif cookie := request.cookies.get(COOKIE):
            session = next((found for door in site.doors if (found := door.session(cookie, site.now))), None)
        request.scope["cronce.session"] = session
        return self._barred(request) if site.private and session is None else None

    def _barred(self, request: HTTPConnection) -> Response | None:
        place = here(request)
        if place in OPEN_PATHS or place.startswith("/static/"):
            return None
        if place.startswith("/api/") or place in ("/live", "/metrics") or request.scope["method"] != "GET":
            return problem(request, 401, "this needs the token: Authorization: Bearer …")
        after = whole(request)
        fits = len(after) < LONGEST_URL // 3  # each sign of it may take three there
        return RedirectResponse(path("login", root=root_of(request), next=after if fits else place), 303)


def open_door(request: HTTPConnection, site: Site, token: str) -> PageTokens | Problem:
    """What this token opens; or why nothing. The right one always passes, also from an address that sent wrong ones."""
    for door in site.doors:
        if door.opens(token):
            return door
    peer, now = request.client.host if request.client else "", site.clock.boot()
    address = address_of(peer, request.headers.get("x-forwarded-for", ""), site.proxies)
    if wait := site.guesses.wait(address, now):
        text = "too many wrong tokens came from your address; wait a minute"
        return Problem(429, text, {"Retry-After": f"{wait:.0f}"})
    site.guesses.wrong(address, now)
    return Problem(401, "that is not the token")


# --- where a request comes from ---------------------------------------------------------------------------------------


def from_elsewhere(headers: Mapping[str, str], names: Collection[str]) -> str:
    """Why a browser's request that would change something is not from a page of ours; empty: it may be."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return f"this request came from another site ({site[:20]!r})"
    if origin is None:
        return ""
    place = origin.partition("://")[2].lower()
    ours = place == headers.get("host", "").lower() or host_of(place) in {name.lower() for name in names}
    return "" if place and ours else f"this request came from {origin[:60]!r}"


_AUTHORITY: Final = re.compile(r"(?a)(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<host>[a-z0-9._-]+))(?::\d{1,5})?")


def host_of(authority: str) -> str:
    """The host of `host:port`; "" if it is not written so."""
    found = _AUTHORITY.fullmatch(authority.lower())
    return (found["six"] or found["host"]).rstrip(".") if found else ""


def strange_host(authority: str, names: Collection[str] | None) -> bool:
    """Whether the Host header has a name that is not its own. `names` None: the application around it checks that."""
    return names is not None and host_of(authority) not in {*LOCAL_NAMES, *(name.lower() for name in names)}


def is_local_path(path: str) -> bool:
    """Whether one may be sent there after logging in: a path of this site, and no way to another."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and len(path) < 2000


# --- logging in -------------------------------------------------------------------------------------------------------


async def login(request: Request) -> Response:
    site = _site(request)
    if request.method == "POST":
        return await _log_in(request, site)
    return _page(request, site, request.query_params.get("next", "/"))


async def _log_in(request: Request, site: Site) -> Response:
    refuse_foreign(request, site)
    given = await form(request)
    after, by = given.get("next", "/"), given.get("by", "").strip()
    if not by or not by.isprintable() or len(by) > LONGEST_NAME:
        wrong = f"give your name, in up to {LONGEST_NAME} characters: what you do is recorded under it"
        return _page(request, site, after, wrong, status=422)
    opened = open_door(request, site, given.get("token", "").strip())
    if isinstance(opened, Problem):
        page = _page(request, site, after, str(opened), name=by, status=opened.status_code)
        page.headers.update(opened.headers or {})
        return page
    answer = RedirectResponse(root_of(request) + (after if is_local_path(after) else "/"), 303)
    answer.set_cookie(
        COOKIE,
        opened.cookie(check_text("who you are", by), site.now),
        max_age=int(SESSION_LASTS.total_seconds()),
        path=f"{root_of(request)}/",
        secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
        httponly=True,
        samesite="strict",
    )
    return answer


async def logout(request: Request) -> Response:
    site = _site(request)
    await signed_form(request, site, looking=True)
    for door in site.doors:
        door.end(request.cookies[COOKIE], site.now)
    answer = RedirectResponse(f"{root_of(request)}/", 303)
    answer.delete_cookie(COOKIE, path=f"{root_of(request)}/", httponly=True, samesite="strict")
    return answer


async def signed_form(request: Request, site: Site, *, looking: bool = False) -> dict[str, str]:
    """A form from a page of a session that is logged in; `looking`: also of one that may only read."""
    refuse_foreign(request, site)
    session = site.known(request) if looking else site.session(request)
    if session is None and site.known(request):
        raise Problem(403, "you can only read: log in with the token for acting")
    if session is None:
        raise Problem(401, "log in first: this needs the token" if site.keys else _READ_ONLY)
    given = await form(request)
    if not same_word(session, given.pop("csrf", "")):
        raise Problem(403, "this form does not belong to your session; go back, load the page again, and repeat it")
    return given


def refuse_foreign(request: Request, site: Site) -> None:
    if elsewhere := from_elsewhere(request.headers, site.names or ()):
        raise Problem(403, f"only pages of this site may do this, and {elsewhere}")


_READ_ONLY: Final = "this page is read-only: it was started without a token (--token-file, or $CRONCE_UI_TOKEN)"


def _site(request: Request) -> Site:
    site = site_of(request)
    if not site.doors:
        raise Problem(404, _READ_ONLY)
    return site


def _page(request: Request, site: Site, after: str, wrong: str = "", *, name: str = "", status: int = 200) -> Response:
    return site.render(request, "login.html", status, next=after, wrong=wrong, name=name)


ROUTES: Final = (
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
)
