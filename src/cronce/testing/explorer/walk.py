"""The exploring: breadth first through all states, then backwards from the closed ones."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cronce.clock import SystemClock
from cronce.testing.explorer.configs import Config
from cronce.testing.explorer.parts import Promise
from cronce.testing.explorer.space import Key, Space


class BrokenPromise(NamedTuple):
    promise: Promise
    trace: tuple[str, ...]


class ExplorerResult(NamedTuple):
    states: int
    transitions: int
    violations: tuple[BrokenPromise, ...]  # at most one: the search ends with the first, of which none is shorter
    seconds: float


class Explored:
    """The states in the order they were found, and the steps that are no fault, to be walked backwards."""

    def __init__(self, first: Key) -> None:
        self.states = [first]
        self._parents = array("l", [-1])
        self._numbers = {first: 0}
        self._newest = array("l", [-1])  # per state: the newest step that leads there
        self._sources = array("l")  # per step: where from
        self._older = array("l")  # per step: the next older one that leads to the same state

    def reach(self, state: Key, source: int, *, fault: bool) -> bool:
        """Take down a step; whether it leads to a new state."""
        states, newest = self.states, self._newest
        target = self._numbers.setdefault(state, len(states))
        new = target == len(states)
        if new:
            states.append(state)
            self._parents.append(source)
            newest.append(-1)
        if not fault and target != source:
            self._older.append(newest[target])
            newest[target] = len(self._sources)
            self._sources.append(source)
        return new

    def path(self, number: int) -> list[Key]:
        path = []
        while number >= 0:
            path.append(self.states[number])
            number = self._parents[number]
        return path[::-1]

    def first_without(self, goals: Iterable[int]) -> int | None:
        """The first state from which no goal can be reached."""
        reached, waiting = bytearray(len(self.states)), list(goals)
        while waiting:
            target = waiting.pop()
            if not reached[target]:
                reached[target] = 1
                waiting.extend(self._leading_to(target))
        stuck = reached.find(0)
        return None if stuck < 0 else stuck

    def _leading_to(self, target: int) -> Iterator[int]:
        step = self._newest[target]
        while step >= 0:
            yield self._sources[step]
            step = self._older[step]


def explore(config: Config) -> ExplorerResult:
    """Visit every reachable state of the configuration, or stop at the first that breaks a promise."""
    clock = SystemClock()
    began = clock.boot()
    space = Space(config)
    explored = Explored(space.first())
    transitions, violation = walk(space, explored)
    if violation is None:
        violation = _stuck(space, explored)
    violations = () if violation is None else (violation,)
    return ExplorerResult(len(explored.states), transitions, violations, clock.boot() - began)


def walk(space: Space, explored: Explored) -> tuple[int, BrokenPromise | None]:
    """Find all states; how many steps there are between them, and the first violation."""
    transitions = 0
    for source, state in enumerate(explored.states):  # which grow while we walk
        for _, _, fault, shelf, faults, people in space.steps(state):
            transitions += 1
            people.sort()
            found = (shelf, faults, *people)
            if explored.reach(found, source, fault=fault) and (promise := space.broken(found)):
                return transitions, BrokenPromise(promise, trace(space, explored.path(len(explored.states) - 1)))
    return transitions, None


def _stuck(space: Space, explored: Explored) -> BrokenPromise | None:
    closed = [number for number, state in enumerate(explored.states) if space.closed(state)]
    stuck = explored.first_without(closed)
    if stuck is None:
        return None
    return BrokenPromise(Promise.WITHIN_REACH, trace(space, explored.path(stuck)))


def trace(space: Space, path: Sequence[Key]) -> tuple[str, ...]:
    """The steps of a path in words. In a state the claimants are sorted; here each keeps its name."""
    names = "abcdefgh"[: len(space.config.terms)]
    lines = []
    for before, after in pairwise(path):
        for label, place, _, shelf, faults, people in space.steps(before):
            if (shelf, faults, *sorted(people)) == after:
                lines.append(f"{names[place]}: {label}" if place >= 0 else label)
                order = sorted(range(len(people)), key=people.__getitem__)
                names = "".join(names[place] for place in order)
                break
    return tuple(lines)
