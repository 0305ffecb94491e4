"""The loop: read what a decision needs, `decide`, swap, take in the reply; until every command has an answer.

*Lost replies.* A swap without an answer may have landed. The loop reads the cells again and decides again: a claim
finds its own nonce, a finish its own fence, and the answer is the one that was lost. If reading fails too, the answer
is `Unsure`: the caller may not run.

*One life of the store per view.* A write that rests on cells read in an earlier life is never sent under the birth of a
later one, because the numbers of two lives may coincide.

*A batch.* Commands are decided one after the other, each by what was read. The writes of earlier commands have not
landed yet: a later command learns only which turns they would take (`View.reserved`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from cronce.errors import BadRecord, StoreError, StoreUnavailable
from cronce.events import Event, What
from cronce.model import ABSENT, SWITCH, Cell, Refusal, Verdict, Write, job_cell, slot_of_cell
from cronce.protocol.commands import Answer, Asked, Command, Decision, Finished, Queued, Released, Settled, Unsure
from cronce.protocol.decide import decide, job_write, refused, writes_of
from cronce.protocol.gates import Need, rests_on_job
from cronce.protocol.lease import NO_SAMPLE, Sample
from cronce.protocol.record import Maker, Record, decode
from cronce.protocol.view import KnownJob, View
from cronce.runtime.batch import Batch
from cronce.runtime.client import MAX_ANSWER_TIME, MAX_ROUNDS, UNANSWERED, WAKE, Client
from cronce.runtime.flow import Flow, Timed
from cronce.stores.base import Loaded, Swapped

KnownJobs = Mapping[str, KnownJob]


class Question:
    """A command, and the view that it is decided by. The answer holds of the view as it is then."""

    __slots__ = ("answer", "command", "decision", "job", "life", "quiet", "view", "wakes", "writes")

    decision: Decision  # of this round
    writes: list[Write]  # that make it true

    def __init__(
        self,
        command: Command,
        view: View,
        life: int = 0,
        *,
        wakes: bool = False,
        quiet: bool = False,
    ) -> None:
        self.command = command
        self.view = view
        self.job = view.slot.job if view.slot is not None and rests_on_job(view, command) else ""  # that it rests on
        self.life = life  # of the store, in which it was read; 0: it has to be read, perhaps again
        self.wakes = wakes  # other processes wait for what this brings about
        self.quiet = quiet  # no event: there are thousands, and the caller reports what matters
        self.answer: Answer | None = None


def about(key: str, command: Command, *, over: Collection[Maker] = (), quiet: bool = False) -> Question:
    """A question about a run, a lock or an effect that is read first."""
    slot = slot_of_cell(key) if key.startswith("run/") else None
    return Question(command, View(Cell(key), None, NO_SAMPLE, slot, over=over), quiet=quiet)


class Loop:
    def __init__(self, client: Client) -> None:
        self._client, self._know = client, client.know

    def answer(self, questions: list[Question], beside: Batch | None = None, *, patient: bool = True) -> Flow[None]:
        """Bring every question to its answer. Questions about other runs, and about writes `beside`, are added to the
        list. Without patience a write that hangs is the last: the caller writes down what a crash would lose."""
        unanswered, beside = 0, Batch() if beside is None else beside
        for question in questions if self._know.doubt is not None else ():  # without a read, doubt would never end
            question.life = 0
        try:
            for _ in range(MAX_ROUNDS):
                pending = [question for question in questions if question.answer is None]
                if not pending and not beside.writes:
                    return
                known, began = (yield from self.read(pending)), self._know.boot()
                error = yield from self._round(pending, known, questions, beside)
                beside.sent()
                unanswered = unanswered + 1 if error else 0
                hung = self._know.boot() - began > MAX_ANSWER_TIME
                if error and (unanswered == UNANSWERED or (hung and not patient)):
                    raise error
            unsure = Unsure(f"no answer after {MAX_ROUNDS} rounds")
        except StoreError as error:
            unsure = Unsure(str(error), error)
        questions += beside.unanswered()
        for question in questions:
            if question.answer is None:
                question.answer = unsure

    # --- reading ---

    def read(self, pending: Sequence[Question], jobs: Iterable[str] = ()) -> Flow[KnownJobs]:
        """Read what is not known yet, or not any more; the jobs that the commands rest on, as they are known then."""
        life = self._know.epoch.birth
        names = {*jobs, *[one.job for one in pending if one.job]}
        known = self._know.jobs(names) if names else {}
        lacking = names - known.keys()
        stale = [one for one in pending if one.life != life or not life or one.job in lacking]
        if not (stale or lacking):
            return known
        keys = {one.view.run.key for one in stale} | {turn.key for one in stale for turn in one.view.turns}
        about = {SWITCH, *map(job_cell, lacking)} if lacking else set()
        loaded, timed = yield from self._client.load(sorted(keys | about))
        cells = {cell.key: cell for cell in loaded.cells}
        if lacking:
            self._know.learn_switch(cells[SWITCH])
        unreadable = {job for job in lacking if not self._know.learn_job(job, cells[job_cell(job)], loaded)}
        for one in stale:
            if one.job in unreadable:
                one.answer = Unsure(f"{job_cell(one.job)} is unreadable: upgrade cronce", unreadable=True)
            self._take_in(one, [cells[one.view.run.key], *(cells[turn.key] for turn in one.view.turns)], timed)
        return self._know.jobs(names)

    def _take_in(self, one: Question, cells: Sequence[Cell], timed: Timed) -> None:
        assert isinstance(timed.reply, Loaded | Swapped)
        try:
            one.view = taken_in(one.view, cells, Sample(timed.began, timed.ended, timed.reply.now))
        except BadRecord as error:
            one.answer = one.answer or Unsure(str(error), unreadable=True)
        one.life = timed.reply.epoch.birth

    # --- one round ---

    def _round(
        self, pending: list[Question], known: KnownJobs, questions: list[Question], beside: Batch
    ) -> Flow[StoreUnavailable | None]:
        """Decide, and write what makes the answers true; the error, if no answer came."""
        seen = beside.seen or self._know.epoch.seen
        jobs: dict[str, Write] = {}
        changing = self._decide(pending, known, questions, jobs, beside)
        writes, waking = [*jobs.values(), *beside.writes], beside.wakes
        for one in changing:
            writes += one.writes
            waking = waking or one.wakes or (one.view.slot is not None and _wakes(one.decision.answer))
        if waking:
            writes.append(WAKE)
        writes += self._know.contact.probes([one.view for one in pending if one.view.record is not None])
        if not writes:
            return None
        try:
            swapped, timed = yield from self._client.swap([*writes, *beside.unconfirmed], seen)
        except StoreUnavailable as error:
            questions += (left := beside.unanswered())
            for one in (*left, *changing):
                one.life, one.view = 0, one.view._replace(unheard_in=one.view.unheard_in or seen[0])
            return error
        self._learn_jobs(jobs, swapped)
        place, sample = len(jobs), Sample(timed.began, timed.ended, swapped.now)
        for one, own, verdicts in beside.heard(swapped.verdicts[place:], sample, swapped.epoch.birth):
            questions.append(one)
            self._lost(one, own, verdicts, timed)
        place += len(beside.writes)
        for one in changing:
            verdicts = swapped.verdicts[place : place + len(one.writes)]
            place += len(one.writes)
            cells = [cell for refused, cell in verdicts if refused is None]
            if len(cells) == len(verdicts):
                self._won(one, cells, sample, swapped.epoch.birth)
            else:
                self._lost(one, one.writes, verdicts, timed)
        return None

    def around(self, reserved: Collection[str] = (), beside: Mapping[str, bool] = {}) -> View:
        """What holds for every command of a batch, read once: another thread or the clock may change it at any
        moment."""
        know, halted, ended = self._know, self._know.halted is not None, tuple(self._know.ended.values())
        return View(
            Cell(""), None, NO_SAMPLE, halted=halted, epoch=know.epoch, traits=self._client.traits, even=know.watched,
            heard=know.contact.heard, doubt=know.doubt, reserved=reserved, beside=beside, ended=ended,
        )  # fmt: skip

    def _decide(
        self,
        pending: list[Question],
        known: KnownJobs,
        questions: list[Question],
        jobs: dict[str, Write],
        beside: Batch,
    ) -> list[Question]:
        """Those that change something. Those that need another read first are left for the next round."""
        reserved, runs = set(beside.taken), {one.view.run.key: one.answer is not None for one in questions}
        around = self.around(reserved, {**beside.runs, **runs})
        birth = around.epoch.birth
        changing: list[Question] = []
        for number, one in enumerate(pending, len(beside)):
            if one.answer is not None or one.life != birth:
                continue
            job = known.get(one.job)
            if job is not None and job.birth != birth:
                job = None
            one.view = view = one.view.within(around, job, number)
            decision = self._decided(one, view, questions)
            if decision is None:
                continue
            if decision.job is not None and view.slot is not None:
                jobs.setdefault(view.slot.job, job_write(view, decision.job))
            one.decision, one.writes = decision, writes_of(view, one.command, decision)
            if one.writes:
                changing.append(one)
                if decision.turn is not None:
                    reserved.add(decision.turn.key)
            else:
                self._conclude(one, decision.answer)
        return changing

    def _decided(self, one: Question, view: View, questions: list[Question]) -> Decision | None:
        try:
            decision = decide(view, one.command)
        except BadRecord as error:
            one.answer = Unsure(str(error), unreadable=True)
            return None
        for run, command in decision.first if isinstance(decision, Need) else decision.also:
            if run not in view.beside:
                questions.append(about(run, command))
        if isinstance(decision, Decision):
            return decision
        one.life = 0
        one.view = view._replace(turns=(*view.turns, *map(Cell, decision.turns)))
        return None

    # --- replies ---

    def _learn_jobs(self, jobs: dict[str, Write], swapped: Swapped) -> None:
        for (name, write), verdict in zip(jobs.items(), swapped.verdicts, strict=False):
            if verdict.refused in (None, Refusal.VERSION):
                self._know.learn_job(name, verdict.cell, swapped)
            if verdict.refused is None and write.seen == ABSENT:
                self._client.report(Event(What.REGISTERED, write.key, self._client.holder, swapped.now))

    def _won(self, one: Question, cells: list[Cell], sample: Sample, life: int) -> None:
        decision = one.decision
        assert decision.change is not None
        is_answer = decision.is_answer_to(one.command)
        if is_answer:
            one.view = View(cells[0], decision.change.record, sample, one.view.slot, tuple(cells[1:]))
        else:
            one.view = taken_in(one.view, cells, sample, decision.change.record)
        one.life = life
        self._conclude(one, decision.answer, wrote=True)
        if not is_answer:
            one.answer = None

    def _lost(self, one: Question, writes: Sequence[Write], verdicts: Sequence[Verdict], timed: Timed) -> None:
        refusals = {verdict.refused for verdict in verdicts}
        news = [verdict.cell for verdict in verdicts if verdict.refused is Refusal.VERSION]
        if Refusal.EPOCH in refusals:
            one.life = 0
        elif news:
            self._take_in(one, news, timed)
            if len(one.view.turns) > 1 and all(cell.key != one.view.run.key for cell in news):
                one.life = 0
        else:
            one.answer = refused(one.command, writes[0].not_before, refusals, self._know.doubt)
            if one.answer is not None:
                return
            one.life = 0
            if one.view.slot:
                self._know.forget_job(one.view.slot.job)

    def _conclude(self, one: Question, answer: Answer, *, wrote: bool = False) -> None:
        one.answer = answer
        if not one.quiet:
            self._client.tell_answer(answer, one.view, wrote=wrote)


def taken_in(view: View, cells: Iterable[Cell], sample: Sample, record: Record | None = None) -> View:
    """The view with the current state of these cells: the run, or some of its turns."""
    run, old, guessed, turns = view.run, view.record, view.guessed, view.turns
    for cell in cells:
        if cell.key == run.key:
            guessed = False
            if record is None and cell.version:
                record = old if old is not None and cell.value == run.value else decode(cell.value, cell.key)
            old = record
            run = cell if cell.version else Cell(cell.key, at=run.at)
        else:
            turns = tuple(cell if turn.key == cell.key else turn for turn in turns)
    return view._replace(run=run, record=old, sample=sample, turns=turns, guessed=guessed)


_WAKING: Final = (Released, Asked, Settled)


def _wakes(answer: Answer) -> bool:
    """Whether other processes should look once this is written: there is something to claim, or to report."""
    if isinstance(answer, Finished):
        return answer.retrying
    return isinstance(answer, _WAKING) or (isinstance(answer, Queued) and not answer.waiting)
