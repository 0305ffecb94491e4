"""One run: the whole story of a slot, as `cronce why` tells it."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from cronce.errors import BadInput
from cronce.model import Instant, rerun_of
from cronce.monitor.survey import attempts
from cronce.protocol.record import RESOLVED
from cronce.runtime.flow import Flow
from cronce.runtime.look import slot_named
from cronce.runtime.why import Story, Why, why
from cronce.telling.doubts import counted, tell_doubts
from cronce.telling.story import events, headline
from cronce.value import NamedTuple
from cronce.web.actions import ACTIONS, Action
from cronce.web.frame import Shown, show
from cronce.web.pages.missing import Missing, near, not_found
from cronce.web.pages.rows import took
from cronce.web.site import Site, site_of

_ICONS: Final = {
    "granted": ("busy", "play"),
    "taken over": ("busy", "again"),
    "refused": ("dim", "ghost"),
    "lapsed": ("bad", "wait"),
    "given back": ("dim", "skip"),
    "succeeded": ("good", "check"),
    "failed": ("bad", "cross"),
    "lost": ("bad", "ghost"),
    "unknown": ("bad", "ask"),
    "skipped": ("dim", "skip"),
}
_OPEN: Final = ("running", "lapsed", "retrying", "waiting", "due")


class Step(NamedTuple):
    """Something that happened to the slot."""

    at: Instant
    text: str
    tone: str
    icon: str

    @property
    def is_ghost(self) -> bool:
        return self.icon == "ghost" and self.tone == "dim"


async def page(request: Request) -> Response:
    try:
        return await show(request, "run.html", _page(request.path_params["slot"], site_of(request)))
    except Missing as error:
        return not_found(request, error)


def _page(key: str, site: Site) -> Flow[Shown]:
    try:
        slot = slot_named(key)
    except BadInput as error:
        job = key.partition("@")[0]
        raise Missing(str(error), key, (yield from near(job, site.index))) from None
    found = yield from why(slot.job, slot, site.desk.store.traits)
    if found is None:
        raise Missing("no job is called so", slot.job, (yield from near(slot.job, site.index)))
    (story,) = found.stories
    record = story.run.record if story.run else None
    begun, completed = attempts(record) if record else (0, 0)
    return {
        "now": found.now,
        "slot": slot,
        "story": story,
        "record": record,
        "shown": story.run.shown if story.run else story.case,
        "headline": headline(story, found),
        "steps": [_step(at, text) for at, text in events(story)],
        "took": took(record, found.now) if record else None,
        "resolved": record is not None and record.reason.startswith(RESOLVED),
        "begun": begun,
        "completed": completed,
        "effects": counted(story.effects),
        "doubts": list(tell_doubts(story.effects)),
        "again": rerun_of(slot),
        "actions": _actions(story, found),
    }


def _step(at: Instant, text: str) -> Step:
    tone, icon = next((look for word, look in _ICONS.items() if text.startswith(word)), ("dim", "ring"))
    return Step(at, text, tone, icon)


def _actions(story: Story, found: Why) -> list[Action]:
    """Those that fit: what is open can be cancelled, what is closed run again, and what went wrong resolved."""
    if story.run is None or story.run.record is None or found.job.job is None:
        return []
    shown = story.run.shown
    fits = {"cancel": shown in _OPEN, "rerun": shown not in _OPEN, "resolve": shown in ("failed", "lost", "unknown")}
    return [action for action in ACTIONS if action.of == "runs" and fits.get(action.name)]
