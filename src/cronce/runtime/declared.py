"""The jobs that a process declares in its own code, and which of them a scheduler in it can run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cronce.errors import BadInput
from cronce.runtime.attempt import Work
from cronce.runtime.declare import Declaration, Policies, remark
from cronce.runtime.log import LOGGER
from cronce.runtime.processes.bodies import Bodies

if TYPE_CHECKING:
    from cronce.runtime.keeper import Keeper
    from cronce.runtime.scheduling.carrying import Carry


class Declared:
    """By name. `works` has what makes the work of one run, of those that need no arguments."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.jobs: dict[str, Declaration] = {}
        self.works: dict[str, Callable[[], Work]] = {}
        self._remarks: dict[str, str] = {}

    def add(self, job: Declaration, work: Callable[[], Work] | None, policies: Policies) -> None:
        if self.jobs.setdefault(job.name, job) != job:
            raise BadInput(
                f"there is a job {job.name} already, with another schedule or policy; give one of them name=…"
            )
        self._remarks[job.name] = remark(job.name, policies)
        if work is not None:
            self.works[job.name] = work

    def refuse_observed(self) -> None:
        """Whoever is only observed has a scheduler already, and one here would be a second."""
        if observed := [name for name, job in self.jobs.items() if job.mode == "observe"]:
            raise BadInput(
                f"{', '.join(observed[:5])}: mode='observe' is for what another scheduler calls, and this one would run"
                " it a second time. Leave the word out to have it run here, once for each slot; or give what is only"
                " observed a Cronce of its own"
            )

    def carry(self, allow: Sequence[str], keeper: "Keeper") -> "Carry":
        """What a scheduler here carries: these, and those in the store that it allows, as they are just now."""
        from cronce.runtime.stored.allowed import Allowed, Carried  # noqa: PLC0415  whoever only guards needs none
        from cronce.runtime.stored.definitions import definitions  # noqa: PLC0415

        for name in self.jobs.keys() - self.works.keys():
            LOGGER.warning("%s needs arguments, so the scheduler cannot run it; call it yourself", name)
        for said in filter(None, self._remarks.values()):
            LOGGER.warning("%s", said)
        own = {name: Carried(self.jobs[name], work) for name, work in self.works.items()}
        shelf = Allowed(allow, self._bodies, self.jobs)
        return lambda: own | shelf.carry(keeper.desk.do(definitions()))
