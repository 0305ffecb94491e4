"""Backfill: the slots of a stretch of time that never succeeded are run after all, each once.

Each gets a run of its own, `…#backfill`, whose effects go by the slot's key. That cell is made once, so the command may
be repeated, interrupted and gone on with.

A slot without a record above the job's floor may still be claimed by a scheduler. So it is recorded as skipped first.
Then it cannot run beside its backfill, whichever of the two came first.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from cronce.errors import BadInput, CronceError
from cronce.model import Instant, Mark, Slot, job_cell, spell
from cronce.protocol.commands import Closed, Queue, Queued, Skip
from cronce.runtime.declare import instant_of, zone_of
from cronce.runtime.flow import Flow
from cronce.runtime.operations import BACKFILL, Operator, is_of_slot, sure
from cronce.runtime.queries import RunSeen, read_page, seen_job, seen_run
from cronce.schedule import Schedule
from cronce.schedule.instant import RESOLUTION
from cronce.stores.base import Position, Scan
from cronce.value import NamedTuple

MOST_BACKFILLED: Final = 10_000
BACKFILL_BATCH: Final = 500


class Stretch(NamedTuple):
    """The slots of a stretch of time, by what there is to do about them."""

    wanted: tuple[Slot, ...]
    """Those that never succeeded, and that are not about to run."""
    succeeded: int
    busy: int
    """Those that are open or unreadable: they may have run."""
    asked: tuple[Slot, ...]
    """The open ones among the runs that an earlier backfill asked for."""
    ended: tuple[RunSeen, ...]
    """Those that an earlier backfill ran, and that did not succeed."""


def survey(
    operator: Operator, name: str, start: datetime | str, end: datetime | str, most: int = MOST_BACKFILLED
) -> Flow[Stretch]:
    """What a backfill from `start` until before `end` would do. A day begins where the job lives."""
    operator.refuse_without_history()
    yield from operator.job(name)
    loaded, _ = yield from operator.ledger.client.load([job_cell(name)])
    seen = seen_job(loaded.cells[0]) if loaded.cells[0].version else None
    if seen is None or seen.schedule is None:
        raise CronceError(f"{name} has no schedule on record, so it has no slots to run")
    try:
        first, last = (instant_of(when, zone_of(seen.schedule)) for when in (start, end))
        latest = seen.schedule.previous(last)
        if latest is not None and latest > max(first - RESOLUTION, loaded.now):
            raise BadInput(
                f"{Slot(name, latest).key} is not due yet; a backfill runs slots that are due, up to"
                f" {spell(loaded.now)}"
            )
        slots = list(islice(_slots(name, seen.schedule, first, last), most + 1))
    except OverflowError:
        raise BadInput(f"{start} to {end} reaches the end of the calendar; give a shorter time") from None
    if last < first:
        raise BadInput(f"a backfill must end after it starts, not run from {spell(first)} to {spell(last)}")
    if len(slots) > most:
        raise BadInput(
            f"these are more than {most:,} slots, the last of them at {spell(slots[most - 1].at)}: backfill a part"
            " at a time, or raise the limit with --most"
        )
    runs = yield from _runs(name, first, last)
    return _sorted(slots, runs)


def backfill(operator: Operator, name: str, start: datetime | str, end: datetime | str) -> Flow[list[Slot]]:
    """All of it at once; the runs that were asked for."""
    asked: list[Slot] = []
    for part in parts((yield from survey(operator, name, start, end)).wanted):
        asked += yield from ask(operator, part)
    return asked


def parts(slots: Sequence[Slot]) -> Iterator[Sequence[Slot]]:
    """As many as are asked for in one go."""
    return (slots[place : place + BACKFILL_BATCH] for place in range(0, len(slots), BACKFILL_BATCH))


def ask(operator: Operator, slots: Sequence[Slot]) -> Flow[list[Slot]]:
    """Ask for runs of these slots, one part of all; those that are due now."""
    skipped = yield from operator.ledger.put(dict.fromkeys(slots, Skip(f"backfilled by {operator.by}")))
    closed = [slot for slot, reply in zip(slots, map(sure, skipped), strict=True) if _never_succeeded(reply)]
    asked = {slot._replace(request=BACKFILL): Queue(by=operator.by, key=slot.key) for slot in closed}
    replies = yield from operator.ledger.put(asked)
    return [slot for slot, reply in zip(asked, map(sure, replies), strict=True) if isinstance(reply, Queued)]


def _never_succeeded(reply: object) -> bool:
    """Whether the slot itself is closed and did not succeed; what another runs meanwhile is left to them."""
    return isinstance(reply, Closed) and not reply.outcome.is_success


def _slots(name: str, rule: Schedule, start: Instant, end: Instant) -> Iterator[Slot]:
    instant = rule.next(start - RESOLUTION)
    while instant is not None and instant < end:
        yield Slot(name, instant)
        instant = rule.next(instant)


def _runs(name: str, start: Instant, end: Instant) -> Flow[dict[Instant, list[RunSeen]]]:
    """What is on record of the slots of a stretch, without what was triggered then. In the order of keys a slot comes
    before its requests, and what its key begins with before it."""
    prefix = f"run/{name}/"
    scan = Scan(prefix, after=Position(0, prefix + spell(start).removesuffix("Z")))
    found = defaultdict[Instant, list[RunSeen]](list)
    while True:
        page = yield from read_page(scan)
        for seen in (seen_run(cell, page.now) for cell in page.cells):
            if seen.slot.at < end and is_of_slot(seen.slot):
                found[seen.slot.at].append(seen)
        if page.next is None or page.next.key >= prefix + spell(end):
            return found
        scan = scan._replace(after=page.next)


def _sorted(slots: Sequence[Slot], runs: dict[Instant, list[RunSeen]]) -> Stretch:
    wanted, asked, ended = list[Slot](), list[Slot](), list[RunSeen]()
    succeeded = busy = 0
    for slot in slots:
        of_slot = runs.get(slot.at, [])
        backfill = next((run for run in of_slot if run.slot.request == BACKFILL), None)
        if any(run.record and run.record.succeeded for run in of_slot):
            succeeded += 1
        elif any(run.record is None or run.cell.mark is Mark.OPEN for run in of_slot):
            busy += 1
            asked += [backfill.slot] if backfill and backfill.cell.mark is Mark.OPEN else []
        elif backfill is not None:
            ended.append(backfill)
        else:
            wanted.append(slot)
    return Stretch(tuple(wanted), succeeded, busy, tuple(asked), tuple(ended))
