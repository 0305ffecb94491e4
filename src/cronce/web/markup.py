"""Markup that pages and pictures have in common: how things stand, for the eye (each word has a tone, which is a
colour, and an icon: colour is never alone), and elements of a picture, in a few words. And the charts of a job: how
long its runs took, a point for each over their slots, with the lines that they should stay below; and how many ran.

Whatever is put into an element is escaped; what is Markup already is not again.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from markupsafe import Markup, escape

from cronce.model import Instant
from cronce.monitor.figures import Figures, ranked
from cronce.runtime.queries import RunSeen
from cronce.telling.words import fine, safe, short
from cronce.value import NamedTuple

_CODE_SPAN: Final = re.compile("`([^`]+)`")

_ICONS: Final = {
    **dict.fromkeys(("succeeded", "done", "cleared"), "check"),
    **dict.fromkeys(("failed", "removed", "dead", "host gone"), "cross"),
    **dict.fromkeys(("unknown", "unreadable", "in doubt"), "ask"),
    **dict.fromkeys(("lapsed", "waiting", "due", "late"), "wait"),
    **dict.fromkeys(("running", "in progress"), "play"),
    **dict.fromkeys(("skipped", "too old"), "skip"),
    **dict.fromkeys(("paused", "draining", "resting"), "pause"),
    **dict.fromkeys(("silent", "doubled", "warning"), "alarm"),
    **dict.fromkeys(("critical", "error"), "stop"),
    "lost": "ghost",
    "retrying": "again",
    "alive": "dot",
    "held": "lock",
    "led": "crown",
    "info": "info",
}


def icon_of(word: str) -> str:
    return _ICONS.get(word, "ring")


def brief(holder: str) -> str:
    """A process without its start: its host and its number are enough for most."""
    return ":".join(holder.split(":")[:2])


def coded(text: str) -> Markup:
    """A sentence; what it has between backticks is code."""
    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(escape(safe(text)))))  # noqa: S704  escaped before


# --- elements ---------------------------------------------------------------------------------------------------------


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """`tag("rect", x="3%", class_="bar")`: an underscore at the end is dropped, one within is a hyphen."""
    spelled = "".join([f' {_spelled(key)}="{escape(plain(value))}"' for key, value in attributes.items()])
    inside = "".join([escape(child) for child in children])
    return Markup(f"<{name}{spelled}>{inside}</{name}>")  # noqa: S704  all of it is escaped, or our own


def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def plain(value: str | float) -> str:
    """A number with as many digits as a screen has use for."""
    return value if isinstance(value, str) else f"{value:.3f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    """Places along the time axis are shares of the width, so that the picture is as wide as its place on the page."""
    return f"{plain(value)}%"


def titled(text: str) -> Markup:
    """What is shown where the pointer rests."""
    return tag("title", text)


# --- charts -----------------------------------------------------------------------------------------------------------

RUNS_PLOTTED: Final = 100
"""So many runs, the latest."""

HEIGHT, HEAD, FOOT = 180.0, 14.0, 22.0
_LEFT, _RIGHT = 6.0, 98.0
"""In percent: on the left is what the lines say."""

_SHORTEST: Final = timedelta(milliseconds=1)

_POWERS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
"""Seconds."""


class PlotPoint(NamedTuple):
    """A run that has ended: how long it took, and how it ended."""

    slot: str
    at: Instant
    took: timedelta
    look: str


class PlotLimit(NamedTuple):
    """A line that points should stay below."""

    name: str
    span: timedelta


class PlotScale(NamedTuple):
    """From spans to pixels from above, in powers of ten: a lease is often thousands of times as long as a run."""

    least: float
    most: float

    def __call__(self, span: timedelta) -> float:
        seconds = max(span, _SHORTEST).total_seconds()
        low, high, value = map(math.log, (self.least, self.most, seconds))
        return HEAD + (HEIGHT - HEAD - FOOT) * (1 - (value - low) / (high - low))


def duration_svg(
    runs: Iterable[RunSeen],
    lease: timedelta | None = None,
    timeout: timedelta | None = None,
    link: Callable[[str], str] = lambda _slot: "",
) -> Markup:
    """The latest runs that ended, as a picture and in words; nothing where none has."""
    points = points_of(runs)
    if not points:
        return Markup("")
    limits = [PlotLimit(name, span) for name, span in (("lease", lease), ("timeout", timeout)) if span]
    scale = scale_of(points, limits)
    parts = (*_lines(scale), *(_limit(one, scale) for one in limits), *_points(points, scale, link))
    svg = tag("svg", *parts, class_="plot", width="100%", height=HEIGHT, aria_hidden="true")
    return tag("figure", svg, tag("figcaption", in_words(points, limits)), class_="plot")


COLUMNS_HIGH: Final = 46.0


def throughput_svg(numbers: Figures) -> Markup:
    """How many runs started over time, and which of them did not succeed, as columns and in words."""
    most = max(one.succeeded + one.others for one in numbers.bins)
    width = 100 / len(numbers.bins)
    columns = []
    for place, one in enumerate(numbers.bins):
        good, bad = (COLUMNS_HIGH * count / most for count in (one.succeeded, one.others))
        told = f"from {fine(one.start)}: {one.succeeded} succeeded, {one.others} did not"
        box = {"x": percent(place * width), "width": percent(width * 0.85)}
        parts = [tag("rect", **box, y=COLUMNS_HIGH - good, height=good, class_="column succeeded")]
        parts += [tag("rect", **box, y=COLUMNS_HIGH - good - bad, height=bad, class_="column failed")] if bad else []
        columns.append(tag("g", titled(told), *parts))
    svg = tag("svg", *columns, class_="plot", width="100%", height=COLUMNS_HIGH, aria_hidden="true")
    words = f"{numbers.ran:,} runs since {fine(numbers.since)}, {_rounded(numbers.per_hour)} an hour."
    return tag("figure", svg, tag("figcaption", words), class_="plot")


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def points_of(runs: Iterable[RunSeen]) -> list[PlotPoint]:
    """In the order of their slots."""
    ended = [
        PlotPoint(run.slot.key, run.slot.at, run.record.finished - run.record.started, run.shown)
        for run in runs
        if run.record and run.record.started and run.record.finished and run.shown != "skipped"
    ]
    return sorted(ended, key=lambda point: (point.at, point.slot))[-RUNS_PLOTTED:]


def scale_of(points: Sequence[PlotPoint], limits: Sequence[PlotLimit]) -> PlotScale:
    spans = [
        max(span, _SHORTEST).total_seconds() for span in (*(p.took for p in points), *(one.span for one in limits))
    ]
    return PlotScale(10.0 ** math.floor(math.log10(min(spans))), max(spans) * 1.5)


def in_words(points: Sequence[PlotPoint], limits: Sequence[PlotLimit]) -> str:
    took = sorted(point.took for point in points)
    many = "The latest run" if len(points) == 1 else f"The latest {len(points)} runs that ended"
    half, most = short(ranked(took, 50)), short(ranked(took, 95))
    words = f"{many} took {half} at the median, {most} at the 95th percentile, {short(took[-1])} at most."
    for limit in limits:
        over = sum(span > limit.span for span in took)
        words += f" {over or 'None'} of them took longer than the {limit.name} of {short(limit.span)}."
    return f"{words} The scale is in powers of ten."


# --- drawing --------------------------------------------------------------------------------------------------------


def _lines(scale: PlotScale) -> Iterator[Markup]:
    for seconds in (power for power in _POWERS if scale.least <= power <= scale.most):
        span = timedelta(seconds=seconds)
        y = scale(span)
        line = tag("line", x1=percent(_LEFT), x2="100%", y1=y, y2=y)
        yield tag(
            "g", line, tag("text", short(span), x=percent(_LEFT), dx=-4, y=y + 4, text_anchor="end"), class_="grid"
        )


def _limit(limit: PlotLimit, scale: PlotScale) -> Markup:
    y = scale(limit.span)
    line = tag("line", x1=percent(_LEFT), x2="100%", y1=y, y2=y)
    label = tag("text", f"{limit.name} {short(limit.span)}", x="100%", dx=-4, y=y - 4, text_anchor="end")
    return tag("g", line, label, class_=f"limit {limit.name}")


def _points(points: Sequence[PlotPoint], scale: PlotScale, link: Callable[[str], str]) -> Iterator[Markup]:
    first, last = points[0].at, points[-1].at
    for point in points:
        share = (point.at - first) / (last - first) if last > first else 0.5
        x = _LEFT + 1 + (_RIGHT - _LEFT) * share
        told = safe(f"{point.slot}: {point.look} after {short(point.took)}")
        shape = tag("svg", _shape(point.look), x=percent(x), y=scale(point.took), overflow="visible")
        yield tag("a", titled(told), shape, href=link(point.slot), tabindex="-1", class_="piece")
    low = HEIGHT - 6
    yield tag("text", fine(first), x=percent(_LEFT), y=low, class_="end")
    if last > first:
        yield tag("text", fine(last), x="100%", y=low, text_anchor="end", class_="end")


def _shape(look: str) -> Markup:
    """A dot, or a cross, or a square: colour is not the only sign."""
    if look == "succeeded":
        return tag("circle", r=3.5, class_="point succeeded")
    if look == "failed":
        return tag("path", d="M-4,-4 L4,4 M-4,4 L4,-4", class_="point failed")
    return tag("rect", x=-4, y=-4, width=8, height=8, class_=f"point {look.replace(' ', '-')}")
