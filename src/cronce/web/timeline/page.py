"""/timeline: which span, of what, by holder or by job; the picture, and the same as a table."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from markupsafe import Markup
from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import Instant, check_name, spell
from cronce.monitor.read_jobs import JobView
from cronce.monitor.read_overview import Overview
from cronce.monitor.read_stretch import Stretch, stretch, stretch_of, stretch_of_job
from cronce.runtime.flow import Flow
from cronce.runtime.queries import load
from cronce.schedule.zone import find_zone
from cronce.value import NamedTuple
from cronce.web.requests import read_instant
from cronce.web.site import Shown, path, root_of
from cronce.web.timeline.draw import Closer, draw, key, labels
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

MOST_DRAWN: Final = 250
"""Runs that a small picture is drawn of: more could not be told apart."""

STEP: Final = timedelta(minutes=10)
"""A small picture is so wide, or a multiple of it."""

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

    def way(self, root: str) -> str:
        """The page that shows it; what is as it would be anyway is left out."""
        given = {"job": self.job, "by": self.by, "tz": self.tz}
        others = {name: value for name, value in given.items() if value != View._field_defaults[name]}
        return path("timeline", root=root, **self.span(), **others)

    def closer(self, root: str) -> Closer:
        """The way to another span of the same."""
        return lambda start, end: self.between(start, end).way(root)

    def span(self) -> dict[str, object]:
        if self.start is None:
            return {"span": next(name for name, span in SPANS.items() if span == self.length)}
        return {"from": spell(self.start), "to": spell(self.start + self.length)}

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
        span = given.get("span", "10m")
        if span not in SPANS:
            raise BadInput(f"span={span[:20]!r} is none of {', '.join(SPANS)}; another one has a from and a to")
        return view._replace(length=SPANS[span])
    if "from" not in given or "to" not in given:
        raise BadInput("a span needs both of its ends: from=2026-03-29T01:00:00Z&to=2026-03-29T02:00:00Z")
    start, end = read_instant(given["from"]), read_instant(given["to"])
    if not LEAST <= end - start <= MOST:
        raise BadInput(f"a timeline shows from {LEAST.seconds} s to {MOST.days} days; that is {end - start}")
    return view._replace(start=start, length=end - start)


# --- what is read ---------------------------------------------------------------------------------------------------


def facts_of(view: View, most: int = READ, seen: Overview | JobView | None = None) -> Flow[Facts]:
    """Runs are found by their slots, so one more span is read before: of that, what lasted until this one is shown.
    What an overview, or the view of a job, has `seen` of them is not read again."""
    now = seen.now if seen else (yield from load([])).now
    start, end = view.window(now)
    before = start - min(view.length, SPANS["1d"])
    match seen:
        case None:
            found = yield from stretch(before, end, view.job, most)
        case JobView():
            found = yield from stretch_of_job(seen, before, end, most)
        case _:
            found = yield from stretch_of(seen, before, end, most)
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


def timeline(request: Request) -> Flow[Shown]:
    view, root = read_view(request.query_params), root_of(request)
    facts = yield from facts_of(view)
    picture = lay_out(facts, view.by, find_zone(view.tz))
    looks = {piece.look for piece in facts.pieces}
    return {
        "now": facts.now,
        "facts": facts,
        "picture": picture,
        "drawn": draw(picture, root, view.closer(root)),
        "keys": [(look, key(look)) for look in LOOKS if look in looks],
        "closer": view.closer(root),
        "view": view,
        "ways": _ways(view, facts, root),
        "labels": labels(picture),
    }


def _ways(view: View, facts: Facts, root: str) -> dict[str, object]:
    """Where one can go from here: nearer and farther, earlier and later, and to what is now."""
    start, end, half = facts.start, facts.end, view.length / 2
    middle, closer = start + half, view.closer(root)
    nearest = min(SPANS.values(), key=lambda span: abs(span - view.length))
    return {
        "zoom": [(name, _zoomed(view, middle, span).way(root)) for name, span in SPANS.items()],
        "earlier": closer(start - half, end - half),
        "later": closer(start + half, end + half),
        "wider": closer(start - view.length, end + view.length),
        "now": view._replace(start=None, length=nearest).way(root),
        "stay": closer(start, end),
    }


def _zoomed(view: View, middle: Instant, span: timedelta) -> View:
    """What goes on with now still does."""
    return view._replace(length=span) if view.start is None else view.between(middle - span / 2, middle + span / 2)


# --- a small one on another page ------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    title: str
    svg: Markup
    told: str
    """What is on it."""
    way: str
    """The whole timeline."""
    gaps: tuple[str, ...]
    """What is not on it."""


def picture(root: str, seen: Overview | JobView) -> Flow[Drawn | None]:
    """The last hour, or as much of it as there is, of all jobs or of one, out of what was `seen`. None: there is
    nothing to draw."""
    view = View(job=seen.seen.name if isinstance(seen, JobView) else None, length=SPANS["1h"])
    facts = yield from facts_of(view, MOST_DRAWN, seen)
    if not facts.pieces:
        return None
    facts, title = young(facts)
    laid = lay_out(facts, view.by, find_zone(view.tz))
    return Drawn(title, draw(laid, root, view.closer(root)), laid.counted, view.way(root), facts.gaps)


def young(facts: Facts) -> tuple[Facts, str]:
    """Without the time before the oldest that is shown, and what it is called then."""
    hour = SPANS["1h"]
    oldest = min(piece.due or piece.start for piece in facts.pieces)
    lengths = (STEP * number for number in range(1, hour // STEP))
    for length in lengths:
        start, end = View(length=length).window(facts.now)
        if start <= oldest:
            return facts._replace(start=start, end=end), f"The last {length // timedelta(minutes=1)} minutes"
    return facts, "The last hour"
