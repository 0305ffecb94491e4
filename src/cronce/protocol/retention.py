"""How long runs that are over are kept. Pure: which of a job's runs, newest first, may be deleted.

The age of a run counts from its end: if a person runs a slot of long ago just now, that run is new.

Deleting a run must never let its slot run again. So the job's floor rises to it first, and it is deleted a minute
later. The floor closes every slot below it, also one without a record. So nothing younger than `least` is ever deleted,
however few runs are to be kept.

A store without history (`Traits.history`) has room only for the last runs of a job. No process purges there: each run
that begins replaces older closed ones, and one instant records that all of those are passed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final, cast

from cronce.errors import BadInput, BadPolicy
from cronce.model import Cell, Instant, Mark, Traits, spell, unspell
from cronce.protocol.codec import readable
from cronce.protocol.record import Outcome, Record, State, decode, encode
from cronce.schedule.instant import format_duration, parse_duration
from cronce.value import NamedTuple

Kept = int | str | timedelta
"""How many of the newest, or for how long: `100`, `"30d"`, a timedelta."""

PURGE_DELAY: Final = timedelta(seconds=60)
"""From raising the floor to deleting cells below it: longer than any claim can rest on the old floor."""

SHORTEST_KEPT: Final = timedelta(hours=1)

OUTCOMES: Final = tuple(
    str(each) for each in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SKIPPED, Outcome.LOST, Outcome.UNKNOWN)
)


class Limit(NamedTuple):
    """This many of the newest, none older than `age`; None: no such limit."""

    newest: int | None = None
    age: timedelta | None = None


class Keep(NamedTuple):
    """What is kept of one job: by outcome, and for all outcomes together."""

    outcomes: Mapping[str, Limit]
    total: int | None = None
    least: timedelta = SHORTEST_KEPT


MONTH: Final = Limit(age=timedelta(days=30))
TOTAL: Final = 1000


def default_keep(traits: Traits) -> Keep:
    """Thirty days and a thousand runs; in stores where each run costs memory, a hundred successful ones."""
    limits = dict.fromkeys(OUTCOMES, MONTH)
    if traits.in_memory:
        limits["succeeded"] = Limit(newest=100)
    return Keep(limits, TOTAL)


def read_keep(keep: Kept | Mapping[str, Kept]) -> Keep:
    """A person's setting: one limit, for each outcome; or limits by outcome, the others for thirty days."""
    if not isinstance(keep, Mapping):
        return Keep(dict.fromkeys(OUTCOMES, _limit(keep)))
    for outcome in keep:
        if outcome not in OUTCOMES:
            raise BadPolicy(f"keep: {outcome!r:.60} is not an outcome of a run; the outcomes are {', '.join(OUTCOMES)}")
    return Keep({**dict.fromkeys(OUTCOMES, MONTH), **{outcome: _limit(kept) for outcome, kept in keep.items()}})


def _limit(kept: Kept) -> Limit:
    if type(kept) is int or (isinstance(kept, str) and kept.isascii() and kept.isdigit()):
        if int(kept) < 0:
            raise BadPolicy(f"keep must be a number of runs or a duration, not {kept}")
        return Limit(newest=int(kept))
    try:
        age = parse_duration(cast("str | timedelta", kept))  # it raises if the text is neither
    except BadInput as error:
        raise BadPolicy(f"keep must be a number of runs or a duration: {error}") from None
    if age < SHORTEST_KEPT:
        raise BadPolicy(
            f"keep must be {format_duration(SHORTEST_KEPT)} or more: a slot that starts late must still find its record"
        )
    return Limit(age=age)


def excess(cells: Iterable[Cell], keep: Keep, now: Instant, seen: Counter[str]) -> Iterator[Cell]:
    """A job's cells, newest first, that are not kept. A run that is not over, or has no instant, stays. `seen` counts
    the runs before these."""
    for cell in cells:
        record = _over(cell)
        if record is None or cell.at is None:
            continue
        outcome = str(record.outcome)
        seen[outcome] += 1
        age = now - (record.finished or cell.at)
        if age >= keep.least and (_beyond(keep.outcomes[outcome], seen[outcome], age) or _full(keep, seen)):
            yield cell


def _beyond(limit: Limit, place: int, age: timedelta) -> bool:
    return (limit.newest is not None and place > limit.newest) or (limit.age is not None and age > limit.age)


def _full(keep: Keep, seen: Counter[str]) -> bool:
    return keep.total is not None and seen.total() > keep.total


def _over(cell: Cell) -> Record | None:
    """The record of a run that is over; None if it is not, or a newer cronce wrote it."""
    if cell.mark not in (Mark.CLOSED, Mark.ATTENTION):
        return None
    record = readable(cell, decode)
    return record if record is not None and record.outcome in OUTCOMES else None


# --- where only the last runs of a job are kept ---------------------------------------------------------------------

ALWAYS_KEPT: Final = 2
"""Closed runs of a job that stay when another begins: the last, and one more whose end a caller may still ask for."""

LAST_BAD: Final = 20
"""This many more that did not succeed stay: a pod that starts late must not get the answer that all succeeded."""

PURGED_VERSION: Final = 1
"""The version of a cell that replaces a slot no longer kept: below any version the store has drawn."""


def crowded_out(runs: Mapping[str, Cell]) -> list[str]:
    """The runs of a job, by their keys, that are removed when another begins. Open runs stay."""
    closed = sorted(key for key, cell in runs.items() if cell.mark is not Mark.OPEN)
    bad = [key for key in closed if _is_bad(runs[key])]
    stay = {*closed[-ALWAYS_KEPT:], *bad[-LAST_BAD:]}
    return [key for key in closed if key not in stay]


def passed_with(passed: Instant | None, gone: Iterable[str]) -> Instant | None:
    """The instant up to which a job's slots are passed once these runs are removed: the latest slot no longer kept."""
    return max((at for at in (passed, *map(_slot_of, gone)) if at is not None), default=None)


def stand_in(key: str, passed: Instant | None) -> Cell:
    """The cell for a run that has none: up to `passed` it may have run, and is closed."""
    if passed is None or (at := _slot_of(key)) > passed:
        return Cell(key)
    record = Record(
        State.CLOSED, outcome=Outcome.TOO_OLD, reason=(f"its Lease has no record of slots up to {spell(passed)}")
    )
    return Cell(key, PURGED_VERSION, encode(record), at, Mark.CLOSED)


def _slot_of(key: str) -> Instant:
    return unspell(key.rpartition("/")[2])


def _is_bad(cell: Cell) -> bool:
    record = readable(cell, decode)
    return record is not None and record.outcome is not None and record.outcome.is_bad
