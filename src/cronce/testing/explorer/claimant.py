"""A claimant: what it does by itself, whatever the others do."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil
from typing import Final, NamedTuple

from cronce.model import Cell, Fence, job_cell
from cronce.protocol.commands import (
    Answer,
    Change,
    Claim,
    Closed,
    Command,
    Decision,
    Finish,
    Finished,
    Granted,
    Release,
    Released,
    Renew,
    Renewed,
    Settle,
    Stale,
)
from cronce.protocol.decide import decide
from cronce.protocol.lease import Sample, Trust, even_span, tolerance, trust_end
from cronce.protocol.record import Job, Outcome
from cronce.protocol.view import KnownJob, View
from cronce.testing.explorer.configs import Config, ExploredFault
from cronce.testing.explorer.parts import (
    BIRTH,
    EXPLORED_NOW,
    EXPLORED_SLOT,
    EXPLORED_TICK,
    EXPLORED_TRAITS,
    AnswerMeaning,
    CellSeen,
    Claimant,
    ClaimantRequest,
    ClaimStage,
    EvenClock,
    Orphan,
    PendingRequest,
    PlannedSwap,
    Promise,
    Rank,
    StoreReply,
    bare,
    epoch_of,
    ordered,
)

MINE: Final = "mine"
THEIR_NONCE: Final = "theirs"
"""The nonces of claims, as a claimant sees them."""


EXPLORED_JOB: Final = KnownJob(
    Cell(job_cell(EXPLORED_SLOT.job), 1), Job(floor=EXPLORED_SLOT.at - EXPLORED_TICK), EXPLORED_NOW
)
FIRST_SAMPLE: Final = Sample(0.0, 0.0, EXPLORED_NOW)


class Move(NamedTuple):
    """A step that a claimant takes by itself."""

    label: str
    after: Claimant
    fault: ExploredFault | None = None
    starts: bool = False


class Claimants:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.lease = config.lease * EXPLORED_TICK
        longest = (
            self.lease + (config.skew + max(0, -config.jump)) * EXPLORED_TICK
        )  # read back after the clock stepped back
        self.trusted = ceil(trust_end(0.0, EXPLORED_NOW, EXPLORED_NOW + longest, self.lease, EXPLORED_TRAITS))

    def moves(self, who: Claimant) -> list[Move]:
        return [*self._own_moves(who), *self._call_moves(who), *self._crash(who)]

    def _own_moves(self, who: Claimant) -> Iterator[Move]:
        match who.stage:
            case ClaimStage.IDLE:
                yield Move("claims", self._claim(who))
                if self.config.sweeper:
                    yield Move(
                        "looks after it",
                        who._replace(stage=ClaimStage.ASKING, main=PendingRequest(ClaimantRequest.SETTLE)),
                    )
            case ClaimStage.DONE:
                yield Move("is called again", self._idle(who))
            case ClaimStage.GRANTED:
                yield from self._granted_moves(who)
            case ClaimStage.WORKING:
                yield from self._working_moves(who)
        if self.config.keeper and who.keep is None and self._renewable(who):
            yield Move("renews", who._replace(keep=self._planned(who, ClaimantRequest.RENEW)))

    def _granted_moves(self, who: Claimant) -> Iterator[Move]:
        yield Move("gives back what it never started", self._end(who, ClaimantRequest.RELEASE))
        if Trust(who.trust).holds(0.0):
            yield Move("starts its body", who._replace(stage=ClaimStage.WORKING), starts=True)

    def _working_moves(self, who: Claimant) -> Iterator[Move]:
        yield Move("has succeeded", self._end(who, ClaimantRequest.SUCCEED))
        if self.config.attempts > 1:  # else a failure closes it just as a success does
            yield Move("has failed", self._end(who, ClaimantRequest.FAIL))
        if not Trust(who.trust).holds(0.0):
            yield Move("just stops", self._idle(who))

    def _renewable(self, who: Claimant) -> bool:
        """While the body works, and while the store hears how it ended."""
        finishing = who.main is not None and who.main.errand in (ClaimantRequest.SUCCEED, ClaimantRequest.FAIL)
        return who.stage is ClaimStage.WORKING or finishing

    def _claim(self, who: Claimant) -> Claimant:
        """Optimistic, like the ledger: the cell is assumed free, and is not read first, unless that leads nowhere."""
        gist, change = self._decide(who, ClaimantRequest.CLAIM, CellSeen())
        plan = change and PlannedSwap(Rank.NONE, change, gist, who.life)
        return who._replace(
            stage=ClaimStage.ASKING, main=PendingRequest(ClaimantRequest.CLAIM, plan, load=plan is None)
        )

    def _end(self, who: Claimant, errand: ClaimantRequest) -> Claimant:
        return who._replace(stage=ClaimStage.ENDING, trust=0, main=self._planned(who, errand))

    def _planned(self, who: Claimant, errand: ClaimantRequest) -> PendingRequest:
        """A command under the own grant rests on what is known of the cell: it is not read first."""
        assert who.grant is not None
        gist, change = self._decide(who, errand, who.grant)
        plan = change and PlannedSwap(who.grant.version, change, gist, who.life)
        return PendingRequest(errand, plan, load=plan is None)

    def _crash(self, who: Claimant) -> Iterator[Move]:
        if who.stage is not ClaimStage.IDLE:
            yield Move("crashes", Claimant(who.on_lost, orphans=self._left_behind(who)), ExploredFault.CRASH)

    def _idle(self, who: Claimant) -> Claimant:
        """It has nothing and wants nothing; its next claim draws another nonce."""
        return Claimant(who.on_lost, life=who.life, watch=who.watch, orphans=self._left_behind(who))

    def _left_behind(self, who: Claimant) -> tuple[Orphan, ...]:
        """The request is on its way, and no claimant uses its nonce any more."""
        sent = (call.plan for call in who.calls if call.sent and call.plan is not None)
        known = (orphan.plan for orphan in who.orphans)
        return ordered(Orphan(plan, mine=False) for plan in (*known, *sent))

    # --- calls ---

    def _call_moves(self, who: Claimant) -> Iterator[Move]:
        for call in who.calls:
            if not call.sent:
                yield Move(f"sends its {call.errand}", who.calling(call._replace(sent=True)))
                continue
            if call.reply is not None:
                yield Move(f"hears of its {call.errand}", self.heard(who, call, call.reply))
            yield Move(f"waits no longer for its {call.errand}", self._given_up(who, call), ExploredFault.LOST)

    def _given_up(self, who: Claimant, call: PendingRequest) -> Claimant:
        """A swap without an answer may have landed: read back. After a load without one it is none the wiser."""
        if call.load:
            return self._concluded(who, call, AnswerMeaning.UNSURE, None)
        if call.plan is not None:
            orphan = Orphan(call.plan, mine=call.errand is ClaimantRequest.CLAIM and call.plan.change.grant)
            who = who._replace(orphans=ordered((*who.orphans, orphan)))
        return who.calling(PendingRequest(call.errand))

    def heard(self, who: Claimant, call: PendingRequest, reply: StoreReply) -> Claimant:
        samples = self._samples(who.watch, call.age, reply.offset)
        even = even_span(samples, tolerance(self.lease))
        who = who._replace(watch=self._watched(who.watch, samples, reply.offset), life=max(who.life, reply.life))
        if reply.life < who.life or (reply.gist is None and reply.seen is None):
            return who.calling(PendingRequest(call.errand))
        if reply.gist is not None:
            return self._concluded(who, call, reply.gist, reply.seen)
        assert reply.seen is not None
        gist, change = self._decide(who, call.errand, reply.seen, even)
        if change is None:
            return self._concluded(who, call, gist, reply.seen)
        plan = PlannedSwap(reply.seen.version, change, gist, who.life)
        return who.calling(PendingRequest(call.errand, plan, load=False, sent=False))

    def _decide(
        self, who: Claimant, errand: ClaimantRequest, seen: CellSeen, even: timedelta = timedelta(0)
    ) -> tuple[AnswerMeaning, Change | None]:
        own, others = Fence(BIRTH, 1), Fence(BIRTH, 2)
        until = EXPLORED_NOW + seen.left * EXPLORED_TICK
        cell = Cell(
            EXPLORED_SLOT.cell, seen.version, at=EXPLORED_SLOT.at, fence=own if seen.mine else others, until=until
        )
        record = seen.record and seen.record._replace(nonce=MINE if seen.mine else THEIR_NONCE)
        view = View(
            cell, record, FIRST_SAMPLE, EXPLORED_SLOT, known=EXPLORED_JOB,
            epoch=epoch_of(who.life), traits=EXPLORED_TRAITS, even=lambda *_: even, heard=lambda *_: timedelta.max,
        )  # fmt: skip
        decision = decide(view, self._command(who, errand, own))
        assert isinstance(decision, Decision)
        change = decision.change
        return _gist(decision.answer), change and change._replace(record=bare(change.record))

    def _command(self, who: Claimant, errand: ClaimantRequest, fence: Fence) -> Command:
        match errand:
            case ClaimantRequest.CLAIM:
                return Claim(MINE, "", self.lease, who.on_lost, self.config.attempts)
            case ClaimantRequest.SETTLE:
                return Settle()
            case ClaimantRequest.RENEW:
                return Renew(fence)
            case ClaimantRequest.RELEASE:
                return Release(fence)
            case ClaimantRequest.SUCCEED:
                return Finish(fence, Outcome.SUCCEEDED)
            case ClaimantRequest.FAIL:
                return Finish(fence, Outcome.FAILED, backoff=EXPLORED_TICK)

    # --- answers ---

    def _concluded(self, who: Claimant, call: PendingRequest, gist: AnswerMeaning, seen: CellSeen | None) -> Claimant:
        if call.errand is ClaimantRequest.RENEW:
            return self._renewed(who._replace(keep=None), call, gist, seen)
        if gist is AnswerMeaning.GRANTED:
            assert seen is not None
            held = who._replace(stage=ClaimStage.GRANTED, main=None, owns=False, trust=self._trust(call, seen))
            return self._knowing(held, seen)
        if gist is AnswerMeaning.CLOSED:
            return Claimant(who.on_lost, ClaimStage.DONE, life=who.life, orphans=self._left_behind(who))
        if gist is AnswerMeaning.UNSURE and call.errand in (ClaimantRequest.SUCCEED, ClaimantRequest.FAIL):
            return who._replace(main=self._planned(who, call.errand))  # it is reported until the store has received it
        return self._idle(who)

    def _renewed(self, who: Claimant, call: PendingRequest, gist: AnswerMeaning, seen: CellSeen | None) -> Claimant:
        if gist is AnswerMeaning.STALE:
            return who._replace(trust=0)
        if gist is not AnswerMeaning.RENEWED:
            return who
        assert seen is not None
        trust = ceil(Trust(who.trust).extended(0.0, self._trust(call, seen)).end)
        broken = Promise.TRUST_ENDS if trust and not who.trust else None
        return self._knowing(who._replace(trust=trust, broken=broken), seen)

    def _knowing(self, who: Claimant, seen: CellSeen) -> Claimant:
        return who._replace(grant=seen._replace(left=0, mine=True))

    def _trust(self, call: PendingRequest, seen: CellSeen) -> int:
        """Ticks of trust from now on. The own clock reads 0 now, so the call began at minus its age."""
        return max(
            0,
            ceil(
                trust_end(
                    -call.age, EXPLORED_NOW, EXPLORED_NOW + seen.left * EXPLORED_TICK, self.lease, EXPLORED_TRAITS
                )
            ),
        )

    # --- clocks ---

    def _samples(self, watch: EvenClock | None, age: int, offset: int) -> tuple[Sample, ...]:
        """Newest first. A reply that took a tick bounds the clock too loosely, wherever in that tick it was dated."""
        newest = Sample(-age, 0, EXPLORED_NOW + offset * EXPLORED_TICK)
        if watch is None:
            return (newest,)
        return newest, Sample(-watch.age, -watch.age, EXPLORED_NOW + (watch.offset - watch.age) * EXPLORED_TICK)

    def _watched(self, watch: EvenClock | None, samples: Sequence[Sample], offset: int) -> EvenClock | None:
        if samples[0].began < samples[0].ended:
            return watch
        return watch if even_span(samples, tolerance(self.lease)) else EvenClock(0, offset)

    def tick(self, who: Claimant) -> Claimant:
        watch = who.watch and who.watch._replace(age=min(who.watch.age + 1, self.config.lease))
        main, keep = (call and call._replace(age=call.age + call.sent) for call in (who.main, who.keep))
        return who._replace(watch=watch, trust=max(who.trust - 1, 0), main=main, keep=keep)

    # --- without what cannot matter any more ---

    def trimmed(self, who: Claimant) -> Claimant:
        main, keep = (call and self._trimmed_call(who, call) for call in (who.main, who.keep))
        return who._replace(main=main, keep=keep)

    def _trimmed_call(self, who: Claimant, call: PendingRequest) -> PendingRequest:
        reply = call.reply and self._trimmed_reply(who, call, call.reply)
        call = call._replace(reply=reply, plan=call.plan if reply is None else None)
        return call._replace(age=min(call.age, self.trusted if self._may_bring_trust(who, call) else 1))

    def _may_bring_trust(self, who: Claimant, call: PendingRequest) -> bool:
        """If not, all that matters of a call's age is whether it was answered at once."""
        if call.reply is not None and call.reply.gist not in (AnswerMeaning.GRANTED, AnswerMeaning.RENEWED):
            return False
        if call.errand is ClaimantRequest.RENEW:
            return Trust(who.trust).extended(0.0, self.trusted).holds(0.0)
        return call.errand is ClaimantRequest.CLAIM

    def _trimmed_reply(self, who: Claimant, call: PendingRequest, reply: StoreReply) -> StoreReply:
        """Only the gist of a reply, if that is the same whatever the claimant has seen of the clock until it hears."""
        if call.age:
            reply = reply._replace(offset=0)  # it proves nothing about the clock
        if reply.seen is None or reply.gist is not None or reply.life < who.life:
            return reply
        evens = (timedelta(0),) if call.age else (timedelta(0), self.lease)
        decisions = {self._decide(who._replace(life=reply.life), call.errand, reply.seen, even) for even in evens}
        (gist, change), *others = decisions
        if change is not None or others:
            timeless = call.errand not in (
                ClaimantRequest.CLAIM,
                ClaimantRequest.SETTLE,
            )  # a fence is right or wrong at any time
            return reply._replace(seen=reply.seen._replace(left=0)) if timeless else reply
        return reply._replace(gist=gist, seen=reply.seen if gist is AnswerMeaning.GRANTED else None)


def _gist(answer: Answer) -> AnswerMeaning:
    match answer:
        case Granted():
            return AnswerMeaning.GRANTED
        case Closed() | Finished(_, False):
            return AnswerMeaning.CLOSED
        case Finished(_, True):
            return AnswerMeaning.RETRYING
        case Renewed():
            return AnswerMeaning.RENEWED
        case Released():
            return AnswerMeaning.RELEASED
        case Stale():
            return AnswerMeaning.STALE
        case _:
            return AnswerMeaning.LATER
