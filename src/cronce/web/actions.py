"""What can be done by hand from the page and through the API: one table for both.

A GET only shows what would happen and how things are now; a POST does it. Each act is recorded with who did it, and
whether by the page or the API. The rules are those of the command line: the same flows run.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_hex
from shlex import quote
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from cronce.errors import BadInput, CronceError, NotOnRecord, StoreError
from cronce.model import check_name
from cronce.monitor.alerts import handle
from cronce.monitor.read_lists import alerts
from cronce.protocol.commands import Queued
from cronce.protocol.record import Record
from cronce.runtime.effects.review import effect, effect_named, resolve_effect, stopped_by
from cronce.runtime.flow import Flow
from cronce.runtime.operations import LONGEST_ID, LONGEST_TEXT, Operator, RequestedRun, Verdict
from cronce.runtime.queries import job_names, refuse_unknown, slot_named
from cronce.runtime.why import why
from cronce.schedule import parse_duration
from cronce.telling.documents import (
    cancelled_document,
    effect_document,
    paused_document,
    resumed_document,
)
from cronce.telling.story import about, said_before, tell
from cronce.telling.words import read_json, safe
from cronce.value import NamedTuple
from cronce.web.api_schemas import ANY, YES, Schema, one_of, short_text
from cronce.web.gate import signed_form
from cronce.web.requests import Problem, status_of
from cronce.web.security import SESSION_LASTS
from cronce.web.site import Site, path, root_of, site_of

Subject = Literal["jobs", "runs", "effects", "alerts"]
Given = Mapping[str, Any]
Document = dict[str, object]


class ActionField(NamedTuple):
    """A field of an act, or a parameter of a query: a text, one of some words, yes, or any JSON."""

    name: str
    label: str
    schema: Schema


class Action(NamedTuple):
    """Something that can be done to a job, a run or an effect, or said of an alert."""

    name: str
    of: Subject
    title: str
    meaning: str
    """What will happen, shown before it is done."""
    fields: tuple[ActionField, ...]
    act: Callable[[Operator, str, Given], Flow[Document]]

    @property
    def takes_id(self) -> bool:
        """Whether asking again by the same id brings the same answer."""
        return _ID in self.fields

    @property
    def route(self) -> str:
        """The name of an effect, and of an alert, may have slashes in it."""
        place = "{subject:path}" if self.of in ("effects", "alerts") else "{subject}"
        return f"/{self.of}/{place}/{self.name}"

    def command(self, subject: str) -> str:
        """The same on a command line, if there is one."""
        if self.of == "alerts":
            return ""
        return f"cronce {self.name} {quote(subject)}{' done' if self.name == 'resolve' else ''}"


# --- jobs -------------------------------------------------------------------------------------------------------------


def _pause(hand: Operator, job: str, given: Given) -> Flow[Document]:
    stands = yield from hand.pause(job, given.get("reason", ""))
    return {"job": job, **paused_document(stands)}


def _resume(hand: Operator, job: str, _given: Given) -> Flow[Document]:
    act = yield from hand.resume(job)
    return {"job": job, **resumed_document(act)}


def _trigger(hand: Operator, job: str, given: Given) -> Flow[Document]:
    asked = yield from hand.trigger(job, given.get("payload"), given.get("id", ""))
    return _asked(hand, asked)


# --- runs -------------------------------------------------------------------------------------------------------------


def _rerun(hand: Operator, key: str, given: Given) -> Flow[Document]:
    fresh, request, force = given.get("fresh", False), given.get("id", ""), given.get("force", False)
    asked = yield from hand.rerun(slot_named(key), fresh=fresh, request=request, force=force)
    return _asked(hand, asked)


def _cancel(hand: Operator, key: str, given: Given) -> Flow[Document]:
    before = yield from _record(hand, key)
    reply = yield from hand.cancel(slot_named(key), given.get("reason", ""))
    changed = before is None or not (before.is_closed or before.ask)
    return {"slot": key, **cancelled_document(reply), "changed": changed}


def _resolve(hand: Operator, key: str, given: Given) -> Flow[Document]:
    before = yield from _record(hand, key)
    reason, force = given.get("reason", ""), given.get("force", False)
    reply = yield from hand.resolve(slot_named(key), given["verdict"], reason, force=force)
    outcome = None if isinstance(reply, Queued) else reply.outcome
    after = yield from _record(hand, key)
    reruns = yield from hand.open_reruns(slot_named(key))
    still = "".join(f"; {one.key} is still due or running" for one in reruns)
    note = f"{said_before(before, given['verdict'])}{still}".removeprefix("; ") or None
    return {"slot": key, "due": outcome is None, "outcome": outcome, "changed": before != after, "note": note}


def _record(hand: Operator, key: str) -> Flow[Record | None]:
    """As it is now: compared before and after, it tells whether the act changed something."""
    (seen,) = yield from hand.look([slot_named(key)])
    return seen.record if seen else None


def _asked(hand: Operator, asked: RequestedRun) -> Document:
    return {"key": asked.slot.key, "new": asked.new, "by": hand.by}


# --- effects ----------------------------------------------------------------------------------------------------------


def _resolve_effect(hand: Operator, name: str, given: Given) -> Flow[Document]:
    verdict: Verdict = given["verdict"]
    reason, result, force = given.get("reason", ""), given.get("result"), given.get("force", False)
    before = yield from effect(effect_named(name))
    seen = yield from resolve_effect(hand, name, verdict, reason, result, force=force)
    changed = before is None or before.cell.version != seen.cell.version
    stopped = "".join(f"; {slot.key} was stopped by it, and can be run again" for slot in (yield from stopped_by(seen)))
    note = f"{said_before(before.record if before else None, verdict)}{stopped}".removeprefix("; ") or None
    return {**effect_document(seen), "changed": changed, "note": note}


# --- alerts -----------------------------------------------------------------------------------------------------------


def _acknowledge(hand: Operator, alert: str, given: Given) -> Flow[Document]:
    return (yield from handle(hand.ledger.client, alert, hand.by, given.get("reason", "")))


def _snooze(hand: Operator, alert: str, given: Given) -> Flow[Document]:
    span = parse_duration(given["span"])
    return (yield from handle(hand.ledger.client, alert, hand.by, given.get("reason", ""), span))


# --- what came of it --------------------------------------------------------------------------------------------------


def told(action: str, done: Document) -> str:
    """In a sentence: above all, whether it changed anything."""
    changed = done.get("changed", done.get("new"))
    match action:
        case "acknowledge":
            return "It is acknowledged."
        case "snooze":
            return "It is snoozed: it is sent again if it is still open then."
        case "pause":
            return "It is paused." if changed else f"It was already paused {_by_whom(done['paused'])}: nothing changed."
        case "resume":
            return "It is resumed." if changed else "It was not paused: nothing changed."
        case "trigger" | "rerun":
            return "The run is requested." if changed else "The run was already requested: nothing changed."
        case "cancel" if done["asked"]:
            return "It is asked to stop." if changed else "It was already asked to stop: nothing changed."
        case "cancel":
            outcome = done["outcome"]
            return f"It is closed as {outcome}." if changed else f"It was already closed as {outcome}: nothing changed."
        case _ if "done" in (done.get("state"), "done" if done.get("outcome") else ""):
            return ("It counts as done." if changed else "It already counted as done: nothing changed.") + _note(done)
        case _:
            again = "due again" if "due" in done else "marked as not done; the next run will do it"
            return (f"It is {again}." if changed else f"It was already {again}: nothing changed.") + _note(done)


def _note(done: Document) -> str:
    """What else there is to know: who resolved it before, and what goes on all the same."""
    return f" ({done['note']})" if done.get("note") else ""


def _by_whom(act: Any) -> str:
    return f"by {act['by']} at {act['at']}"


# --- the table --------------------------------------------------------------------------------------------------------

_REASON: Final = ActionField("reason", "Why, for the record", short_text(LONGEST_TEXT))
_ID: Final = ActionField("id", "An id for the run: the same id starts only one run", short_text(LONGEST_ID))
_FORCE: Final = ActionField("force", "I have checked that the process that ran it is not alive", YES)
SNOOZES: Final = ("1h", "8h", "1d", "7d")
_VERDICT: Final = ActionField("verdict", "Is it done, or must it be tried again?", one_of("done", "retry"))

ACTIONS: Final = (
    Action(
        "pause",
        "jobs",
        "Pause",
        "Its slots do not run until it is resumed. Runs in progress go on. Slots that fall due during the pause do not"
        " run afterwards.",
        (_REASON,),
        _pause,
    ),
    Action(
        "resume", "jobs", "Resume", "Its slots run again. Those that fell due during the pause do not run.", (), _resume
    ),
    Action(
        "trigger",
        "jobs",
        "Run now:",
        "A new run with its own key starts within seconds. The schedule does not change: its slots run as before.",
        (ActionField("payload", "What the run is given, as JSON", ANY), _ID),
        _trigger,
    ),
    Action(
        "rerun",
        "runs",
        "Run again:",
        "The slot runs once more. Effects that are done are not repeated, unless you choose that below."
        " A lost slot runs again when its process is known to be dead.",
        (
            ActionField("fresh", "Repeat the effects of the slot (not those on things), with a new key", YES),
            _FORCE,
            _ID,
        ),
        _rerun,
    ),
    Action(
        "cancel",
        "runs",
        "Cancel",
        "A slot that is running is asked to stop, and is not retried. A slot that has not started is closed as skipped."
        " A closed slot stays as it is.",
        (_REASON,),
        _cancel,
    ),
    Action(
        "resolve",
        "runs",
        "Resolve",
        "Done: a person checked that its work is complete, and it counts as succeeded. Retry: the slot is due again,"
        " with all its"
        " attempts.",
        (_VERDICT, _FORCE, _REASON),
        _resolve,
    ),
    Action(
        "resolve",
        "effects",
        "Resolve",
        "Done: it happened, and a repeated call gets the result. Retry: it did not happen; the next run will do it.",
        (_VERDICT, _FORCE, _REASON, ActionField("result", "Its result, as JSON", ANY)),
        _resolve_effect,
    ),
    Action(
        "acknowledge",
        "alerts",
        "Acknowledge",
        "Records that you work on it. Nothing more is sent about this incident, unless it gets worse or comes back.",
        (_REASON,),
        _acknowledge,
    ),
    Action(
        "snooze",
        "alerts",
        "Snooze",
        "Nothing is sent about this incident for this time, unless it gets worse. If it is still open then, it is sent"
        " again.",
        (ActionField("span", "For how long", one_of(*SNOOZES)), _REASON),
        _snooze,
    ),
)


def named(of: Subject, subject: str) -> str:
    """A job, a run or an effect by its name; what cannot be a name names nothing."""
    try:
        if of == "jobs":
            return check_name(subject)
        if of == "alerts":
            return subject
        return slot_named(subject).key if of == "runs" else effect_named(subject).name
    except BadInput as error:
        raise Problem(404, str(error)) from None


# --- the page before an act: what would happen, how things are now, and a button --------------------------------------


_NONCE_PATTERN: Final = re.compile("[0-9a-f]{16}")

SENT_BEFORE: Final = "This form was already sent: nothing changed."


async def confirm(request: Request, action: Action) -> Response:
    site = site_of(request)
    subject = named(action.of, request.path_params["subject"])
    if request.method != "POST":
        return await _page(request, action, subject, {})
    given = await signed_form(request, site)
    session = site.session(request)
    assert session is not None
    try:
        said, once = _said(action, given), given.get("once", "")
        done = await site.act(f"{session.by} (page)", lambda hand: _wish(hand, action, subject, said, once))
    except StoreError:
        raise
    except (CronceError, Problem) as error:
        return await _page(request, action, subject, given, error)
    answer = RedirectResponse(path(*_after(action, subject, done or {}), root=root_of(request)), 303)
    site.tell_next(request, answer, told(action.name, done) if done else SENT_BEFORE)
    return answer


def _wish(hand: Operator, action: Action, subject: str, said: dict[str, Any], once: str) -> Flow[Document | None]:
    """Do what a form asks for, once however often it is sent: an act that takes an id gets the form's own, and any
    other is not done again."""
    if _NONCE_PATTERN.fullmatch(once):
        if action.takes_id:
            said.setdefault("id", f"page-{once}")
        elif not (yield from hand.once(once, SESSION_LASTS)):
            return None
    return (yield from action.act(hand, subject, said))


async def _page(
    request: Request, action: Action, subject: str, given: Given, wrong: CronceError | Problem | None = None
) -> Response:
    site = site_of(request)
    return site.render(
        request,
        "confirm.html",
        status_of(wrong) if wrong else 200,
        action=action,
        subject=subject,
        stands=await site.ask(_stands(site, action.of, subject)),
        given=given,
        once=token_hex(8),
        wrong=str(wrong or ""),
        command=action.command(subject),
        back=path(*_home(action.of, subject), root=root_of(request)),
    )


def _stands(site: Site, of: Subject, subject: str) -> Flow[str]:
    """How it is just now, in sentences."""
    if of == "alerts":
        alert = next((one for one in (yield from alerts()).alerts if one.id == subject), None)
        if alert is None:
            raise NotOnRecord(f"no alert {subject[:80]} is open")
        return safe(alert.text)
    if of == "effects":
        one = yield from effect(effect_named(subject))
        if one is None:
            raise NotOnRecord(f"there is no record of {subject}")
        return f"{one.name} is {one.state}" + (f": {one.why}" if one.why else "")
    slot = slot_named(subject) if of == "runs" else None
    found = yield from why(slot.job if slot else subject, slot, site.node.store.traits)
    if found is None:
        refuse_unknown(slot.job if slot else subject, (yield from job_names()))
        raise NotOnRecord(f"there is no record of {subject}")
    return tell(found.stories[0], found) if slot else about(found)


def _said(action: Action, given: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in, as the action takes it."""
    said: dict[str, Any] = {}
    for field in action.fields:
        words, filled_in = field.schema.get("enum"), given.get(field.name, "")
        if words and filled_in not in words:
            raise Problem(422, f"{field.label}: choose one of {', '.join(words)}")
        if filled_in:
            said[field.name] = _read(field, filled_in)
    return said


def _read(field: ActionField, filled_in: str) -> Any:
    if field.schema == YES:
        return filled_in == "yes"
    if field.schema != ANY:
        return filled_in.strip()
    try:
        return read_json(filled_in)
    except ValueError as error:
        raise Problem(422, f"{field.label}: {error}") from None


def _home(of: Subject, subject: str) -> tuple[str, ...]:
    if of == "alerts":
        return ("alerts", *subject.split("/", 1))
    return ("effects",) if of == "effects" else (of, subject)


def _after(action: Action, subject: str, done: Document) -> tuple[str, ...]:
    """Where one sees what came of it."""
    return ("runs", str(done["key"])) if "key" in done else _home(action.of, subject)


ROUTES: Final = tuple(Route(one.route, partial(confirm, action=one), methods=["GET", "POST"]) for one in ACTIONS)
