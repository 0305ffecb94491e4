"""The whole at a glance: what is wrong, who is there, what runs, what came of the latest."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cronce.model import BOARD_JOBS, SWITCH, Epoch, Instant, Mark
from cronce.monitor import survey
from cronce.monitor.job_index import JobIndex, Look
from cronce.monitor.read_jobs import HOSTS, cells_of, lines_alone, lines_in, refusals
from cronce.monitor.read_lists import COUNTED, AlertsPage, Runs, alerts, by_key, counted_runs, final_runs, newest_of
from cronce.protocol.record import Act, standing_act
from cronce.runtime.flow import Flow
from cronce.runtime.queries import HolderSeen, JobLine, RunSeen, read_page, told
from cronce.stores.base import Loaded, Page, Position, Scan, page_of
from cronce.value import NamedTuple

HOLDERS: Final = 200
"""So many schedulers are told of, the latest heard of first."""

REMEMBERED: Final = timedelta(hours=1)
"""For so long one that is gone is told of."""

OPEN: Final = 200
"""So many that are open are told of."""

DOUBTS: Final = 200
"""So many runs and effects in doubt are counted: whoever sees that many does not go by the number."""

UPCOMING: Final = 6
"""So many jobs that are due next are told of."""

LOOKED_AT: Final = 100
"""So many steps that are begun are looked at, whether somebody still is at them."""


class Count(NamedTuple):
    """How many there are; with `more` there may be more than were counted."""

    number: int = 0
    more: bool = False


class Overview(NamedTuple):
    """The whole at a glance, as of the store's now."""

    now: Instant
    epoch: Epoch
    halted: Act | None
    alerts: AlertsPage
    holders: tuple[HolderSeen, ...]
    open: Runs
    attention: Runs
    in_doubt: Count
    """Effects of which nobody knows whether they happened."""
    newest: tuple[RunSeen, ...]
    closed: Runs
    refused: Page
    """What hosts were refused."""
    upcoming: tuple[JobLine, ...]
    """The jobs that are due next, the soonest first, without their runs."""


def overview(recent: int = 30, drawn: int = 0, index: JobIndex | None = None) -> Flow[Overview]:
    """With its `recent` runs and, by an `index`, the jobs that are due next. If it is `drawn`, so many of each kind are
    read and told, and no more counted: then `stretch_of` needs no other."""
    page = yield from read_page(_LATEST)
    names = [] if index is None else index.due(UPCOMING, page.now)
    timed, present = yield from told(page.cells, [SWITCH, BOARD_JOBS, *cells_of(names)])
    loaded = timed.reply
    assert isinstance(loaded, Loaded)
    switch, board, *cells = loaded.cells
    lines = lines_in(names, cells, loaded.now)
    if index is not None:
        yield from index.keep_up(Look(board.version, timed.ended))
        if (due := index.due(UPCOMING, loaded.now)) != names:
            _, lines = yield from lines_alone(due)
    raised = yield from alerts()
    still_open = counted_runs((yield from read_page(by_key(Mark.OPEN, "", drawn or COUNTED))), drawn or OPEN)
    lost, steps = yield from _in_need()
    *keys, refused = yield from _keys_and_refusals(loaded.now)
    attention = counted_runs(lost, drawn or max(recent, 50))
    closed = counted_runs((yield from read_page(final_runs(Mark.CLOSED, drawn or recent))), drawn or recent)
    begun = yield from read_page(Scan("effect/", mark=Mark.OPEN, limit=LOOKED_AT))
    doubtful = yield from survey.effects_in_doubt((steps, *keys, begun))
    return Overview(
        loaded.now,
        loaded.epoch,
        standing_act(switch),
        raised,
        _remembered(present, page.now),
        still_open,
        attention,
        Count(len(doubtful.effects), doubtful.more),
        newest_of((*still_open.runs, *attention.runs, *closed.runs), recent),
        closed,
        refused,
        tuple(sorted((line for line in lines if line.next), key=lambda line: (line.next, line.seen.name))),
    )


def _in_need() -> Flow[tuple[Page, Page]]:
    """Runs and steps that wait for a person: in one request, unless there are more of them than are counted."""
    scans = final_runs(Mark.ATTENTION, DOUBTS), survey.steps_in_doubt(DOUBTS)
    both = yield from read_page(Scan("", "at", Mark.ATTENTION, newest_first=True, limit=2 * DOUBTS))
    if both.next is not None:
        return (yield from read_page(scans[0])), (yield from read_page(scans[1]))
    runs, steps = (page_of(both.cells, scan, both.now, both.epoch) for scan in scans)
    return runs, steps


def _keys_and_refusals(now: Instant) -> Flow[list[Page]]:
    """Keys that are in doubt, and what hosts were refused: these cells are neighbours in the order of keys, and read in
    one request, unless there are many keys. With many refusals the page of those goes on."""
    scans = (*survey.keys_in_doubt(DOUBTS, now), refusals("refusals/"))
    both = yield from read_page(Scan("", after=Position(0, "once/"), limit=HOSTS))
    last = both.cells[-1].key if both.next else ""
    if last.startswith("once/"):
        pages = []
        for scan in scans:
            pages += [(yield from read_page(scan))]
        return pages
    *keys, refused = (page_of(both.cells, scan, both.now, both.epoch) for scan in scans)
    return [*keys, refused._replace(next=both.next) if last.startswith("refusals/") else refused]


# --- who is there ---------------------------------------------------------------------------------------------------

_LATEST: Final = Scan("holder/", "until", newest_first=True, limit=HOLDERS)


def holders() -> Flow[tuple[Instant, tuple[HolderSeen, ...]]]:
    """The live first, by name; then those that are gone, the latest first."""
    page = yield from read_page(_LATEST)
    _, seen = yield from told(page.cells)
    return page.now, _remembered(seen, page.now)


def _remembered(seen: Sequence[HolderSeen], now: Instant) -> tuple[HolderSeen, ...]:
    dead = [one for one in seen if one.life(now) == "dead" and one.until >= now - REMEMBERED]
    live = sorted((one for one in seen if one.life(now) != "dead"), key=lambda one: one.holder.holder)
    return (*live, *dead)
