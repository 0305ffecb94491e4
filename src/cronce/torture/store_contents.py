"""What a torture has in its store: read for the verdict, and removed at the end. It asks the store directly, never by
way of a proxy."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from cronce.clock import Clock
from cronce.errors import BadRecord, StoreUnavailable
from cronce.model import Cell, Instant, Mark, Slot, job_cell
from cronce.protocol.lease import forgotten_floor
from cronce.protocol.notices import decode_bundle, decode_holder
from cronce.protocol.record import EDITED, FORGOTTEN, Job, Outcome, SpanRecord, decode_job
from cronce.runtime.flow import Flow, drive
from cronce.runtime.ledger import Ledger
from cronce.runtime.operations import Operator, drain_cell
from cronce.runtime.queries import RunSeen, read_all, seen_run
from cronce.stores.base import Scan, Store
from cronce.testing.ledger_file import LedgerLine
from cronce.torture.scheduling import TORTURE_LABEL
from cronce.torture.verdict import PurgedSpan, TortureRecord, TortureVerdict, judge, lets_another_run
from cronce.torture.worker import SLOT_EVERY, TortureTask

EDIT: Final = timedelta(seconds=45)
"""What fell due before another version of a job took over, and was not claimed yet, is passed over. A version is alive
until its last process has not been heard of for half a minute, and the others notice within ten seconds."""

CELLS_PER_LOAD: Final = 1000


class StoreContents:
    """The cells of some tasks. `label` is what the labels of its schedulers begin with."""

    def __init__(self, store: Store, clock: Clock, tasks: Sequence[TortureTask], label: str) -> None:
        self.store, self._clock, self._tasks, self._label = store, clock, tasks, label
        self._birth = store.load([]).epoch.birth
        self._hand = Operator(Ledger(store.traits, clock, "torture"), "cronce torture")
        self._older: dict[str, TortureRecord] = {}
        self._edits: set[Instant] = set()

    # --- what it says ---

    @property
    def forgot(self) -> bool:
        return self.store.load([]).epoch.birth != self._birth

    def has_open(self) -> bool:
        """Whether a run is open; a store that does not answer may have some."""
        scans = [Scan(f"run/{task.job}/", mark=Mark.OPEN, limit=1) for task in self._tasks]
        try:
            return any(self.store.scan(scan).cells for scan in scans)
        except StoreUnavailable:
            return True

    def remember(self) -> None:
        """What is on record now, for the case that the store forgets it, or keeps it no longer."""
        with suppress(StoreUnavailable):
            for run in self._runs():
                self._older[run.slot.key] = _on_record(run)

    def note_edits(self) -> None:
        """When versions changed, as it is on record: later, changes that follow each other are one."""
        with suppress(StoreUnavailable):
            cells = self.store.load([job_cell(task.job) for task in self._tasks]).cells
            jobs = [decode_job(cell.value, cell.key) for cell in cells if cell.version]
            self._edits |= {span.end for job in jobs for span in job.spans if span.reason.startswith(EDITED)}

    def records(self) -> dict[str, TortureRecord]:
        records = {run.slot.key: _on_record(run) for run in self._runs()}
        for key, older in self._older.items():
            missing = (
                TortureRecord() if self.store.traits.history else older
            )  # what is no longer kept is as it was read
            records[key] = records.get(key, missing).joined(older)
        return records

    def _no_longer_kept(self, slots: Iterable[Slot], records: Mapping[str, TortureRecord]) -> dict[str, TortureRecord]:
        """Of slots that are not on record as closed, those that the store calls too old: they were closed, and made
        room for newer ones before it was read how. The ledger alone tells what became of them."""
        doubtful = [slot for slot in slots if records.get(slot.key, TortureRecord()).outcome is None]
        if self.store.traits.history or not doubtful:
            return {}
        loaded = self.store.load([slot.cell for slot in doubtful])
        found = [
            (slot, seen_run(cell, loaded.now))
            for slot, cell in zip(doubtful, loaded.cells, strict=True)
            if cell.version
        ]
        return {
            slot.key: records.get(slot.key, TortureRecord())._replace(outcome=Outcome.TOO_OLD)
            for slot, run in found
            if run.record and run.record.outcome is Outcome.TOO_OLD
        }

    def verdicts(self, slots: Iterable[Instant], lines: Sequence[LedgerLine]) -> tuple[TortureVerdict, ...]:
        """What is on record, held against what was written about it."""
        slots, records = tuple(slots), self.records()
        every = [Slot(task.job, at) for task in self._tasks for at in task.instants(slots)]
        records |= self._no_longer_kept(every, records)
        return tuple(
            judge(
                {Slot(task.job, at).key: at for at in task.instants(slots)},
                [line for line in lines if line.slot.startswith(f"{task.job}@")],
                records,
                self._gaps(task),
                task.on_lost,
                exclusive=task.exclusive,
                wanted=task.missed == "all",
            )
            for task in self._tasks
        )

    def _runs(self) -> list[RunSeen]:
        found = []
        for task in self._tasks:
            page = drive(read_all(Scan(f"run/{task.job}/")), self.store, self._clock)
            found += [seen_run(cell, page.now) for cell in page.cells]
        return found

    def _gaps(self, task: TortureTask) -> list[PurgedSpan]:
        """Times of which the store says that it no longer knows, or that their slots were passed over."""
        loaded = self.store.load([job_cell(task.job)])
        (cell,) = loaded.cells
        job = decode_job(cell.value, cell.key) if cell.version else None
        gaps = [gap for span in (job.spans if job else ()) for gap in self._gap(span, task)]
        if loaded.epoch.birth == self._birth:
            return gaps
        known = [spec.first for spec in job.specs][:1] if job else []  # a job without a record begins anew
        floor = forgotten_floor(loaded.epoch, self.store.traits)
        return [*gaps, *(PurgedSpan(None, upto) for upto in (floor, *known) if upto is not None)]

    def _gap(self, span: SpanRecord, task: TortureTask) -> list[PurgedSpan]:
        if span.reason == FORGOTTEN:
            return [PurgedSpan(span.start, span.end)]
        if span.reason.startswith(EDITED):
            edits = {span.end, *(edit for edit in self._edits if span.start < edit < span.end)}
            return [PurgedSpan(max(span.start, edit - EDIT), edit, Outcome.SKIPPED) for edit in edits]
        return [] if task.missed == "all" else [PurgedSpan(span.start, span.end, Outcome.SKIPPED)]

    # --- what it is told ---

    def label(self, colour: str) -> str:
        return f"{self._label}-{colour}"

    def begin(self, first: Instant) -> None:
        """The jobs are known from their first slot on: one that nobody knows begins with the slot of whoever calls it
        first, and on a busy machine that is a later one."""

        def known(begins: Instant, job: Job | None, _now: Instant) -> Job:
            return job or Job(floor=begins - SLOT_EVERY)

        edits = {task.job: partial(known, task.instants([first])[0]) for task in self._tasks}
        self._told(self._hand.ledger.jobs.edit_all(edits))

    def drain(self, colour: str) -> bool:
        """Schedulers of that colour claim no more; whether the store could be told."""
        return self._told(self._hand.drain(drain_cell(label=f"{TORTURE_LABEL}={self.label(colour)}")))

    def undrain(self, colour: str) -> bool:
        return self._told(self._hand.undrain(drain_cell(label=f"{TORTURE_LABEL}={self.label(colour)}")))

    def _told(self, flow: Flow[object]) -> bool:
        try:
            drive(flow, self.store, self._clock)
        except StoreUnavailable:
            return False
        return True

    def remove(self) -> None:
        """Delete what was written; a store that does not answer keeps it."""
        with suppress(StoreUnavailable):
            for task in self._tasks:
                for kind in ("run", "turn", "refusals", "duplicates"):
                    self._purge(self._cells(f"{kind}/{task.job}/"))
                self._purge(self._cells(job_cell(task.job)))
            for prefix in ("holder/", "bundle/", "drain/"):
                self._purge([cell for cell in self._cells(prefix) if self._is_ours(cell)])

    def _cells(self, prefix: str) -> list[Cell]:
        return list(drive(read_all(Scan(prefix)), self.store, self._clock).cells)

    def _purge(self, cells: Sequence[Cell]) -> None:
        for start in range(0, len(cells), CELLS_PER_LOAD):
            self.store.purge(cells[start : start + CELLS_PER_LOAD])

    def _is_ours(self, cell: Cell) -> bool:
        """What schedulers have left, or were told."""
        kind, _, rest = cell.key.partition("/")
        with suppress(BadRecord):
            if kind == "bundle":
                return any(task.job in decode_bundle(cell.value, cell.key).specs for task in self._tasks)
            if kind == "holder":
                return decode_holder(cell.value, cell.key).labels.get(TORTURE_LABEL, "").startswith(self._label)
        return rest.startswith(f"label:{TORTURE_LABEL}={self._label}")


def _on_record(run: RunSeen) -> TortureRecord:
    record = run.record
    if record is None:
        return TortureRecord()
    ended = frozenset(str(past.fence) for past in record.past if past.fence and lets_another_run(past.end))
    return TortureRecord(record.outcome, str(run.cell.fence or ""), ended)
