"""What came of an act, told once, on the page that one is led to after it. It travels in a cookie that is ours, of this
session: nobody else can have a page say something."""

from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from cronce.web.security import Keys, Session

COOKIE: Final = "cronce_came"
WAITS: Final = 60
"""Seconds that it waits for the page."""


def tell_next(answer: Response, keys: Keys, session: Session, text: str, path: str) -> None:
    sealed = keys.seal(_use(session), text.encode(errors="replace"))
    answer.set_cookie(COOKIE, sealed, max_age=WAITS, path=path, httponly=True, samesite="strict")


def told_before(request: HTTPConnection, keys: Keys | None, session: Session | None) -> str:
    """What this page has to tell; most have nothing."""
    sealed = request.cookies.get(COOKIE)
    said = keys.unseal(_use(session), sealed) if keys and session and session.word and sealed else None
    return said.decode() if said else ""


def forget(answer: Response, path: str) -> None:
    answer.delete_cookie(COOKIE, path=path, httponly=True, samesite="strict")


def _use(session: Session) -> bytes:
    return b"came:" + session.word.encode()
