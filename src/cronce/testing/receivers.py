"""The receivers of effects in a simulated world, with ledgers of their own, which record what really happened.

One ledger for each way to make an effect. All are counted by the same rules, also the one without a guard: what that
one repeats is what the others prevent.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from cronce.model import Fence
from cronce.testing.world import Answer, OutsideMessage, World

DONE_ANSWER: Final = "done"
"""What a receiver answers."""


class EffectGuard(StrEnum):
    """How an effect is guarded."""

    KEY = "by key, which the other side knows"
    STEP = "by key, which it does not know"
    THING = "on a thing, by any slot and job"
    MESSAGE = "by key, for a while"
    JOINED = "by joined transaction"
    FENCE = "by fence alone"
    NOTHING = "by nothing"


WAYS: Final = (EffectGuard.KEY, EffectGuard.STEP, EffectGuard.JOINED, EffectGuard.FENCE, EffectGuard.NOTHING)
"""Of these a job has one. Things are for worlds of their own, in which all jobs reach the same ones."""

ONCE: Final = (EffectGuard.KEY, EffectGuard.STEP, EffectGuard.THING, EffectGuard.MESSAGE, EffectGuard.JOINED)
"""The ways by which nothing happens twice."""

EFFECT_COUNTS: Final = ("made", "repeats", "lost", "out_of_order", "in_doubt")


Figures = Counter[tuple[EffectGuard, str]]


class NoReply(Exception):
    """No answer: it may have happened, or not."""


class ReceiverRefused(Exception):
    """The receiver reports that it did nothing."""


class ReceiverTrouble(Exception):
    """The receiver has trouble; it may have done it before that."""


class ReceivedEffect(NamedTuple):
    """An effect on its way: its identity, for the ledger, and what is sent to the receiver."""

    way: EffectGuard
    item: str
    scope: str
    key: str
    fence: Fence


class ReceiverLedger:
    """What happened, in the order in which it did."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.newest: dict[str, int] = {}
        self.out_of_order = 0
        self.again = 0

    def enter(self, effect: ReceivedEffect, order: int, *, ordered: bool, again: bool) -> None:
        """`order` is the grant's place among all; `again`: a person wanted it to be done once more."""
        self.again += again and effect.item in self.times
        self.times[effect.item] += 1
        if ordered:
            newest = self.newest.get(effect.scope, 0)
            self.out_of_order += order < newest
            self.newest[effect.scope] = max(order, newest)

    @property
    def repeats(self) -> int:
        return self.times.total() - len(self.times) - self.again


class Receivers:
    """All receivers. `broken` reports to the referee."""

    def __init__(self, world: World, broken: Callable[[str, str], None]) -> None:
        self._world, self._broken = world, broken
        self.ledgers: defaultdict[EffectGuard, ReceiverLedger] = defaultdict(ReceiverLedger)
        self.orders: dict[Fence, int] = {}
        self.unordered: set[str] = set()  # scopes in which runs may go on side by side
        self.wanted_again: set[str] = set()  # effects in doubt that a person resolved as retry
        self.latest: dict[str, int] = {}  # the latest run of a slot that has begun
        self.keys: set[str] = set()  # known to the one that knows keys
        self.highest: dict[str, Fence] = {}  # seen by the one that knows fences

    # --- a message ---

    def post(self, effect: ReceivedEffect) -> OutsideMessage:
        silence = NoReply(f"no answer about {effect.item}")
        return OutsideMessage(lambda answer: self._deliver(effect, answer), silence, risk=2.0)

    def _deliver(self, effect: ReceivedEffect, answer: Answer) -> None:
        """Some requests are refused, and some fail when all is done."""
        if self._world.chance(0.02):
            answer(ReceiverRefused(effect.item))
        elif effect.way is EffectGuard.FENCE and effect.fence < self.highest.get(effect.scope, effect.fence):
            self._world.faults["lower fence refused"] += 1
            answer(ReceiverRefused(effect.item))
        elif effect.way is EffectGuard.KEY and effect.key in self.keys:
            self._world.faults["key known"] += 1
            answer(DONE_ANSWER)
        else:
            self.keys.add(effect.key)
            self.highest[effect.scope] = effect.fence
            self.happens(effect)
            answer(ReceiverTrouble(effect.item) if self._world.chance(0.01) else DONE_ANSWER)

    def happens(self, effect: ReceivedEffect) -> None:
        """It is in the ledger, for good. What is promised of its way is judged at once."""
        self._world.say("HAPPENS {} {} {}", effect.item, effect.fence, effect.way)
        ledger, again = self.ledgers[effect.way], effect.item in self.wanted_again
        ordered = effect.scope not in self.unordered
        before = ledger.repeats, ledger.out_of_order
        ledger.enter(effect, self.orders[effect.fence], ordered=ordered, again=again)
        if effect.way in ONCE and ledger.repeats > before[0]:
            self._broken("an effect happens once", f"{effect.item} {effect.way}, again under {effect.fence}")
        if effect.way is EffectGuard.JOINED and self.orders[effect.fence] < self.latest[effect.key]:
            self._broken("an overtaken run does not commit", f"{effect.item} under {effect.fence}")
        if effect.way is EffectGuard.FENCE and ledger.out_of_order > before[1]:
            self._broken("no effect after a later one", f"{effect.item} under {effect.fence}")

    def began(self, key: str, fence: Fence) -> None:
        """A body has begun: from now on no earlier run of the slot commits."""
        self.latest[key] = max(self.latest.get(key, 0), self.orders[fence])

    def look_up(self, item: str, way: EffectGuard = EffectGuard.STEP) -> Literal["done", "retry"]:
        """A person asks whether it is in the ledger; if not, it shall be done, even if it is on its way."""
        if self.ledgers[way].times[item]:
            return "done"
        self.wanted_again.add(item)
        return "retry"

    # --- the count ---

    def check_whole(self, way: EffectGuard, items: Collection[str]) -> None:
        """Of a slot that succeeded: all its effects have happened."""
        missing = [item for item in items if not self.ledgers[way].times[item]]
        if missing:
            self._broken("what succeeded is done", f"{', '.join(missing)} {way}")

    def counted(self, lost: Counter[EffectGuard], in_doubt: Counter[EffectGuard]) -> Figures:
        found: Figures = Counter()
        for way, ledger in self.ledgers.items():
            figures = (ledger.times.total(), ledger.repeats, lost[way], ledger.out_of_order, in_doubt[way])
            found.update({(way, column): figure for column, figure in zip(EFFECT_COUNTS, figures, strict=True)})
        return found
