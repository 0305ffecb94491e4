"""A small timeline on another page: the last hour, or as much of it as there is, of one job or of all."""

from datetime import timedelta
from typing import Final

from markupsafe import Markup

from cronce.monitor.reading.overview import Overview
from cronce.runtime.flow import Flow
from cronce.schedule.zone import find_zone
from cronce.value import NamedTuple
from cronce.web.site import path
from cronce.web.timeline.draw import Links, draw
from cronce.web.timeline.layout import lay_out
from cronce.web.timeline.page import SPANS, View, facts_of
from cronce.web.timeline.pieces import Facts

MOST: Final = 250
"""Runs that a small picture is drawn of: more could not be told apart."""


STEP: Final = timedelta(minutes=10)
"""A picture is so wide, or a multiple of it."""


class Drawn(NamedTuple):
    title: str
    svg: Markup
    told: str
    """What is on it."""
    way: str
    """The whole timeline."""
    gaps: tuple[str, ...]
    """What is not on it."""


def picture(root: str, job: str | None = None, seen: Overview | None = None) -> Flow[Drawn | None]:
    """Of all jobs, out of what an overview has `seen`. None: there is nothing to draw."""
    view = View(job=job, length=SPANS["1h"])
    facts = yield from facts_of(view, MOST, seen)
    if not facts.pieces:
        return None
    facts, title = young(facts)
    laid = lay_out(facts, view.by, find_zone(view.tz))
    links = Links(
        run=lambda slot: path("runs", slot, root=root),
        span=lambda start, end: path("timeline", root=root, **view.between(start, end).query()),
        lane=None,
    )
    return Drawn(title, draw(laid, links), laid.counted, path("timeline", root=root, **view.query()), facts.gaps)


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
