"""What will go wrong, and when: the same for the same seed. Pure.

A minute holds about thirty faults. They are drawn from a bag that is refilled when it is empty, so that each kind comes
about as often as it stands in the bag, and a short torture meets different ones by different seeds.
"""

import random
from collections.abc import Collection
from typing import Final, Literal

from cronce.value import NamedTuple

Kind = Literal["kill", "pause", "drop", "delay", "cut", "outage", "lock", "restart", "empty"]
"""A process is killed, and comes back; is stopped for longer than its lease; loses replies to writes that landed; gets
every byte late; is cut off the store. All are cut off the store. Somebody else holds the file's lock. The store is
restarted, or emptied."""

SIGNALS: Final[tuple[Kind, ...]] = ("kill", "pause")
NETWORK: Final[tuple[Kind, ...]] = ("drop", "delay", "cut", "outage")

_BAG: Final[dict[Kind, int]] = {"kill": 2, "pause": 1, "drop": 2, "delay": 1, "cut": 1, "outage": 1, "lock": 1}
_LENGTHS: Final[dict[Kind, tuple[float, float]]] = {
    "kill": (0.2, 1.2),
    "pause": (1.2, 2.0),
    "drop": (0.4, 0.8),
    "delay": (0.6, 1.2),
    "cut": (0.3, 2.0),
    "outage": (0.2, 1.6),
    "lock": (0.2, 1.2),
}
"""How long each lasts, in leases: a partition may be over before the lease is, or long after."""

_ONCE: Final[dict[Kind, float]] = {"restart": 0.4, "empty": 0.6}
"""What happens once, and after which part of the time."""

GAP: Final = (1.0, 3.0)
"""Seconds from one fault to the next."""


class Fault(NamedTuple):
    kind: Kind
    at: float
    """Seconds after the first slot."""
    lasts: float = 0.0
    """Seconds."""
    dice: float = 0.0
    """From 0 to 1: who it hits, or how hard."""


def plan(seed: int, seconds: float, lease: float, kinds: Collection[Kind]) -> list[Fault]:
    """The faults of so many seconds, in the order they begin. All are over soon after the last slot is due."""
    dice = random.Random(seed)  # noqa: S311  seeded on purpose
    bag: list[Kind] = []
    faults = [Fault(kind, part * seconds) for kind, part in _ONCE.items() if kind in kinds]
    at = dice.uniform(0.3, 1.0)
    while at < seconds - 1:
        if not bag:
            bag = [kind for kind, times in _BAG.items() if kind in kinds for _ in range(times)]
            dice.shuffle(bag)
        kind = bag.pop()
        faults.append(Fault(kind, at, lease * dice.uniform(*_LENGTHS[kind]), dice.random()))
        at += dice.uniform(*GAP)
    return sorted(faults, key=lambda fault: fault.at)
