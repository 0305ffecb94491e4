"""The overview: how things stand in one sentence, what needs attention, who is there, what runs, what comes next. And
who is there, in full: each scheduler, by its last beat."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from starlette.requests import Request

from cronce.model import Instant
from cronce.monitor.figures import figures
from cronce.monitor.read_lists import ALERTS_COUNTED
from cronce.monitor.read_overview import UNNAMED_KINDS, ForeignSchedulerSeen, Overview, holders, overview
from cronce.monitor.settings import Settings
from cronce.monitor.watch import not_replaced
from cronce.runtime.flow import Flow
from cronce.runtime.queries import HOST_GONE, HolderSeen
from cronce.telling.words import Tone, ago, by_whom, counted, listed, safe, short
from cronce.value import NamedTuple
from cronce.web.markup import brief
from cronce.web.pages.incidents import IncidentCard, cards
from cronce.web.pages.runs import rows_of
from cronce.web.site import PageFrame, Shown, root_of, site_of
from cronce.web.timeline import MOST_DRAWN, picture

RECENT_RUNS: Final = 12
RUNNING_SHOWN: Final = 20
LIVE: Final = ("alive", "draining", "late")


class HealthSentence(NamedTuple):
    tone: Tone
    sentence: str


def overview_page(request: Request) -> Flow[Shown]:
    index = site_of(request).index
    seen = yield from overview(RECENT_RUNS, MOST_DRAWN, index)
    drawn = yield from picture(root_of(request), seen)
    now = seen.now
    there = [beating(line, now) for line in seen.holders]
    silent = silent_ones(there, now)
    found = cards(seen)
    running = [run for run in seen.open.runs if run.shown in ("running", HOST_GONE)][:RUNNING_SHOWN]
    return {
        "now": now,
        "health": health(seen, there, found, len(index)),
        "cards": found,
        "figures": figures((*seen.closed.runs, *seen.attention.runs), now),
        "prevented": site_of(request).count_prevented(),
        "guests": seen.guests,
        "holders": [one for one in there if one.state in LIVE or one in silent],
        "running": rows_of(running, now),
        "upcoming": seen.upcoming,
        "recent": rows_of(seen.newest, now),
        "jobs": len(index),
        "picture": drawn,
        "frame": PageFrame(min(seen.alerts.number, ALERTS_COUNTED), seen.halted),
    }


# --- who is there -----------------------------------------------------------------------------------------------------


class SchedulerShown(NamedTuple):
    """A scheduler as it is shown."""

    name: str
    state: str
    line: HolderSeen
    why: str
    """What keeps it from claiming, if anything does."""
    skew: str
    skewed: bool


def holders_page(_request: Request) -> Flow[Shown]:
    now, found = yield from holders()
    return {"holders": [beating(line, now) for line in found]}


def beating(line: HolderSeen, now: Instant) -> SchedulerShown:
    holder = line.holder
    why = f"drained {by_whom(line.drained)}" if line.drained else "draining" if holder.draining else ""
    state: str = line.life(now)
    if holder.gone:
        state, why = "left", "it was shut down"
    elif state == "alive" and why:
        state = "draining"
    elif state == "dead":
        why = "it stopped sending heartbeats without shutting down"
    skewed = abs(holder.skew) > Settings().skew
    return SchedulerShown(safe(holder.holder), state, line, safe(why), _offset(holder.skew), skewed)


def _offset(skew: timedelta) -> str:
    if abs(skew) < timedelta(milliseconds=1):
        return "0"
    return f"{'+' if skew > timedelta(0) else '−'}{short(skew)}"


# --- how things stand -----------------------------------------------------------------------------------------------


def health(seen: Overview, there: Sequence[SchedulerShown], found: Sequence[IncidentCard], jobs: int) -> HealthSentence:
    """All of it in one sentence. What a crontab calls needs no scheduler."""
    live = sum(one.state in LIVE for one in there)
    if not jobs and not live and not seen.newest and not seen.guests:
        return HealthSentence("dim", "Nothing has run here yet.")
    urgent = [one for one in found if not one.snoozed and one.incident.lead.severity != "info"]
    severities = [one.incident.lead.severity for one in urgent]
    late = [one for one in there if one.state == "late" and not any(one.name in card.hosts for card in urgent)]
    idle = not live and any(line.seen.is_scheduled for line in seen.upcoming)
    paused = [f"everything is paused {by_whom(seen.halted)}"] if seen.halted else []
    wrong = [*paused, *_silent(late), *(["no scheduler is alive"] if idle else []), *_needed(urgent)]
    if wrong:
        bad = idle or paused or "critical" in severities or any(card.hosts for card in urgent)
        return HealthSentence("bad" if bad else "odd", safe(_sentence(wrong)))
    last = next((run.record.started for run in seen.newest if run.record and run.record.started), None)
    ran = f", the last run started {ago(last, seen.now)}" if last else ", and nothing has run yet"
    there_are = [*([counted(live, "scheduler")] if live or not seen.guests else []), *_guests(seen.guests)]
    snoozed = [one.title for one in found if one.snoozed and one.incident.lead.severity != "info"]
    state = f"{counted(len(snoozed), 'alert')} snoozed ({listed(snoozed)})" if snoozed else "All is well"
    return HealthSentence(
        "odd" if snoozed else "good", f"{state}: {counted(jobs, 'job')}, {', '.join(there_are)}{ran}."
    )


def _guests(guests: Sequence[ForeignSchedulerSeen]) -> Iterator[str]:
    """4 of APScheduler, calls from 2 hosts."""
    kinds = Counter(one.kind for one in guests if one.last is None or one.jobs)
    for kind, number in kinds.items():
        yield f"calls from {counted(number, 'host')}" if kind in UNNAMED_KINDS else f"{number:,} of {kind}"


def _silent(silent: Sequence[SchedulerShown]) -> Iterator[str]:
    if len(silent) == 1:
        yield f"scheduler {brief(silent[0].name)} stopped sending heartbeats"
    elif silent:
        yield f"{len(silent)} schedulers stopped sending heartbeats"


def _needed(urgent: Sequence[IncidentCard]) -> Iterator[str]:
    if len(urgent) == 1:
        yield urgent[0].title
    elif urgent:
        grave = sum(one.incident.lead.severity == "critical" for one in urgent)
        yield f"{len(urgent):,} items need attention{f', {grave:,} of them critical' if grave else ''}"


def silent_ones(there: Sequence[SchedulerShown], now: Instant) -> list[SchedulerShown]:
    """Those that are late, and those that died not long ago, if no other took their place."""
    dead = {one.holder.holder for one in not_replaced([one.line for one in there], now)}
    return [one for one in there if one.state == "late" or one.line.holder.holder in dead]


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
