"""Logging in: a person says who they are and gives the token once, and may act for as long as the session lasts."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from cronce.runtime.hand.acts import check_text
from cronce.web.bodies import form
from cronce.web.gate import refuse_token
from cronce.web.problems import Problem
from cronce.web.security import COOKIE, LASTS, LONGEST_NAME, from_elsewhere, is_local_path, same_word
from cronce.web.site import Site, root_of, site_of


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
        wrong = f"say who you are, in up to {LONGEST_NAME} characters: what you do goes on record under that name"
        return _page(request, site, after, wrong, status=422)
    refusal = refuse_token(request, site, given.get("token", "").strip())
    if refusal is not None:
        page = _page(request, site, after, str(refusal), name=by, status=refusal.status)
        page.headers.update(refusal.headers)
        return page
    assert site.keys is not None
    answer = RedirectResponse(root_of(request) + (after if is_local_path(after) else "/"), 303)
    answer.set_cookie(
        COOKIE,
        site.keys.cookie(check_text("who you are", by), site.now),
        max_age=int(LASTS.total_seconds()),
        path=f"{root_of(request)}/",
        secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
        httponly=True,
        samesite="strict",
    )
    return answer


async def logout(request: Request) -> Response:
    site = _site(request)
    await signed_form(request, site)
    assert site.keys is not None
    site.keys.end(request.cookies[COOKIE], site.now)
    answer = RedirectResponse(f"{root_of(request)}/", 303)
    answer.delete_cookie(COOKIE, path=f"{root_of(request)}/", httponly=True, samesite="strict")
    return answer


async def signed_form(request: Request, site: Site) -> dict[str, str]:
    """A form that somebody sent who is logged in, from a page of their session."""
    refuse_foreign(request, site)
    session = site.session(request)
    if session is None:
        raise Problem(401, "log in first: this needs the token" if site.keys else _READ_ONLY)
    given = await form(request)
    if not same_word(session, given.pop("csrf", "")):
        raise Problem(403, "this form is not of your session; go back, load the page again, and repeat it")
    return given


def refuse_foreign(request: Request, site: Site) -> None:
    if elsewhere := from_elsewhere(request.headers, site.names or ()):
        raise Problem(403, f"only pages of this site may ask for that, and {elsewhere}")


_READ_ONLY: Final = "this page only shows: it was started without a token (--token-file, or $CRONCE_UI_TOKEN)"


def _site(request: Request) -> Site:
    site = site_of(request)
    if site.keys is None:
        raise Problem(404, _READ_ONLY)
    return site


def _page(request: Request, site: Site, after: str, wrong: str = "", *, name: str = "", status: int = 200) -> Response:
    return site.render(request, "login.html", status, next=after, wrong=wrong, name=name)


ROUTES: Final = (
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
)
