"""Many seeds, and every mutant: how the simulator is run. Seeds are independent, so they are spread over processes."""

import gc
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Final, NamedTuple

from cronce.testing.chaos import FAULT_KINDS, play, play_out, stage
from cronce.testing.mutants import MUTANTS, mutated
from cronce.testing.receivers import Figures
from cronce.testing.referee import Violation

SEEDS_PER_REPORT: Final = 10
"""Seeds that one process plays before it reports."""

MUTANT_SEEDS: Final = 4000
"""A mutant that survives this many seeds counts as not caught."""

ONCE_FAILED_SEEDS: Final = (
    56,
    58,
    70,
    108,
    130,
    227,
    232,
    275,
    304,
    319,
    356,
    395,
    409,
    435,
    534,
    629,
    718,
    726,
    735,
    846,
    911,
    958,
    1028,
    1126,
    1206,
    1395,
    1451,
    1750,
    1887,
    1945,
    2110,
    2156,
    2190,
    2283,
    3333,
    3352,
    3582,
    14014,
    14235,
    4018,
    5067,
    5251,
    6203,
    6231,
    7845,
    8928,
    12135,
    13113,
    13951,
    14812,
    15043,
    15069,
    15559,
    17566,
    18171,
    18268,
    19119,
    19915,
    19963,
)
"""Seeds that once failed, while the world was as it then was. They are played first, for ever."""


@dataclass
class SeedResults:
    """What came of some seeds: the violations by seed, and how often each kind of fault happened."""

    seeds: int = 0
    violations: dict[int, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    starts: int = 0
    effects: Figures = field(default_factory=Counter)

    def add(self, other: "SeedResults") -> None:
        self.seeds += other.seeds
        self.violations.update(other.violations)
        self.faults.update(other.faults)
        self.calls += other.calls
        self.starts += other.starts
        self.effects.update(other.effects)


def play_seeds(seeds: Iterable[int]) -> SeedResults:
    """Play seeds one after the other, in this process."""
    total = SeedResults()
    with _collected_between() as collect:
        for seed in seeds:
            total.add(_played(seed))
            collect()
    return total


def _played(seed: int) -> SeedResults:
    scene, broken = stage(seed), {}
    try:
        play_out(scene)
    except Violation as violation:
        broken = {seed: str(violation)}
    starts = sum(map(len, scene.referee.bodies.values()))
    return SeedResults(1, broken, scene.world.faults, scene.world.calls, starts, scene.referee.counted())


@contextmanager
def _collected_between() -> Iterator[Callable[[], object]]:
    """Garbage is collected between histories, not in the middle of one: that is a quarter of the time, and what is left
    of the threads of an earlier world ends when no other is at work. A heap that was frozen before stays frozen."""
    was_on, was_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    gc.collect()
    if not was_frozen:
        gc.freeze()
    gc.disable()
    try:
        yield gc.collect
    finally:
        if not was_frozen:
            gc.unfreeze()
        if was_on:
            gc.enable()


def seeds_to_catch(mutant: str, hint: int | None = None) -> int | None:
    """How many seeds it took until a promise was seen broken, or None. A hint is tried before the seeds from 0 on."""
    seeds = range(MUTANT_SEEDS)
    with mutated(mutant), _collected_between() as collect:
        for seed in seeds if hint is None else (hint, *seeds):
            try:
                play(seed)
            except Violation:
                return seed + 1
            collect()
    return None


class Simulation(NamedTuple):
    """The result of a whole run."""

    played: SeedResults
    mutants: dict[str, int | None]

    @property
    def unseen(self) -> list[str]:
        """Kinds of fault that never happened: they prove nothing."""
        return [kind for kind in FAULT_KINDS if not self.played.faults[kind]]

    @property
    def survivors(self) -> list[str]:
        return [name for name, seeds in self.mutants.items() if seeds is None]


def simulate(
    seeds: int, *, mutants: bool, workers: int, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Simulation:
    """Play the kept seeds, then 0 to `seeds`, then every mutant until it is caught."""
    progress("seeds", 0, seeds)
    with get_context("spawn").Pool(workers, _leave_interrupts_to_the_parent) as pool:
        played = SeedResults()
        for part in pool.imap(play_seeds, _chunks(seeds)):
            played.add(part)
            progress("seeds", played.seeds, seeds)
        caught: dict[str, int | None] = {}
        names = list(MUTANTS) if mutants else []
        for name, needed in zip(names, pool.imap(seeds_to_catch, names), strict=True):
            caught[name] = needed
            progress("mutants", len(caught), len(names))
    return Simulation(played, caught)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _chunks(seeds: int) -> Iterator[list[int]]:
    order = [seed for seed in ONCE_FAILED_SEEDS if seed < seeds] + [
        seed for seed in range(seeds) if seed not in ONCE_FAILED_SEEDS
    ]
    for start in range(0, len(order), SEEDS_PER_REPORT):
        yield order[start : start + SEEDS_PER_REPORT]
