"""Incidents as cards: what happened, since when, what it touched, what is certain and what is not, and what to do. On
the overview in short, and each on a page of its own, with what is known of its slots."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from shlex import quote
from typing import Final

from starlette.requests import Request

from cronce.errors import BadInput
from cronce.model import Instant, Slot
from cronce.monitor.alerts import SCHEDULERS, AlertKind, Incident, incident_of, incidents, key_of, known_kind
from cronce.monitor.read_lists import ALERTS_COUNTED, alerts
from cronce.monitor.read_overview import Overview, overview
from cronce.monitor.watch import at_once
from cronce.monitor.watch import host as host_of
from cronce.protocol.codec import readable
from cronce.protocol.notices import Alert, decode_alert
from cronce.runtime.flow import Flow
from cronce.runtime.queries import load, slot_named
from cronce.runtime.why import why
from cronce.telling.story import counted, headline, tell_doubts
from cronce.telling.words import safe
from cronce.value import NamedTuple
from cronce.web.markup import brief
from cronce.web.site import NotFoundPage, PageFrame, Shown, site_of
from cronce.web.timeline import MOST_DRAWN

BUTTONS_PER_CARD: Final = 3
"""So many effects, and slots, a card has buttons for; its page links to the others."""

STORIES_SHOWN: Final = 5
"""Of so many slots the page of an incident has the story."""

_OF_RUNS: Final = (AlertKind.LOST, AlertKind.UNKNOWN, AlertKind.FAILED)


class NextStep(NamedTuple):
    """Something to do: where one does it here, and the command that does the same."""

    label: str
    way: tuple[str, ...]
    commands: tuple[str, ...]


class IncidentCard(NamedTuple):
    incident: Incident
    title: str
    certain: tuple[str, ...]
    unsure: tuple[str, ...]
    steps: tuple[NextStep, ...]
    snoozed: bool

    @property
    def way(self) -> tuple[str, ...]:
        return ("alerts", *self.incident.lead.id.split("/", 1))

    @property
    def hosts(self) -> list[str]:
        """The schedulers that are gone."""
        return [one.subject for one in self.incident.alerts if one.kind == AlertKind.GONE]

    @property
    def is_on_record(self) -> bool:
        """Whether a watcher raised it: then one can say something of it."""
        return self.incident.lead.times > 0 and self.incident.lead.cleared is None

    @property
    def acknowledge(self) -> str:
        """The command for who is not logged in; with `--for 1h` it snoozes."""
        return f"cronce watch --acknowledge {quote(safe(self.incident.lead.id))}"


def cards(seen: Overview) -> list[IncidentCard]:
    """The worst first; those that can wait come last."""
    found = incidents(at_once(seen.survey(), seen.alerts.alerts))
    return sorted((card_of(one, seen) for one in found), key=lambda card: card.snoozed)


def card_of(one: Incident, seen: Overview) -> IncidentCard:
    named = {alert.kind for alert in one.alerts}
    kinds = [kind for kind in AlertKind if kind in named]
    certain = tuple(dict.fromkeys(kind.certain for kind in kinds if kind.certain))
    doubt = [safe(f"Whether {one.effects[0]} happened.")] if one.effects else []
    unsure = tuple(dict.fromkeys([*(kind.unsure for kind in kinds if kind.unsure), *doubt]))
    return IncidentCard(one, title_of(one, seen), certain, unsure, tuple(_steps(one)), one.is_snoozed(seen.now))


def title_of(one: Incident, seen: Overview) -> str:
    lead = one.lead
    if lead.cause == SCHEDULERS:
        return "No scheduler is alive"
    kind = known_kind(lead.kind)
    title = kind.heading.format(lead.subject) if kind else f"{lead.kind.replace('-', ' ')}: {lead.subject}"
    if lead.cause.startswith("host "):
        host = lead.cause.removeprefix("host ")
        dead = [alert.subject for alert in one.alerts if alert.kind == AlertKind.GONE]
        title = _deaths(host, dead, seen) if dead else f"{title} on {host}"
    return safe(title.rstrip(": "))


def _deaths(host: str, dead: Sequence[str], seen: Overview) -> str:
    """The host itself counts as gone only where no scheduler of it sends heartbeats."""
    if not any(host_of(line.holder.holder) == host and not line.is_gone(seen.now) for line in seen.holders):
        return f"Host {host} is gone"
    if len(dead) == 1:
        return f"A scheduler on {host} died: {brief(dead[0])}"
    return f"{len(dead):,} schedulers on {host} died"


def _steps(one: Incident) -> Iterator[NextStep]:
    """Effects in doubt come first: until they are resolved, a retry is stopped by them again."""
    for name in one.effects[:BUTTONS_PER_CARD]:
        commands = tuple(f"cronce resolve {quote(safe(name))} {verdict}" for verdict in ("done", "retry"))
        yield NextStep(f"Resolve {safe(name)}", ("effects", *name.split("/"), "resolve"), commands)
    slots = [slot for alert in one.alerts if alert.kind in _OF_RUNS for slot in alert.slots][:BUTTONS_PER_CARD]
    for key in slots:
        verdicts = ("retry",) if one.effects else ("done", "retry")
        commands = tuple(f"cronce resolve {quote(key)} {verdict}" for verdict in verdicts)
        yield NextStep(f"{'Retry' if one.effects else 'Resolve'} {key}", ("runs", key, "resolve"), commands)
    if slots:
        job = slot_named(slots[0]).job
        yield NextStep(f"Rerun {slots[0]}", ("runs", slots[0], "rerun"), (f"cronce rerun {quote(slots[0])}",))
        yield NextStep(f"Pause {job}", ("jobs", job, "pause"), (f"cronce pause {job}",))


# --- the page of one --------------------------------------------------------------------------------------------------


def incident_page(request: Request) -> Flow[Shown]:
    """Whichever of its alerts is named. One that is over is shown as it was."""
    wanted, site = request.path_params["id"], site_of(request)
    seen = yield from overview(1, MOST_DRAWN)
    standing = at_once(seen.survey(), seen.alerts.alerts)
    alert = next((one for one in standing if one.id == wanted), None)
    over = alert is None
    if alert is None:
        alert = yield from _stored(wanted)
        standing = [alert]
    found = incident_of(alert, standing)
    stories = []
    for slot in _named(found.slots[:STORIES_SHOWN]):
        known = yield from why(slot.job, slot, site.node.store.traits)
        if known is not None:
            (story,) = known.stories
            effects, doubts = counted(story.effects), list(tell_doubts(story.effects))
            stories.append({"key": slot.key, "headline": headline(story, known), "effects": effects, "doubts": doubts})
    card, frame = card_of(found, seen), PageFrame(min(seen.alerts.number, ALERTS_COUNTED), seen.halted)
    return {"now": seen.now, "card": card, "over": over, "stories": stories, "told_of": told_of, "frame": frame}


def _named(keys: Iterable[str]) -> Iterator[Slot]:
    for key in keys:
        with suppress(BadInput):  # of a newer cronce
            yield slot_named(key)


def _stored(wanted: str) -> Flow[Alert]:
    kind, _, subject = wanted.partition("/")
    if not _KIND.fullmatch(kind):
        raise NotFoundPage(_NO_ALERT, wanted)
    (cell,) = (yield from load([key_of(kind, subject)])).cells
    alert = readable(cell, decode_alert) if cell.version else None
    if alert is None:
        raise NotFoundPage(_NO_ALERT, wanted)
    return alert


_KIND: Final = re.compile("[a-z-]{1,40}")
_NO_ALERT: Final = "there is no alert with this id, or it ended more than a week ago"


# --- to whom it was sent ----------------------------------------------------------------------------------------------


class NoticesSent(NamedTuple):
    """To how many destinations a notice was sent, and when the last time."""

    notice: str
    to: tuple[str, ...]
    """Their digests: who reads them may not know the addresses."""
    sentence: str
    sent: Instant | None
    tries: int
    """At those to which it was not sent."""


def told_of(alert: Alert) -> list[NoticesSent]:
    notices = dict.fromkeys(one.notice for one in alert.deliveries.values())
    return [_told(alert, notice) for notice in notices]


def _told(alert: Alert, notice: str) -> NoticesSent:
    meant = {to: one for to, one in alert.deliveries.items() if one.notice == notice}
    sent = [one.sent for one in meant.values() if one.sent]
    many = f"{len(meant)} destination{'s' if len(meant) != 1 else ''}"
    part = many if len(sent) == len(meant) else f"{len(sent)} of {many}"
    tries = sum(one.tries for one in meant.values() if not one.sent)
    return NoticesSent(notice, tuple(meant), f"sent to {part}", max(sent, default=None), tries)


def alerts_table(_request: Request) -> Flow[Shown]:
    """All incidents, and the alerts that were cleared of late."""
    seen = yield from overview(1, MOST_DRAWN)
    cleared = yield from alerts(open=False)
    return {
        "now": seen.now,
        "cards": cards(seen),
        "cleared": sorted(cleared.alerts, key=lambda one: one.cleared or one.since, reverse=True),
        "more": seen.alerts.more,
        "told_of": told_of,
        "frame": PageFrame(min(seen.alerts.number, ALERTS_COUNTED), seen.halted),
    }
