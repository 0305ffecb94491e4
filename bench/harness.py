"""How a benchmark is measured, and when its limit holds.

A figure in seconds says more about the machine, its disk and its neighbours than about the code. So what is judged is a
ratio: *ours* against *bare*, the least that the same machine needs for the same promise, by turns in one process.

    cycle 1    bare ours
    cycle 2    ours bare      each cycle times one slice of either side,
    cycle 3    bare ours      every second one in the reverse order of the one before
    …

- The order of each pair of cycles is drawn from a seeded generator: balanced, so that going second is no advantage, and
  out of step with what recurs in the background, such as a checkpoint every so many pages.
- The garbage collector runs before each slice and is off within it; hooks and set-up are never timed.
- The verdict is the **median of the per-cycle ratios**. The two slices of a cycle are neighbours in time: when the
  machine is slow for a while it is slow for both, and the ratio stays. The ratio of the two medians compares slices
  that may lie seconds apart; it is reported too, and where both disagree by more than a tenth the result is called
  unsteady: look again before you believe either.
- Forty cycles at the least. The median of fewer moves too much from run to run to hold anyone to a limit.

A benchmark is one entry in the list `BENCHMARKS` of a module in this package:

    @contextmanager
    def claims() -> Iterator[Sides]:
        with TemporaryDirectory() as folder, open_both(folder) as (store, db):
            yield Sides(ours=Slice(lambda: claim(store), ops=50), bare=Slice(lambda: insert(db), ops=50))

    BENCHMARKS = [Benchmark("claim", claims, AtLeast(0.6), note="an INSERT per transaction, same indexes and pragmas")]
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median, quantiles

MIN_CYCLES = 40
WARM_UP = 3
UNSTEADY = 0.1


class Unavailable(Exception):
    """Raised while setting up where a server or tool is missing; says `needs <what>: <what to install>`."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Something that only rises, read before and after a slice. A unit other than seconds is printed as it is."""

    name: str
    read: Callable[[], float]
    unit: str = "s"


WALL = Meter("wall", time.perf_counter)
CPU = Meter("cpu", time.process_time)
THREAD_CPU = Meter("thread cpu", time.thread_time)


def _nothing() -> None:
    """The hook of a slice that needs none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is timed in one go: `run` does `ops` operations, and neither `before` nor `after` counts."""

    run: Callable[[], object]
    ops: int = 1
    before: Callable[[], object] = _nothing
    after: Callable[[], object] = _nothing


@dataclass(frozen=True, slots=True)
class Sides:
    """The two that take turns; without `bare` only an absolute limit can be judged."""

    ours: Slice
    bare: Slice | None = None


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Ours is at least so many times as *fast* as bare: 0.6 lets it be slower, 6 wants it six times faster."""

    bound: float

    def figure(self, ours: float, bare: float) -> float:
        return bare / ours

    def holds(self, figure: float) -> bool:
        return figure >= self.bound

    def __str__(self) -> str:
        return f"≥ {self.bound:g} × speed"


@dataclass(frozen=True, slots=True)
class AtMost:
    """Ours *costs* at most so many times what bare costs."""

    bound: float

    def figure(self, ours: float, bare: float) -> float:
        return ours / bare

    def holds(self, figure: float) -> bool:
        return figure <= self.bound

    def __str__(self) -> str:
        return f"≤ {self.bound:g} × cost"


@dataclass(frozen=True, slots=True)
class Within:
    """An operation of ours costs at most so much, in the meter's unit. Only where there is nothing to compare with."""

    bound: float

    def figure(self, ours: float, bare: float) -> float:  # noqa: ARG002  # the same shape as the ratios
        return ours

    def holds(self, figure: float) -> bool:
        return figure <= self.bound

    def __str__(self) -> str:
        return f"≤ {self.bound:g} each"


Limit = AtLeast | AtMost | Within


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A comparison and its limit. `note` says what bare is, exactly: without that a ratio means nothing."""

    name: str
    sides: Sides | Callable[[], AbstractContextManager[Sides]]
    limit: Limit
    note: str
    meter: Meter = WALL

    def opened(self) -> AbstractContextManager[Sides]:
        return nullcontext(self.sides) if isinstance(self.sides, Sides) else self.sides()


@dataclass(frozen=True, slots=True)
class Result:
    """The cost of one operation, cycle by cycle; `bare` is empty where there was no such side."""

    limit: Limit
    ours: Sequence[float]
    bare: Sequence[float]

    @property
    def figures(self) -> list[float]:
        return [self.limit.figure(*costs) for costs in zip(self.ours, self.bare or self.ours, strict=True)]

    @property
    def figure(self) -> float:
        return median(self.figures)

    @property
    def of_medians(self) -> float:
        return self.limit.figure(median(self.ours), median(self.bare or self.ours))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = quantiles(self.figures, n=4, method="inclusive")
        return low, high

    @property
    def ok(self) -> bool:
        return self.limit.holds(self.figure)

    @property
    def steady(self) -> bool:
        return abs(self.of_medians / self.figure - 1) <= UNSTEADY


def measure(
    benchmark: Benchmark, cycles: int = MIN_CYCLES, seed: int = 0, progress: Callable[[int], object] = lambda _: None
) -> Result:
    """Run the two sides by turns; `progress` hears of each cycle that is done."""
    if cycles < MIN_CYCLES:
        raise ValueError(f"{cycles} cycles are too few for a median to stand on; at least {MIN_CYCLES}")
    with benchmark.opened() as sides, _frozen_heap():
        slices = _slices(benchmark, sides)
        costs: dict[str, list[float]] = {side: [] for side in slices}
        for cycle, order in enumerate(orders(list(slices), cycles + WARM_UP, seed), start=1 - WARM_UP):
            for side in order:
                cost = _cost(slices[side], benchmark.meter)
                if cycle > 0:
                    costs[side].append(cost)
            progress(max(cycle, 0))
    return Result(benchmark.limit, costs["ours"], costs.get("bare", []))


def _slices(benchmark: Benchmark, sides: Sides) -> dict[str, Slice]:
    if sides.bare is not None:
        return {"ours": sides.ours, "bare": sides.bare}
    if not isinstance(benchmark.limit, Within):
        raise ValueError(f"{benchmark.name}: {benchmark.limit} compares with a bare side, and there is none")
    return {"ours": sides.ours}


def orders(sides: Sequence[str], cycles: int, seed: int) -> Iterator[list[str]]:
    """Who goes first in each cycle: drawn for every other cycle, reversed in the one that follows."""
    dice = random.Random(seed)
    order: list[str] = []
    for cycle in range(cycles):
        order = dice.sample(sides, len(sides)) if cycle % 2 == 0 else order[::-1]
        yield order


def _cost(piece: Slice, meter: Meter) -> float:
    """What one operation of the slice cost."""
    piece.before()
    with _collector_off():
        start = meter.read()
        piece.run()
        spent = meter.read() - start
    piece.after()
    if spent <= 0:
        raise ValueError(f"a slice too short for the {meter.name} meter to see; let it do more operations")
    return spent / piece.ops


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Let the collector pass over what was there before: walking it ahead of each slice would chill the caches."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()  # a slice pays neither for its own garbage nor for its neighbour's
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
