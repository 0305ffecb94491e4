"""The user's own jobs under torture: their schedules and policies, under other names, with a counter as function.

No minute holds sixty slots of a daily job. So the last slots that each schedule had are called by name, one a second:
a guard may be called for a slot of the past. The lease is the torture's, since a takeover must fit into it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cronce.clock import Clock
from cronce.errors import BadInput
from cronce.model import Instant, name_from, spell
from cronce.runtime.app_loading import load
from cronce.runtime.attempt import Work
from cronce.runtime.flow import drive
from cronce.runtime.queries import holders
from cronce.schedule import Schedule
from cronce.schedule.schedules import spec_of
from cronce.stores.base import Store
from cronce.torture.worker import TortureTask

if TYPE_CHECKING:
    from cronce.runtime.app import Cronce

MAX_OWN_JOBS: Final = 20
"""Jobs that are tortured at once, at most: each is a thread in each process."""


def tasks_of(app: str, mark: str, lease: float, slots: int, now: Instant) -> tuple[TortureTask, ...]:
    """A task for each job that has had a slot, of which the last ones are played."""
    cron = load(app)
    scheduled = {name: job.schedule for name, job in cron.jobs.items() if job.schedule is not None}
    past = {name: [*_before(schedule, slots, now)][::-1] for name, schedule in scheduled.items()}
    found = [name for name, instants in past.items() if instants]
    if not found:
        raise BadInput(f"{app} has no job with a slot in the past, so there is nothing to torture")
    if len(found) > MAX_OWN_JOBS:
        raise BadInput(f"{app} has {len(found)} jobs, and at most {MAX_OWN_JOBS} can be tortured at once")
    return tuple(
        TortureTask(
            name_from(f"torture-{mark}-{name}"), job.on_lost, job.overlap, lease, job.missed, job.turns, name,
            spec_of(scheduled[name]), tuple(map(spell, past[name])),
        )
        for name, job in cron.jobs.items()
        if name in found
    )  # fmt: skip


def _before(schedule: Schedule, slots: int, now: Instant) -> Iterator[Instant]:
    """The last slots, the newest first."""
    at = schedule.previous(now)
    while at is not None and slots:
        yield at
        at, slots = schedule.previous(at), slots - 1


def function_of(cron: "Cronce", name: str) -> Work:
    """What really runs; only functions that run in this process can be stopped and counted by the torture."""
    make = cron.works.get(name)
    if make is None:
        raise BadInput(f"--really: the job {name} needs arguments, and a torture run has none to give")
    work = make()
    if type(work) is not Work or work.is_async:
        raise BadInput(f"--really: {name} is not a plain function (it is async, isolated or a command)")
    return work


def refuse_live(store: Store, clock: Clock) -> None:
    """A store that others work on gets six processes more, and faults such as a lock on its file."""
    _, live = drive(holders(), store, clock)
    if live:
        names = ", ".join(one.holder.holder for one in live[:3])
        more = f" and {len(live) - 3} more" if len(live) > 3 else ""
        raise BadInput(
            f"{len(live)} schedulers are alive on this store ({names}{more}); stop them, name another store with"
            " --store, or add --beside-live"
        )
