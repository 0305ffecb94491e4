"""The ledger: the only writer. Its flows are what a process can say about slots, locks and leaders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from os import urandom
from types import MappingProxyType
from typing import Final, cast

from cronce.clock import Clock
from cronce.errors import BadPolicy, BadRecord, CronceError, StoreUnavailable
from cronce.events import Event
from cronce.model import Cell, Fence, Instant, Mark, Slot, Traits, slot_of_cell, turn_cell
from cronce.policy import OnLost, Overlap, check_choice
from cronce.protocol.commands import (
    Ask,
    Claim,
    Command,
    Finish,
    Finished,
    Granted,
    Queue,
    Release,
    Released,
    Renew,
    Renewed,
    Resolve,
    Settle,
    Skip,
    Stale,
)
from cronce.protocol.decide import Facts, Row, row
from cronce.protocol.lease import LOCK_LEASE, LONGEST_LEASE, Sample, Trust, margin, trust_end
from cronce.protocol.record import Maker, Outcome, Record, decode
from cronce.runtime.carrier import Carrier
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Jobs
from cronce.runtime.knowledge import Knowledge
from cronce.runtime.task import Reply, Task, Unsure
from cronce.schedule import format_duration
from cronce.stores.base import Scan
from cronce.value import NamedTuple, Value

AGAIN: Final = 1_000_000
"""How often an effect may be begun that was not done."""

SWEEP: Final = 200
"""How many overdue cells one look brings at most."""


class Terms(NamedTuple):
    """On what terms a slot is claimed. They are written with the grant: whoever finds it lapsed goes by them."""

    lease: timedelta
    on_lost: OnLost = "skip"
    overlap: Overlap = "skip"
    turns: int = 1
    """How many runs of the job may go on at once; without meaning under overlap="allow"."""
    attempts: int = 1
    start_within: timedelta | None = None
    digest: str = ""
    """Which version of the job this process carries; without one it has no say in which version fires."""
    delay: timedelta = timedelta(0)
    """How long after its instant it may start at the earliest."""
    outside: bool = False
    """The trigger is outside: its call is its own evidence, and registers an unknown job just below its slot."""
    payload: str = ""
    """What the run is given, unless it was asked for with something else."""
    joined: bool = False
    """Its runs may complete by a transaction in the user's database, which is asked before one is closed as lost."""

    @property
    def limit(self) -> int:
        """How many turns there are to take."""
        return 0 if self.overlap == "allow" else self.turns


class Wanted(NamedTuple):
    slot: Slot
    terms: Terms
    known: bool = False
    """The slot is on record, as a scan found it: read it first. Else it is guessed to be nobody's."""
    nonce: str = ""
    """Of a claim that is made again, since nobody knows whether it landed; each other one draws its own."""


class Begin(NamedTuple):
    """An effect to be begun: `under` the grant of a run, as a step of it, or under a lease of its own. The nonce is the
    same however often it is asked for."""

    key: str
    nonce: str
    lease: timedelta = LOCK_LEASE
    under: "Grant | None" = None
    over: frozenset[Maker] = frozenset()
    """Runs that are known to be over."""
    keep: timedelta | None = None
    """For how long it is known that it was done; None: for as long as its slot may run."""


class Begun(NamedTuple):
    """What the store says to an effect that was to be begun: a grant, or why not, and what stands in its cell."""

    answer: "Grant | Reply"
    record: Record | None


class Grant(NamedTuple):
    """The right to run, and how long it may be trusted. Renewing gives a new one; the fence stays."""

    key: str
    slot: Slot | None
    fence: Fence
    number: int
    lease: timedelta
    trust: Trust
    cells: tuple[Cell, ...]
    record: Record
    birth: int
    taken_over: str = ""
    ask: str = ""


class Expired(Value):
    """It was granted, but the answer took longer than it could be trusted; it was given back, and never started."""


Refused = Reply | Expired


class Ledger:
    """One per process. Its flows may run in many threads at once; each call of claim is a claimant of its own."""

    def __init__(
        self,
        traits: Traits,
        clock: Clock,
        holder: str,
        nonce: Callable[[], str] = lambda: urandom(8).hex(),
        report: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.know = Knowledge(clock, one_clock=traits.one_clock)
        self.carrier = Carrier(self.know, traits, holder, report)
        self.jobs = Jobs(self.carrier)
        self._clock = clock
        self.nonce = nonce

    # --- slots ---

    def claim(self, wanted: Sequence[Wanted]) -> Flow[list[Grant | Refused]]:
        """Each wanted slot: a grant, or why not. Raises only when the store said nothing about any of them; what it
        said and nobody can read is an answer."""
        lowest = {want.slot.job: want.slot.at for want in sorted(wanted, key=lambda want: want.slot.at, reverse=True)}
        tasks = [self._claim_task(want, lowest[want.slot.job]) for want in wanted]
        asked = list(tasks)
        yield from self.carrier.carry_out(tasks)
        grants = [self._granted(task) for task in asked]
        unsure = [grant for grant in grants if isinstance(grant, Unsure)]
        errors = [one.error for one in unsure if one.error]
        if errors and len(unsure) == len(asked):
            raise errors[0]
        return (yield from self._in_time(grants))

    def _in_time(self, grants: list[Grant | Refused]) -> Flow[list[Grant | Refused]]:
        """What came too late to be trusted is given back."""
        boot = self._clock.boot()
        late = {grant.fence: grant for grant in grants if isinstance(grant, Grant) and not grant.trust.holds(boot)}
        if late:
            yield from self.release(list(late.values()))
        return [Expired() if isinstance(grant, Grant) and grant.fence in late else grant for grant in grants]

    def renew(
        self,
        grants: Sequence[Grant],
        limits: Mapping[Fence, Instant] = MappingProxyType({}),
        progress: Mapping[Fence, tuple[int, int]] = MappingProxyType({}),
    ) -> Flow[list[Grant | Stale | Unsure]]:
        """The grants with their trust extended, none beyond its limit; stale where another has it now."""
        now = self.know.now()
        ttls = {fence: max(limit - now, timedelta(0)) for fence, limit in limits.items()}
        tasks = [
            self._grant_task(grant, Renew(grant.fence, ttls.get(grant.fence), progress.get(grant.fence)))
            for grant in grants
        ]
        yield from self.carrier.carry_out(tasks)
        return [self._renewed(grant, task) for grant, task in zip(grants, tasks, strict=True)]

    def finish(
        self,
        grant: Grant,
        outcome: Outcome,
        reason: str = "",
        backoff: timedelta = timedelta(0),
        *,
        cut_short: bool = False,
        output: str = "",
    ) -> Flow[Finished | Stale | Unsure]:
        command = Finish(grant.fence, outcome, reason, backoff, cut_short, output)
        return cast(Finished | Stale | Unsure, (yield from self._say(self._grant_task(grant, command))))

    def exchange(
        self, endings: Sequence[tuple[Grant, Finish | Release, bool]], wanted: Sequence[Wanted]
    ) -> Flow[tuple[list[Finished | Released | Stale | Unsure], list[Grant | Refused]]]:
        """Say what has ended, each with whether others wait for that, and claim what is next, in one breath. Unlike
        `claim` it answers even when the store said nothing: with `Unsure` for each."""
        sample = self.know.guess()
        said = [self._grant_task(grant, word, sample, wakes=wakes) for grant, word, wakes in endings]
        claims = [self._claim_task(want, want.slot.at, sample) for want in wanted]
        yield from self.carrier.carry_out([*said, *claims])
        answers = [cast(Finished | Released | Stale | Unsure, task.answer) for task in said]
        return answers, (yield from self._in_time([self._granted(task) for task in claims]))

    def release(self, grants: Sequence[Grant], rest: timedelta = timedelta(0)) -> Flow[list[Released | Stale | Unsure]]:
        """Give back what was never started (or, for a lock, is no longer needed), to be claimed `rest` later."""
        tasks = [self._grant_task(grant, Release(grant.fence, rest)) for grant in grants]
        yield from self.carrier.carry_out(tasks)
        return [cast(Released | Stale | Unsure, task.answer) for task in tasks]

    def put(self, commands: Mapping[Slot, Queue | Skip], terms: Terms) -> Flow[list[Reply]]:
        """Put slots on record: as due, for others to claim, or as not to be run. One that is asked for by hand is filed
        by when it was."""
        tasks = [self._slot_task(command, slot, terms) for slot, command in commands.items()]
        for task in tasks:
            if task.run.at is None:
                task.run = task.run._replace(at=self.know.now())
        yield from self.carrier.carry_out(tasks)
        return [cast(Reply, task.answer) for task in tasks]

    def enqueue(self, wanted: Sequence[Wanted]) -> Flow[list[Reply]]:
        """Put slots that fell due on record, each on its own terms, for others to claim."""
        tasks = [self._slot_task(Queue(), want.slot, want.terms) for want in wanted]
        yield from self.carrier.carry_out(tasks)
        return [cast(Reply, task.answer) for task in tasks]

    def settle(self, cells: Iterable[Cell], committed: Mapping[str, Fence] | None = None) -> Flow[list[Reply]]:
        """Act on runs whose holder is gone, without wanting to run them. `committed`: the user's own database was
        asked, and these are the fences, by cell, of which it says that they are done."""
        tasks = [self._cell_task(_settling(cell, committed), cell) for cell in cells]
        yield from self.carrier.carry_out(tasks)
        return [cast(Reply, task.answer) for task in tasks]

    def gone(self, keys: Sequence[str]) -> Flow[list[Cell]]:
        """Those of the runs whose holder is gone, as they stand now."""
        loaded, timed = yield from self.carrier.load(keys)
        sample = Sample(timed.began, timed.ended, loaded.now)
        facts = {cell: Facts(loaded.now, even=partial(self.know.watched, cell, sample)) for cell in loaded.cells}
        return [cell for cell in loaded.cells if cell.version and _is_gone(cell, facts[cell])]

    def ask(self, slot: Slot, reason: str) -> Flow[Reply]:
        """Ask whoever runs the slot to stop."""
        return (yield from self._say(self._cell_task(Ask(reason), Cell(slot.cell))))

    def resolve(self, slot: Slot, command: Resolve) -> Flow[Reply]:
        """A person's word on a slot that failed, was lost or is unknown."""
        return (yield from self._say(self._cell_task(command, Cell(slot.cell))))

    def overdue(self, job: str = "", limit: int = SWEEP) -> Flow[list[Cell]]:
        """Runs somebody should look at: lapsed, due, waiting, or ready to be retried, the longest waiting first."""
        prefix = f"run/{job}/" if job else "run/"
        upto = self.know.now() if self.know.epoch.birth else None
        page = yield from self.carrier.scan(Scan(prefix, "until", Mark.OPEN, upto, limit=limit))
        return [cell for cell in page.cells if cell.until is not None and cell.until <= page.now]

    # --- effects: a claim on a cell that closes with a result ---

    def exchange_effects(
        self, endings: Sequence[tuple[Grant, Finish | Release]], begins: Sequence[Begin] = ()
    ) -> Flow[tuple[list[Finished | Released | Stale | Unsure], list[Begun]]]:
        """Say of effects how they ended, and begin others, in one breath."""
        said = [self._grant_task(grant, word, quiet=True) for grant, word in endings]
        claims = [self._begin_task(begin) for begin in begins]
        yield from self.carrier.carry_out([*said, *claims])
        answers = [cast(Finished | Released | Stale | Unsure, task.answer) for task in said]
        return answers, [Begun(cast(Grant | Reply, self._granted(task)), _readable(task)) for task in claims]

    def resolve_effects(
        self, keys: Sequence[str], command: Resolve, over: frozenset[Maker] = frozenset()
    ) -> Flow[list[Reply]]:
        """A word on effects that are in doubt. One that a run began which is known to be `over`, and that nobody has
        looked at since, is closed as lost first: then it is to be said again."""
        tasks = [Task(command, Cell(key), unread=True, quiet=True, over=over) for key in keys]
        yield from self.carrier.carry_out(tasks)
        return [cast(Reply, task.answer) for task in tasks]

    # --- locks and leaders: a lease with no slot ---

    def acquire(self, key: str, lease: timedelta = LOCK_LEASE) -> Flow[Grant | Refused]:
        """A lock or a leadership: a claim on a cell that never closes. Raises `BadRecord` where the store answers, and
        nobody here can read what."""
        if not timedelta(0) < lease <= LOCK_LEASE:
            raise BadPolicy(
                f"a lock's lease is more than nothing and at most {format_duration(LOCK_LEASE)}, not {lease}"
            )
        check_lease(lease, self.carrier.traits)
        command = Claim(self.nonce(), self.carrier.holder, lease, "rerun")
        task = Task(command, Cell(key), birth=self.know.epoch.birth, sample=self.know.guess())
        yield from self.carrier.carry_out([task])
        if isinstance(task.answer, Unsure):
            raise _error(task.answer)
        (granted,) = yield from self._in_time([self._granted(task)])
        return granted

    # --- tasks ---

    def _claim_task(self, want: Wanted, lowest: Instant, sample: Sample | None = None) -> Task:
        terms = _by_hand(checked(want.terms)) if want.slot.request else checked(want.terms)
        check_terms(terms, self.carrier.traits)
        start_by = want.slot.at + terms.start_within if terms.start_within is not None else None
        nonce, holder = want.nonce or self.nonce(), self.carrier.holder
        command = Claim(
            nonce, holder, terms.lease, terms.on_lost, terms.attempts, start_by, terms.payload, joined=terms.joined
        )
        task = self._slot_task(command, want.slot, terms, lowest, sample)
        task.unread = want.known or bool(want.slot.request)  # what was asked for by hand is never made by a claim
        return task

    def _begin_task(self, begin: Begin) -> Task:
        """A step is begun before the lease of its run lapses, or not at all: so no run begins one that another, granted
        since, has looked for."""
        run = begin.under
        maker = Maker(run.key, run.fence) if run else None
        return Task(
            Claim(begin.nonce, self.carrier.holder, begin.lease, "skip", AGAIN, under=maker, keep=begin.keep),
            Cell(begin.key, at=run.slot.at if run and run.slot else None),
            quiet=True,
            lands_by=run.cells[0].until if run else None,
            over=begin.over,
            birth=run.birth if run else self.know.epoch.birth,
            sample=self.know.guess(),
        )

    def _slot_task(
        self,
        command: Command,
        slot: Slot,
        terms: Terms,
        lowest: Instant | None = None,
        sample: Sample | None = None,
    ) -> Task:
        return Task(
            command,
            Cell(slot.cell, at=slot.due),
            slot,
            turns=[Cell(turn_cell(slot.job, number)) for number in range(terms.limit)],
            overlap=terms.overlap,
            digest=terms.digest,
            delay=terms.delay,
            register_at=(lowest or slot.at) - timedelta(seconds=1) if terms.outside else None,
            birth=self.know.epoch.birth,
            sample=sample or self.know.guess(),
            guessed=True,
        )

    def _grant_task(
        self,
        grant: Grant,
        command: Command,
        sample: Sample | None = None,
        *,
        wakes: bool = False,
        quiet: bool = False,
    ) -> Task:
        run, *turns = grant.cells
        decoded = (run.value, grant.record)
        return Task(
            command,
            run,
            grant.slot,
            turns=turns,
            birth=grant.birth,
            sample=sample or self.know.guess(),
            decoded=decoded,
            wakes=wakes,
            quiet=quiet,
        )

    def _cell_task(self, command: Command, cell: Cell) -> Task:
        return Task(command, cell, slot_of_cell(cell.key), unread=True)

    def _say(self, task: Task) -> Flow[Reply]:
        yield from self.carrier.carry_out([task])
        return cast(Reply, task.answer)

    # --- grants ---

    def _granted(self, task: Task) -> Grant | Refused:
        if not isinstance(task.answer, Granted) or not isinstance(task.command, Claim):
            return cast(Reply, task.answer)
        run, record = task.run, task.record
        assert run.fence is not None
        assert record is not None
        turns = [turn for turn in task.turns if turn.key == record.turn]
        return Grant(
            run.key, task.slot, run.fence, record.grant, record.lease, self._trust(task, record.lease),
            (run, *turns), record, task.birth, task.answer.taken_over,
        )  # fmt: skip

    def _renewed(self, grant: Grant, task: Task) -> Grant | Stale | Unsure:
        if not isinstance(task.answer, Renewed):
            return cast(Stale | Unsure, task.answer)
        assert task.record is not None
        trust = grant.trust.extended(self._clock.boot(), self._trust(task, grant.lease).end)
        cells = (task.run, *task.turns)
        return grant._replace(trust=trust, cells=cells, record=task.record, birth=task.birth, ask=task.answer.ask)

    def _trust(self, task: Task, lease: timedelta) -> Trust:
        """Counted from when the call began that brought the cell, and from what was left of the lease then."""
        assert task.run.until is not None
        return Trust(trust_end(task.sample.began, task.now, task.run.until, lease, self.carrier.traits))


def _settling(cell: Cell, committed: Mapping[str, Fence] | None) -> Settle:
    return Settle() if committed is None else Settle(cell.fence, committed.get(cell.key) == cell.fence)


def _readable(task: Task) -> Record | None:
    with suppress(BadRecord):
        return task.record
    return None


def _is_gone(cell: Cell, facts: Facts) -> bool:
    with suppress(BadRecord):
        return row(cell, decode(cell.value, cell.key), Settle(), facts) is Row.LAPSED
    return False


def check_lease(lease: timedelta, traits: Traits) -> None:
    """Refuse a lease that is over, by the doubts about this store's clock, before anybody could act under it."""
    if lease <= margin(lease, traits):
        least = 2 * (traits.skew + traits.step)
        raise BadPolicy(
            f"a lease of {format_duration(lease)} is over before it can be trusted on {traits.name}, whose clock is"
            f" only known to {format_duration(traits.skew + traits.step)}; give it {format_duration(least)} or more"
        )


def check_terms(terms: Terms, traits: Traits) -> None:
    """Refuse what this store cannot keep."""
    check_lease(terms.lease, traits)
    if not traits.history and terms.limit != 1:
        raise BadPolicy(
            f"{traits.name} keeps the last slots of a job alone, so its runs follow each other: overlap='allow' and"
            " more turns than one are not to be had there; leave them out, or name a database, such as postgresql://"
        )


def checked(terms: Terms) -> Terms:
    """The terms, if they can be meant."""
    if not timedelta(0) < terms.lease <= LONGEST_LEASE:
        longest = format_duration(LONGEST_LEASE)
        raise BadPolicy(
            f"a lease is more than nothing and at most {longest}, and renewed while the run works: not {terms.lease}"
        )
    for name, number in (("turns", terms.turns), ("attempts", terms.attempts)):
        if number < 1:
            raise BadPolicy(f"{name} is 1 or more, and this is {number}")
    check_choice("on_lost", terms.on_lost, OnLost)
    check_choice("overlap", terms.overlap, Overlap)
    return terms


def _by_hand(terms: Terms) -> Terms:
    """What somebody asks for is never too late, and waits for its turn: it neither gives way nor pushes others out."""
    return terms._replace(start_within=None, overlap="allow" if terms.overlap == "allow" else "wait")


def _error(unsure: Unsure) -> CronceError:
    return unsure.error or (BadRecord if unsure.unreadable else StoreUnavailable)(unsure.why)
