"""Runs: as rows of a table, newest first across jobs; one of them, with the whole story of its slot, as `cronce why`
tells it; and where a search leads."""

from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cronce.errors import BadInput, NotOnRecord
from cronce.model import Instant, check_name, rerun_of
from cronce.monitor.read_jobs import JobIndex
from cronce.monitor.survey import attempts
from cronce.runtime.flow import Flow
from cronce.runtime.queries import HOST_GONE, STATES_WANTED, RunSeen, slot_named, with_hosts
from cronce.runtime.run_lists import newest_runs
from cronce.runtime.why import Story, Why, slot_meant, why
from cronce.telling.story import counted, events, headline, tell_doubts
from cronce.telling.words import fate, how_long, moment, overdue, ran_for, reason_of, safe, tone
from cronce.value import NamedTuple
from cronce.web.actions import ACTIONS, Action
from cronce.web.markup import icon_of
from cronce.web.site import NotFoundPage, Shown, path, root_of, site_of

RUNS_SHOWN: Final = 50

REMARK_LENGTH: Final = 500
"""Characters of it in a table: the page of the run has more."""


def rows_of(runs: Iterable[RunSeen], now: Instant) -> list[Shown]:
    return [row_of(run, now) for run in runs]


def row_of(run: RunSeen, now: Instant) -> Shown:
    """The slot's instant is told without its date if that is today's."""
    slot, record = run.slot, run.record
    at = moment(slot.at, now) + (f"#{slot.request}" if slot.request else "")
    shown = {"slot": slot, "at": at, "shown": run.shown}
    if record is None:
        return {**shown, **_UNREADABLE, "remark": safe(run.trouble)}
    begun, completed = attempts(record)
    remark = reason_of(record) or fate(run) or overdue(record) or (f"asked for by {record.by}" if record.by else "")
    return {
        **shown,
        "holder": safe(record.holder),
        "started": record.started,
        "took": ran_for(record, now),
        "remark": safe(remark[:REMARK_LENGTH]),
        "progress": record.progress if record.is_running else None,
        "begun": begun,
        "completed": completed,
    }


_UNREADABLE: Final = {"holder": "", "started": None, "took": None, "progress": None, "begun": 0, "completed": 0}


# --- the newest -------------------------------------------------------------------------------------------------------


def runs_page(request: Request) -> Flow[Shown]:
    job, state, after = (request.query_params.get(name) or None for name in ("job", "state", "after"))
    found = yield from newest_runs(job and check_name(job), state, after, RUNS_SHOWN)
    return {
        "now": found.now,
        "rows": rows_of((yield from with_hosts(found.runs)), found.now),
        "next": found.next,
        "kept": {"job": job, "state": state},
        "states": STATES_WANTED,
        "after": after,
    }


# --- one --------------------------------------------------------------------------------------------------------------

_BEGAN: Final = {
    "granted": ("busy", "play"),
    "taken over": ("busy", "again"),
    "refused": ("dim", "ghost"),
    "called": ("dim", "ghost"),
    "given back": ("dim", "skip"),
}
_ENDED: Final = ("lapsed", "succeeded", "failed", "lost", "unknown", "skipped")
_TONE_AND_ICON: Final = {**_BEGAN, **{word: (tone(word), icon_of(word)) for word in _ENDED}}
_OPEN_STATES: Final = ("running", HOST_GONE, "lapsed", "retrying", "waiting", "due")


class RunStep(NamedTuple):
    """Something that happened to the slot."""

    at: Instant
    text: str
    tone: str
    icon: str

    @property
    def is_ghost(self) -> bool:
        return self.icon == "ghost" and self.tone == "dim"


def run_page(request: Request) -> Flow[Shown]:
    key, site = request.path_params["slot"], site_of(request)
    try:
        slot = yield from slot_meant(key)
    except (BadInput, NotOnRecord) as error:
        raise NotFoundPage(str(error), key) from None
    found = yield from why(slot.job, slot, site.node.store.traits)
    if found is None:
        raise NotFoundPage("there is no job with this name", slot.job)
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
        "took": how_long(record, found.now) if record else "",
        "resolved": record is not None and record.resolved,
        "begun": begun,
        "completed": completed,
        "effects": counted(story.effects),
        "doubts": list(tell_doubts(story.effects)),
        "again": rerun_of(slot),
        "actions": _actions(story, found),
    }


def _step(at: Instant, text: str) -> RunStep:
    tone, icon = next((look for word, look in _TONE_AND_ICON.items() if text.startswith(word)), ("dim", "ring"))
    return RunStep(at, text, tone, icon)


def _actions(story: Story, found: Why) -> list[Action]:
    """Those that fit: what is open can be cancelled, what is closed run again, and what went wrong resolved."""
    if story.run is None or story.run.record is None or found.job.job is None:
        return []
    shown = story.run.shown
    fits = {
        "cancel": shown in _OPEN_STATES,
        "rerun": shown not in _OPEN_STATES,
        "resolve": shown in ("failed", "lost", "unknown"),
    }
    return [action for action in ACTIONS if action.of == "runs" and fits.get(action.name)]


# --- finding ----------------------------------------------------------------------------------------------------------


async def search(request: Request) -> Response:
    """To the run or the job that is named; else to the jobs whose name or schedule contains the text."""
    text = request.query_params.get("q", "").strip()
    site = site_of(request)
    found = await site.ask(_found(text, site.index))
    root = root_of(request)
    return RedirectResponse(path(*found, root=root) if found else path("jobs", root=root, q=text or None), 303)


def _found(text: str, index: JobIndex) -> Flow[tuple[str, ...]]:
    if "@" in text:
        try:
            return ("runs", slot_named(text).key)
        except BadInput:
            return ()
    try:
        check_name(text)
    except BadInput:
        return ()
    yield from index.keep_up()
    return ("jobs", text) if text in index.search(text, limit=len(index)).names else ()
