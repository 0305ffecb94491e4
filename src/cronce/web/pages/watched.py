"""What watchers have to tell: alerts, and those who are watched, but not run by us."""

from starlette.requests import Request
from starlette.responses import Response

from cronce.model import Instant
from cronce.monitor.folds.others import state
from cronce.monitor.model import worst_first
from cronce.monitor.reading.notices import BeatsSeen, alerts, beats, observed
from cronce.protocol.notices import Alert, Beats
from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.value import NamedTuple
from cronce.web.frame import Shown, show
from cronce.web.pages.overview import where


class Told(NamedTuple):
    """To how many destinations a notice was sent, and when the last time."""

    notice: str
    to: tuple[str, ...]
    """Their digests: who reads them may not know the addresses."""
    sentence: str
    sent: Instant | None
    tries: int
    """At those to which it was not sent."""


class AlertRow(NamedTuple):
    alert: Alert
    way: tuple[str, ...]
    """The page to look at."""
    told: tuple[Told, ...]


class BeatRow(NamedTuple):
    name: str
    beats: Beats
    state: str
    last: Instant | None
    by: tuple[str, ...]
    """Who beat of late."""


async def alerts_page(request: Request) -> Response:
    return await show(request, "alerts.html", _alerts())


def _alerts() -> Flow[Shown]:
    stand = yield from alerts()
    cleared = yield from alerts(open=False)
    return {
        "now": stand.now,
        "standing": [alert_row(one) for one in sorted(stand.alerts, key=worst_first)],
        "cleared": [alert_row(one) for one in sorted(cleared.alerts, key=_freshness, reverse=True)],
        "more": stand.more,
    }


def alert_row(alert: Alert) -> AlertRow:
    notices = dict.fromkeys(one.notice for one in alert.deliveries.values())
    return AlertRow(alert, where(alert), tuple(_told(alert, notice) for notice in notices))


def _told(alert: Alert, notice: str) -> Told:
    meant = {to: one for to, one in alert.deliveries.items() if one.notice == notice}
    sent = [one.sent for one in meant.values() if one.sent]
    many = f"{len(meant)} destination{'s' if len(meant) != 1 else ''}"
    part = many if len(sent) == len(meant) else f"{len(sent)} of {many}"
    tries = sum(one.tries for one in meant.values() if not one.sent)
    return Told(notice, tuple(meant), f"sent to {part}", max(sent, default=None), tries)


def _freshness(alert: Alert) -> Instant:
    return alert.cleared or alert.since


async def others_page(request: Request) -> Response:
    return await show(request, "others.html", _others())


def _others() -> Flow[Shown]:
    beaten = yield from beats()
    calls = yield from observed()
    now = (yield from load([])).now
    return {"now": now, "beats": [_beat_row(one, now) for one in beaten], "observed": calls}


def _beat_row(seen: BeatsSeen, now: Instant) -> BeatRow:
    recent = sorted(seen.beats.recent, reverse=True)
    last = recent[0].at if recent else None
    return BeatRow(seen.name, seen.beats, state(seen.beats, now), last, tuple(dict.fromkeys(one.by for one in recent)))
