"""/timeline: which span, of what, by holder or by job; the picture, and the same as a table."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cronce.errors import BadInput
from cronce.model import Instant, check_name, spell
from cronce.monitor.reading.overview import Overview
from cronce.monitor.reading.stretch import Stretch, stretch, stretch_of
from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.schedule.zone import find_zone
from cronce.value import NamedTuple
from cronce.web.bodies import read_instant
from cronce.web.frame import Shown, show
from cronce.web.site import path, root_of
from cronce.web.timeline.draw import Links, draw, key, labels
from cronce.web.timeline.layout import lay_out
from cronce.web.timeline.pieces import LOOKS, By, Facts, gather

SPANS: Final = {
    "10m": timedelta(minutes=10),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "1w": timedelta(weeks=1),
}
LEAST, MOST = timedelta(seconds=10), timedelta(days=92)
READ: Final = 700
"""Runs that are read for a picture: the newest of its span. Where there are more, it says from when on it is whole."""

_SECOND: Final = timedelta(seconds=1)


class View(NamedTuple):
    """What is asked for: a fixed span, or one of some length up to now, which goes on with it."""

    by: By = "holder"
    job: str | None = None
    tz: str = "UTC"
    length: timedelta = SPANS["10m"]
    start: Instant | None = None

    def window(self, now: Instant) -> tuple[Instant, Instant]:
        """Up to now there is some room behind it, for what is still to come: leases."""
        start = self.start or now.replace(microsecond=0) - self.length * 0.95
        return start, start + self.length

    def lasts(self, name: str) -> bool:
        return self.length == SPANS[name]

    def query(self) -> dict[str, object]:
        """As a link says it; what is as it would be anyway is left out."""
        return {**self.span(), **self.others()}

    def span(self) -> dict[str, object]:
        if self.start is None:
            return {"span": next(name for name, span in SPANS.items() if span == self.length)}
        return {"from": spell(self.start), "to": spell(self.start + self.length)}

    def others(self) -> dict[str, object]:
        given = {"job": self.job, "by": self.by, "tz": self.tz}
        return {name: value for name, value in given.items() if value != View._field_defaults[name]}

    def between(self, start: Instant, end: Instant) -> "View":
        """Another span of the same, in whole seconds and within what can be shown."""
        length = min(max(end - start, LEAST), MOST)
        first = (start + (end - start - length) / 2).replace(microsecond=0)
        return self._replace(start=first, length=length // _SECOND * _SECOND)


# --- what is asked --------------------------------------------------------------------------------------------------


def read_view(query: Mapping[str, str]) -> View:
    """It comes from outside: whatever it says, it is a view or it is refused in words."""
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    by = given.get("by", "holder")
    if by not in ("holder", "job"):
        raise BadInput(f"by={by[:20]!r} is no way to draw lanes: say holder, or job")
    job, tz = given.get("job"), given.get("tz", "UTC")
    find_zone(tz)
    view = View("job" if by == "job" else "holder", check_name(job) if job else None, tz)
    if "from" not in given and "to" not in given:
        return view._replace(length=_length(given.get("span", "10m")))
    if "from" not in given or "to" not in given:
        raise BadInput("a span needs both of its ends: from=2026-03-29T01:00:00Z&to=2026-03-29T02:00:00Z")
    start, end = read_instant(given["from"]), read_instant(given["to"])
    if not LEAST <= end - start <= MOST:
        raise BadInput(f"a timeline shows from {LEAST.seconds} s to {MOST.days} days; that is {end - start}")
    return view._replace(start=start, length=end - start)


def _length(name: str) -> timedelta:
    if name not in SPANS:
        raise BadInput(f"span={name[:20]!r} is none of {', '.join(SPANS)}; another one has a from and a to")
    return SPANS[name]


# --- what is read ---------------------------------------------------------------------------------------------------


def facts_of(view: View, most: int = READ, seen: Overview | None = None) -> Flow[Facts]:
    """Runs are found by their slots, so one more span is read before: of that, what lasted until this one is shown.
    What an overview has `seen` of them is not read again."""
    now = seen.now if seen else (yield from load([])).now
    start, end = view.window(now)
    before = start - min(view.length, SPANS["1d"])
    found = yield from stretch_of(seen, before, end, most) if seen else stretch(before, end, view.job, most)
    refused = [(ghost.host, ghost.refused) for ghost in found.ghosts]
    return gather(found.runs, refused, start, end, found.now, gaps=tuple(_gaps(found, start, most)))


def _gaps(found: Stretch, start: Instant, most: int) -> Iterator[str]:
    if found.whole_from > start:
        yield f"More than {most:,} runs are in this span: before {spell(found.whole_from)} some are not shown."
    if found.more_open:
        yield "More runs are open than can be shown."
    if found.more_ghosts:
        yield "Duplicates of so many jobs were refused that not all are shown."


# --- what is shown --------------------------------------------------------------------------------------------------


async def timeline(request: Request) -> Response:
    view = read_view(request.query_params)
    return await show(request, "timeline.html", _shown(view, root_of(request)))


def _shown(view: View, root: str) -> Flow[Shown]:
    facts = yield from facts_of(view)

    def link(view: View) -> str:
        return path("timeline", root=root, **view.query())

    picture = lay_out(facts, view.by, find_zone(view.tz))
    links = Links(
        run=lambda slot: path("runs", slot, root=root),
        span=lambda start, end: link(view.between(start, end)),
        lane=(lambda job: path("jobs", job, root=root)) if view.by == "job" else None,
    )
    looks = {piece.look for piece in facts.pieces}
    return {
        "now": facts.now,
        "facts": facts,
        "picture": picture,
        "drawn": draw(picture, links),
        "keys": [(look, key(look)) for look in LOOKS if look in looks],
        "links": links,
        "view": view,
        "ways": _ways(view, facts, link),
        "labels": labels(picture),
    }


def _ways(view: View, facts: Facts, link: Callable[[View], str]) -> dict[str, object]:
    """Where one can go from here: nearer and farther, earlier and later, and to what is now."""
    start, end, half = facts.start, facts.end, view.length / 2
    middle = start + half
    return {
        "zoom": [(name, link(_zoomed(view, middle, span))) for name, span in SPANS.items()],
        "earlier": link(view.between(start - half, end - half)),
        "later": link(view.between(start + half, end + half)),
        "wider": link(view.between(start - view.length, end + view.length)),
        "now": link(view._replace(start=None, length=_nearest(view.length))),
        "stay": link(view.between(start, end)),
    }


def _zoomed(view: View, middle: Instant, span: timedelta) -> View:
    """What goes on with now still does."""
    return view._replace(length=span) if view.start is None else view.between(middle - span / 2, middle + span / 2)


def _nearest(length: timedelta) -> timedelta:
    return min(SPANS.values(), key=lambda span: abs(span - length))


ROUTES: Final = (Route("/timeline", timeline),)
