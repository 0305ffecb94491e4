"""The parts of a state. Everything is relative to the present: ticks from now, versions and fences from the latest."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from cronce.model import EPOCH, Epoch, Origin, Slot, Traits, from_us, to_us
from cronce.policy import OnLost
from cronce.protocol.commands import Change
from cronce.protocol.record import Record, State

EXPLORED_TICK: Final = timedelta(seconds=1)
EXPLORED_SLOT: Final = Slot("job", EPOCH + timedelta(days=1))
EXPLORED_NOW: Final = EXPLORED_SLOT.at + timedelta(hours=1)
"""All times in a state are relative to now, so now may be any instant."""

BIRTH: Final = to_us(EXPLORED_NOW)
EXPLORED_TRAITS: Final = Traits("explored", durable=False, skew=EXPLORED_TICK)
"""Two readings of the store's clock may differ by a tick; the margin of trust pays for it."""


class Promise(StrEnum):
    """What must hold in every state."""

    ONE_TRUSTS = "one run trusts the slot at a time"
    OVERTAKEN_REST = "an overtaken run does not act"
    TRUST_HOLDS = "who trusts it, holds it"
    TRUST_ENDS = "trust never returns"
    OWN_GRANT = "a start needs a grant of its own"
    SKIP_ONCE = "with skip nothing runs twice"
    FENCES_RISE = "fences rise"
    OLD_FENCE = "an old fence changes nothing"
    CLOSED_ONCE = "closed once"
    CLOSED_TRUE = "no process takes it for closed before it is"
    FORGOTTEN = "what the store forgot is not granted again"
    WITHIN_REACH = "closed is always within reach"


class Rank(IntEnum):
    """A version or a fence, relative to the present one. The real code gets these numbers."""

    NONE = 0
    EARLIER = 1  # of a copy that was put in place: written in an earlier life of the store
    OLD = 2
    LATEST = 3


class CellSeen(NamedTuple):
    """The cell as a claimant saw it, and how that relates to the present one."""

    version: Rank = Rank.NONE
    fence: Rank = Rank.NONE
    record: Record | None = None
    left: int = 0  # ticks of its lease when it was read
    mine: bool = False  # by the nonce of a claim, by the fence of anything later


class AnswerMeaning(StrEnum):
    """What an answer means to a claimant."""

    GRANTED = "granted"
    LATER = "not now"
    CLOSED = "closed"
    RENEWED = "renewed"
    RETRYING = "retrying"
    RELEASED = "released"
    STALE = "stale"
    UNSURE = "unsure"


class ClaimantRequest(StrEnum):
    CLAIM = "claim"
    SETTLE = "settlement"
    RENEW = "renewal"
    SUCCEED = "success"
    FAIL = "failure"
    RELEASE = "release"


class PlannedSwap(NamedTuple):
    """A swap: the version it expects, what it writes, and the answer once that has won."""

    seen: Rank
    change: Change
    gist: AnswerMeaning
    life: int  # of the store, that it believes in


class StoreReply(NamedTuple):
    """Either its gist, where nothing can change that any more, or what is to be decided on. Neither: read again."""

    gist: AnswerMeaning | None
    seen: CellSeen | None
    offset: int  # of the clock that dated it
    life: int


class PendingRequest(NamedTuple):
    """An errand on its way: planned, sent, or answered and not heard yet. Without a plan it is a load, or answered."""

    errand: ClaimantRequest
    plan: PlannedSwap | None = None
    load: bool = True
    sent: bool = True
    age: int = 0  # ticks since it was sent
    reply: StoreReply | None = None


class Orphan(NamedTuple):
    """A swap that no claimant waits for any more. It may arrive at any time."""

    plan: PlannedSwap
    mine: bool  # a claim, and its claimant still goes by the nonce in it


class EvenClock(NamedTuple):
    """The oldest sample since which the store's clock was seen to run evenly."""

    age: int
    offset: int


class ClaimStage(IntEnum):
    IDLE = 0
    ASKING = 1  # a claim or a settlement is under way
    GRANTED = 2
    WORKING = 3
    ENDING = 4  # its finish or release is under way: it does not act any more
    DONE = 5


class Claimant(NamedTuple):
    on_lost: OnLost
    stage: ClaimStage = ClaimStage.IDLE
    life: int = 0  # of the store, as far as it knows
    watch: EvenClock | None = None
    owns: bool = False  # the record in the cell carries the nonce of its claim
    grant: CellSeen | None = None
    trust: int = 0  # ticks that it may act without asking
    main: PendingRequest | None = None
    keep: PendingRequest | None = None  # its keeper's renewal
    orphans: tuple[Orphan, ...] = ()
    broken: Promise | None = None  # by its last step

    @property
    def calls(self) -> Iterator[PendingRequest]:
        return (call for call in (self.main, self.keep) if call is not None)

    def calling(self, call: PendingRequest) -> "Claimant":
        return self._replace(keep=call) if call.errand is ClaimantRequest.RENEW else self._replace(main=call)


class StoreState(NamedTuple):
    """The store, and what the referee remembers."""

    cell: CellSeen = CellSeen()
    shift: int = 0  # how far its clock has jumped
    life: int = 0
    copy: CellSeen | None = None
    begun: bool = False  # referee: a body was started under the latest fence
    unexplained: Rank = Rank.NONE  # referee: the fence of a skip run that was started, with no failure of it on record
    broken: Promise | None = None  # by the last step

    @property
    def state(self) -> State | None:
        return self.cell.record.state if self.cell.record else None

    @property
    def closed(self) -> bool:
        """For good: on record, or below the floor of a store that forgot."""
        return self.life > 0 if self.state is None else self.state is State.CLOSED


class CellChange(IntEnum):
    """What became of the cell."""

    NONE = 0
    CHANGED = 1
    GRANTED = 2
    FORGOTTEN = 3


def epoch_of(life: int) -> Epoch:
    if not life:
        return Epoch(BIRTH, Rank.LATEST)
    return Epoch(BIRTH + life, Rank.LATEST, Rank.EARLIER, Origin.RESTORED, from_us(BIRTH))


def bare(record: Record) -> Record:
    """A record without what no rule that is used here reads."""
    return record._replace(nonce="", holder="", grant=1, started=None, finished=None, reason="", past=())


# --- what a change of the cell does to what others know ---------------------------------------------------------------


def outdated(who: Claimant, news: CellChange) -> Claimant:
    """A claimant after the news: the version it knew as the latest is an old one now, and after a grant the fence."""
    return who._replace(
        owns=who.owns and news is CellChange.CHANGED,
        grant=who.grant and outdated_seen(who.grant, news),
        main=who.main and _outdated_call(who.main, news),
        keep=who.keep and _outdated_call(who.keep, news),
        orphans=ordered(orphan._replace(plan=_outdated_plan(orphan.plan)) for orphan in who.orphans),
    )


def _outdated_call(call: PendingRequest, news: CellChange) -> PendingRequest:
    reply = call.reply
    if reply is not None and reply.seen is not None:
        reply = reply._replace(seen=outdated_seen(reply.seen, news))
    return call._replace(plan=call.plan and _outdated_plan(call.plan), reply=reply)


def _outdated_plan(plan: PlannedSwap) -> PlannedSwap:
    return plan._replace(seen=outdated_rank(plan.seen))


def outdated_seen(seen: CellSeen, news: CellChange) -> CellSeen:
    fence = outdated_rank(seen.fence) if news is CellChange.GRANTED else seen.fence
    return seen._replace(version=outdated_rank(seen.version), fence=fence)


def outdated_rank(rank: Rank) -> Rank:
    return Rank.OLD if rank is Rank.LATEST else rank


def ordered(orphans: Iterable[Orphan]) -> tuple[Orphan, ...]:
    """Of two that are alike one is enough: once it has landed the other will be refused."""
    return tuple(sorted(set(orphans), key=repr))
