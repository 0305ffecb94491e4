"""What a scheduler process does, and how often it looks at the store."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal

from cronce.errors import BadInput
from cronce.model import check_name
from cronce.policy import check_choice
from cronce.value import NamedTuple

Role = Literal["both", "schedule", "work"]
"""What a process does: finds what is due and runs it, or only one of the two."""

MOST_WORKERS: Final = 10_000

SCHEDULER_POLL: Final = timedelta(seconds=1.4)
"""Between two looks. Two calls each, and the beat: less than two calls a second, and a change is seen within two."""

IDLE_LOOK: Final = timedelta(seconds=10)
"""Between two looks while there is nothing to do, where the store sends notifications."""

BEAT_EVERY: Final = timedelta(seconds=10)
"""Between two beats. Two may fail before others take this process for dead."""

LOOKED_ON_BEAT: Final = timedelta(seconds=1)
"""Between two beats while a page is open."""


class SchedulerSettings(NamedTuple):
    role: Role = "both"
    workers: int = 10
    labels: Mapping[str, str] = {}

    @property
    def schedules(self) -> bool:
        return self.role != "work"

    @property
    def works(self) -> bool:
        return self.role != "schedule"


class SchedulerIntervals(NamedTuple):
    look: timedelta = SCHEDULER_POLL
    idle: timedelta = IDLE_LOOK
    beat: timedelta = BEAT_EVERY


def check_settings(role: Role, workers: int, labels: Mapping[str, str]) -> SchedulerSettings:
    """The settings, checked."""
    check_choice("role", role, Role)
    if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
        raise BadInput(f"workers must be 1 to {MOST_WORKERS:,}, not {workers!r:.40}")
    for label, value in labels.items():
        check_name(label)
        check_name(value)
    return SchedulerSettings(role, workers, dict(labels))
