"""Planning: which writes would make the answer to a command true. No talking; the carrier does that.

A slot of a job with limited overlap is two cells, the run and one of the job's turns. They are granted, renewed and
freed as one group, so that neither is ever held without the other.
"""

from functools import partial

from cronce.model import ABSENT, EPOCH, FREE, Cell, Instant, Mark, Traits, Write, slot_of_cell
from cronce.protocol.commands import (
    Answer,
    Ask,
    Change,
    Claim,
    Closed,
    Command,
    Early,
    Queue,
    Settle,
    Skip,
)
from cronce.protocol.decide import (
    Facts,
    decide,
)
from cronce.protocol.lease import FACTS_AGE, LOCK_LEASE, forgotten_floor
from cronce.protocol.record import (
    STILL_RAN,
    Job,
    Maker,
    Outcome,
    Record,
    State,
    Turn,
    decode_turn,
    encode,
    encode_job,
    encode_turn,
)
from cronce.protocol.specs import after_forgetting
from cronce.runtime.knowledge import Knowledge, KnownJob
from cronce.runtime.task import Busy, Paused, Reply, Superseded, Task, Unsure
from cronce.value import NamedTuple


def is_over(mine: Maker | None, known: frozenset[Maker], maker: Maker) -> bool:
    """Whether a run that began a step is over: so it is if the same slot was granted again since, to whoever asks."""
    return maker in known or (mine is not None and maker.run == mine.run and maker.fence < mine.fence)


class Plan(NamedTuple):
    """The answer holds once all the writes have won."""

    task: Task
    answer: Answer
    record: Record
    writes: list[Write]


class Planner:
    """One round of plans. What they rest on, the epoch and the facts of each job, is looked up once for all of them:
    what is known may change at any moment, by another thread or by the clock."""

    def __init__(self, knowledge: Knowledge, traits: Traits, tasks: list[Task]) -> None:
        self._know = knowledge
        self._traits = traits
        self._tasks = tasks
        self._facts_of: dict[str, KnownJob | None] = {}
        self._taken: set[str] = set()
        self.epoch = knowledge.epoch
        self.jobs: dict[str, Write] = {}

    def plan(self, task: Task) -> Plan | Reply | None:
        """What to write; or the answer, if nothing need be written; or None: something has to be read first."""
        known = self._known(task)
        if task.birth != self.epoch.birth or (task.rests_on_job and known is None):
            task.unread = True
            return None
        job = self._job(task, known) if known else None
        barred = self._barred(task, job)
        if barred is not None:
            return barred
        decision = decide(task.run, task.record, task.command, self._facts(task, job))
        if decision.change is None:
            task.unread = task.guessed  # too old, if it is absent: a slot that has a cell follows its own row
            return None if task.unread else decision.answer
        change = self._with_turn(task, decision.change)
        return task.answer if change is None else self._written(task, decision.answer, change, known)

    def _known(self, task: Task) -> KnownJob | None:
        if task.slot is None or not task.rests_on_job:
            return None
        if task.slot.job not in self._facts_of:
            known = self._know.job(task.slot.job)
            self._facts_of[task.slot.job] = known if known and known.birth == self.epoch.birth else None
        return self._facts_of[task.slot.job]

    def _barred(self, task: Task, job: Job | None) -> Reply | None:
        """What keeps a claim, or what a scheduler puts on record as due, from being decided at all."""
        if task.slot and task.slot.request and task.unheard_in not in (0, self.epoch.birth):
            return Unsure("the store forgot while it was asked: it may have been asked for, and run; ask again")
        queued = isinstance(task.command, Queue) and bool(task.digest)  # by a scheduler; a person may ask at any time
        if job is None or task.slot is None or not (isinstance(task.command, Claim) or queued):
            return None
        if job.paused or self._know.halted:
            return Paused()
        if task.digest and job.firing and job.firing != task.digest:
            return Superseded(job.firing)
        if task.slot.request and task.run.version == ABSENT and not queued:
            return Closed(Outcome.TOO_OLD, "nobody asks for it any more")
        return None

    def _facts(self, task: Task, job: Job | None) -> Facts:
        even = partial(self._know.watched, task.run, task.sample)
        if task.under is not None:  # of a slot that may have run before the store forgot, if it is run again by hand
            over = partial(is_over, task.under, task.over)
            return Facts(task.now, forgotten_floor(self.epoch, self._traits), self.epoch.base, even, over)
        if task.slot is None:  # a lock, a leader, a key: no floor, and no earlier life that matters after LOCK_LEASE
            return Facts(task.now, even=even, over=partial(is_over, None, task.over))
        floor = job.floor if job else forgotten_floor(self.epoch, self._traits)
        return Facts(task.now, None if task.slot.request else floor, self.epoch.base, even)

    def _with_turn(self, task: Task, change: Change) -> Change | None:
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
            self._when_busy(task)
            return None
        self._taken.add(turn.key)
        return change._replace(record=change.record._replace(turn=turn.key))

    def _written(self, task: Task, answer: Answer, change: Change, known: KnownJob | None) -> Plan:
        """The write of the run and, where it holds or takes a turn, of the turn."""
        key = task.held_turn or (change.record.turn if change.grant else "")
        group = id(task)
        turn_writes = [self._turn_write(task, turn, change, group) for turn in task.turns if turn.key == key]
        run_write = self._run_write(task, change, known, group if turn_writes else None)
        return Plan(task, answer, change.record, [run_write, *turn_writes])

    def _run_write(self, task: Task, change: Change, known: KnownJob | None, group: int | None) -> Write:
        return Write(
            task.run.key,
            task.run.version,
            encode(change.record),
            change.mark,
            at=task.run.at,
            grant=change.grant,
            ttl=change.ttl,
            not_before=self._not_before(task, change) if change.grant else None,
            not_after=self._not_after(task, change, known),
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
        """No slot before its instant. After the store forgot, no lock, turn or run by hand before its last holder
        lost it; for that, all versions of a job are taken to have leases of one length."""
        epoch = self.epoch
        at = task.slot.at + task.delay if task.slot else None
        if not epoch.forgot or task.under or (task.slot and not change.record.turn and not task.slot.request):
            return at
        gone = epoch.born + (change.record.lease if task.slot else LOCK_LEASE)
        return gone if at is None else max(at, gone)

    def _not_after(self, task: Task, change: Change, known: KnownJob | None) -> Instant | None:
        """A first write rests on the job's facts, a first start on its deadline, and a step on the lease of its run."""
        first, claim = task.run.version == ABSENT, task.command if isinstance(task.command, Claim) else None
        facts = known.read + FACTS_AGE if known and first else None
        start_by = claim.start_by if claim and change.grant and first else None
        lease = task.lands_by if change.grant else None
        return min((limit for limit in (facts, start_by, lease) if limit is not None), default=None)

    # --- turns ---

    def _free_turn(self, task: Task) -> Cell | None:
        """A turn that may be free; claimants begin at different ones, so that they spread."""
        nonce = task.command.nonce if isinstance(task.command, Claim) else "0"
        first = int(nonce[:8], 16) % len(task.turns)
        for turn in (*task.turns[first:], *task.turns[:first]):
            if (turn.version == ABSENT or turn.mark is Mark.FREE) and turn.key not in self._taken:
                return turn
        return None

    def _when_busy(self, task: Task) -> None:
        """All turns are taken. One whose run lapsed is settled first; else the overlap policy speaks."""
        if task.slot is not None and task.now < task.slot.at + task.delay:
            task.answer = Early(task.slot.at + task.delay)
            return
        if any(turn.key in self._taken for turn in task.turns):  # by a slot of this very batch: see how that ends
            task.unread = True
            return
        blockers = {decode_turn(turn.value, turn.key).run: turn.until for turn in task.turns}
        gone = {run: until for run, until in blockers.items() if until is not None and until <= task.now}
        for run in gone:
            settling = next((other for other in self._tasks if other.run.key == run), None)
            if settling is None:
                self._tasks.append(settling := self._side_task(Settle(), run, task))
            task.unread |= settling.answer is None
        if task.unread:
            return
        if gone:  # one has lapsed, and whoever asks may not act on that yet
            task.answer = Busy(*next(iter(gone.items())))
            return
        run, until = min(blockers.items(), key=lambda blocker: blocker[1] or EPOCH)
        if task.record is not None and task.record.grant > 0:
            task.answer = Busy(run, until)
        elif task.overlap == "skip":
            task.command = Skip(f"{slot_of_cell(run).key}{STILL_RAN}")
        else:
            self._wait(task, run, until)

    def _wait(self, task: Task, run: str, until: Instant | None) -> None:
        """Under replace a run is asked to stop; not a later one, which may have come first when a turn was free."""
        earlier = task.slot is not None and slot_of_cell(run).at < task.slot.at
        if task.overlap == "replace" and earlier and all(other.run.key != run for other in self._tasks):
            self._tasks.append(self._side_task(Ask(f"replaced by {task.run.key}"), run, task))
        if task.record is not None and task.record.state is State.WAITING:
            task.answer = Busy(run, until)
        else:
            task.command = Queue(waiting=True)

    def _side_task(self, command: Command, run: str, task: Task) -> Task:
        return Task(command, Cell(run), slot_of_cell(run), unread=True, birth=task.birth)

    def _job(self, task: Task, known: KnownJob) -> Job:
        """The job a decision rests on: as it was read, or as the write beside it will make it."""
        assert task.slot is not None
        job = known.job or Job(floor=task.register_at or known.read)
        job = after_forgetting(job, self.epoch, self._traits)
        if job is not known.job:
            write = Write(known.cell.key, known.cell.version, encode_job(job), Mark.OPEN)
            self.jobs.setdefault(task.slot.job, write)
        return job
