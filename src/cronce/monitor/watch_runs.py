"""Runs: which take too long, come no further, or were left by whoever had them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from shlex import quote
from typing import Final

from cronce.model import Instant, slot_of_cell, spell
from cronce.monitor.alerts import Kind
from cronce.monitor.known import REMEMBERED, SLICE
from cronce.monitor.settings import Settings
from cronce.monitor.survey import LONG, Memory, Survey, began, is_near, timeout
from cronce.protocol.notices import Alert
from cronce.protocol.record import LAPSED, Outcome
from cronce.runtime.effects.review import doubt_of
from cronce.runtime.journal import Entry, UnsaidEnd
from cronce.runtime.queries import RunSeen
from cronce.telling.words import counted, listed, safe, short

ENOUGH: Final = 5
"""With fewer runs that succeeded nobody knows how long one takes."""

LONGER: Final = 3
"""So many times the longest of them is too long."""

NOBODY: Final = timedelta(seconds=60)
"""Within so long after a lease passed, somebody acts on it; within another lease, if that is longer."""

SOON: Final = timedelta(seconds=10)
"""Within so long an end is said again, and nobody need know."""

LAPSES: Final = 20
"""Leases of a job that lapsed, so many are remembered."""


def fold(survey: Survey, memory: Memory, settings: Settings) -> Iterator[Alert]:
    yield from first_of_each(overrun(survey))
    yield from near_timeout(survey)
    yield from first_of_each(no_progress(survey, memory, settings))
    yield from first_of_each(stuck(survey))
    yield from lapsing(memory, settings)
    yield from doubtful(survey)


def first_of_each(found: Iterable[Alert]) -> Iterator[Alert]:
    """A job may have several such runs: the oldest of them is told of."""
    oldest: dict[str, Alert] = {}
    for one in sorted(found, key=lambda one: one.since):
        oldest.setdefault(one.subject, one)
    yield from oldest.values()


# --- how long ---


def overrun(survey: Survey) -> Iterator[Alert]:
    for run in survey.open:
        since = began(run)
        if since is None or run.lapsed:
            continue
        if run.record is not None and run.record.overdue:
            yield _overdue(run, run.record.overdue, since)
            continue
        for limit, what in _limits(run, survey):
            if survey.now - since > limit:
                text = f"{run.slot.key} runs for {short(survey.now - since)} on {_holder(run)}, {what}."
                remedy = f"See what it does; `cronce cancel {run.slot.key}` stops it."
                yield Alert(Kind.OVERRUN, run.slot.job, "warning", text, since + limit, remedy=remedy)


def _overdue(run: RunSeen, why: str, since: Instant) -> Alert:
    text = (
        f"{run.slot.key} is overdue, still running on {_holder(run)}: it was told to stop ({why}). Its effects are"
        " refused, and it keeps its turn and its worker."
    )
    remedy = "See what it waits for, or restart that process; isolate=True runs a job where it can be killed."
    return Alert(Kind.OVERRUN, run.slot.job, "critical", text, since, remedy=remedy)


def _limits(run: RunSeen, survey: Survey) -> Iterator[tuple[timedelta, str]]:
    """What a run should not take longer than."""
    limit, took = timeout(survey.jobs.get(run.slot.job)), survey.took.get(run.slot.job, ())
    if limit is not None:
        yield limit, f"longer than its timeout of {short(limit)}"
    if len(took) >= ENOUGH:
        yield max(LONGER * max(took), LONG), f"and the longest of the last {len(took)} took {short(max(took))}"


def near_timeout(survey: Survey) -> Iterator[Alert]:
    """A job whose runs come near its timeout will be cut short one day. One that overruns has said enough."""
    overrunning = {one.subject for one in overrun(survey)}
    for job, took in survey.took.items():
        limit = timeout(survey.jobs.get(job))
        if limit is None or len(took) < ENOUGH or job in overrunning or not is_near(nearly_all(took), limit):
            continue
        text = (
            f"{job} comes near its timeout of {short(limit)}: of the last {len(took)} runs 95 % took up to"
            f" {short(nearly_all(took))}."
        )
        remedy = f"Give it a longer timeout, or less to do; `cronce runs {job}` lists them."
        yield Alert(Kind.OVERRUN, job, "warning", text, survey.now, remedy=remedy)


def nearly_all(spans: Sequence[timedelta]) -> timedelta:
    """What 95 % of them do not exceed: the nearest rank."""
    return sorted(spans)[-(-95 * len(spans) // 100) - 1]


def progress(survey: Survey, memory: Memory) -> Mapping[str, tuple[tuple[int, int], Instant]]:
    """How far each run is, and since when it is no further."""
    told = {}
    for run in survey.open:
        if run.record is not None and run.record.progress is not None and began(run) is not None:
            key = f"{run.cell.key} {run.cell.fence}"
            known = memory.progress.get(key)
            same = known is not None and known[0] == run.record.progress
            told[key] = known if known is not None and same else (run.record.progress, survey.now)
    return told


def no_progress(survey: Survey, memory: Memory, settings: Settings) -> Iterator[Alert]:
    for run in survey.open:
        known = memory.progress.get(f"{run.cell.key} {run.cell.fence}")
        if known is None or survey.now - known[1] < settings.no_progress:
            continue
        (done, total), since = known
        text = f"{run.slot.key} has been at {done:,} of {total:,} for {short(survey.now - since)}, on {_holder(run)}."
        remedy = f"See what it waits for; `cronce cancel {run.slot.key}` stops it."
        yield Alert(Kind.NO_PROGRESS, run.slot.job, "warning", text, since, remedy=remedy)


# --- left behind ---


def stuck(survey: Survey) -> Iterator[Alert]:
    for run in survey.open:
        until, record = run.cell.until, run.record
        if record is None or not record.is_running or until is None:
            continue
        if survey.now - until > max(record.lease, NOBODY):
            then = "closed as lost" if record.closes_as_lost else "taken over"
            gone = f"its lease passed {short(survey.now - until)} ago, and nobody has acted on that"
            text = f"{run.slot.key} was granted to {record.holder}: {gone}."
            remedy = f"Start a scheduler, by which it is {then}; `cronce why {run.slot.key}` tells more."
            yield Alert(Kind.STUCK, run.slot.job, "critical", text, until, remedy=remedy)


def lapses(survey: Survey, memory: Memory) -> Mapping[str, Sequence[tuple[Instant, str]]]:
    """The leases of each job that lapsed within the last hour, and who had them."""
    found = {job: set(known) for job, known in memory.lapses.items()}
    for run in (*survey.looked, *survey.open, *survey.attention):
        for lapse in _lapsed(run):
            found.setdefault(run.slot.job, set()).add(lapse)
    recent = {job: [one for one in sorted(known) if survey.now - one[0] < REMEMBERED] for job, known in found.items()}
    return {job: known[-LAPSES:] for job, known in recent.items() if known}


def _lapsed(run: RunSeen) -> Iterator[tuple[Instant, str]]:
    record = run.record
    if record is None:
        return
    for past in record.past:
        if past.end == LAPSED and past.ended is not None:
            yield past.ended, past.holder
    if record.outcome is Outcome.LOST and record.finished is not None:
        yield record.finished, record.holder


def lapsing(memory: Memory, settings: Settings) -> Iterator[Alert]:
    for job, known in memory.lapses.items():
        if len(known) >= settings.flapping:
            whose = listed(sorted({holder for _, holder in known}))
            text = f"{counted(len(known), 'lease')} of {job} lapsed within the last hour, of {whose}."
            remedy = f"Their processes died, hung or lost the store: see their logs, and `cronce why {job}`."
            yield Alert(Kind.LAPSING, job, "warning", text, known[0][0], remedy=remedy)


def unsaid(journal: Iterable[Entry], now: Instant) -> Iterator[Alert]:
    """Runs that ended on this machine, and whose store has not taken that yet: by its own clock."""
    for entry in journal:
        if isinstance(entry, UnsaidEnd) and now - entry.at >= SOON:
            slot = slot_of_cell(entry.run)
            text = f"{slot.key}: {entry.what} at {spell(entry.at)} on {entry.holder}, which could not be recorded yet."
            remedy = "It is recorded once the store takes writes, by any cronce process of this machine."
            yield Alert(Kind.UNSAID, slot.job, "warning", text, entry.at, remedy=remedy)


# --- in doubt ---

_DOUBTS: Final = {
    Outcome.LOST: (Kind.LOST, "lost: its lease expired, and how much was done is not known"),
    Outcome.UNKNOWN: (Kind.UNKNOWN, "unknown: nobody can tell whether it ran"),
}


def doubtful(survey: Survey) -> Iterator[Alert]:
    """Runs that wait for a person, by job."""
    found: dict[tuple[Outcome, str], list[RunSeen]] = {}
    for run in survey.attention:
        if run.record is not None and run.record.outcome in _DOUBTS:
            found.setdefault((run.record.outcome, run.slot.job), []).append(run)
    for (outcome, job), all_runs in found.items():
        waiting = [run for run in all_runs if not _is_settled(run, survey)]
        runs, kind, what = waiting or all_runs, *_DOUBTS[outcome]
        newest = max(runs, key=lambda run: (run.slot.at, run.slot.request))
        count = f"; {counted(len(runs), 'run', more=survey.more)} of {job} in all" if len(runs) > 1 else ""
        since = min(run.record.finished or run.slot.at for run in runs if run.record is not None)
        listing = f"`cronce runs {job} --state {outcome}` lists them"
        effect, key = doubt_of(newest.record), newest.slot.key
        if effect is None:
            text = f"{key} is {what}{count}."
            remedy = f"See what it did, then `cronce resolve {key} done`, or retry; {listing}."
        elif waiting:
            text = safe(f"{key} is unknown: nobody knows whether {effect.name} happened{count}.")
            remedy = f"Find out, then `cronce resolve {quote(safe(effect.name))} done`, or retry; {listing}."
        else:
            text = safe(f"{key} was stopped by {effect.name}, which is resolved since{count}.")
            remedy = f"`cronce rerun {key}` goes on with it; {listing}."
        yield Alert(kind, job, "critical" if waiting else "warning", text, since, remedy=remedy)


def _is_settled(run: RunSeen, survey: Survey) -> bool:
    """It is unknown for nothing but an effect that was resolved since: as far as one can see all effects in doubt."""
    effect = doubt_of(run.record)
    if effect is None or run.record is None or run.record.reason.endswith(" more)") or len(survey.doubts) >= SLICE:
        return False
    return all(one.cell.key != effect.cell for one in survey.doubts)


def _holder(run: RunSeen) -> str:
    return run.record.holder if run.record is not None else ""
