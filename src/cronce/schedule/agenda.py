"""What falls due next, over many jobs: the upcoming instant of each, filed under that instant. Pure.

Ten thousand jobs have a few dozen schedules, so that hundreds are due at one instant. The heap is of instants, not of
jobs; the names that are due at one are filed together, and what is removed is taken off at once. Names with equal
schedules that were due together share their next place, so that a name costs about as much as two dictionaries.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from cronce.model import Instant
from cronce.schedule.schedules import Schedule
from cronce.schedule.slots import MISSED_GRACE
from cronce.value import NamedTuple

_Place = tuple[Schedule, Instant, Instant | None]
"""A schedule, since when it is followed, and its upcoming instant."""


class DueNow(NamedTuple):
    """What fell due."""

    slots: list[tuple[str, Instant]]
    """Each name with an instant that is due, in the order of time."""
    behind: list[tuple[str, Instant]]
    """Names of which slots were missed, each with its last instant before those. They rest until `skip_to`."""


class Agenda:
    """One thread's. Time is an argument; nothing here knows what a job is but its name and its schedule."""

    def __init__(self) -> None:
        self._heap: list[Instant] = []
        self._filed: dict[Instant, dict[str, None]] = {}
        self._places: dict[str, _Place] = {}

    def add(self, name: str, schedule: Schedule, after: Instant) -> None:
        """From now on the name is due at each instant of the schedule after `after`, and at no other."""
        self.remove(name)
        self._places[name], filed = self._place_after(schedule, after)
        filed[name] = None

    def remove(self, name: str) -> None:
        """The name is due no more; nothing happens to one that is not there."""
        _, _, upcoming = self._places.pop(name, (None, None, None))
        if upcoming is not None:
            self._filed[upcoming].pop(name)

    def skip_to(self, name: str, after: Instant) -> None:
        """What was missed up to and including `after` is seen to. A name that was removed meanwhile stays away."""
        if name in self._places:
            self.add(name, self._places[name][0], after)

    def next_at(self) -> Instant | None:
        """When something is due next."""
        while self._heap and not self._filed[self._heap[0]]:  # all that were due then have been removed
            del self._filed[heappop(self._heap)]
        return self._heap[0] if self._heap else None

    def upcoming(self, upto: Instant) -> Iterator[tuple[str, Instant]]:
        """What will be due by then, in no order."""
        for instant, names in self._filed.items():
            if instant <= upto:
                for name in names:
                    yield name, instant

    def pop_due(self, now: Instant) -> DueNow:
        """All that is due by now. Each name goes on at its next instant by itself; but one whose slot is older than the
        grace was missed, and a policy decides how many of those shall run (`slots.due`)."""
        popped = DueNow([], [])
        missed = now - MISSED_GRACE
        while (instant := self.next_at()) is not None and instant <= now:
            heappop(self._heap)
            names = self._filed.pop(instant)
            if instant < missed:
                popped.behind.extend([self._rest(name) for name in names])
                continue
            popped.slots.extend([(name, instant) for name in names])
            self._place_all(names, instant)
        return popped

    def _place_all(self, names: Iterable[str], after: Instant) -> None:
        by_schedule: dict[Schedule, tuple[_Place, dict[str, None]]] = {}
        by_id: dict[int, tuple[_Place, dict[str, None]]] = {}  # a hash costs more than all else here
        places = self._places
        for name in names:
            schedule = places[name][0]
            found = by_id.get(id(schedule))
            if found is None:
                found = by_schedule.get(schedule)
                if found is None:
                    found = by_schedule[schedule] = self._place_after(schedule, after)
                by_id[id(schedule)] = found
            places[name], filed = found
            filed[name] = None

    def _place_after(self, schedule: Schedule, after: Instant) -> tuple[_Place, dict[str, None]]:
        """A place, and the names that are filed with it."""
        upcoming = schedule.next(after)
        if upcoming is None:
            return (schedule, after, None), {}
        filed = self._filed.get(upcoming)
        if filed is None:
            self._filed[upcoming] = filed = {}
            heappush(self._heap, upcoming)
        return (schedule, after, upcoming), filed

    def _rest(self, name: str) -> tuple[str, Instant]:
        schedule, since, _ = self._places[name]
        self._places[name] = schedule, since, None
        return name, since
