"""Locks and leaders: who holds what, until when, and who did before."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from cronce.monitor.reading.notices import HeldPage, leaders, locks
from cronce.runtime.flow import Flow
from cronce.telling.documents import leader_says
from cronce.value import NamedTuple
from cronce.web.frame import Shown, show


class Words(NamedTuple):
    """How a kind of lease is spoken of; `says`: what its states and ends are called."""

    way: str
    title: str
    noun: str
    holder: str
    number: str
    """What its fence is called."""
    look: Callable[[str], Flow[HeldPage]]
    says: Callable[[str], str]


LOCKS = Words("locks", "Locks", "lock", "holder", "fence", locks, str)
LEADERS = Words("leaders", "Leaders", "group", "leader", "term", leaders, leader_says)


async def locks_page(request: Request) -> Response:
    return await _show(request, LOCKS)


async def leaders_page(request: Request) -> Response:
    return await _show(request, LEADERS)


async def _show(request: Request, words: Words) -> Response:
    return await show(request, "leases.html", _page(words, request.query_params.get("after", "")))


def _page(words: Words, after: str) -> Flow[Shown]:
    found = yield from words.look(after)
    return {"now": found.now, "held": found.held, "next": found.next, "after": after, "words": words}
