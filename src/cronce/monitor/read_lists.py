"""Lists, as the page and its API read them: how many runs are open or need attention, effects, alerts, locks, leaders,
and what is only watched.

Like all that `read_*` holds these are flows that only read: each makes a bounded number of requests for a bounded
number of cells, whatever the store holds, and says where there is more. A cell that cannot be read is shown as that, or
left out.
"""

from heapq import nlargest
from typing import Final, TypeVar

from cronce.model import Instant, Mark
from cronce.monitor.survey import named
from cronce.protocol.codec import all_readable
from cronce.protocol.notices import Alert, Beats, Observed, decode_alert, decode_beats, decode_observed
from cronce.runtime.flow import Flow
from cronce.runtime.queries import RunSeen, filed, read_page, seen_runs
from cronce.stores.base import Page, Scan
from cronce.value import NamedTuple

T = TypeVar("T")

LIST_COUNTED: Final = 1000
"""Counts go up to this; beyond it the answer says that there are more."""


class RunList(NamedTuple):
    """Some runs, newest first, and how many there are; with `more` there are more than were counted."""

    runs: tuple[RunSeen, ...] = ()
    number: int = 0
    more: bool = False


# --- by their mark ---------------------------------------------------------------------------------------------------


def counted_runs(page: Page, shown: int = 200) -> RunList:
    """The newest of a page, and how many it has."""
    newest = nlargest(shown, (cell for cell in page.cells if cell.at is not None), key=filed)
    return RunList(tuple(seen_runs(newest, page.now)), len(page.cells), page.next is not None)


# --- what watchers left: alerts, the beats of other schedulers, calls that were only observed; and who holds what ----


LIST_SHOWN: Final = 200
"""Rows of such a list."""


class AlertsPage(NamedTuple):
    """Alerts, by kind and subject; with `more` there are more than these."""

    now: Instant
    alerts: tuple[Alert, ...]
    more: bool
    number: int
    """Also those that cannot be read."""


def alerts(*, open: bool = True) -> Flow[AlertsPage]:  # noqa: A002  it is what they are
    """Those that stand, or those that were cleared."""
    page = yield from read_page(Scan("alert/", mark=Mark.OPEN if open else Mark.FREE, limit=LIST_SHOWN))
    told = tuple(alert for _, alert in all_readable(page.cells, decode_alert))
    return AlertsPage(page.now, told, page.next is not None, len(page.cells))


ALERTS_COUNTED: Final = 100
"""Open alerts are counted up to this."""


def open_alerts() -> Flow[int]:
    """How many there are, those too that cannot be read."""
    return len((yield from read_page(Scan("alert/", mark=Mark.OPEN, limit=ALERTS_COUNTED))).cells)


def beats() -> Flow[dict[str, Beats]]:
    return named("beat/", decode_beats, LIST_SHOWN)


def observed() -> Flow[dict[str, Observed]]:
    return named("observed/", decode_observed, LIST_SHOWN)
