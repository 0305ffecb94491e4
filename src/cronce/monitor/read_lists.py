"""Lists, as the page and its API read them: runs (the newest, the open ones and those that need attention), effects,
alerts, locks, leaders, and what is only watched.

Like all that `read_*` holds these are flows that only read: each makes a bounded number of requests for a bounded
number of cells, whatever the store holds, and says where there is more. A cell that cannot be read is shown as that, or
left out.

Across jobs, runs are in the order of `at`: the slot, or when a run was requested by hand. Not every store keeps open
runs, or the runs of one job, in an order of their own. So a fixed number of them is read, and sorted here.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final, TypeVar

from cronce.errors import BadInput
from cronce.model import Cell, Instant, Mark, check_name, to_us
from cronce.monitor.survey import named
from cronce.protocol.codec import all_readable
from cronce.protocol.notices import Alert, Beats, Observed, decode_alert, decode_beats, decode_observed
from cronce.runtime.effects.review import EffectCells, EffectSeen, ListPosition, effects, places
from cronce.runtime.flow import Flow
from cronce.runtime.queries import (
    MARK_OF_STATE,
    STATES_WANTED,
    HeldSeen,
    RunSeen,
    by_hand_lately,
    matches,
    ran_at,
    read_page,
    seen_held,
    seen_runs,
    sifted,
)
from cronce.stores.base import Page, Position, Scan, position
from cronce.value import NamedTuple

T = TypeVar("T")

LIST_COUNTED: Final = 1000
"""Counts go up to this; beyond it the answer says that there are more."""

RUNS_SEARCHED: Final = 2000
"""Runs that are searched at most for one part of a list; the next part goes on from there."""

OF_A_JOB: Final = 1000
"""Runs of a job that are sorted, those of its newest slots: as many as are kept by default."""

_RUNS_PREFIX: Final = "run/"


class RunList(NamedTuple):
    """Some runs, newest first, and how many there are; with `more` there are more than were counted."""

    runs: tuple[RunSeen, ...] = ()
    number: int = 0
    more: bool = False


class RunsPage(NamedTuple):
    """A part of a list of runs, newest first, and where it goes on, or None at its end."""

    now: Instant
    runs: tuple[RunSeen, ...]
    next: str | None


# --- by their mark ---------------------------------------------------------------------------------------------------


def counted_runs(page: Page, shown: int = 200) -> RunList:
    """The newest of a page, and how many it has."""
    newest = _by_at(page.cells)[:shown]
    return RunList(tuple(seen_runs(newest, page.now)), len(page.cells), page.next is not None)


def by_key(mark: Mark, job: str, limit: int) -> Scan:
    """Of one job its newest; of all, whichever they are."""
    return Scan(f"{_RUNS_PREFIX}{job}/" if job else _RUNS_PREFIX, mark=mark, newest_first=True, limit=limit)


def final_runs(mark: Mark | None, limit: int, after: Position | None = None) -> Scan:
    """The newest across jobs: all of them, those that are closed, or those that a person should look at."""
    return Scan(_RUNS_PREFIX, "at", mark, after=after, limit=limit, newest_first=True)


def _by_at(cells: Iterable[Cell]) -> list[Cell]:
    return sorted((cell for cell in cells if cell.at is not None), key=_place, reverse=True)


def _place(cell: Cell) -> Position:
    place = position(cell, "at")
    assert place is not None
    return place


# --- the newest -----------------------------------------------------------------------------------------------------


def newest_runs(
    job: str | None = None, wanted: str | None = None, after: str | None = None, limit: int = 50
) -> Flow[RunsPage]:
    """The newest runs of a job, or of all; only those with a state or outcome that is `wanted` (`STATES_WANTED`)."""
    if wanted is not None and wanted not in STATES_WANTED:
        raise BadInput(f"{wanted[:60]!r} is not a state or an outcome; use one of {', '.join(STATES_WANTED)}")
    mark = MARK_OF_STATE.get(wanted or "")
    prefix = f"{_RUNS_PREFIX}{check_name(job)}/" if job is not None else _RUNS_PREFIX
    place = read_cursor(after, prefix) if after else None
    if job is not None and place and not place.us:  # past those that are put in order, by slot
        shown = {cell.key for cell in (yield from by_hand_lately(job))}
        page = yield from _sifted(Scan(prefix, "key", mark, None, place, limit, newest_first=True), wanted, limit)
        return page._replace(runs=tuple(run for run in page.runs if run.cell.key not in shown))
    if job is not None:
        found, runs = yield from latest_of(job, mark)
        return part_of(found, [run for run in runs if wanted is None or matches(run, wanted)], place, limit)
    if mark is not Mark.OPEN:
        return (yield from _sifted(final_runs(mark, limit, place), wanted, limit))
    opened = yield from read_page(by_key(Mark.OPEN, "", LIST_COUNTED))
    cells = [run.cell for run in seen_runs(opened.cells, opened.now) if matches(run, wanted or "")]
    left = [cell for cell in _by_at(cells) if place is None or _place(cell) < place]
    goes_on = spell_cursor(_place(left[limit - 1])) if len(left) > limit else None
    return RunsPage(opened.now, tuple(seen_runs(left[:limit], opened.now)), goes_on)


def latest_of(job: str, mark: Mark | None = None) -> Flow[tuple[Page, list[RunSeen]]]:
    """The runs of a job in the order they ran, the latest first. Where it has more than are put in order, those by hand
    are among them that are among the latest of all jobs, and the rest is the page's next, by slot."""
    page = yield from read_page(Scan(f"{_RUNS_PREFIX}{job}/", mark=mark, newest_first=True, limit=OF_A_JOB))
    cells = {cell.key: cell for cell in page.cells}
    if page.next is not None:
        by_hand = yield from by_hand_lately(job)
        cells |= {cell.key: cell for cell in by_hand if mark in (None, cell.mark)}
    page = page._replace(cells=list(cells.values()))
    return page, sorted(seen_runs(page.cells, page.now), key=ran_at, reverse=True)


def part_of(page: Page, runs: Sequence[RunSeen], after: Position | None, limit: int) -> RunsPage:
    """A part of what `latest_of` found."""
    left = [run for run in runs if after is None or _ran(run) < after]
    goes_on = _ran(left[limit - 1]) if len(left) > limit else page.next
    return RunsPage(page.now, tuple(left[:limit]), spell_cursor(goes_on) if goes_on else None)


def _ran(run: RunSeen) -> Position:
    at, key = ran_at(run)
    return Position(to_us(at), key)


def newest_of(runs: Iterable[RunSeen], limit: int) -> tuple[RunSeen, ...]:
    """The newest of some that have an instant, in the order they ran."""
    return tuple(sorted(nlargest(limit, runs, key=lambda run: _place(run.cell)), key=ran_at, reverse=True))


def _sifted(scan: Scan, wanted: str | None, limit: int) -> Flow[RunsPage]:
    """Those that are wanted along one scan, as far as it may be looked."""
    found, page = yield from sifted(scan, wanted, limit, RUNS_SEARCHED)
    goes_on = position(found[limit - 1].cell, scan.by) if len(found) > limit else page.next
    return RunsPage(page.now, tuple(found[:limit]), spell_cursor(goes_on) if goes_on else None)


# --- where a list goes on: a position in a scan as a text, fit for a link --------------------------------------------


_NUMBER: Final = re.compile("[0-9]{1,17}", re.ASCII)
"""Microseconds."""

_LONGEST_TEXT: Final = 1000


def spell_cursor(position: Position) -> str:
    return f"{position.us}@{position.key}"


def read_cursor(text: str, prefix: str) -> Position:
    """The position that a text names, of a list of cells whose keys begin so; it comes from outside."""
    us, _, key = text.partition("@")
    written = _NUMBER.fullmatch(us) and key.startswith(prefix) and len(key) <= _LONGEST_TEXT and key.isprintable()
    if not written:
        raise BadInput(f"{text[:60]!r} is not a place in this list; use the `next` of the answer before")
    return Position(int(us), key)


# --- effects, part by part: what is in doubt comes first, however many there are -------------------------------------


class EffectsPage(NamedTuple):
    """Some effects, and where the list goes on."""

    effects: tuple[EffectSeen, ...]
    next: str | None


def effects_page(what: str | None, after: str | None, limit: int, *, everything: bool = False) -> Flow[EffectsPage]:
    """Those of a job, a slot or an idempotent function, or of all; with `everything`, also what is done."""
    wheres = yield from places(what)
    spot = _read(after, wheres) if after else None
    found = yield from effects(wheres, limit, everything=everything, after=spot)
    goes_on = Position(int(found.next.mark), found.next.key) if found.next else None
    return EffectsPage(found.effects, spell_cursor(goes_on) if goes_on else None)


def _read(after: str, wheres: list[EffectCells]) -> ListPosition:
    """Comes from outside: it may be of another list."""
    number, _, behind = after.partition("@")
    known = Mark(int(number)) if number in {str(int(mark)) for mark in Mark} else Mark.CLOSED
    prefixes = [where.scanned(known) for where in wheres]
    of_this = next((prefix for prefix in prefixes if behind.startswith(prefix)), prefixes[0])
    mark, key = read_cursor(after, of_this)
    if mark not in set(Mark):
        raise BadInput(f"{after[:60]!r} is not a place in a list of effects; use the `next` of the answer before")
    return ListPosition(Mark(mark), key)


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


class HeldPage(NamedTuple):
    """Locks or leaderships by name, and the one after which the rest stands, or None."""

    now: Instant
    held: tuple[HeldSeen, ...]
    next: str | None


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


def held(prefix: str, after: str = "", limit: int = LIST_SHOWN) -> Flow[HeldPage]:
    """Locks (`lock/`), or leaderships (`leader/`)."""
    place = Position(0, prefix + check_name(after)) if after else None
    page = yield from read_page(Scan(prefix, after=place, limit=limit))
    found = tuple(seen_held(cell, cell.key.removeprefix(prefix), page.now) for cell in page.cells)
    return HeldPage(page.now, found, found[-1].name if page.next else None)
