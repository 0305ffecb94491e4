"""A call inside a pod of a Kubernetes Job: the Job's name, which the downward API passes in, shows what it is for.

*A CronJob's Job* is named after the minute it is for, `report-29345760`: 29,345,760 minutes after 1970. That minute is
the slot if the schedule yields it, however late a pod of the Job starts. If not (clocks were put back, and the schedule
passes over the second 01:30; the job calls itself weekly in a CronJob that is daily) it is when the trigger fired, and
the latest slot up to then is meant, as with any trigger: so no disagreement between the two makes a second run.

*Any other Job* was made by hand (`kubectl create job --from=cronjob/report again`). It is a run of its own beside the
slots, asked for by the Job's name: once for each name, whichever pods the Job starts.

*The Job's status is true.* Kubernetes counts a pod that exits with 0 as the work done, and deletes the Job's other
pods. So a call that another pod has beaten waits for the outcome, takes over what its on_lost lets it, and raises where
the slot is closed as failed. It makes one attempt: Kubernetes starts the next pod after a failure, and that pod's call
is the retry, while the attempts that the job declares last.
"""

import re
from datetime import timedelta
from typing import Any, Final

from cronce.errors import SlotFailed
from cronce.model import EPOCH, Instant, Slot
from cronce.protocol.record import Outcome
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, When
from cronce.runtime.flow import Flow
from cronce.runtime.ledger import Ledger
from cronce.runtime.run import Skipped
from cronce.runtime.steps import Steps, StoreStep

JOB_NAME: Final = "CRONCE_JOB_NAME"
"""The variable that holds it."""

FIRED: Final = r".+-([0-9]{8})"
MINUTE_OF_2020: Final = 26_297_280
"""Minutes from 1970 to 2020. Eight digits below that are no minute of a CronJob, but a day: `report-20260729`."""


def is_bad(skipped: Skipped) -> bool:
    """Whether the slot is closed and did not succeed."""
    return skipped.outcome is not None and Outcome(skipped.outcome).is_bad


def fired_at(job_name: str) -> Instant | None:
    """The minute that a CronJob's controller made the Job for; None: the Job was made in another way."""
    found = re.fullmatch(FIRED, job_name)
    minutes = int(found[1]) if found else 0
    return EPOCH + timedelta(minutes=minutes) if minutes >= MINUTE_OF_2020 else None


def slot_meant(job_name: str, job: Declaration, ledger: Ledger) -> Flow[Slot]:
    """What a call in a pod of this Job is for."""
    at = fired_at(job_name)
    if at is None:
        from cronce.runtime.operations import Operator  # noqa: PLC0415  most Jobs are a CronJob's

        asked = yield from Operator(ledger, f"job/{job_name}", [job.name]).trigger(job.name, request=job_name)
        return asked.slot
    return Slot(job.name, at) if job.schedule is None else job.slot_at(at)


def _is_owed(skipped: Skipped, *, by_hand: bool) -> bool:
    """A Job made by hand must have run; of a slot it is enough that it is over and did not go badly."""
    if by_hand:
        return skipped.outcome is None or not Outcome(skipped.outcome).is_success
    return skipped.kind == "held" or is_bad(skipped)


class PodCall:
    """A call of a guarded function in a pod of the Job. It waits on standby while another pod has the slot."""

    def __init__(self, job_name: str, call: Call) -> None:
        self._job_name, self._call = job_name, call
        self.node = call.node

    def steps(self, when: When | None = None) -> Steps[Any]:
        by_hand = when is None and fired_at(self._job_name) is None
        if when is None:
            when = yield StoreStep(slot_meant(self._job_name, self._call.job, self.node.ledger))
        result = yield from self._call.steps(when)
        if isinstance(result, Skipped) and _is_owed(result, by_hand=by_hand):
            raise SlotFailed(f"{result.slot} was not run here: {result.reason}")
        return result
