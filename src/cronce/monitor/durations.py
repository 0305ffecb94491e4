"""How long runs take: of jobs of which that may matter just now, what their last runs took."""

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from typing import Final

from cronce.errors import BadInput
from cronce.model import Instant, Mark
from cronce.monitor.known import Known, read_runs
from cronce.protocol.record import RESOLVED, Outcome, State
from cronce.runtime.flow import Flow
from cronce.runtime.look import JobSeen, RunSeen
from cronce.schedule import parse_duration
from cronce.stores.base import Scan

LONG: Final = timedelta(minutes=1)
"""A shorter run is not compared with others."""

HISTORY: Final = 20
"""With so many runs before it a run is compared."""

HISTORIES: Final = 20
"""Jobs whose history is read in one survey."""

HISTORY_AGE: Final = timedelta(minutes=10)
NEAR: Final = 0.8
"""Runs that take this share of their timeout are near it."""


def read_histories(known: Known, still_open: Iterable[RunSeen], now: Instant) -> Flow[None]:
    wanted = [job for job in _wanted(known, still_open, now) if _is_old(known, job, now)]
    for job in wanted[:HISTORIES]:
        scan = Scan(f"run/{job}/", mark=Mark.CLOSED, newest_first=True, limit=HISTORY)
        runs, _ = yield from read_runs(scan, HISTORY)
        known.took[job] = now, tuple(span for run in runs if (span := took(run)) is not None)


def _wanted(known: Known, still_open: Iterable[RunSeen], now: Instant) -> list[str]:
    """Jobs that run for long just now, or whose last run came near its timeout."""
    running = {run.slot.job for run in still_open if (since := began(run)) is not None and now - since > LONG}
    near = {job for job, run in known.ended.items() if is_near(took(run), timeout(known.jobs.get(job)))}
    known.took = {job: read for job, read in known.took.items() if job in running | near}
    return sorted(running | near)


def _is_old(known: Known, job: str, now: Instant) -> bool:
    return job not in known.took or now - known.took[job][0] > HISTORY_AGE


def began(run: RunSeen) -> Instant | None:
    """Since when a run is at work, if it is."""
    at_work = run.record is not None and run.record.state is State.RUNNING
    return run.record.started if run.record is not None and at_work else None


def took(run: RunSeen) -> timedelta | None:
    """How long a run took that succeeded by itself."""
    record = run.record
    if record is None or record.outcome is not Outcome.SUCCEEDED or record.reason.startswith(RESOLVED):
        return None
    return record.finished - record.started if record.finished and record.started else None


def timeout(seen: JobSeen | None) -> timedelta | None:
    return policy_span(seen, "timeout")


def policy_span(seen: JobSeen | None, name: str) -> timedelta | None:
    """A policy of a job that is a length of time; whatever else a newer cronce writes there is none."""
    written = seen.policies.get(name) if seen else None
    return _span(written) if isinstance(written, str) else None


@lru_cache(maxsize=1000)
def _span(text: str) -> timedelta | None:
    """Ten thousand jobs have a few of them, and are asked each few seconds."""
    try:
        return parse_duration(text)
    except BadInput:
        return None


def is_near(span: timedelta | None, limit: timedelta | None) -> bool:
    return span is not None and limit is not None and span > NEAR * limit
