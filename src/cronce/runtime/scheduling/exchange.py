"""Saying what ended, and claiming what is next: one swap for both, and what the store answered to each."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from cronce.errors import StoreError
from cronce.model import Instant, Slot
from cronce.protocol.commands import Closed, Early, Finished, Held, Queued
from cronce.runtime.attempt import Attempt
from cronce.runtime.call import why_not
from cronce.runtime.current import Current
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Expired, Grant, Wanted
from cronce.runtime.log import LOGGER
from cronce.runtime.scheduling.at_work import AtWork
from cronce.runtime.scheduling.carrying import Carrying
from cronce.runtime.scheduling.endings import UNWELL, Endings, Said
from cronce.runtime.scheduling.post import LOOK, Post
from cronce.runtime.scheduling.waitlist import AT_ONCE, MOMENT, Candidate, Waitlist
from cronce.runtime.task import Busy, Paused, Superseded, Unsure
from cronce.runtime.tidy import settle_rerun, tidy_later

Submit = Callable[[Sequence[Attempt]], None]
"""Begin these; each is `done` once, from whatever thread."""

Refused = Callable[[Slot, str, Keeper], None]
"""Told of a slot that this process tried and another had."""


def unheard(_slot: Slot, _why: str, _keeper: Keeper) -> None:
    """Nobody wants to know."""


class Exchange:
    """One thread's. From `line` to `at_work`, and from there to `endings`. `news` is called where a look pays."""

    def __init__(
        self,
        keeper: Keeper,
        post: Post,
        carrying: Carrying,
        line: Waitlist,
        at_work: AtWork,
        *,
        submit: Submit,
        refused: Refused,
        news: Callable[[], None],
    ) -> None:
        self._keeper, self._desk, self._ledger = keeper, keeper.desk, keeper.desk.ledger
        self._post, self._carrying, self._line, self._at_work = post, carrying, line, at_work
        self._submit, self._refused, self._news = submit, refused, news
        self._left = False  # the last time, not all was said of what had ended
        self._took = False  # the last time, there was something in line that could be claimed
        self._warned: set[tuple[str, str]] = set()
        self.endings = Endings(self._desk.holder)

    @property
    def pending(self) -> bool:
        """Whether there is something to say, or something in line that may be claimed."""
        return self.endings.new or self._left or (self._took and len(self._line) > 0 and self._free > 0)

    @property
    def _free(self) -> int:
        return self._post.workers - len(self._at_work) if self._post.works else AT_ONCE

    def make(self, *, claims: bool) -> bool:
        """Whether there was anything to be said or claimed."""
        self._dismiss_ended()
        chosen = self._line.take(self._free, self._ledger.know.now(), self._at_work.turns) if claims else []
        self._took = bool(chosen)
        over = self.endings.take(self._desk.clock.boot(), {one.slot.job for one in chosen})
        self._left = len(self.endings) > 0
        if not over and not chosen:
            return False
        try:
            answers, grants = self._exchanged(over, chosen)
        except BaseException:
            self.endings.keep(over)
            self._line.put_back(chosen)
            raise
        for said, answer in zip(over, answers, strict=True):
            self._heard(said, answer)
        started = [self._answered(one, answer) for one, answer in zip(chosen, grants, strict=True)]
        self._submit([attempt for attempt in started if attempt is not None])
        unsure = [one.error for one in (*answers, *grants) if isinstance(one, Unsure) and one.error]
        if unsure and len(unsure) == len(over) + len(chosen):
            raise unsure[0]
        return True

    def _dismiss_ended(self) -> None:
        """Their workers, and as far as this process is concerned their turns, are free again."""
        for said in self.endings.pop_new():
            job = said.attempt.job
            awaited = job.overlap in ("wait", "replace") or self._line.waits_for(job.name)
            self._at_work.dismiss(said.attempt)
            if said.end.open:
                continue
            with Current(said.attempt.run):  # its line says which run it is about
                said.tell()
            self.endings.keep([said._replace(awaited=awaited)])
            if awaited:
                self._line.freed()

    def _exchanged(self, over: list[Said], chosen: list[Candidate]) -> tuple[Sequence[object], Sequence[object]]:
        wanted = [Wanted(one.slot, one.terms, one.known, one.nonce) for one in chosen]
        if self._post.works:
            return self._desk.do(self._ledger.exchange([said.word for said in over], wanted))
        return (), self._desk.do(self._ledger.enqueue(wanted))

    # --- what the store answered ---

    def _heard(self, said: Said, answer: object) -> None:
        """To how a run ended. If it is to be tried again, or others waited for it, look at once."""
        self.endings.heard(said, answer)
        if isinstance(answer, Finished):
            tidy_later(self._keeper, said.attempt.job, said.attempt.run.slot)
            settle_rerun(self._keeper, said.attempt.run.slot, answer.outcome)
        if said.awaited or (isinstance(answer, Finished) and answer.retrying):
            self._news()

    def _answered(self, candidate: Candidate, answer: object) -> Attempt | None:
        """To a claim."""
        now = self._ledger.know.now()
        match answer:
            case Grant():
                return self._employed(candidate, answer, now)
            case Unsure() if answer.unreadable:
                self._warn(candidate.slot.job, f"is not run by this process: {answer.why}")
                self._line.put_off(candidate, now + UNWELL)
            case Expired() | Unsure():
                self._line.put_back([candidate])
            case Early(until):
                self._line.put_off(candidate, until or now + MOMENT)
            case Queued(True) | Busy():
                self._line.found_busy(candidate.slot.job, now)
                if isinstance(answer, Busy) and not candidate.known:  # it is on record nowhere, so no look finds it
                    self._line.put_off(candidate, now + LOOK)
            case Paused() if now - candidate.due < 2 * LOOK:  # by facts up to a look old: it may be resumed
                self._line.put_off(candidate, now + LOOK)
            case Superseded():
                self._superseded(candidate, now)
            case Held() | Closed():
                self._beaten(candidate, answer)
        return None  # held or closed: whoever has it sees to it; what waits is found by looking

    def _superseded(self, candidate: Candidate, now: Instant) -> None:
        """By facts that may be old: it may be ours in a moment."""
        if now - candidate.due < 4 * LOOK:
            self._ledger.know.forget_job(candidate.slot.job)
            self._line.put_off(candidate, now + LOOK)
        else:
            self._warn(candidate.slot.job, "is fired by another version of it, which another process carries")

    def _beaten(self, candidate: Candidate, answer: Held | Closed) -> None:
        """Of a slot that was left behind it was known that others would try."""
        if not candidate.known:
            self._refused(candidate.slot, why_not(candidate.slot, answer).reason, self._keeper)

    def _employed(self, candidate: Candidate, grant: Grant, now: Instant) -> Attempt | None:
        """What cannot be begun is given back: one trouble must not take the others with it."""
        try:
            return self._at_work.employ(candidate, grant, self._carrying[candidate.slot.job], now)
        except Exception:
            LOGGER.exception("%s could not be begun, and is given back", candidate.slot.key)
        with suppress(StoreError):
            self._desk.do(self._ledger.release([grant], UNWELL))
        return None

    def _warn(self, job: str, why: str) -> None:
        """Once: it is the same with every slot."""
        if (job, why) not in self._warned:
            self._warned.add((job, why))
            LOGGER.warning("%s %s", job, why)
