"""The jobs that a process carries: its own, and those in the store that it allows."""

from collections.abc import Callable, Mapping, Set
from datetime import timedelta

from cronce.model import Slot
from cronce.runtime.declare import Declaration
from cronce.runtime.ledger import Terms
from cronce.runtime.scheduling.roster import Specs, digest_of
from cronce.runtime.stored.allowed import Carried

Carry = Callable[[], Mapping[str, Carried]]
"""What this process carries just now."""


class Carrying:
    """What is carried, as which version, and on what terms its slots are claimed."""

    def __init__(self) -> None:
        self._carried: Mapping[str, Carried] = {}
        self._terms: dict[tuple[str, timedelta | None], Terms] = {}
        self.specs: Specs = {}
        self.bundle = digest_of({})

    def __contains__(self, name: str) -> bool:
        return name in self._carried

    def __getitem__(self, name: str) -> Carried:
        return self._carried[name]

    def job(self, name: str) -> Declaration:
        return self._carried[name].job

    def digest(self, name: str) -> str:
        return self.specs[name][0]

    def take_on(self, carried: Mapping[str, Carried]) -> tuple[Set[str], Set[str]]:
        """From now on exactly these. Which of them are new, or other than before, and which are so no more."""
        before = self._carried
        same = {name for name, one in carried.items() if name in before and before[name].job == one.job}
        new = {name: one.job.spec for name, one in carried.items() if name not in same}
        self._carried = dict(carried)
        self.specs = {name: self.specs[name] for name in same} | new
        self.bundle = digest_of(self.specs)
        self._terms.clear()
        return new.keys(), before.keys() - same

    def terms(self, slot: Slot) -> Terms:
        """Most slots of a job are claimed on the same."""
        job = self.job(slot.job)
        if slot.request or job.jitter is not None:
            return self._made(slot)
        place = (slot.job, job.gap_after(slot.at))
        terms = self._terms.get(place)
        if terms is None:
            terms = self._terms[place] = self._made(slot)
        return terms

    def _made(self, slot: Slot) -> Terms:
        terms = self.job(slot.job).terms(slot, inferred=False)
        return terms._replace(outside=False, digest=self.digest(slot.job))
