"""Carrying commands out: read what is not known, `decide`, swap, and ask again with the cell that won where it lost.

*Lost replies.* A swap without an answer may have landed. The loop reads the cells again and decides again: a claim
finds its own nonce, a finish its own fence, and the answer is the one that was lost. If reading fails too, the answer
is `Unsure`: whoever asked does not run.

*A reading belongs to one life of the store.* A write that rests on cells read in an earlier life is never sent under
the birth of a later one, for the numbers of two lives may coincide.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from cronce.errors import BadRecord, StoreError, StoreUnavailable
from cronce.events import Event, What
from cronce.model import (
    ABSENT,
    BOARD_JOBS,
    BOARD_RUNS,
    FREE,
    SWITCH,
    Cell,
    Epoch,
    Instant,
    Mark,
    Origin,
    Refusal,
    Traits,
    Verdict,
    Write,
    job_cell,
    spell,
)
from cronce.protocol.commands import (
    Answer,
    Asked,
    Closed,
    Early,
    Finished,
    Granted,
    Held,
    Queued,
    Released,
    Settle,
    Settled,
    Stale,
)
from cronce.protocol.lease import LONGEST_LEASE, Sample
from cronce.protocol.record import Outcome
from cronce.runtime.flow import Flow, Load, Purge, Request, Swap, Timed
from cronce.runtime.knowledge import Knowledge
from cronce.runtime.plans import Plan, Planner
from cronce.runtime.task import Paused, Reply, Superseded, Task, Unsure
from cronce.stores.base import Loaded, Page, Scan, Swapped

ROUNDS: Final = 12
"""Each round ends in an answer or in news; this many without an answer is a store that cannot be used."""


WAKE: Final = Write(BOARD_RUNS, FREE, "", Mark.FREE)
NEWS: Final = Write(BOARD_JOBS, FREE, "", Mark.FREE)
"""Written beside what others should look at: runs, and jobs."""

T = TypeVar("T")

TOLD_WHY: Final = (Finished(Outcome.UNKNOWN), Finished(Outcome.FAILED))

UNANSWERED: Final = 3
"""Writes without an answer in a row, each of which may have taken as long as the store is patient."""


def untimed(_request: str, _seconds: float) -> None:
    """Nobody wants to know how long the store took."""


class Carrier:
    """What all flows of a process share: its knowledge of the store, and the loop."""

    def __init__(self, knowledge: Knowledge, traits: Traits, holder: str, report: Callable[[Event], None]) -> None:
        self.know = knowledge
        self.traits = traits
        self.holder = holder
        self.report = report
        self.timed: Callable[[str, float], None] = untimed

    # --- talking to the store ---

    def ask(self, request: Request) -> Flow[Timed]:
        timed = yield request
        self.timed(type(request).__name__, timed.ended - timed.began)
        is_new = not self.know.epoch.birth
        reborn = self.know.learn(timed)
        if is_new and self.know.epoch.forgot:
            self._tell_why_nothing_runs(self.know.epoch)
        if reborn is not None:
            self.report(Event(What.FORGOT, "meta", self.holder, reborn.born, detail=reborn.origin))
        return timed

    def _tell_why_nothing_runs(self, epoch: Epoch) -> None:
        """At first, where that is so."""
        if self.know.now() - epoch.born < LONGEST_LEASE:
            found = "empty" if epoch.origin is Origin.FOUND else "set back"
            why = (
                f"it was found {found} at {spell(epoch.born)}, so a job does not start until a run that nobody"
                " remembers would be over, one lease later; if it is a new store, `cronce store init` says so"
            )
            self.report(Event(What.DOUBTED, "meta", self.holder, self.know.now(), detail=why))

    def load(self, keys: Sequence[str]) -> Flow[tuple[Loaded, Timed]]:
        """Cells as they stand. A store that knows less than we do forgot: told so, it begins a new life, and is read
        again. (A durable one may answer a reading with an older tally than it knows; its swaps compare the latest.)"""
        for _ in range(ROUNDS):
            known = self.know.epoch
            timed = yield from self.ask(Load(keys))
            assert isinstance(timed.reply, Loaded)
            epoch = timed.reply.epoch
            if epoch.seen >= known.seen or (self.traits.durable and epoch.birth == known.birth):
                return timed.reply, timed
            yield from self.swap([], known.seen)
        raise StoreUnavailable("the store answers with less than it knew before, and does not notice")

    def swap(self, writes: Sequence[Write], seen: tuple[int, int]) -> Flow[tuple[Swapped, Timed]]:
        timed = yield from self.ask(Swap(writes, seen))
        assert isinstance(timed.reply, Swapped)
        return timed.reply, timed

    def scan(self, request: Scan) -> Flow[Page]:
        timed = yield from self.ask(request)
        assert isinstance(timed.reply, Page)
        return timed.reply

    def purge(self, request: Purge) -> Flow[int]:
        timed = yield from self.ask(request)
        assert isinstance(timed.reply, int)
        return timed.reply

    def rewrite(
        self, key: str, make: Callable[[Cell, Instant], tuple[T, Write | None]], beside: Write | None = None
    ) -> Flow[T]:
        """Read a cell, and write what `make` says of it at the store's now, or leave it as it is; what came of it, as
        `make` says too. Again when another was faster, or no answer came: then it may have landed."""
        lost: tuple[T, Write] | None = None
        unanswered = 0
        for _ in range(ROUNDS):
            loaded, _timed = yield from self.load([key])
            (cell,) = loaded.cells
            if lost is not None and cell.value == lost[1].value:
                return lost[0]
            made, write = make(cell, loaded.now)
            if write is None:
                return made
            try:
                writes = [write] if beside is None else [write, beside]
                swapped, _timed = yield from self.swap(writes, loaded.epoch.seen)
            except StoreUnavailable:
                lost, unanswered = (made, write), unanswered + 1
                if unanswered == UNANSWERED:
                    raise
                continue
            if swapped.verdicts[0].refused is None:
                return made
            lost = None
        raise StoreUnavailable(f"could not write {key}: no write of {ROUNDS} in a row came first, or was answered")

    # --- the loop ---

    def carry_out(self, tasks: list[Task]) -> Flow[None]:
        """Bring every task to an answer. Tasks that stand in the way are added to the list as they are found."""
        unanswered = 0
        try:
            for _ in range(ROUNDS):
                pending = [task for task in tasks if task.answer is None]
                if not pending:
                    return
                yield from self._read(pending)
                error = yield from self._write(pending, tasks)
                unanswered = unanswered + 1 if error else 0
                if error and unanswered == UNANSWERED:
                    raise error
            unsure = Unsure(f"no answer after {ROUNDS} rounds")
        except StoreError as error:
            unsure = Unsure(str(error), error)
        for task in tasks:
            if task.answer is None:
                task.answer = unsure

    def _read(self, pending: Iterable[Task]) -> Flow[None]:
        known = self.know.epoch
        stale = [task for task in pending if task.unread or task.birth != known.birth or not self._informed(task)]
        if not stale:
            return
        keys = {task.run.key for task in stale} | {turn.key for task in stale for turn in task.turns}
        jobs = {task.slot.job for task in stale if task.slot and not self._informed(task)}
        about = {SWITCH, *map(job_cell, jobs)} if jobs else set()
        loaded, timed = yield from self.load(sorted(keys | about))
        cells = {cell.key: cell for cell in loaded.cells}
        if jobs:
            self.know.learn_switch(cells[SWITCH])
        unreadable = {job for job in jobs if not self.know.learn_job(job, cells[job_cell(job)], loaded)}
        for task in stale:
            if task.slot and task.slot.job in unreadable:
                task.answer = Unsure(f"{job_cell(task.slot.job)} is unreadable: upgrade cronce", unreadable=True)
            self._took_in(task, (cells[key] for key in (task.run.key, *(turn.key for turn in task.turns))), timed)

    def _informed(self, task: Task) -> bool:
        if task.slot is None or not task.rests_on_job:
            return self.know.epoch.birth != 0
        return self.know.job(task.slot.job) is not None

    def _took_in(self, task: Task, cells: Iterable[Cell], timed: Timed) -> None:
        assert isinstance(timed.reply, Loaded | Swapped)
        for cell in cells:
            task.read(cell)
        task.unread, task.birth = False, timed.reply.epoch.birth
        task.sample = Sample(timed.began, timed.ended, timed.reply.now)

    def _write(self, pending: list[Task], tasks: list[Task]) -> Flow[StoreUnavailable | None]:
        """Write what would make the answers true; the error, if no answer came."""
        planner = Planner(self.know, self.traits, tasks)
        plans = [plan for task in pending if task.answer is None and (plan := self._plan(planner, task))]
        jobs = planner.jobs
        writes = [*jobs.values(), *(write for plan in plans for write in plan.writes)]
        if any(plan.task.wakes or (plan.task.slot and _wakes(plan.answer)) for plan in plans):
            writes.append(WAKE)
        if not writes:
            return None
        try:
            swapped, timed = yield from self.swap(writes, planner.epoch.seen)
        except StoreUnavailable as error:
            for plan in plans:
                plan.task.unread = True
                plan.task.unheard_in = plan.task.unheard_in or planner.epoch.birth
            return error
        self._learn_jobs(jobs, swapped)
        place = len(jobs)
        for plan in plans:
            self._absorb(plan, swapped.verdicts[place : place + len(plan.writes)], timed)
            place += len(plan.writes)
        return None

    def _plan(self, planner: Planner, task: Task) -> Plan | None:
        """The plan of a task, unless it is answered already. A record that cannot be read is its own task's trouble."""
        try:
            plan = planner.plan(task)
        except BadRecord as error:
            plan = Unsure(str(error), unreadable=True)
        if plan is None or isinstance(plan, Plan):
            return plan
        self._conclude(task, plan)
        return None

    def _learn_jobs(self, jobs: dict[str, Write], swapped: Swapped) -> None:
        for (name, write), verdict in zip(jobs.items(), swapped.verdicts, strict=False):
            if verdict.refused in (None, Refusal.VERSION):
                self.know.learn_job(name, verdict.cell, swapped)
            if verdict.refused is None and write.seen == ABSENT:
                self.report(Event(What.REGISTERED, write.key, self.holder, swapped.now))

    # --- one task: what came back ---

    def _absorb(self, plan: Plan, verdicts: Sequence[Verdict], timed: Timed) -> None:
        task = plan.task
        refusals = {verdict.refused for verdict in verdicts}
        if refusals == {None}:
            self._took_in(task, (verdict.cell for verdict in verdicts), timed)
            task.decoded = (task.run.value, plan.record)
            self._conclude(task, plan.answer, wrote=True)
            if isinstance(plan.answer, Settled) and not isinstance(task.command, Settle):
                task.answer = None  # what stood in the way is settled: now to what was asked
            return
        news = [verdict.cell for verdict in verdicts if verdict.refused is Refusal.VERSION]
        if Refusal.EPOCH in refusals:
            task.unread = True
        elif news:
            self._took_in(task, news, timed)
            task.unread = len(task.turns) > 1 and all(cell.key != task.run.key for cell in news)
        elif Refusal.LATE in refusals and task.lands_by is not None:
            task.answer = Stale("")
        elif Refusal.LATE in refusals:
            task.unread = True
            if task.slot:
                self.know.forget_job(task.slot.job)
        else:
            task.answer = Early(plan.writes[0].not_before)

    def _conclude(self, task: Task, answer: Reply, *, wrote: bool = False) -> None:
        task.answer = answer
        event = (_told(answer) if wrote else None) or _answered(answer)
        if event is not None and not task.quiet:
            what, detail = event
            if answer in TOLD_WHY and task.record is not None and task.record.reason:  # for a person: of what, and why
                detail = f"{detail}: {task.record.reason}"
            self.report(Event(what, task.run.key, self.holder, task.now, task.run.fence, detail))


def _wakes(answer: Answer) -> bool:
    """Whether others should look, once this is true: there is something to claim, or to be told."""
    match answer:
        case Queued(waiting):
            return not waiting
        case Finished(_, retrying):
            return retrying
        case _:
            return isinstance(answer, Released | Asked | Settled)


def _answered(answer: Reply) -> tuple[What, str] | None:
    """What is a fact whoever wrote it: a grant or an end whose reply was lost was written too. A claim that lost is
    told quietly: the monitor counts them."""
    match answer:
        case Granted(_, ""):
            return What.GRANTED, ""
        case Granted(_, taken_over):
            return What.TAKEN_OVER, f"from {taken_over}"
        case Finished(outcome, True):
            return What.RETRYING, outcome
        case Finished(outcome):
            return What.CLOSED, outcome
        case Released():
            return What.RELEASED, ""
        case Stale(by):
            return What.STALE, by
        case _:
            return _refused(answer)


def _refused(answer: Reply) -> tuple[What, str] | None:
    match answer:
        case Held(by):
            return What.REFUSED, f"held by {by}"
        case Closed(outcome, reason):
            return What.REFUSED, f"{outcome}: {reason}"
        case Paused():
            return What.REFUSED, "paused"
        case Superseded(firing):
            return What.REFUSED, f"superseded by version {firing}"
        case _:
            return None


def _told(answer: Reply) -> tuple[What, str] | None:
    """What is a fact because we wrote it."""
    match answer:
        case Closed(outcome, reason):
            return What.CLOSED, f"{outcome}: {reason}"
        case Queued(waiting):
            return What.QUEUED, "waiting for its turn" if waiting else ""
        case Asked():
            return What.ASKED, ""
        case Settled():
            return What.RELEASED, "its holder was gone"
        case _:
            return None
