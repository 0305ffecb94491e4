"""Slots that fell due while nobody looked: which of them run is the policy's to say, the rest is passed over, on
record.

Some of them may have run: whoever looked after them before may have died later than we can tell. So what is on record
is left out, of those that shall run and of those that are passed over.
"""

from collections.abc import Iterable, Sequence

from cronce.events import Event, What
from cronce.model import Cell, Instant, Slot, job_cell, slot_of_cell, spell
from cronce.protocol.record import Job
from cronce.protocol.specs import raise_floor
from cronce.runtime.declare import Declaration
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Edit
from cronce.runtime.ledger import Ledger
from cronce.runtime.scheduling.roster import chunks
from cronce.schedule import due
from cronce.schedule.slots import CAP, Due, Span
from cronce.stores.base import Scan
from cronce.value import NamedTuple


class Gap(NamedTuple):
    """A job that nobody looked after since then; `digest` is the version that looks now."""

    job: Declaration
    digest: str
    since: Instant


def catch_up(ledger: Ledger, gaps: Sequence[Gap], now: Instant) -> Flow[list[Slot]]:
    """The slots to try, of all jobs, oldest first; what the policies pass over is on record then."""
    found = [(gap, _due(gap, now)) for gap in gaps]
    wanted = [Slot(gap.job.name, at) for gap, one in found for at in one.slots]
    passed = [(gap, one.skipped, _ends(gap, one.skipped)) for gap, one in found if one.skipped]
    cells = yield from _load(ledger, [*wanted, *(slot for *_, slots in passed for slot in slots)])
    spans = []
    for gap, span, slots in passed:
        absent = sum(not cells[slot.cell].version for slot in slots)
        if absent:  # of more than were looked at, those in the middle count as absent
            spans.append((gap, span, span.count - (len(slots) - absent)))
    yield from _pass_over(ledger, spans, now)
    return sorted((slot for slot in wanted if not cells[slot.cell].version), key=lambda slot: slot.at)


def newest_run(ledger: Ledger, job: str) -> Flow[Instant | None]:
    """The newest slot of a job that is on record."""
    page = yield from ledger.carrier.scan(Scan(f"run/{job}/", newest_first=True, limit=1))
    return slot_of_cell(page.cells[0].key).at if page.cells else None


def _due(gap: Gap, now: Instant) -> Due:
    assert gap.job.schedule is not None
    return due(gap.job.schedule, gap.since, now, gap.job.missed)


def _ends(gap: Gap, span: Span) -> list[Slot]:
    """The oldest and the newest slots of a span, all if they are few: what ran is at an end. The oldest did if whoever
    looked after them died later than we can tell, the newest if another does so now."""
    schedule, most = gap.job.schedule, min(span.count, CAP)
    assert schedule is not None
    newest, oldest = [span.last], [span.first]
    while len(newest) < most and (at := schedule.previous(newest[-1])) is not None:
        newest.append(at)
    while span.count > CAP and len(oldest) < most and (at := schedule.next(oldest[-1])) is not None:
        oldest.append(at)
    return [Slot(gap.job.name, at) for at in {*newest, *oldest}]


def _load(ledger: Ledger, slots: Iterable[Slot]) -> Flow[dict[str, Cell]]:
    cells: dict[str, Cell] = {}
    for keys in chunks(slot.cell for slot in slots):
        loaded, _ = yield from ledger.carrier.load(keys)
        cells |= {cell.key: cell for cell in loaded.cells}
    return cells


def _pass_over(ledger: Ledger, spans: Sequence[tuple[Gap, Span, int]], now: Instant) -> Flow[None]:
    """Whoever puts it on record tells of it; others who find the same at the same time do not."""
    told: set[str] = set()
    edits = {gap.job.name: _raised(gap, span, count, told) for gap, span, count in spans}
    for names in chunks(edits):
        yield from ledger.jobs.edit_all({name: edits[name] for name in names})
    for gap, span, count in spans:
        if gap.job.name in told:
            slots = "1 slot" if count == 1 else f"{count} slots"
            detail = f"{slots} up to {spell(span.last)}: {span.reason}"
            ledger.carrier.report(Event(What.MISSED, job_cell(gap.job.name), ledger.carrier.holder, now, detail=detail))


def _raised(gap: Gap, span: Span, count: int, told: set[str]) -> Edit:
    """Only the version that fires the job has a say."""

    def edit(job: Job | None, _now: Instant) -> Job | None:
        told.discard(gap.job.name)  # another was faster, and it is asked again
        if job is None or job.firing != gap.digest or job.floor >= span.last:
            return None
        told.add(gap.job.name)
        assert gap.job.schedule is not None
        left = gap.job.schedule.count(job.floor, span.last)  # less, where a part is on record: its reply was lost
        return raise_floor(job, span.last, min(count, left), span.reason)

    return edit
