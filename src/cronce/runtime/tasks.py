"""Carrying commands out: read what is not known, `decide`, swap, and ask again with the cell that won where it lost.

A slot of a job with limited overlap is two cells, the run and one of the job's turns. They are granted, renewed and
freed as one group, so that neither is ever held without the other.

*Lost replies.* A swap without an answer may have landed. The loop reads the cells again and decides again: a claim
finds its own nonce, a finish its own fence, and the answer is the one that was lost. If reading fails too, the answer
is `Unsure`: whoever asked does not run.

*A reading belongs to one life of the store.* A write that rests on cells read in an earlier life is never sent under
the birth of a later one, for the numbers of two lives may coincide.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cronce.errors import StoreUnavailable
from cronce.events import Event, What
from cronce.model import (
    ABSENT,
    EPOCH,
    FREE,
    Boot,
    Cell,
    Instant,
    Mark,
    Refusal,
    Slot,
    Traits,
    Verdict,
    Write,
    job_cell,
    slot_of_cell,
)
from cronce.policy import Overlap
from cronce.protocol.decide import (
    Answer,
    Ask,
    Asked,
    Change,
    Claim,
    Closed,
    Command,
    Decision,
    Early,
    Facts,
    Finished,
    Granted,
    Held,
    Nothing,
    Queue,
    Queued,
    Released,
    Settle,
    Skip,
    Stale,
    decide,
)
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE
from cronce.protocol.record import Job, Record, State, Turn, decode, decode_turn, encode, encode_job, encode_turn
from cronce.protocol.specs import after_forgetting
from cronce.runtime.flow import Flow, Load, Purge, Request, Scan, Swap, Timed
from cronce.runtime.knowledge import Knowledge
from cronce.stores.base import Loaded, Page, Swapped

ROUNDS: Final = 12
"""Each round ends in an answer or in news; this many without an answer is a store that cannot be used."""


class Busy(NamedTuple):
    """The slot is free, but the job's turns are taken: by that run, until then at least."""

    run: str
    until: Instant | None


class Paused(NamedTuple):
    """Somebody paused the job."""


class Superseded(NamedTuple):
    """A newer version of the job is alive elsewhere, and fires it."""

    firing: str


class Unsure(NamedTuple):
    """The store did not say. Nobody may run on this."""

    why: str


Reply = Answer | Busy | Paused | Superseded | Unsure


@dataclass(slots=True, eq=False)
class Task:
    """One command on its way to an answer. `run` and `turns` are as last read, or guessed to be absent and free."""

    command: Command
    run: Cell
    slot: Slot | None = None
    turns: list[Cell] = field(default_factory=list)
    overlap: Overlap = "skip"
    digest: str = ""
    register_at: Instant | None = None  # the floor to register an unknown job with; None: at the store's now
    birth: int = 0
    now: Instant = EPOCH
    began: Boot = 0.0
    unread: bool = False
    answer: Reply | None = None

    def read(self, cell: Cell) -> None:
        """Take in a cell as it stands now: the run, or one of the turns."""
        if cell.key == self.run.key:
            self.run = cell if cell.version else Cell(cell.key, at=self.slot.at if self.slot else None)
        for place, turn in enumerate(self.turns):
            if turn.key == cell.key:
                self.turns[place] = cell


class Carrier:
    """What all flows of a process share: its knowledge of the store, and the loop."""

    def __init__(self, knowledge: Knowledge, traits: Traits, holder: str, report: Callable[[Event], None]) -> None:
        self.know = knowledge
        self.traits = traits
        self.holder = holder
        self.report = report

    # --- talking to the store ---

    def ask(self, request: Request) -> Flow[Timed]:
        timed = yield request
        reborn = self.know.learn(timed)
        if reborn is not None:
            self.report(Event(What.FORGOT, "meta", self.holder, reborn.born, detail=reborn.origin))
        return timed

    def load(self, keys: Sequence[str]) -> Flow[tuple[Loaded, Timed]]:
        timed = yield from self.ask(Load(keys))
        assert isinstance(timed.reply, Loaded)
        return timed.reply, timed

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

    # --- the loop ---

    def carry_out(self, tasks: list[Task]) -> Flow[None]:
        """Bring every task to an answer. Tasks that stand in the way are added to the list as they are found."""
        try:
            for _ in range(ROUNDS):
                pending = [task for task in tasks if task.answer is None]
                if not pending:
                    return
                yield from self._read(pending)
                yield from self._write(pending, tasks)
            why = f"no answer after {ROUNDS} rounds"
        except StoreUnavailable as error:
            why = str(error)
        for task in tasks:
            if task.answer is None:
                task.answer = Unsure(why)

    def _read(self, pending: Iterable[Task]) -> Flow[None]:
        known = self.know.epoch
        stale = [task for task in pending if task.unread or task.birth != known.birth or not self._informed(task)]
        if not stale:
            return
        keys = {task.run.key for task in stale} | {turn.key for task in stale for turn in task.turns}
        jobs = {task.slot.job for task in stale if task.slot and not self._informed(task)}
        loaded, timed = yield from self.load(sorted(keys | {job_cell(job) for job in jobs}))
        if loaded.epoch.seen < known.seen:  # the store forgot: tell it, so that it begins a new life, and read again
            yield from self.swap([], known.seen)
            return (yield from self._read(pending))
        cells = {cell.key: cell for cell in loaded.cells}
        for job in jobs:
            self.know.learn_job(job, cells[job_cell(job)], loaded)
        for task in stale:
            self._took_in(task, (cells[key] for key in (task.run.key, *(turn.key for turn in task.turns))), timed)

    def _informed(self, task: Task) -> bool:
        """Only what may create a run rests on the job's facts."""
        if task.slot is None or not isinstance(task.command, Claim | Queue | Skip):
            return self.know.epoch.birth != 0
        return self.know.job(task.slot.job) is not None

    def _took_in(self, task: Task, cells: Iterable[Cell], timed: Timed) -> None:
        assert isinstance(timed.reply, Loaded | Swapped)
        for cell in cells:
            task.read(cell)
        task.unread, task.birth = False, timed.reply.epoch.birth
        task.now, task.began = timed.reply.now, timed.began

    def _write(self, pending: list[Task], tasks: list[Task]) -> Flow[None]:
        seen = self.know.epoch.seen
        jobs: dict[str, Write] = {}
        plans: list[tuple[Task, Decision, list[Write]]] = []
        for number, task in enumerate(pending):
            if task.birth == seen[0] and self._informed(task):  # what was just learnt may have overtaken it
                self._plan(task, number, jobs, plans, tasks)
        writes = [*jobs.values(), *(write for _, _, group in plans for write in group)]
        if not writes:
            return
        try:
            swapped, timed = yield from self.swap(writes, seen)
        except StoreUnavailable:
            for task, _, _ in plans:
                task.unread = True
            return
        self._learn_jobs(jobs, swapped)
        place = len(jobs)
        for task, decision, group in plans:
            self._absorb(task, decision, group, swapped.verdicts[place : place + len(group)], timed)
            place += len(group)

    # --- one task: what to write ---

    def _plan(
        self,
        task: Task,
        number: int,
        jobs: dict[str, Write],
        plans: list[tuple[Task, Decision, list[Write]]],
        tasks: list[Task],
    ) -> None:
        job = self._job(task, jobs)
        barred = self._barred(task, job)
        if barred is not None:
            self._conclude(task, barred)
            return
        record = decode(task.run.value, task.run.key) if task.run.version else None
        decision = decide(task.run, record, task.command, self._facts(task, job))
        if decision.change is None:
            self._conclude(task, decision.answer)
            return
        group = self._group(task, record, decision, number, tasks)
        if group:
            plans.append((task, decision, group))

    def _barred(self, task: Task, job: Job | None) -> Reply | None:
        """What keeps a claim from being decided at all."""
        if job is None or not isinstance(task.command, Claim):
            return None
        if job.paused:
            return Paused()
        if task.digest and job.firing and job.firing != task.digest:
            return Superseded(job.firing)
        return None

    def _facts(self, task: Task, job: Job | None) -> Facts:
        if task.slot is None:  # a lock or a leader: no floor, and no earlier life that could matter after LOCK_LEASE
            return Facts(task.now, even=self.know.even)
        floor = None if task.slot.request or job is None else job.floor
        return Facts(task.now, floor, self.know.epoch.base, self.know.even)

    def _group(
        self, task: Task, record: Record | None, decision: Decision, number: int, tasks: list[Task]
    ) -> list[Write]:
        """The write of the run and, where it holds or takes a turn, of the turn."""
        change = decision.change
        assert change is not None
        held = record.turn if record is not None and record.state is State.RUNNING else ""
        if held and all(turn.key != held for turn in task.turns):
            task.turns.append(Cell(held))
            task.unread = True
            return []
        if change.grant and not change.record.turn and task.turns:
            turn = self._free_turn(task)
            if turn is None:
                self._when_busy(task, record, tasks)
                return []
            change = change._replace(record=change.record._replace(turn=turn.key))
            held = turn.key
        turn_writes = [self._turn_write(task, turn, change, number) for turn in task.turns if turn.key == held]
        return [self._run_write(task, change, number if turn_writes else None), *turn_writes]

    def _run_write(self, task: Task, change: Change, group: int | None) -> Write:
        first = task.run.version == ABSENT
        return Write(
            task.run.key,
            task.run.version,
            encode(change.record),
            change.mark,
            at=task.run.at,
            grant=change.grant,
            ttl=change.ttl,
            not_before=self._not_before(task, change) if change.grant else None,
            not_after=self._not_after(task, change) if first else None,
            group=group,
        )

    def _turn_write(self, task: Task, turn: Cell, change: Change, group: int) -> Write:
        """A turn that is taken unread is expected free; one that is held is named by its version."""
        keeps = change.record.state is State.RUNNING
        mine = turn.version != ABSENT and turn.mark is not Mark.FREE
        return Write(
            turn.key,
            turn.version if mine else FREE,
            encode_turn(Turn(task.run.key if keeps else "")),
            Mark.OPEN if keeps else Mark.FREE,
            ttl=change.ttl,
            group=group,
        )

    def _not_before(self, task: Task, change: Change) -> Instant | None:
        """No slot before its instant. After the store forgot, no lock and no turn before its last holder lost it."""
        epoch = self.know.epoch
        at = task.slot.at if task.slot else None
        if not epoch.forgot or (task.slot and not change.record.turn):
            return at
        gone = epoch.born + (change.record.lease if task.slot else LOCK_LEASE)
        return gone if at is None else max(at, gone)

    def _not_after(self, task: Task, change: Change) -> Instant | None:
        """A first write rests on the job's facts, and a first start on its deadline."""
        known = self.know.job(task.slot.job) if task.slot else None
        facts = known.read + FACTS_AGE if known else None
        start_by = task.command.start_by if change.grant and isinstance(task.command, Claim) else None
        return min((limit for limit in (facts, start_by) if limit is not None), default=None)

    # --- turns ---

    def _free_turn(self, task: Task) -> Cell | None:
        """A turn that may be free; claimants begin at different ones, so that they spread."""
        nonce = task.command.nonce if isinstance(task.command, Claim) else "0"
        first = int(nonce[:8], 16) % len(task.turns)
        for turn in (*task.turns[first:], *task.turns[:first]):
            if turn.version == ABSENT or turn.mark is Mark.FREE:
                return turn
        return None

    def _when_busy(self, task: Task, record: Record | None, tasks: list[Task]) -> None:
        """All turns are taken. One whose run lapsed is settled first; else the overlap policy speaks."""
        blockers = {decode_turn(turn.value, turn.key).run: turn.until for turn in task.turns}
        gone = [run for run, until in blockers.items() if until is not None and until <= task.now]
        for run in gone:
            if all(other.run.key != run for other in tasks):
                tasks.append(self._side_task(Settle(), run, task))
                task.unread = True
        if task.unread:
            return
        run, until = min(blockers.items(), key=lambda blocker: blocker[1] or EPOCH)
        if record is not None and record.grant > 0:
            task.answer = Busy(run, until)
        elif task.overlap == "skip":
            task.command = Skip(f"{run} still ran")
        else:
            self._wait(task, record, run, until, tasks)

    def _wait(self, task: Task, record: Record | None, run: str, until: Instant | None, tasks: list[Task]) -> None:
        if task.overlap == "replace" and all(other.run.key != run for other in tasks):
            tasks.append(self._side_task(Ask(f"replaced by {task.run.key}"), run, task))
        if record is not None and record.state is State.WAITING:
            task.answer = Busy(run, until)
        else:
            task.command = Queue(waiting=True)

    def _side_task(self, command: Command, run: str, task: Task) -> Task:
        return Task(command, Cell(run), slot_of_cell(run), unread=True, birth=task.birth)

    # --- jobs ---

    def _job(self, task: Task, jobs: dict[str, Write]) -> Job | None:
        """The job a decision rests on: as it was read, or as the write beside it will make it."""
        if task.slot is None or not isinstance(task.command, Claim | Queue | Skip):
            return None
        known = self.know.job(task.slot.job)
        if known is None:
            return None
        job = known.job or Job(floor=task.register_at or known.read)
        job = after_forgetting(job, self.know.epoch, self.traits)
        if job is not known.job:
            jobs.setdefault(task.slot.job, Write(known.cell.key, known.cell.version, encode_job(job), Mark.OPEN))
        return job

    def _learn_jobs(self, jobs: dict[str, Write], swapped: Swapped) -> None:
        for (name, write), verdict in zip(jobs.items(), swapped.verdicts, strict=False):
            if verdict.refused in (None, Refusal.VERSION):
                self.know.learn_job(name, verdict.cell, swapped)
            if verdict.refused is None and write.seen == ABSENT:
                self.report(Event(What.REGISTERED, write.key, self.holder, swapped.now))

    # --- one task: what came back ---

    def _absorb(
        self, task: Task, decision: Decision, group: list[Write], verdicts: Sequence[Verdict], timed: Timed
    ) -> None:
        refusals = {verdict.refused for verdict in verdicts}
        if refusals == {None}:
            self._took_in(task, (verdict.cell for verdict in verdicts), timed)
            self._conclude(task, decision.answer, wrote=True)
            return
        news = [verdict.cell for verdict in verdicts if verdict.refused is Refusal.VERSION]
        if Refusal.EPOCH in refusals:
            task.unread = True
        elif news:
            self._took_in(task, news, timed)
            task.unread = len(task.turns) > 1 and all(cell.key != task.run.key for cell in news)
        elif Refusal.LATE in refusals:
            task.unread = True
            if task.slot:
                self.know.forget_job(task.slot.job)
        else:
            task.answer = Early(group[0].not_before)

    def _conclude(self, task: Task, answer: Reply, *, wrote: bool = False) -> None:
        task.answer = answer
        event = _told(answer) if wrote else _refused(answer)
        if event is not None:
            what, detail = event
            self.report(Event(what, task.run.key, self.holder, task.now, task.run.fence, detail))


def _refused(answer: Reply) -> tuple[What, str] | None:
    """A claim that lost, or a holder that is no longer one. Told quietly: the monitor counts them."""
    match answer:
        case Stale(by):
            return What.STALE, by
        case Held(by):
            return What.REFUSED, f"held by {by}"
        case Closed(outcome, reason):
            return What.REFUSED, f"{outcome}: {reason}"
        case _:
            return None


def _told(answer: Reply) -> tuple[What, str] | None:
    """What changed."""
    match answer:
        case Granted(_, ""):
            return What.GRANTED, ""
        case Granted(_, taken_over):
            return What.TAKEN_OVER, f"from {taken_over}"
        case Finished(outcome, True):
            return What.RETRYING, outcome
        case Finished(outcome):
            return What.CLOSED, outcome
        case Closed(outcome, reason):
            return What.CLOSED, f"{outcome}: {reason}"
        case Queued(waiting):
            return What.QUEUED, "waiting for its turn" if waiting else ""
        case Released():
            return What.RELEASED, ""
        case Asked():
            return What.ASKED, ""
        case Nothing():
            return What.RELEASED, "its holder was gone"
        case _:
            return None
