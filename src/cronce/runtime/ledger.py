"""The ledger: what a process can do with slots, effects, locks and leaders, as flows. Only the loop writes them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from operator import attrgetter
from os import register_at_fork, urandom
from types import MappingProxyType
from typing import Final, cast

from cronce.clock import Clock
from cronce.errors import BadPolicy, BadRecord, CronceError, StoreError, StoreUnavailable
from cronce.events import Event
from cronce.model import EPOCH, Boot, Cell, Fence, Instant, Mark, Slot, Traits, Write, slot_of_cell, turn_cell
from cronce.protocol.codec import all_readable
from cronce.protocol.commands import (
    Answer,
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
    Unsure,
)
from cronce.protocol.lease import LOCK_LEASE, Sample, Trust, trust_end
from cronce.protocol.record import Maker, Outcome, Record, decode
from cronce.protocol.store_clock import is_ahead, is_early
from cronce.protocol.table import Row, row
from cronce.protocol.terms import MEANT, Terms, Wants, check_lease, check_terms, checked
from cronce.protocol.view import View
from cronce.runtime.batch import Batch, Ended
from cronce.runtime.client import Client, Knowledge, is_wanted
from cronce.runtime.flow import Flow
from cronce.runtime.jobs import Jobs
from cronce.runtime.loop import Loop, Question, about
from cronce.schedule import format_duration
from cronce.stores.base import Scan
from cronce.value import NamedTuple, Value

MAX_BEGINS: Final = 1_000_000
"""How often an effect may be begun that was not done."""

LOOK_EVERY: Final = 5.0
"""Seconds between two looks of a process for slots of a job whose process is gone."""

LOOK_AHEAD: Final = 60.0
"""And for leases that were dated far ahead by a clock that jumped."""

SWEEP: Final = 200
"""How many overdue cells one look brings at most."""


_AT: Final = attrgetter("at")

_NONCES: Final = deque[str]()
register_at_fork(after_in_child=_NONCES.clear)  # what a parent and its child both used would be one claimant


def fresh_nonce() -> str:
    """A unique one. A thousand are drawn at once: a call to the kernel for each would cost more than all
    else about a claim."""
    while True:
        try:
            return _NONCES.popleft()
        except IndexError:
            drawn = urandom(8 * 1000).hex()
            _NONCES.extend(drawn[place : place + 16] for place in range(0, len(drawn), 16))


class Wanted(NamedTuple):
    slot: Slot
    terms: Terms
    known: bool = False
    """The slot is on record, as a scan found it: read it first. Else it is guessed to have no record."""
    nonce: str = ""
    """The nonce of a claim that is repeated, since it may have landed; every other claim draws its own."""

    @property
    def cell(self) -> str:
        return self.slot.cell


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
    """How long its completion stays known; None: for as long as its slot may run."""
    sent: str = ""
    """The key that was sent to the other side for it, where that is not its name."""


class Begun(NamedTuple):
    """The store's answer when an effect was to begin: a grant, or why not, and the current record."""

    answer: "Grant | Answer"
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
    ask: str = ""


class Expired(Value):
    """It was granted, but the answer took longer than it could be trusted; it was given back, and never started."""


Refused = Answer | Expired


class Ledger:
    """One per process. Its flows may run in many threads at once; each call of claim is a claimant of its own."""

    def __init__(
        self,
        traits: Traits,
        clock: Clock,
        holder: str,
        nonce: Callable[[], str] = fresh_nonce,
        report: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.know = Knowledge(clock, traits)
        self.client = Client(self.know, traits, holder, report)
        self.loop = Loop(self.client)
        self.jobs = Jobs(self.client)
        self._clock = clock
        self.nonce = nonce
        self._looked: dict[str, Boot] = {}
        self._checked: set[tuple[object, ...]] = set()
        self._trusted: tuple[object, Trust] = (None, Trust(0.0))

    # --- slots ---

    def claim(self, wanted: Sequence[Wanted]) -> Flow[list[Grant | Refused]]:
        """For each wanted slot: a grant, or why not. Raises only if the store answered for none of them; an unreadable
        record is an answer."""
        drawn = [Wanted(slot, terms, known, nonce or self.nonce()) for slot, terms, known, nonce in wanted]
        _, grants = yield from self.exchange([], drawn, patient=True)
        unsure = [grant for grant in grants if isinstance(grant, Unsure)]
        for one in unsure if len(unsure) == len(wanted) else ():
            if one.error:
                raise one.error
        return grants

    def _in_time(self, grants: list[Grant | Refused]) -> Flow[list[Grant | Refused]]:
        """A grant that came too late to be trusted is given back; so is a slot that a clock in doubt granted too
        early."""
        boot, doubt = self._clock.boot(), self.know.doubt
        now = EPOCH if doubt is None else self.know.now()
        late = [
            grant
            for grant in grants
            if isinstance(grant, Grant)
            and (not grant.trust.holds(boot) or (doubt is not None and is_early(doubt, grant.slot, now)))
        ]
        if not late:
            return grants
        yield from self.release(late)
        return [Expired() if grant in late else grant for grant in grants]

    def renew(
        self,
        grants: Sequence[Grant],
        limits: Mapping[Fence, Instant] = MappingProxyType({}),
        progress: Mapping[Fence, tuple[int, int]] = MappingProxyType({}),
        overdue: Mapping[Fence, str] = MappingProxyType({}),
    ) -> Flow[list[Grant | Stale | Unsure]]:
        """The grants with their trust extended, none beyond its limit; stale where another process has it now.
        `overdue`: for runs that go on though they were asked to stop, why they were."""
        now = self.know.now()
        ttls = {fence: max(limit - now, timedelta(0)) for fence, limit in limits.items()}
        questions = [
            self._grant_question(
                grant, Renew(fence, ttls.get(fence), progress.get(fence), overdue.get(fence, "")), quiet=True
            )
            for grant in grants
            for fence in [grant.fence]
        ]
        yield from self.loop.answer(questions)
        return [self._renewed(grant, question) for grant, question in zip(grants, questions, strict=True)]

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
        question = self._grant_question(grant, command)
        yield from self.loop.answer([question])
        return cast(Finished | Stale | Unsure, question.answer)

    def exchange(
        self, ended: Sequence[Ended], wanted: Sequence[Wants], beside: Sequence[Write] = (), *, patient: bool = False
    ) -> Flow[tuple[list[Finished | Released | Stale | Unsure], list[Grant | Refused]]]:
        """Record ends, and claim new slots, in one call. Unlike `claim` it answers even if the store did not: with
        `Unsure` for each."""
        sample = self.know.guess()
        outside = [want.slot for want in wanted if want.terms.outside]
        lowest = {slot.job: slot.at for slot in sorted(outside, key=_AT, reverse=True)} if outside else {}

        def ask_end(one: Ended) -> Question:
            return self._grant_question(one[0], _at_once(one[1], sample), sample, wakes=one[2])

        def ask_claim(want: Wants) -> Question:
            return self._claim_question(want, lowest, sample)

        batch = Batch(ended, wanted, beside, ask_end=ask_end, ask_claim=ask_claim, granted=self._grant)
        if len(batch) == 1:
            yield from self.loop.answer(batch.unanswered(), batch, patient=patient)
        else:
            yield from self._answer(batch, {want.slot.job for want in wanted}, patient=patient)
        said = [one.answer if isinstance(one, Question) else one for one in batch.said]
        grants = [one if isinstance(one, Grant) else self._granted(cast(Question, one)) for one in batch.claimed]
        return cast(list[Finished | Released | Stale | Unsure], said), (yield from self._in_time(grants))

    def _answer(self, batch: Batch, jobs: Set[str], *, patient: bool) -> Flow[None]:
        """Where there are several, those that are alike are stamped."""
        questions = batch.unread()
        try:
            known = yield from self.loop.read(questions, jobs)
        except StoreError as error:
            for question in (*questions, *batch.unanswered()):
                question.answer = Unsure(str(error), error)
            return
        questions += batch.stamp(self.loop.around(), known)
        yield from self.loop.answer(questions, batch, patient=patient)
        for answer, view in batch.told(lambda answer: is_wanted(answer, self.client.wants)):
            self.client.tell_answer(answer, view, wrote=True)

    def release(self, grants: Sequence[Grant], rest: timedelta = timedelta(0)) -> Flow[list[Released | Stale | Unsure]]:
        """Give back what was never started (or, for a lock, is no longer needed), to be claimed `rest` later."""
        questions = [self._grant_question(grant, Release(grant.fence, rest)) for grant in grants]
        yield from self.loop.answer(questions)
        return [cast(Released | Stale | Unsure, question.answer) for question in questions]

    def record_ends(self, words: Sequence[tuple[str, Finish | Release]]) -> Flow[list[Answer]]:
        """Record how runs ended, by their cells; another process may have run them."""
        return (yield from self._answers([about(key, word) for key, word in words]))

    def put(self, commands: Mapping[Slot, Queue | Skip]) -> Flow[list[Answer]]:
        """Record slots: as due, for other processes to claim, or as not to be run. A run that a person requests is
        filed under the time of the request."""
        questions = [self._slot_question(command, slot) for slot, command in commands.items()]
        for question in questions:
            if question.view.run.at is None:
                question.view = question.view._replace(run=question.view.run._replace(at=self.know.now()))
        return (yield from self._answers(questions))

    def settle(
        self, cells: Iterable[Cell], committed: Mapping[str, Fence] | None = None, *, for_person: bool = False
    ) -> Flow[list[Answer]]:
        """Close or reopen runs whose holder is gone, without running them. `committed`: the user's own database was
        asked, and these are the fences, by cell, that it reports as done."""
        settling = [about(cell.key, _settling(cell, committed)._replace(for_person=for_person)) for cell in cells]
        return (yield from self._answers(settling))

    def gone(self, keys: Sequence[str], *, for_person: bool = False) -> Flow[list[Cell]]:
        """The runs whose holder is gone, as they are now. For a person, contact is not required."""
        loaded, timed = yield from self.client.load(keys)
        sample = Sample(timed.began, timed.ended, loaded.now)
        read, know = all_readable(loaded.cells, decode), self.know
        views = [
            View(cell, record, sample, slot_of_cell(cell.key), even=know.watched, heard=know.contact.heard)
            for cell, record in read
        ]
        if know.contact.probes(views):
            yield from self.client.probe()
        return [view.run for view in views if row(view, Settle(for_person=for_person)) is Row.LAPSED]

    def looks_again(self, job: str, every: float = LOOK_EVERY) -> bool:
        """Whether it is time to look for slots of the job whose process is gone: every few seconds is enough."""
        boot = self._clock.boot()
        due = boot - self._looked.get(job, -every) >= every
        if due:
            self._looked[job] = boot
        return due

    def look_again(self, job: str) -> None:
        """There is something to look after."""
        self._looked.pop(job, None)

    def ask(self, slot: Slot, reason: str) -> Flow[Answer]:
        """Ask the run of the slot to stop."""
        return (yield from self._answer_to(about(slot.cell, Ask(reason))))

    def resolve(self, slot: Slot, command: Resolve) -> Flow[Answer]:
        """A person's word on a slot that failed, was lost or is unknown."""
        return (yield from self._answer_to(about(slot.cell, command)))

    def overdue(self, job: str = "", limit: int = SWEEP) -> Flow[list[Cell]]:
        """Runs that a process should handle: lapsed, due, waiting, or ready to be retried, the longest waiting
        first."""
        prefix = f"run/{job}/" if job else "run/"
        upto = self.know.now() if self.know.epoch.birth else None
        page = yield from self.client.scan(Scan(prefix, "until", Mark.OPEN, upto, limit=limit))
        over = [cell for cell in page.cells if cell.until is not None and cell.until <= page.now]
        return over + (yield from self.ahead(prefix))

    def ahead(self, prefix: str = "run/") -> Flow[list[Cell]]:
        """Leases that were dated so far ahead, by a clock that jumped, that they never lapse; about once a minute."""
        self._looked.setdefault(f"ahead {prefix}", self._clock.boot())  # at the start no cell has been watched yet
        if not self.looks_again(f"ahead {prefix}", LOOK_AHEAD):
            return []
        page = yield from self.client.scan(Scan(prefix, "until", Mark.OPEN, newest_first=True, limit=SWEEP))
        now = self.know.now()
        return [cell for cell in page.cells if cell.until is not None and is_ahead(cell.until, now)]

    def begin_anew(self, cells: Iterable[Cell]) -> Flow[list[Answer]]:
        """Leases that were dated far ahead, by a clock that jumped, last for their own length from now on."""
        asked = [about(cell.key, Renew(cell.fence), quiet=True) for cell in cells if cell.fence is not None]
        return (yield from self._answers(asked))

    # --- effects: a claim on a cell that closes with a result ---

    def exchange_effects(
        self, endings: Sequence[tuple[Grant, Finish | Release]], begins: Sequence[Begin] = ()
    ) -> Flow[tuple[list[Finished | Released | Stale | Unsure], list[Begun]]]:
        """Record how effects ended, and begin others, in one call."""
        said = [self._grant_question(grant, word, quiet=True) for grant, word in endings]
        claims = [self._begin_question(begin) for begin in begins]
        yield from self.loop.answer([*said, *claims])
        answers = [cast(Finished | Released | Stale | Unsure, question.answer) for question in said]
        return answers, [Begun(cast(Grant | Answer, self._granted(claim)), claim.view.record) for claim in claims]

    def resolve_effects(
        self, keys: Sequence[str], command: Resolve, over: frozenset[Maker] = frozenset()
    ) -> Flow[list[Answer]]:
        """Resolve effects that are in doubt. If a run that is known to be `over` began the effect, and no process has
        checked it since, it is closed as lost first: then the caller must resolve it again."""
        return (yield from self._answers([about(key, command, over=over, quiet=True) for key in keys]))

    # --- locks and leaders: a lease with no slot ---

    def acquire(
        self, key: str, lease: timedelta = LOCK_LEASE, least: timedelta = timedelta(0)
    ) -> Flow[Grant | Refused]:
        """A lock or a leadership: a claim on a cell that never closes. `least`: it is kept from others for so long,
        even if its holder dies. Raises `BadRecord` if the store answers, and this version cannot read the record."""
        if not timedelta(0) < lease <= LOCK_LEASE:
            raise BadPolicy(
                f"a lock's lease must be more than zero and at most {format_duration(LOCK_LEASE)}, not {lease}"
            )
        check_lease(lease, self.client.traits)
        command = Claim(self.nonce(), self.client.holder, lease, "rerun", least=least)
        question = Question(command, View(Cell(key), None, self.know.guess()), self.know.epoch.birth)
        yield from self.loop.answer([question])
        if isinstance(question.answer, Unsure):
            raise _error(question.answer)
        (granted,) = yield from self._in_time([self._granted(question)])
        return granted

    # --- questions ---

    def _claim_question(self, want: Wants, lowest: Mapping[str, Instant], sample: Sample) -> Question:
        terms = want.terms.by_hand() if want.slot.request else want.terms
        if terms[:MEANT] not in self._checked:
            check_terms(checked(terms), self.client.traits)
            self._checked.add(terms[:MEANT])
        command = Claim(
            want.nonce,
            self.client.holder,
            terms.lease,
            terms.on_lost,
            terms.attempts,
            terms.start_by(want.slot.at),
            terms.payload,
            joined=terms.joined,
            overlap=terms.overlap,
            delay=terms.delay,
            digest=terms.digest,
            first=lowest.get(want.slot.job) if terms.outside else None,
        )
        unread = want.known or bool(want.slot.request)  # what was asked for by hand is never made by a claim
        return self._slot_question(command, want.slot, terms.limit, sample, unread=unread)

    def _begin_question(self, begin: Begin) -> Question:
        """A step is begun before the lease of its run lapses, or not at all: so no run begins one that another, granted
        since, has looked for."""
        run = begin.under
        command = Claim(
            begin.nonce,
            self.client.holder,
            begin.lease,
            "skip",
            MAX_BEGINS,
            under=Maker(run.key, run.fence) if run else None,
            keep=begin.keep,
            lands_by=run.cells[0].until if run else None,
            key=begin.sent,
        )
        of_slot = run.slot if run and begin.keep is None else None
        cell = Cell(begin.key, at=of_slot.at if of_slot else None)
        view = View(cell, None, self.know.guess(), over=begin.over)
        return Question(command, view, run.birth if run else self.know.epoch.birth, quiet=True)

    def _slot_question(
        self, command: Command, slot: Slot, turns: int = 0, sample: Sample | None = None, *, unread: bool = False
    ) -> Question:
        """About a slot that is guessed to have no record."""
        cells = tuple([Cell(turn_cell(slot.job, number)) for number in range(turns)])
        view = View(Cell(slot.cell, at=slot.due), None, sample or self.know.guess(), slot, cells, guessed=True)
        return Question(command, view, 0 if unread else self.know.epoch.birth)

    def _grant_question(
        self,
        grant: Grant,
        command: Command,
        sample: Sample | None = None,
        *,
        wakes: bool = False,
        quiet: bool = False,
    ) -> Question:
        run, *turns = grant.cells
        view = View(run, grant.record, sample or self.know.guess(), grant.slot, tuple(turns))
        return Question(command, view, grant.birth, wakes=wakes, quiet=quiet)

    def _answer_to(self, question: Question) -> Flow[Answer]:
        (answer,) = yield from self._answers([question])
        return answer

    def _answers(self, questions: list[Question]) -> Flow[list[Answer]]:
        asked = list(questions)
        yield from self.loop.answer(questions)
        return [cast(Answer, question.answer) for question in asked]

    # --- grants ---

    def _granted(self, question: Question) -> Grant | Refused:
        answer, view = question.answer, question.view
        if not isinstance(answer, Granted):
            return cast(Answer, answer)
        record = view.stands
        cells = (view.run, *[turn for turn in view.turns if turn.key == record.turn])
        return self._grant(view.slot, cells, record, view.sample, question.life)

    def _grant(self, slot: Slot | None, cells: tuple[Cell, ...], record: Record, sample: Sample, life: int) -> Grant:
        run, lease = cells[0], record.lease
        assert run.fence is not None
        trust = self._trust(run, sample, lease)
        return Grant(run.key, slot, run.fence, record.grant, lease, trust, cells, record, life)

    def _renewed(self, grant: Grant, question: Question) -> Grant | Stale | Unsure:
        answer, view = question.answer, question.view
        if not isinstance(answer, Renewed):
            return cast(Stale | Unsure, answer)
        trust = grant.trust.extended(self._clock.boot(), self._trust(view.run, view.sample, grant.lease).end)
        cells = (view.run, *view.turns)
        return grant._replace(trust=trust, cells=cells, record=view.stands, birth=question.life, ask=answer.ask)

    def _trust(self, run: Cell, sample: Sample, lease: timedelta) -> Trust:
        """Counted from when the call began that brought the cell, and from what was left of the lease then."""
        assert run.until is not None
        asked, (found, trust) = (sample, run.until, lease), self._trusted
        if asked != found:  # of a batch, all have the same
            trust = Trust(trust_end(sample.began, sample.now, run.until, lease, self.client.traits))
            self._trusted = (asked, trust)
        return trust


def _settling(cell: Cell, committed: Mapping[str, Fence] | None) -> Settle:
    return Settle() if committed is None else Settle(cell.fence, committed.get(cell.key) == cell.fence)


def _at_once(word: Finish | Release, sample: Sample) -> Finish | Release:
    """It has ended by now, however long it takes until the store hears of it."""
    return word._replace(ended=sample.now) if isinstance(word, Finish) and word.ended is None else word


def _error(unsure: Unsure) -> CronceError:
    return unsure.error or (BadRecord if unsure.unreadable else StoreUnavailable)(unsure.why)
