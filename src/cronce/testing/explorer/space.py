"""All of them together: the states of a configuration, the steps between them, and what must hold in each."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from cronce.protocol.record import State
from cronce.testing.explorer.claimant import Claimants
from cronce.testing.explorer.configs import Config, ExploredFault, ExploredFaults
from cronce.testing.explorer.parts import CellChange, Claimant, ClaimStage, Promise, Rank, StoreState, outdated
from cronce.testing.explorer.store import StoreSteps

K = TypeVar("K")
V = TypeVar("V")
Key = tuple[int, ...]
"""A state in numbers: the shelf, the faults left, and the claimants in order."""

Step = tuple[str, int, bool, int, int, list[int]]
"""What happens, to whom (a place, or -1), whether it is a fault; the shelf, the faults left, and the claimants in the
order they had before."""


class Memo(dict[K, V]):
    """Worked out once, then looked up."""

    def __init__(self, work: Callable[[K], V]) -> None:
        super().__init__()
        self._work = work

    def __missing__(self, key: K) -> V:
        value = self[key] = self._work(key)
        return value


class Numbered(Memo[V, int]):
    """Each distinct thing under a number of its own, so that states are small and quick to compare."""

    def __init__(self) -> None:
        super().__init__(self._next)
        self.things: list[V] = []

    def _next(self, thing: V) -> int:
        self.things.append(thing)
        return len(self.things) - 1


class Space:
    """The states of a configuration, and the steps between them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._claimants, self._store = Claimants(config), StoreSteps(config)
        self._shelves: Numbered[StoreState] = Numbered()
        self._people: Numbered[Claimant] = Numbered()
        self._faults: Numbered[ExploredFaults] = Numbered()
        self._taken = Memo(self._work_taken)
        self._outdated = Memo(self._work_outdated)
        self._ticked = Memo(self._work_ticked)
        self._shelf_ticked = Memo(self._work_shelf_ticked)
        self._suffered = Memo(self._work_suffered)
        self._spent = Memo(self._work_spent)

    def first(self) -> Key:
        people = sorted(self._people[Claimant(on_lost)] for on_lost in self.config.terms)
        return (self._shelves[StoreState()], self._faults[self.config.faults], *people)

    def steps(self, state: Key) -> Iterator[Step]:
        shelf, faults, *people = state
        previous = -1
        for place, who in enumerate(people):
            if who == previous:  # of two that are alike the steps are alike
                continue
            previous = who
            for label, fault, now, after, news in self._taken[shelf, who]:
                left = self._spent[faults, fault] if fault else faults
                if left is not None:
                    others = [self._outdated[now, other, news] for other in people] if news else people.copy()
                    others[place] = after
                    yield label, place, fault is not None, now, left, others
        yield "a tick", -1, False, self._shelf_ticked[shelf], faults, [self._ticked[who] for who in people]
        for fault, now, news in self._suffered[shelf]:
            left = self._spent[faults, fault]
            if left is not None:
                others = [self._outdated[now, who, news] for who in people] if news else people.copy()
                yield f"the store: {fault}", -1, True, now, left, others

    # --- worked out once ---

    def _work_taken(self, pair: tuple[int, int]) -> list[tuple[str, ExploredFault | None, int, int, CellChange]]:
        """The steps of a claimant, and of the store with what it sent: shelf and claimant afterwards, and the news."""
        shelf, who = self._shelves.things[pair[0]], self._people.things[pair[1]]
        found = []
        for label, after, fault, starts in self._claimants.moves(who):
            now = self._store.start(shelf, who) if starts else shelf
            found.append((label, fault, self._shelves[now], self._number(now, after), CellChange.NONE))
        for label, now, after, news in self._store.serve(shelf, who):
            found.append((label, None, self._shelves[now], self._number(now, self._told(after)), news))
        return found

    def _told(self, who: Claimant) -> Claimant:
        if self.config.prompt:
            for call in who.calls:
                who = self._claimants.heard(who, call, call.reply) if call.reply else who
        return who

    def _number(self, shelf: StoreState, who: Claimant) -> int:
        return self._people[self._store.tidied(shelf, self._claimants.trimmed(who))]

    def _work_outdated(self, change: tuple[int, int, CellChange]) -> int:
        shelf, who, news = change
        return self._number(self._shelves.things[shelf], outdated(self._people.things[who], news))

    def _work_ticked(self, who: int) -> int:
        return self._people[self._claimants.trimmed(self._claimants.tick(self._people.things[who]))]

    def _work_shelf_ticked(self, shelf: int) -> int:
        return self._shelves[self._store.tick(self._shelves.things[shelf])]

    def _work_suffered(self, shelf: int) -> list[tuple[ExploredFault, int, CellChange]]:
        possible = [fault for fault in ExploredFault if getattr(self.config.faults, fault)]
        found = self._store.suffer(self._shelves.things[shelf])
        return [(fault, self._shelves[after], news) for fault, after, news in found if fault in possible]

    def _work_spent(self, pair: tuple[int, ExploredFault]) -> int | None:
        faults, fault = self._faults.things[pair[0]], pair[1]
        left = getattr(faults, fault)
        return self._faults[faults._replace(**{fault: left - 1})] if left else None

    # --- about a state ---

    def parts(self, state: Key) -> tuple[StoreState, list[Claimant]]:
        return self._shelves.things[state[0]], [self._people.things[who] for who in state[2:]]

    def broken(self, state: Key) -> Promise | None:
        """The promise that this state breaks, if any."""
        shelf, people = self.parts(state)
        return shelf.broken or _broken_in(shelf, people)

    def closed(self, state: Key) -> bool:
        return self._shelves.things[state[0]].closed


def _broken_in(shelf: StoreState, people: Sequence[Claimant]) -> Promise | None:
    for who in people:
        if who.broken:
            return who.broken
        if who.stage is ClaimStage.DONE and not shelf.closed and not shelf.life:
            return Promise.CLOSED_TRUE
    trusting = [who for who in people if who.trust]
    return _broken_by_trust(shelf, trusting) if trusting else None


def _broken_by_trust(shelf: StoreState, trusting: Sequence[Claimant]) -> Promise | None:
    overtaken = [who for who in trusting if who.grant is None or who.grant.fence is not Rank.LATEST]
    if len(trusting) > 1:
        return Promise.ONE_TRUSTS
    if overtaken and shelf.begun:
        return Promise.OVERTAKEN_REST
    holds = not overtaken and shelf.state is State.RUNNING
    return None if holds or shelf.life else Promise.TRUST_HOLDS  # a store that forgot does not know its holder
