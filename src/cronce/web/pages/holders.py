"""Who is there: each scheduler, by its last beat."""

from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.monitor.reading.overview import HolderLine, holders
from cronce.monitor.settings import Settings
from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.telling.words import by_whom, safe, short
from cronce.value import NamedTuple
from cronce.web.frame import Shown, show

LIVE: Final = ("alive", "draining", "late")


class Beating(NamedTuple):
    """A scheduler as it is shown."""

    name: str
    state: str
    line: HolderLine
    why: str
    """What keeps it from claiming, if anything does."""
    skew: str
    skewed: bool


async def page(request: Request) -> Response:
    return await show(request, "holders.html", _page())


def _page() -> Flow[Shown]:
    found = yield from holders()
    now = (yield from load([])).now
    return {"now": now, "holders": [beating(line) for line in found]}


def beating(line: HolderLine) -> Beating:
    holder = line.holder
    why = f"drained {by_whom(line.drained)}" if line.drained else "draining" if holder.draining else ""
    state: str = line.life
    if holder.gone:
        state, why = "left", "it left on purpose"
    elif state == "alive" and why:
        state = "draining"
    elif state == "dead":
        why = "it stopped beating, and said no goodbye"
    skewed = abs(holder.skew) > Settings().skew
    return Beating(safe(holder.holder), state, line, safe(why), _offset(holder.skew), skewed)


def _offset(skew: timedelta) -> str:
    if abs(skew) < timedelta(milliseconds=1):
        return "0"
    return f"{'+' if skew > timedelta(0) else '−'}{short(skew)}"
