"""The picture as SVG: no script, no style but classes, every text escaped.

Colour is never the only sign: what failed is crossed out and striped, what lapsed or is lost is hatched, a refused
claim is a dashed outline, a slot that nobody ran is a hollow mark.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Final

from markupsafe import Markup

from cronce.model import Instant
from cronce.telling.words import fine
from cronce.web.markup import brief, percent, tag, titled
from cronce.web.site import path
from cronce.web.timeline.layout import (
    BAR,
    FOLDED,
    LEAST,
    NAME,
    OTHERS,
    SIGNS,
    THIN_BAR,
    WIDTH,
    Column,
    Lane,
    Picture,
    Placed,
    Scale,
)
from cronce.web.timeline.pieces import LOOKS, REFUSED, By, Shape

_WORDS: Final = 46.0
"""A bar of so many pixels has room for a word."""

_EDGE: Final = 94.0
"""In percent: behind it a line's label has no room."""

_MIDDLE: Final = BAR / 2
_PATTERNS: Final = {
    "failed": "M-1,5 L5,-1 M3,9 L9,3",
    "lapsed": "M-1,3 L3,7 M-1,-1 L7,7 M3,-1 L7,3",
    "lost": "M0,0 L6,6 M6,0 L0,6",
    "unknown": "M3,2 L3,4",
    "retrying": "M0,3 L6,3",
}


_MARKS: Final = ("skipped", "too old", "due", "waiting", "unreadable")
"""Of slots that nobody ran, or not yet."""

Closer = Callable[[Instant, Instant], str]
"""The way to a closer look at a span."""


def draw(picture: Picture, root: str, closer: Closer) -> Markup:
    """All of it. Who cannot see it reads the table of the same facts, so it is hidden from readers of screens."""
    parts = (
        _definitions(),
        *map(_ground, picture.lanes),
        *_grid(picture),
        *_lanes(picture, root, closer),
        *starmap(_arrow, picture.arrows),
        *_now(picture),
    )
    return tag("svg", *parts, class_="timeline", width="100%", height=picture.height, aria_hidden="true")


def key(look: str) -> Markup:
    """One entry of the legend: what a look looks like. Its patterns are those of the picture beside it."""
    shape: Shape = "ghost" if look == REFUSED else "mark" if look in _MARKS else "bar"
    sign = _worded(SIGNS.get(look, ""), look, BAR)
    inside = (_mark(look),) if shape == "mark" else (_box(look, shape), sign)
    return tag("svg", *inside, width=22, height=_height(shape), class_="timeline key", aria_hidden="true")


# --- behind the lanes -----------------------------------------------------------------------------------------------


def _definitions() -> Markup:
    patterns = (
        tag(
            "pattern",
            tag("path", d=path, class_=look),
            id=f"look-{look}",
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
    for change in picture.changes:
        yield _across(picture, change.at, change.label, "clocks", 28)


def _now(picture: Picture) -> Iterator[Markup]:
    if picture.facts.start <= picture.facts.now <= picture.facts.end:
        yield _across(picture, picture.facts.now, "now", "now", 28)


def _across(picture: Picture, at: Instant, label: str, look: str, low: float) -> Markup:
    x = picture.scale(at)
    place = {"dx": "4"} if look == "grid" or x < 50 else {"dx": "-4", "text_anchor": "end"}
    line = tag("line", x1=percent(x), x2=percent(x), y1=low - 12, y2=picture.height)
    return tag("g", line, tag("text", label, x=percent(x), y=low, **place), class_=look)


# --- a lane ---------------------------------------------------------------------------------------------------------


def _lanes(picture: Picture, root: str, closer: Closer) -> Iterator[Markup]:
    called, busiest = labels(picture), _busiest(picture)
    for lane in picture.lanes:
        label = tag("text", called[lane.name], titled(lane.name), x=8, y=lane.top + 15, class_="name")
        is_job = picture.by == "job" and lane.name not in ("", OTHERS)
        yield tag("a", label, href=path("jobs", lane.name, root=root), tabindex="-1") if is_job else label
        for column in lane.columns:
            yield _column(column, lane, busiest, picture.scale, closer)
        for placed in lane.placed:
            yield _piece(placed, picture, root)


def labels(picture: Picture) -> dict[str, str]:
    """What each lane is called. A holder by its host and process alone, unless there are two of that."""
    said = {lane.name: _label(lane, picture.by) for lane in picture.lanes}
    often = Counter(said.values())
    return {name: label if often[label] == 1 else name for name, label in said.items()}


def _label(lane: Lane, by: By) -> str:
    if lane.name == OTHERS:
        return f"{lane.members:,} others"
    if not lane.name:
        return "nobody (not run, or not yet)"
    if by == "job":
        return lane.name
    return brief(lane.name) + (f" ({lane.members:,} processes)" if lane.members > 1 else "")


def _piece(placed: Placed, picture: Picture, root: str) -> Markup:
    way = path("runs", placed.piece.slot, root=root)
    return tag("a", titled(placed.piece.told), *_drawn(placed, picture), href=way, tabindex="-1", class_="piece")


def _drawn(placed: Placed, picture: Picture) -> Iterator[Markup]:
    piece, top = placed.piece, placed.top
    if piece.shape == "mark":
        yield tag("svg", _mark(piece.look), x=percent(placed.left), y=top, overflow="visible")
        return
    if placed.due is not None and placed.left - placed.due > 0.1:
        yield _lateness(placed.due, placed.left, top)
    if placed.until is not None and placed.until > placed.right:
        yield _rect("lease", placed.right, placed.until, top + 3, BAR - 6)
    width, height = placed.right - placed.left, _height(piece.shape)
    pixels = width / 100 * WIDTH
    word = (piece.job if picture.by == "holder" else brief(piece.holder)) if pixels > _WORDS else ""
    sign = SIGNS.get(piece.look, "")
    inside = [_box(piece.look, piece.shape)]
    if sign and pixels < LEAST:
        inside.append(tag("text", sign, x="100%", dx=2, y=height - 4, class_=f"sign {_class(piece.look)}"))
    elif sign or word:
        inside.append(_worded(f"{sign} {word}".strip(), piece.look, height))
    place = {"x": percent(placed.left), "width": percent(max(width, 0.3))}
    yield tag("svg", *inside, **place, y=top, height=height, overflow="visible")


def _height(shape: Shape) -> float:
    return THIN_BAR if shape == "ghost" else BAR


def _box(look: str, shape: Shape) -> Markup:
    """A bar as wide as its place, and its pattern."""
    place: dict[str, str | float] = {"width": "100%", "height": _height(shape), "rx": 2}
    parts = [tag("rect", **place, class_=f"{shape} {_class(look)}")]
    if look in _PATTERNS:
        parts.append(tag("rect", **place, fill=f"url(#look-{look})"))
    return tag("g", *parts)


def _worded(words: str, look: str, height: float) -> Markup:
    """Words that end where their bar does."""
    text = tag("text", words, x=4, y=height - (4 if height == BAR else 2.5), class_=f"word {_class(look)}")
    return tag("svg", text, width="100%", height="100%")


def _mark(look: str) -> Markup:
    """Hollow: skipped is a circle with a stroke through it; what is still to come is a diamond."""
    if look in ("skipped", "too old"):
        circle = tag("circle", cx=6, cy=_MIDDLE, r=5)
        return tag("g", circle, tag("line", x1=3, y1=_MIDDLE + 3, x2=9, y2=_MIDDLE - 3), class_=f"mark {_class(look)}")
    return tag("path", d=f"M6,{_MIDDLE - 6:g} l6,6 l-6,6 l-6,-6 Z", class_=f"mark {_class(look)}")


def _lateness(due: float, start: float, top: float) -> Markup:
    tick = tag("line", x1=percent(due), x2=percent(due), y1=top, y2=top + BAR)
    thread = tag("line", x1=percent(due), x2=percent(start), y1=top + _MIDDLE, y2=top + _MIDDLE)
    return tag("g", tick, thread, class_="late")


def _rect(class_: str, left: float, right: float, top: float, height: float) -> Markup:
    return tag("rect", x=percent(left), y=top, width=percent(right - left), height=height, class_=class_)


def _arrow(earlier: Placed, later: Placed) -> Markup:
    """From the edge of the earlier bar to the edge of the later one."""
    down = later.top >= earlier.top
    y1, y2 = (earlier.top + BAR, later.top) if down else (earlier.top, later.top + BAR)
    line = tag("line", x1=percent(earlier.right), x2=percent(later.left), y1=y1, y2=y2, marker_end="url(#takes-over)")
    told = f"{later.piece.slot}: taken over by {later.piece.holder} at {fine(later.piece.start)}"
    return tag("g", titled(told), line, class_="handover")


# --- a lane that is folded ------------------------------------------------------------------------------------------


def _busiest(picture: Picture) -> int:
    return max((column.total for lane in picture.lanes for column in lane.columns), default=0)


def _column(column: Column, lane: Lane, busiest: int, scale: Scale, closer: Closer) -> Markup:
    """As high as there are many; each look that is in it can be seen, however few they are."""
    low = lane.top + NAME + FOLDED
    each = (FOLDED - 3 * len(column.counts)) / busiest
    left, right = scale(column.start), scale(column.end)
    boxes = []
    for look in reversed(LOOKS):
        if look in column.counts:
            height = 3 + column.counts[look] * each
            low -= height
            boxes.append(_rect(f"bar {_class(look)}", left, right, low, height))
    told = f"{column.told} from {fine(column.start)} to {fine(column.end)}"
    return tag("a", titled(told), *boxes, href=closer(column.start, column.end), tabindex="-1", class_="piece")


def _class(look: str) -> str:
    return look.replace(" ", "-")
