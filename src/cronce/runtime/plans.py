"""Planning: which writes would make the answer to a command true. No talking; the carrier does that.

A slot of a job with limited overlap is two cells, the run and one of the job's turns. They are granted, renewed and
freed as one group, so that neither is ever held without the other.
"""

from typing import NamedTuple

from cronce.model import ABSENT, EPOCH, FREE, Cell, Instant, Mark, Traits, Write, slot_of_cell
from cronce.protocol.commands import (
    Answer,
    Ask,
    Change,
    Claim,
    Command,
    Queue,
    Settle,
    Skip,
)
from cronce.protocol.decide import (
    Facts,
    decide,
)
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE, forgotten_floor
from cronce.protocol.record import Job, Record, State, Turn, decode_turn, encode, encode_job, encode_turn
from cronce.protocol.specs import after_forgetting
from cronce.runtime.knowledge import Knowledge
from cronce.runtime.task import Busy, Paused, Reply, Superseded, Task


class Plan(NamedTuple):
    """The answer holds once all the writes have won."""

    task: Task
    answer: Answer
    record: Record
    writes: list[Write]


class Planner:
    def __init__(self, knowledge: Knowledge, traits: Traits) -> None:
        self._know = knowledge
        self._traits = traits

    def plan(self, task: Task, number: int, jobs: dict[str, Write], tasks: list[Task]) -> Plan | Reply | None:
        """What to write; or the answer, if nothing need be written; or None: something has to be read first."""
        job = self._job(task, jobs)
        barred = self._barred(task, job)
        if barred is not None:
            return barred
        decision = decide(task.run, task.record, task.command, self._facts(task, job))
        if decision.change is None:
            task.unread = task.guessed  # too old, if it is absent: a slot that has a cell follows its own row
            return None if task.unread else decision.answer
        change = self._with_turn(task, decision.change, tasks)
        return task.answer if change is None else self._written(task, decision.answer, change, number)

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
            return Facts(task.now, even=self._know.even)
        floor = job.floor if job else forgotten_floor(self._know.epoch, self._traits)
        return Facts(task.now, None if task.slot.request else floor, self._know.epoch.base, self._know.even)

    def _with_turn(self, task: Task, change: Change, tasks: list[Task]) -> Change | None:
        """The change with the turn that it needs; None when that turn is unread, or no turn is free."""
        held = task.held_turn
        if held and all(turn.key != held for turn in task.turns):
            task.turns.append(Cell(held))
            task.unread = True
            return None
        if not change.grant or change.record.turn or not task.turns:
            return change
        turn = self._free_turn(task)
        if turn is None:
            self._when_busy(task, tasks)
            return None
        return change._replace(record=change.record._replace(turn=turn.key))

    def _written(self, task: Task, answer: Answer, change: Change, number: int) -> Plan:
        """The write of the run and, where it holds or takes a turn, of the turn."""
        key = task.held_turn or (change.record.turn if change.grant else "")
        turn_writes = [self._turn_write(task, turn, change, number) for turn in task.turns if turn.key == key]
        run_write = self._run_write(task, change, number if turn_writes else None)
        return Plan(task, answer, change.record, [run_write, *turn_writes])

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
        epoch = self._know.epoch
        at = task.slot.at if task.slot else None
        if not epoch.forgot or (task.slot and not change.record.turn):
            return at
        gone = epoch.born + (change.record.lease if task.slot else LOCK_LEASE)
        return gone if at is None else max(at, gone)

    def _not_after(self, task: Task, change: Change) -> Instant | None:
        """A first write rests on the job's facts, and a first start on its deadline."""
        known = self._know.job(task.slot.job) if task.slot else None
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

    def _when_busy(self, task: Task, tasks: list[Task]) -> None:
        """All turns are taken. One whose run lapsed is settled first; else the overlap policy speaks."""
        blockers = {decode_turn(turn.value, turn.key).run: turn.until for turn in task.turns}
        gone = [run for run, until in blockers.items() if until is not None and until <= task.now]
        for run in gone:
            settling = next((other for other in tasks if other.run.key == run), None)
            if settling is None:
                tasks.append(settling := self._side_task(Settle(), run, task))
            task.unread |= settling.answer is None
        if task.unread:
            return
        run, until = min(blockers.items(), key=lambda blocker: blocker[1] or EPOCH)
        if task.record is not None and task.record.grant > 0:
            task.answer = Busy(run, until)
        elif task.overlap == "skip":
            task.command = Skip(f"{run} still ran")
        else:
            self._wait(task, run, until, tasks)

    def _wait(self, task: Task, run: str, until: Instant | None, tasks: list[Task]) -> None:
        if task.overlap == "replace" and all(other.run.key != run for other in tasks):
            tasks.append(self._side_task(Ask(f"replaced by {task.run.key}"), run, task))
        if task.record is not None and task.record.state is State.WAITING:
            task.answer = Busy(run, until)
        else:
            task.command = Queue(waiting=True)

    def _side_task(self, command: Command, run: str, task: Task) -> Task:
        return Task(command, Cell(run), slot_of_cell(run), unread=True, birth=task.birth)

    def _job(self, task: Task, jobs: dict[str, Write]) -> Job | None:
        """The job a decision rests on: as it was read, or as the write beside it will make it."""
        known = self._know.job(task.slot.job) if task.slot and task.rests_on_job else None
        if known is None or task.slot is None:
            return None
        job = known.job or Job(floor=task.register_at or known.read)
        job = after_forgetting(job, self._know.epoch, self._traits)
        if job is not known.job:
            jobs.setdefault(task.slot.job, Write(known.cell.key, known.cell.version, encode_job(job), Mark.OPEN))
        return job
