"""The overview: how things stand in one sentence, what needs a person, who is there, what runs, what comes next. And
who is there, in full: each scheduler, by its last beat."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from shlex import quote
from typing import Final

from starlette.requests import Request

from cronce.model import Instant
from cronce.monitor.alerts import SEVERITIES, Kind, Severity, rank, worst_first
from cronce.monitor.read_overview import Overview, holders, overview
from cronce.monitor.settings import Settings
from cronce.monitor.watch_schedulers import missed
from cronce.protocol.notices import Alert
from cronce.runtime.flow import Flow
from cronce.runtime.queries import HOST_GONE, HolderSeen, RunSeen
from cronce.telling.words import Tone, ago, by_whom, counted, safe, short
from cronce.value import NamedTuple
from cronce.web.markup import brief
from cronce.web.pages.runs import rows_of
from cronce.web.site import COUNTED, Frame, Shown, root_of, site_of
from cronce.web.timeline import MOST_DRAWN, picture

RECENT: Final = 12
RUNNING: Final = 20
DOUBTS: Final = 5
"""Of the runs of which nobody knows how they ended, so many stand here; the rest behind a link."""

SEEN_HERE: Final = (Kind.LOST, Kind.UNKNOWN, Kind.IN_DOUBT)
"""Alerts of what this page shows by itself, slot by slot, whether anybody watches or not."""

_WHERE: Final = {
    **dict.fromkeys((Kind.GONE, Kind.CROWDED, Kind.SKEW, Kind.SUPERSEDED), "holders"),
    **dict.fromkeys((Kind.BEAT_SILENT, Kind.BEAT_DOUBLE, Kind.DOUBLED), "others"),
    **dict.fromkeys((Kind.AMNESIA, Kind.COPIED, Kind.UNREACHABLE, Kind.UNUSABLE), "alerts"),
    Kind.FLAPPING: "leaders",
    Kind.IN_DOUBT: "effects",
}
"""The page to look at, of what is said of no job. What is said of the store has none but that of alerts."""


LIVE: Final = ("alive", "draining", "late")


class Todo(NamedTuple):
    """Something that needs a person, and where to look."""

    severity: Severity
    title: str
    text: str
    way: tuple[str, ...]
    since: Instant | None = None
    remedy: str = ""
    """What to do, or the command that settles it."""


class Health(NamedTuple):
    tone: Tone
    sentence: str


def overview_page(request: Request) -> Flow[Shown]:
    index = site_of(request).index
    seen = yield from overview(RECENT, MOST_DRAWN, index)
    drawn = yield from picture(root_of(request), seen)
    now = seen.now
    there = [beating(line, now) for line in seen.holders]
    silent = silent_ones(there, now)
    todo = sorted(todos(seen), key=lambda one: rank(one.severity))
    running = [run for run in seen.open.runs if run.shown in ("running", HOST_GONE)][:RUNNING]
    return {
        "now": now,
        "health": health(seen, there, todo, len(index)),
        "todo": todo,
        "holders": [one for one in there if one.state in LIVE or one in silent],
        "running": rows_of(running, now),
        "upcoming": seen.upcoming,
        "recent": rows_of(seen.newest, now),
        "jobs": len(index),
        "picture": drawn,
        "frame": Frame(min(seen.alerts.number, COUNTED), seen.halted),
    }


# --- what needs a person --------------------------------------------------------------------------------------------


def todos(seen: Overview) -> Iterator[Todo]:
    if seen.halted:
        text = f"Everything is paused {by_whom(seen.halted)}: nothing at all is granted until it is resumed."
        yield Todo("critical", "everything is paused", safe(text), ("jobs",), seen.halted.at, "`cronce resume --all`")
    alerts = sorted(seen.alerts.alerts, key=worst_first)
    yield from map(_of_alert, (one for one in alerts if one.kind not in SEEN_HERE))
    yield from map(_of_run, seen.attention.runs[:DOUBTS])
    left = seen.attention.number - min(len(seen.attention.runs), DOUBTS)
    if left:
        runs = counted(left, "run", more=seen.attention.more)
        yield Todo("critical", "lost and unknown runs", f"And {runs} of which nobody knows how they ended.", ("runs",))
    if seen.in_doubt.number:
        many = counted(seen.in_doubt.number, "effect", more=seen.in_doubt.more)
        text = f"{many} {'was' if many.startswith('1 effect') else 'were'} begun, and may have happened or not."
        yield Todo("critical", "effects in doubt", text, ("effects",), None, "`cronce effects` lists them.")


def _of_alert(alert: Alert) -> Todo:
    severity: Severity = next((one for one in SEVERITIES if one == alert.severity), "warning")
    title = f"{alert.kind.replace('-', ' ')}{': ' if alert.subject else ''}{alert.subject}"
    return Todo(severity, safe(title), safe(alert.text), where(alert), alert.since, alert.remedy)


def where(alert: Alert) -> tuple[str, ...]:
    """The page to look at; of what a newer cronce says, that of alerts."""
    kind = next((one for one in Kind if one == alert.kind), None)
    if kind is None or kind in _WHERE:
        return (_WHERE[kind] if kind else "alerts",)
    return ("jobs", alert.subject) if alert.subject else ("holders",)


def _of_run(run: RunSeen) -> Todo:
    words = {
        "lost": "Whoever had it is gone, and nobody can tell how much of its work was done. Look, then say.",
        "unknown": "Nobody can tell whether it ran. Look, then say.",
    }
    since = run.record.finished if run.record else None
    command = f"`cronce resolve {quote(run.slot.key)} done`, or `retry`"
    text = words.get(run.shown, "It cannot be read.")
    return Todo("critical", f"{run.shown}: {run.slot.key}", text, ("runs", run.slot.key), since, command)


# --- who is there -----------------------------------------------------------------------------------------------------


class Beating(NamedTuple):
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


def beating(line: HolderSeen, now: Instant) -> Beating:
    holder = line.holder
    why = f"drained {by_whom(line.drained)}" if line.drained else "draining" if holder.draining else ""
    state: str = line.life(now)
    if holder.gone:
        state, why = "left", "it left on purpose"
    elif state == "alive" and why:
        state = "draining"
    elif state == "dead":
        why = "it stopped beating, and said no goodbye"
    skewed = abs(holder.skew) > Settings().skew
    return Beating(safe(holder.holder), state, line, safe(why), _offset(holder.skew), skewed)


def _offset(skew: timedelta) -> str:
    if abs(skew) < timedelta(milliseconds=1):
        return "0"
    return f"{'+' if skew > timedelta(0) else '−'}{short(skew)}"


# --- how things stand -----------------------------------------------------------------------------------------------


def health(seen: Overview, there: Sequence[Beating], todo: Iterable[Todo], jobs: int) -> Health:
    """All of it in one sentence. What a crontab calls needs no scheduler."""
    live = sum(one.state in LIVE for one in there)
    if not jobs and not live and not seen.newest:
        return Health("dim", "Nothing has run here yet.")
    severities = [one.severity for one in todo]
    silent = silent_ones(there, seen.now)
    idle = not live and any(line.seen.is_scheduled for line in seen.upcoming)
    wrong = [*_silent(silent), *(["no scheduler is alive"] if idle else []), *_needed(severities)]
    if wrong:
        bad = idle or "critical" in severities or any(one.state == "dead" for one in silent)
        return Health("bad" if bad else "odd", safe(_sentence(wrong)))
    last = next((run.record.started for run in seen.newest if run.record and run.record.started), None)
    ran = f", the last run started {ago(last, seen.now)}" if last else ", and nothing has run yet"
    return Health("good", f"All is well: {counted(jobs, 'job')}, {counted(live, 'scheduler')}{ran}.")


def _silent(silent: Sequence[Beating]) -> Iterator[str]:
    if len(silent) == 1:
        yield f"scheduler {brief(silent[0].name)} stopped beating"
    elif silent:
        yield f"{len(silent)} schedulers stopped beating"


def _needed(severities: Sequence[Severity]) -> Iterator[str]:
    grave, lesser = (severities.count(severity) for severity in SEVERITIES[:2])
    if grave or lesser:
        need = "thing needs" if grave + lesser == 1 else "things need"
        yield f"{grave + lesser:,} {need} a person{f', {grave:,} of them critical' if grave and lesser else ''}"


def silent_ones(there: Sequence[Beating], now: Instant) -> list[Beating]:
    """Those that are late, and those that died not long ago, if no other took their place."""
    dead = {one.holder.holder for one in missed([one.line for one in there], now)}
    return [one for one in there if one.state == "late" or one.line.holder.holder in dead]


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
