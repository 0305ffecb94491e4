"""The whole at a glance: what is wrong, who is there, what runs, what came of the latest."""

from datetime import timedelta
from typing import Final

from cronce.model import BOARD_JOBS, BOARD_RUNS, SWITCH, Epoch, Instant, Mark
from cronce.monitor import survey
from cronce.monitor.reading.notices import AlertsPage, alerts
from cronce.monitor.reading.runs import COUNTED, Runs, marked_runs, newest_of
from cronce.monitor.survey import Life, beat_state
from cronce.protocol.record import Act, Holder, standing_act
from cronce.runtime.effects.seen import load
from cronce.runtime.flow import Flow
from cronce.runtime.holders import HolderSeen, latest
from cronce.runtime.look import RunSeen
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.value import NamedTuple

HOLDERS: Final = 200
"""So many schedulers are told of, the latest heard of first."""

REMEMBERED: Final = timedelta(hours=1)
"""For so long one that is gone is told of."""

OPEN: Final = 200
"""So many that are open are told of."""

DOUBTS: Final = 200
"""So many runs and effects in doubt are counted: whoever sees that many does not go by the number."""

LOOKED_AT: Final = 100
"""So many steps that are begun are looked at, whether somebody still is at them."""


class HolderLine(NamedTuple):
    """A scheduler that lives, or that was there not long ago."""

    holder: Holder
    life: Life
    """Late: two beats are overdue. Others take it for dead only when it lapses."""
    beat: Instant
    """When it was last heard of."""
    until: Instant
    drained: Act | None
    """Who told it to claim nothing more, if somebody did."""

    @property
    def claims(self) -> bool:
        return self.life != "dead" and self.drained is None and not self.holder.draining


class Count(NamedTuple):
    """How many there are; with `more` there may be more than were counted."""

    number: int = 0
    more: bool = False


class Overview(NamedTuple):
    """The whole at a glance, as of the store's now."""

    now: Instant
    epoch: Epoch
    boards: tuple[int, int]
    """The versions of the boards of runs and jobs: while they are the same, nobody asked anybody to look."""
    halted: Act | None
    alerts: AlertsPage
    holders: tuple[HolderLine, ...]
    open: Runs
    attention: Runs
    in_doubt: Count
    """Effects of which nobody knows whether they happened."""
    newest: tuple[RunSeen, ...]
    closed: Runs


def overview(recent: int = 30, drawn: int = 0) -> Flow[Overview]:
    """With its `recent` runs. If it is `drawn`, so many of each kind are read and told, and no more counted: then
    `stretch_of` needs no other."""
    loaded = yield from load([SWITCH, BOARD_RUNS, BOARD_JOBS])
    switch, runs, jobs = loaded.cells
    raised = yield from alerts()
    present = yield from holders()
    still_open = yield from marked_runs(Mark.OPEN, "", drawn or OPEN, drawn or COUNTED)
    attention = yield from marked_runs(Mark.ATTENTION, "", drawn or max(recent, 50), DOUBTS)
    closed = yield from marked_runs(Mark.CLOSED, "", drawn or recent, drawn or recent)
    newest = newest_of((*still_open.runs, *attention.runs, *closed.runs), recent)
    in_doubt = yield from effects_in_doubt()
    return Overview(
        loaded.now,
        loaded.epoch,
        (runs.version, jobs.version),
        standing_act(switch),
        raised,
        present,
        still_open,
        attention,
        in_doubt,
        newest,
        closed,
    )


# --- who is there ---------------------------------------------------------------------------------------------------


def holders() -> Flow[tuple[HolderLine, ...]]:
    """The live first, by name; then those that are gone, the latest first."""
    now, seen = yield from latest(HOLDERS)
    lines = [_line(one, now) for one in seen if one.until >= now - REMEMBERED]
    live = sorted((line for line in lines if line.life != "dead"), key=lambda line: line.holder.holder)
    return (*live, *(line for line in lines if line.life == "dead"))


def _line(seen: HolderSeen, now: Instant) -> HolderLine:
    holder, until, drained = seen
    beat = until if holder.gone else until - HOLDER_TTL
    return HolderLine(holder, beat_state(holder, until, now), beat, until, drained)


# --- effects --------------------------------------------------------------------------------------------------------


def effects_in_doubt() -> Flow[Count]:
    """Also of steps that stand as begun, those that nobody is at any more."""
    found = yield from survey.effects_in_doubt(DOUBTS, begun=LOOKED_AT)
    return Count(len(found.effects), found.more)
