"""What will go wrong, and when: the same for the same seed. Pure.

A minute holds about thirty faults. They are drawn from a bag that is refilled when it is empty, so that each kind comes
about as often as it stands in the bag, and a short torture meets different ones by different seeds.
"""

import random
from collections.abc import Collection
from typing import Final, Literal

from cronce.value import NamedTuple

Kind = Literal[
    "kill", "pause", "drop", "delay", "cut", "outage", "lock", "restart", "empty",
    "roll", "drain", "blackout", "deploy", "rollback",
]  # fmt: skip
"""A process is killed, and comes back; is stopped for longer than its lease; loses replies to writes that landed; gets
every byte late; is cut off the store. All are cut off the store. Somebody else holds the file's lock. The store is
restarted, or emptied.

Of schedulers: a process is asked to end, and comes back. Those of one colour shall claim no more for a while. All are
killed at once, and again right after they came back. One after the other ends and comes back with a newer version of
the jobs, and later with the one before."""

SIGNALS: Final[tuple[Kind, ...]] = ("kill", "pause")
NETWORK_FAULTS: Final[tuple[Kind, ...]] = ("drop", "delay", "cut", "outage")
LIFE: Final[tuple[Kind, ...]] = ("roll", "drain", "blackout")
DEPLOYS: Final[tuple[Kind, ...]] = ("deploy", "rollback")

_BAG: Final[dict[Kind, int]] = {
    "kill": 2, "pause": 1, "drop": 2, "delay": 1, "cut": 1, "outage": 1, "lock": 1,
    "roll": 2, "drain": 1, "blackout": 1,
}  # fmt: skip
_FAULT_LEASES: Final[dict[Kind, tuple[float, float]]] = {
    "kill": (0.2, 1.2),
    "pause": (1.2, 2.0),
    "drop": (0.4, 0.8),
    "delay": (0.6, 1.2),
    "cut": (0.3, 2.0),
    "outage": (0.2, 1.6),
    "lock": (0.2, 1.2),
    "roll": (0.0, 0.4),
    "drain": (1.2, 3.0),
    "blackout": (0.2, 1.6),
}
"""How long each lasts, in leases: a partition may be over before the lease is, or long after."""

_ONCE_AT: Final[dict[Kind, float]] = {"deploy": 0.1, "restart": 0.4, "rollback": 0.5, "empty": 0.6}
"""What happens once, and after which part of the time."""

FAULT_EVERY: Final = (1.0, 3.0)
"""Seconds from one fault to the next."""

KILL_AGAIN_AFTER: Final = (0.2, 2.0)
"""Seconds from when all are back to when all are killed again: in the middle of catching up, or right after it."""


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
    faults = [Fault(kind, part * seconds) for kind, part in _ONCE_AT.items() if kind in kinds]
    at = dice.uniform(0.3, 1.0)
    while at < seconds - 1 and any(kind in kinds for kind in _BAG):
        if not bag:
            bag = [kind for kind, times in _BAG.items() if kind in kinds for _ in range(times)]
            dice.shuffle(bag)
        kind = bag.pop()
        fault = Fault(kind, at, lease * dice.uniform(*_FAULT_LEASES[kind]), dice.random())
        faults.append(fault)
        if kind == "blackout":
            at += fault.lasts + dice.uniform(*KILL_AGAIN_AFTER)
            faults.append(fault._replace(at=at))
        at += dice.uniform(*FAULT_EVERY)
    return sorted(faults, key=lambda fault: fault.at)
