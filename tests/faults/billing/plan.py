"""What goes wrong, and when: the same for the same seed. Pure.

When is said in invoices: a fault is due when so many have been charged. So all of them come while there is work, on a
fast machine and on a slow one.
"""

import random
from typing import Final, Literal

from cronce.value import NamedTuple

Kind = Literal["kill", "pause", "drop"]
"""A process is killed, and started again at once; is stopped for longer than its lease; loses replies of the store."""

LONGER: Final = (1.2, 1.8)
"""How long a pause is, in leases."""

LATE: Final = 0.015
"""Seconds after the invoice was charged, at most: so a fault comes at any point between two charges. Every other comes
at once, where it hurts most: it is charged, and not yet noted."""

BY: Final = 0.9
"""The last fault has come when this part of the invoices is charged."""


class Fault(NamedTuple):
    kind: Kind
    at: int
    """How many invoices are charged by then."""
    late: float
    """Seconds after that."""
    lasts: float
    """Seconds."""
    dice: float
    """From 0 to 1: who it hits."""


def plan(seed: int, invoices: int, lease: float, kinds: dict[Kind, int]) -> list[Fault]:
    """So many faults of each kind, in the order they come; no two at the same invoice."""
    dice = random.Random(seed)
    bag: list[Kind] = [kind for kind, number in kinds.items() for _ in range(number)]
    dice.shuffle(bag)
    places = sorted(dice.sample(range(1, int(invoices * BY)), len(bag)))
    return [
        Fault(kind, at, dice.choice((0.0, dice.uniform(0, LATE))), lease * dice.uniform(*LONGER), dice.random())
        for kind, at in zip(bag, places, strict=True)
    ]
