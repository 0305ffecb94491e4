"""What watchers left: alerts, the beats of other schedulers, calls that were only observed; and who holds what."""

from typing import Final

from cronce.model import Instant, Mark, check_name
from cronce.monitor.survey import named
from cronce.protocol.notices import Alert, Beats, Observed, decode_alert, decode_beats, decode_observed
from cronce.protocol.readable import all_readable
from cronce.runtime.flow import Flow
from cronce.runtime.look import HeldSeen, read_page, seen_held
from cronce.stores.base import Position, Scan
from cronce.value import NamedTuple

SHOWN: Final = 200
"""So many of a kind are told of."""


class AlertsPage(NamedTuple):
    """Alerts, by kind and subject; with `more` there are more than are told of."""

    now: Instant
    alerts: tuple[Alert, ...]
    more: bool


class BeatsSeen(NamedTuple):
    name: str
    beats: Beats


class ObservedSeen(NamedTuple):
    name: str
    observed: Observed


class HeldPage(NamedTuple):
    """Locks or leaderships by name, and the one after which the rest stands, or None."""

    now: Instant
    held: tuple[HeldSeen, ...]
    next: str | None


def alerts(*, open: bool = True) -> Flow[AlertsPage]:  # noqa: A002  it is what they are
    """Those that stand, or those that were cleared."""
    page = yield from read_page(Scan("alert/", mark=Mark.OPEN if open else Mark.FREE, limit=SHOWN))
    told = tuple(alert for _, alert in all_readable(page.cells, decode_alert))
    return AlertsPage(page.now, told, page.next is not None)


def beats() -> Flow[tuple[BeatsSeen, ...]]:
    return tuple(BeatsSeen(*one) for one in (yield from named("beat/", decode_beats, SHOWN)).items())


def observed() -> Flow[tuple[ObservedSeen, ...]]:
    return tuple(ObservedSeen(*one) for one in (yield from named("observed/", decode_observed, SHOWN)).items())


def locks(after: str = "", limit: int = SHOWN) -> Flow[HeldPage]:
    return (yield from _held("lock/", after, limit))


def leaders(after: str = "", limit: int = SHOWN) -> Flow[HeldPage]:
    return (yield from _held("leader/", after, limit))


def _held(prefix: str, after: str, limit: int) -> Flow[HeldPage]:
    place = Position(0, prefix + check_name(after)) if after else None
    page = yield from read_page(Scan(prefix, after=place, limit=limit))
    found = tuple(seen_held(cell, cell.key.removeprefix(prefix), page.now) for cell in page.cells)
    return HeldPage(page.now, found, found[-1].name if page.next else None)
