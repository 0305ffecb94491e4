"""The store: one request at a time, judged by the real `judge`. And the referee, which sees every change of the
cell."""

from collections.abc import Iterator
from typing import NamedTuple

from cronce.model import Cell, Fence, Mark, Refusal, Write
from cronce.protocol.record import State, decode, encode
from cronce.stores.base import judge
from cronce.testing.explorer.configs import Config, ExploredFault
from cronce.testing.explorer.parts import (
    BIRTH,
    EXPLORED_NOW,
    EXPLORED_SLOT,
    EXPLORED_TICK,
    CellChange,
    CellSeen,
    Claimant,
    ClaimantRequest,
    Orphan,
    PendingRequest,
    PlannedSwap,
    Promise,
    Rank,
    StoreReply,
    StoreState,
    epoch_of,
    outdated,
    outdated_rank,
    outdated_seen,
)


class Served(NamedTuple):
    """A step of the store: a request of this claimant arrived."""

    label: str
    shelf: StoreState
    after: Claimant
    news: CellChange


class StoreSteps:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.least = min(0, config.jump)  # a lease that ran out stays so, unless the clock steps back

    def serve(self, shelf: StoreState, who: Claimant) -> list[Served]:
        """Every request of this claimant that may arrive now, by every reading of the clock."""
        skews = range(self.config.skew + 1)
        waiting = [call for call in who.calls if call.sent and call.reply is None]
        answered = [self._answer(shelf, who, call, skew) for call in waiting for skew in skews]
        landing = [self._land(shelf, who, orphan, skew) for orphan in who.orphans for skew in skews]
        return [*answered, *landing]

    def _answer(self, shelf: StoreState, who: Claimant, call: PendingRequest, skew: int) -> Served:
        refused, news, gist = None, CellChange.NONE, None
        if call.plan is not None:
            shelf, refused, news = self._swap(shelf, call.plan, skew)
        if news and call.plan is not None:
            shelf, gist = self._checked_fence(shelf, who, call), call.plan.gist
            who = outdated(who, news)._replace(owns=news is CellChange.GRANTED or who.owns)
        seen = None if refused is Refusal.EPOCH else self._look(shelf, who, call.errand, skew)
        reply = StoreReply(gist, seen, shelf.shift + skew, shelf.life)
        label = f"its {call.errand} arrives, {_fate(call.plan, refused)}"
        return Served(label, shelf, who.calling(call._replace(plan=None, reply=reply)), news)

    def _land(self, shelf: StoreState, who: Claimant, orphan: Orphan, skew: int) -> Served:
        shelf, refused, news = self._swap(shelf, orphan.plan, skew)
        who = who._replace(orphans=tuple(other for other in who.orphans if other != orphan))
        if news:
            who = outdated(who, news)._replace(owns=orphan.mine if news is CellChange.GRANTED else who.owns)
        return Served(f"what it sent arrives late, {_fate(orphan.plan, refused)}", shelf, who, news)

    def _look(self, shelf: StoreState, who: Claimant, errand: ClaimantRequest, skew: int) -> CellSeen:
        cell, own = shelf.cell, who.grant.fence if who.grant else Rank.NONE
        mine = who.owns if errand is ClaimantRequest.CLAIM else own is cell.fence is Rank.LATEST
        return cell._replace(left=max(cell.left - skew, 0), mine=mine)

    def _swap(self, shelf: StoreState, plan: PlannedSwap, skew: int) -> tuple[StoreState, Refusal | None, CellChange]:
        change, stored = plan.change, epoch_of(shelf.life)
        write = Write(
            EXPLORED_SLOT.cell,
            plan.seen,
            encode(change.record),
            change.mark,
            EXPLORED_SLOT.at,
            grant=change.grant,
            ttl=change.ttl,
        )
        believed = (epoch_of(plan.life).birth, 0)
        swapped, _ = judge(
            [write], believed, _cells(shelf), stored, last_write=EXPLORED_NOW, now=EXPLORED_NOW + skew * EXPLORED_TICK
        )
        ((refused, cell),) = swapped.verdicts
        if refused is not None:
            return shelf, refused, CellChange.NONE
        return (
            self._written(shelf, cell, granted=change.grant),
            None,
            CellChange.GRANTED if change.grant else CellChange.CHANGED,
        )

    def _written(self, shelf: StoreState, cell: Cell, *, granted: bool) -> StoreState:
        assert cell.until is not None
        record = decode(cell.value)
        explained = record.state is State.RETRYING and shelf.unexplained is Rank.LATEST
        unexplained = Rank.NONE if explained else shelf.unexplained
        left = max(round((cell.until - EXPLORED_NOW) / EXPLORED_TICK), self.least)
        return shelf._replace(
            cell=CellSeen(Rank.LATEST, Rank.LATEST if granted else shelf.cell.fence, record, left),
            copy=shelf.copy and outdated_seen(shelf.copy, CellChange.GRANTED if granted else CellChange.CHANGED),
            begun=shelf.begun and not granted,
            unexplained=outdated_rank(unexplained) if granted else unexplained,
            broken=_broken_by_write(shelf, cell, granted=granted),
        )

    def _checked_fence(self, shelf: StoreState, who: Claimant, call: PendingRequest) -> StoreState:
        """The referee sees whose request changed the cell."""
        stale = who.grant is None or who.grant.fence is not Rank.LATEST
        if stale and call.errand not in (ClaimantRequest.CLAIM, ClaimantRequest.SETTLE):
            return shelf._replace(broken=Promise.OLD_FENCE)
        return shelf

    def start(self, shelf: StoreState, who: Claimant) -> StoreState:
        """The referee sees a body start."""
        assert who.grant is not None
        unexplained = who.grant.fence if who.on_lost == "skip" else shelf.unexplained
        return shelf._replace(begun=True, unexplained=unexplained, broken=_broken_by_start(shelf, who.grant.fence))

    def tidied(self, shelf: StoreState, who: Claimant) -> Claimant:
        """Without the orphans that would be refused: a version never returns, nor a life, so they are for ever."""
        return who._replace(orphans=tuple(orphan for orphan in who.orphans if self._swap(shelf, orphan.plan, 0)[2]))

    # --- what happens to it ---

    def tick(self, shelf: StoreState) -> StoreState:
        return shelf._replace(cell=self._older(shelf.cell, 1), copy=shelf.copy and self._older(shelf.copy, 1))

    def _older(self, cell: CellSeen, ticks: int) -> CellSeen:
        return cell._replace(left=max(cell.left - ticks, self.least))

    def suffer(self, shelf: StoreState) -> Iterator[tuple[ExploredFault, StoreState, CellChange]]:
        """What may befall the store itself."""
        jump, copy = self.config.jump, shelf.copy
        ahead = shelf._replace(cell=self._older(shelf.cell, jump), copy=copy and self._older(copy, jump))
        yield ExploredFault.JUMP, ahead._replace(shift=shelf.shift + jump), CellChange.NONE
        yield ExploredFault.EMPTY, shelf._replace(cell=CellSeen(), life=shelf.life + 1), CellChange.FORGOTTEN
        yield ExploredFault.COPY, shelf._replace(copy=shelf.cell), CellChange.NONE
        if copy is not None:
            cell = copy._replace(version=Rank.EARLIER if copy.record else Rank.NONE)
            yield ExploredFault.RESTORE, shelf._replace(cell=cell, copy=None, life=shelf.life + 1), CellChange.FORGOTTEN


def _cells(shelf: StoreState) -> list[Cell]:
    version, fence, record, left, _ = shelf.cell
    if record is None:
        return []
    until = EXPLORED_NOW + left * EXPLORED_TICK
    return [Cell(EXPLORED_SLOT.cell, version, encode(record), EXPLORED_SLOT.at, Mark.OPEN, Fence(BIRTH, fence), until)]


def _fate(plan: PlannedSwap | None, refused: Refusal | None) -> str:
    if plan is None:
        return "the cell is read"
    return f"refused ({refused})" if refused else f"{plan.change.record.state}"


def _broken_by_write(shelf: StoreState, cell: Cell, *, granted: bool) -> Promise | None:
    if shelf.state is State.CLOSED:
        return Promise.CLOSED_ONCE
    if granted and shelf.life:
        return Promise.FORGOTTEN
    if granted and (cell.fence is None or cell.fence <= Fence(BIRTH, Rank.LATEST)):
        return Promise.FENCES_RISE
    return None


def _broken_by_start(shelf: StoreState, fence: Rank) -> Promise | None:
    if shelf.begun or fence is not Rank.LATEST:
        return Promise.OWN_GRANT
    return Promise.SKIP_ONCE if shelf.unexplained else None
