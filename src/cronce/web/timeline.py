"""/timeline: which span, of what; the picture as SVG, and the same as a table.

The picture has no script and no style but classes, and every text in it is escaped. Colour is never the only sign: what
failed is crossed out and striped, what lapsed or is lost is hatched, a refused claim is a small dashed ring with a
cross, a slot that did not run is a hollow mark.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import starmap
from typing import Final

from markupsafe import Markup
from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import Instant, check_name, spell
from cronce.monitor.read_jobs import JobView
from cronce.monitor.read_overview import Overview, TimeSpan, stretch, stretch_of
from cronce.runtime.flow import Flow
from cronce.runtime.queries import load
from cronce.telling.words import fine
from cronce.value import NamedTuple
from cronce.web import timeline_layout as layout
from cronce.web.markup import brief, percent, tag, titled
from cronce.web.requests import read_instant
from cronce.web.site import Shown, path, root_of
from cronce.web.timeline_layout import PIECE_LOOKS, Lane, Picture, PlacedPiece, Shape, TimelineFacts

TIMELINE_SPANS: Final = {
    "10m": timedelta(minutes=10),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "1w": timedelta(weeks=1),
}
SHORTEST_SPAN, LONGEST_SPAN = timedelta(seconds=10), timedelta(days=92)
RUNS_READ: Final = 700
"""Runs that are read for a picture: the newest of its span. Where there are more, it says from when on it is whole."""

MOST_DRAWN: Final = 250
"""Runs that a small picture is drawn of: more could not be told apart."""

SMALL_HEIGHT: Final = 240.0
"""Pixels: then it is on the first screen of the overview, below what is wrong and who is alive."""

SMALL_SPAN: Final = timedelta(minutes=10)
"""A small picture is so wide, or a multiple of it."""

_SECOND: Final = timedelta(seconds=1)


class TimelineView(NamedTuple):
    """What is asked for: a fixed span, or one of some length up to now, which goes on with it."""

    job: str | None = None
    length: timedelta = TIMELINE_SPANS["10m"]
    start: Instant | None = None

    def window(self, now: Instant) -> tuple[Instant, Instant]:
        """Up to now there is some room behind it, for what is still to come: leases."""
        start = self.start or now.replace(microsecond=0) - self.length * 0.95
        return start, start + self.length

    def lasts(self, name: str) -> bool:
        return self.length == TIMELINE_SPANS[name]

    def way(self, root: str) -> str:
        """The page that shows it; what is as it would be anyway is left out."""
        return path("timeline", root=root, **self.span(), **({"job": self.job} if self.job else {}))

    def span(self) -> dict[str, object]:
        if self.start is None:
            return {"span": next(name for name, span in TIMELINE_SPANS.items() if span == self.length)}
        return {"from": spell(self.start), "to": spell(self.start + self.length)}

    def between(self, start: Instant, end: Instant) -> "TimelineView":
        """Another span of the same, in whole seconds and within what can be shown."""
        length = min(max(end - start, SHORTEST_SPAN), LONGEST_SPAN)
        first = (start + (end - start - length) / 2).replace(microsecond=0)
        return self._replace(start=first, length=length // _SECOND * _SECOND)


# --- what is asked --------------------------------------------------------------------------------------------------


def read_view(query: Mapping[str, str]) -> TimelineView:
    """It comes from outside: whatever it says, it is a view or it is refused in words."""
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    view = TimelineView(check_name(given["job"]) if "job" in given else None)
    if "from" not in given and "to" not in given:
        span = given.get("span", "10m")
        if span not in TIMELINE_SPANS:
            raise BadInput(
                f"span={span[:20]!r} is not one of {', '.join(TIMELINE_SPANS)}; for another span, give from and to"
            )
        return view._replace(length=TIMELINE_SPANS[span])
    if "from" not in given or "to" not in given:
        raise BadInput("a span needs both of its ends: from=2026-03-29T01:00:00Z&to=2026-03-29T02:00:00Z")
    start, end = read_instant(given["from"]), read_instant(given["to"])
    if not SHORTEST_SPAN <= end - start <= LONGEST_SPAN:
        raise BadInput(
            f"a timeline can show from {SHORTEST_SPAN.seconds} s to {LONGEST_SPAN.days} days, not {end - start}"
        )
    return view._replace(start=start, length=end - start)


# --- what is read ---------------------------------------------------------------------------------------------------


def facts_of(view: TimelineView, most: int = RUNS_READ, seen: Overview | JobView | None = None) -> Flow[TimelineFacts]:
    """Runs are found by their slots, so one more span is read before: of that, what lasted until this one is shown.
    What an overview, or the view of a job, has `seen` of them is not read again."""
    now = seen.now if seen else (yield from load([])).now
    start, end = view.window(now)
    before = start - min(view.length, TIMELINE_SPANS["1d"])
    if isinstance(seen, Overview):
        found = yield from stretch_of(seen, before, end, most)
    else:
        found = yield from stretch(before, end, view.job, most, seen.present if seen else None)
    refused = [(ghost.host, ghost.refused) for ghost in found.ghosts]
    return layout.gather(found.runs, refused, start, end, found.now, gaps=tuple(_gaps(found, start, most)))


def _gaps(found: TimeSpan, start: Instant, most: int) -> Iterator[str]:
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
    picture = layout.lay_out(facts)
    return {
        "now": facts.now,
        "facts": facts,
        "picture": picture,
        "drawn": draw(picture, root),
        "keys": legend(facts),
        "view": view,
        "ways": _ways(view, facts, root),
        "labels": labels(picture),
    }


def _ways(view: TimelineView, facts: TimelineFacts, root: str) -> dict[str, object]:
    """Where one can go from here: nearer and farther, earlier and later, and to what is now."""
    start, end, half = facts.start, facts.end, view.length / 2
    middle = start + half

    def another(start: Instant, end: Instant) -> str:
        return view.between(start, end).way(root)

    nearest = min(TIMELINE_SPANS.values(), key=lambda span: abs(span - view.length))
    return {
        "zoom": [(name, _zoomed(view, middle, span).way(root)) for name, span in TIMELINE_SPANS.items()],
        "earlier": another(start - half, end - half),
        "later": another(start + half, end + half),
        "wider": another(start - view.length, end + view.length),
        "now": view._replace(start=None, length=nearest).way(root),
        "stay": another(start, end),
    }


def _zoomed(view: TimelineView, middle: Instant, span: timedelta) -> TimelineView:
    """What goes on with now still does."""
    return view._replace(length=span) if view.start is None else view.between(middle - span / 2, middle + span / 2)


# --- a small one on another page ------------------------------------------------------------------------------------


def picture(root: str, seen: Overview | JobView) -> Flow[Shown | None]:
    """The last hour, or as much of it as there is, of all jobs or of one, out of what was `seen`. None: there is
    nothing to draw."""
    view = TimelineView(job=seen.seen.name if isinstance(seen, JobView) else None, length=TIMELINE_SPANS["1h"])
    facts = yield from facts_of(view, MOST_DRAWN, seen)
    if not facts.pieces:
        return None
    facts, title = young(facts)
    laid, left_out = layout.lay_out_small(facts, SMALL_HEIGHT)
    return {
        "title": title,
        "svg": draw(laid, root),
        "told": laid.counted,
        "way": view.way(root),
        "gaps": facts.gaps,
        "left_out": left_out,
        "keys": legend(facts),
    }


def legend(facts: TimelineFacts) -> list[tuple[str, Markup]]:
    """What each look means that is in the picture."""
    looks = {piece.look for piece in facts.pieces}
    return [(LEGEND.get(look, look), key(look)) for look in PIECE_LOOKS if look in looks]


LEGEND: Final = {layout.REFUSED: "refused duplicate (did not run)"}
"""What a look is called in the legend, where its name does not say enough."""


def young(facts: TimelineFacts) -> tuple[TimelineFacts, str]:
    """Without the time before the oldest that is shown, and what it is called then."""
    hour = TIMELINE_SPANS["1h"]
    oldest = min(piece.due or piece.start for piece in facts.pieces)
    lengths = (SMALL_SPAN * number for number in range(1, hour // SMALL_SPAN))
    for length in lengths:
        start, end = TimelineView(length=length).window(facts.now)
        if start <= oldest:
            return facts._replace(start=start, end=end), f"The last {length // timedelta(minutes=1)} minutes"
    return facts, "The last hour"


_WORD_PIXELS: Final = 46.0
"""A bar of so many pixels has room for a word."""

_EDGE: Final = 94.0
"""In percent: behind it a line's label has no room."""

_MIDDLE: Final = layout.BAR / 2
_PATTERNS: Final = {
    "failed": "M-1,5 L5,-1 M3,9 L9,3",
    "lapsed": "M-1,3 L3,7 M-1,-1 L7,7 M3,-1 L7,3",
    "host gone": "M-1,3 L3,7 M-1,-1 L7,7 M3,-1 L7,3",
    "lost": "M0,0 L6,6 M6,0 L0,6",
    "unknown": "M3,2 L3,4",
    "retrying": "M0,3 L6,3",
}


_NOT_RUN: Final = ("skipped", "too old", "due", "waiting", "unreadable")
"""Looks of slots that did not run, or not yet."""


def draw(picture: Picture, root: str) -> Markup:
    """All of it. Who cannot see it reads the table of the same facts, so it is hidden from readers of screens."""
    parts = (
        _definitions(),
        *map(_ground, picture.lanes),
        *_grid(picture),
        *_lanes(picture, root),
        *starmap(_arrow, picture.arrows),
        *_now(picture),
    )
    return tag("svg", *parts, class_="timeline", width="100%", height=picture.height, aria_hidden="true")


def key(look: str) -> Markup:
    """One entry of the legend: what a look looks like. Its patterns are those of the picture beside it."""
    shape: Shape = "ghost" if look == layout.REFUSED else "mark" if look in _NOT_RUN else "bar"
    sign = _worded(layout.SHORT_BAR_SIGNS.get(look, ""), look, layout.BAR)
    drawn = {"mark": (_mark(look),), "ghost": (_ghost(),), "bar": (_box(look), sign)}
    inside = drawn[shape]
    return tag("svg", *inside, width=22, height=layout.BAR, class_="timeline key", aria_hidden="true")


# --- behind the lanes -----------------------------------------------------------------------------------------------


def _definitions() -> Markup:
    patterns = (
        tag(
            "pattern",
            tag("path", d=path, class_=_class(look)),
            id=f"look-{_class(look)}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for look, path in _PATTERNS.items()
    )
    head = tag("path", d="M0,0 L8,4 L0,8 Z")
    arrow = tag(
        "marker", head, id="takes-over", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=7, markerHeight=7, orient="auto"
    )
    return tag("defs", *patterns, arrow)


def _ground(lane: Lane) -> Markup:
    return tag("rect", x="0", y=lane.top, width="100%", height=lane.height - 4, class_="lane", rx=4)


def _grid(picture: Picture) -> Iterator[Markup]:
    for line in picture.lines:
        yield _across(picture, line.at, line.label if picture.scale(line.at) < _EDGE else "", "grid", 14)


def _now(picture: Picture) -> Iterator[Markup]:
    if picture.facts.start <= picture.facts.now <= picture.facts.end:
        yield _across(picture, picture.facts.now, "now", "now", 28)


def _across(picture: Picture, at: Instant, label: str, look: str, low: float) -> Markup:
    x = picture.scale(at)
    place = {"dx": "4"} if look == "grid" or x < 50 else {"dx": "-4", "text_anchor": "end"}
    line = tag("line", x1=percent(x), x2=percent(x), y1=low - 12, y2=picture.height)
    return tag("g", line, tag("text", label, x=percent(x), y=low, **place), class_=look)


# --- a lane ---------------------------------------------------------------------------------------------------------


def _lanes(picture: Picture, root: str) -> Iterator[Markup]:
    """Where pieces lie on one another, what a person should see first is on top."""
    called = labels(picture)
    for lane in picture.lanes:
        yield tag("text", called[lane.name], titled(lane.name), x=8, y=lane.top + 14, class_="name")
        for placed in sorted(lane.placed, key=lambda one: -PIECE_LOOKS.index(one.piece.look)):
            yield _piece(placed, root)


def labels(picture: Picture) -> dict[str, str]:
    """What each lane is called. A holder by its host and process alone, unless there are two of that."""
    said = {lane.name: _label(lane) for lane in picture.lanes}
    often = Counter(said.values())
    return {name: label if often[label] == 1 else name for name, label in said.items()}


def _label(lane: Lane) -> str:
    if lane.name == layout.OTHERS:
        return f"{lane.members:,} others"
    if not lane.name:
        return "no process (did not run, or not yet)"
    return brief(lane.name) + (f" ({lane.members:,} processes)" if lane.members > 1 else "")


def _piece(placed: PlacedPiece, root: str) -> Markup:
    way = path("runs", placed.piece.slot, root=root)
    return tag("a", titled(placed.piece.told), *_drawn(placed), href=way, tabindex="-1", class_="piece")


def _drawn(placed: PlacedPiece) -> Iterator[Markup]:
    piece, top = placed.piece, placed.top
    if piece.shape == "mark":
        yield tag("svg", _mark(piece.look), x=percent(placed.left), y=top, overflow="visible")
        return
    if piece.shape == "ghost":
        yield tag("svg", _ghost(), x=percent(placed.left), y=top, overflow="visible")
        return
    if placed.due is not None and placed.left - placed.due > 0.1:
        yield _lateness(placed.due, placed.left, top)
    if placed.until is not None and placed.until > placed.right:
        share = percent(placed.until - placed.right)
        yield tag("rect", x=percent(placed.right), y=top + 3, width=share, height=layout.BAR - 6, class_="lease")
    width, height = placed.right - placed.left, layout.BAR
    pixels = width / 100 * layout.TIMELINE_WIDTH
    word = piece.job if pixels > _WORD_PIXELS else ""
    sign = layout.SHORT_BAR_SIGNS.get(piece.look, "")
    inside = [_box(piece.look)]
    if sign and pixels < layout.NARROWEST:
        inside.append(tag("text", sign, x="100%", dx=2, y=height - 4, class_=f"sign {_class(piece.look)}"))
    elif sign or word:
        inside.append(_worded(f"{sign} {word}".strip(), piece.look, height))
    place = {"x": percent(placed.left), "width": percent(max(width, 0.3))}
    yield tag("svg", *inside, **place, y=top, height=height, overflow="visible")


def _ghost() -> Markup:
    """A small dashed ring that is crossed out, and no bar: it must not look like a run."""
    middle = layout.THIN_BAR / 2
    ring = tag("circle", cx=middle, cy=middle, r=5)
    cross = tag("path", d=f"M{middle - 2.5},{middle - 2.5} l5,5 m0,-5 l-5,5")
    return tag("g", ring, cross, class_="ghost refused")


def _box(look: str) -> Markup:
    """A bar as wide as its place, and its pattern."""
    place: dict[str, str | float] = {"width": "100%", "height": layout.BAR, "rx": 2}
    parts = [tag("rect", **place, class_=f"bar {_class(look)}")]
    if look in _PATTERNS:
        parts.append(tag("rect", **place, fill=f"url(#look-{_class(look)})"))
    return tag("g", *parts)


def _worded(words: str, look: str, height: float) -> Markup:
    """Words that end where their bar does."""
    text = tag("text", words, x=4, y=height - (4 if height == layout.BAR else 2.5), class_=f"word {_class(look)}")
    return tag("svg", text, width="100%", height="100%")


def _mark(look: str) -> Markup:
    """Hollow: skipped is a circle with a stroke through it; what is still to come is a diamond."""
    if look in ("skipped", "too old"):
        circle = tag("circle", cx=6, cy=_MIDDLE, r=5)
        return tag("g", circle, tag("line", x1=3, y1=_MIDDLE + 3, x2=9, y2=_MIDDLE - 3), class_=f"mark {_class(look)}")
    return tag("path", d=f"M6,{_MIDDLE - 6:g} l6,6 l-6,6 l-6,-6 Z", class_=f"mark {_class(look)}")


def _lateness(due: float, start: float, top: float) -> Markup:
    tick = tag("line", x1=percent(due), x2=percent(due), y1=top, y2=top + layout.BAR)
    thread = tag("line", x1=percent(due), x2=percent(start), y1=top + _MIDDLE, y2=top + _MIDDLE)
    return tag("g", tick, thread, class_="late")


def _arrow(earlier: PlacedPiece, later: PlacedPiece) -> Markup:
    """From the edge of the earlier bar to the edge of the later one."""
    down = later.top >= earlier.top
    y1, y2 = (earlier.top + layout.BAR, later.top) if down else (earlier.top, later.top + layout.BAR)
    line = tag("line", x1=percent(earlier.right), x2=percent(later.left), y1=y1, y2=y2, marker_end="url(#takes-over)")
    told = f"{later.piece.slot}: taken over by {later.piece.holder} at {fine(later.piece.start)}"
    return tag("g", titled(told), line, class_="handover")


def _class(look: str) -> str:
    return look.replace(" ", "-")
