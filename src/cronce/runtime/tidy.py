"""Seeing to what is kept of a job: about once an hour, by whoever ran a slot of it, on the keeper's thread. Nobody
waits for it, and nothing hangs on it."""

from typing import Final

from cronce.model import Slot, rerun_of
from cronce.protocol.commands import Resolve
from cronce.protocol.record import Outcome
from cronce.protocol.retention import default_keep
from cronce.runtime.declare import Declaration
from cronce.runtime.effects.kept import needless_before, purge_effects
from cronce.runtime.flow import drive
from cronce.runtime.jobs import PURGED_AT_ONCE
from cronce.runtime.keeper import Keeper
from cronce.stores.base import Store

TIDY_MOST: Final = 10
"""How many thousand runs go at most when somebody sees to what is kept; a job of every second makes four in an hour."""


def tidy_later(keeper: Keeper, job: Declaration, done: Slot) -> None:
    if job.tidies(done):
        keeper.later(f"tidy {job.name}", lambda store: _tidied(keeper, job, store))


def settle_rerun(keeper: Keeper, slot: Slot, outcome: Outcome) -> None:
    """A rerun that succeeded settles what it ran again, if that had failed, was lost or is unknown."""
    again = rerun_of(slot)
    if again is None or outcome is not Outcome.SUCCEEDED:
        return

    def chore(store: Store) -> None:
        drive(keeper.desk.ledger.resolve(again, Resolve("done", f"by {slot.key}")), store, keeper.desk.clock)

    keeper.later(f"settle {again.key}", chore, soon=True)


def _tidied(keeper: Keeper, job: Declaration, store: Store) -> None:
    jobs, clock = keeper.desk.ledger.jobs, keeper.desk.clock
    keep = (job.keep or default_keep(store.traits))._replace(least=job.still_open)
    for _ in range(TIDY_MOST):
        if drive(jobs.purge(job.name, keep), store, clock) < PURGED_AT_ONCE:
            break
    drive(jobs.sweep(), store, clock)
    before = drive(needless_before(keeper.desk.ledger, job.name), store, clock)
    drive(purge_effects(keeper.desk.ledger, job.name, before), store, clock)
    if job.database is not None:
        job.database.purge(job.name, before)
