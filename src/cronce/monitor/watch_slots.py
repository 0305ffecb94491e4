"""Slots: which did not run, ran late or failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from cronce.model import Instant, Slot, spell
from cronce.monitor.known import REMEMBERED, UNCLAIMED, is_too_late, watched_rule
from cronce.monitor.model import Kind, Severity
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Memory, Survey, policy_span
from cronce.protocol.notices import Alert
from cronce.protocol.record import Outcome, Record, Span
from cronce.protocol.table import NOTHING_RAN
from cronce.runtime.operations.backfill import MOST
from cronce.runtime.queries import JobSeen, RunSeen
from cronce.runtime.scheduling.roster import NO_JOBS
from cronce.telling.words import counted, safe, short

BY_POLICY: Final = {"missed": 'missed="skip"', "superseded": 'missed="latest"'}
"""Why slots were passed over that fell due while nobody looked, and the policy that wants it so."""

PASSED_OVER: Final = (*BY_POLICY, "capped")
"""The last: the policy is to run them all, but they were too many."""

STOPPED: Final = "the scheduler was stopped"
"""Why a run failed that a restart cut short."""

NONE: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)


def fold(survey: Survey, memory: Memory, settings: Settings) -> Iterator[Alert]:
    for name, seen in survey.jobs.items():
        if name in memory.missed or (seen.job and seen.job.spans):
            yield from _missed(seen, memory.missed.get(name, ()), survey)
    for job, run in survey.ended.items():
        if job in survey.jobs:
            yield from failed(run)
    yield from late(survey, settings)


# --- missed ---


def missed(survey: Survey, memory: Memory, settings: Settings) -> Mapping[str, Sequence[tuple[Instant, Instant]]]:
    """The slots that were missed, each with when that was noted: those that still have no run, and for an hour those
    that a newer one has passed since. A job that is paused has missed none, and what a policy passed over stands in a
    span."""
    standing = _too_late(survey, settings)
    known = {job: dict(slots) for job, slots in memory.missed.items()}
    for slot, when in standing.items():
        known.setdefault(slot.job, {}).setdefault(slot.at, when)
    ran = ({run.slot for run in survey.looked} - standing.keys()) | survey.backfilled  # late, but they ran
    kept = {}
    for job, slots in known.items():
        left = [
            (at, when)
            for at, when in sorted(slots.items())
            if Slot(job, at) in standing or (survey.now - when < REMEMBERED and Slot(job, at) not in ran)
        ]
        told = [(at, when) for at, when in left if not _is_passed_over(survey.jobs.get(job), at)]
        if told and not is_paused(survey, job):
            kept[job] = told[-UNCLAIMED:]
    return kept


def _is_passed_over(seen: JobSeen | None, at: Instant) -> bool:
    spans = seen.job.spans if seen and seen.job else ()
    return any(span.start < at <= span.end and span.reason in PASSED_OVER for span in spans)


def _too_late(survey: Survey, settings: Settings) -> dict[Slot, Instant]:
    """Slots that nobody may start any more, or that should have long been started, and since when that is so."""
    found = {}
    for slot in survey.unclaimed:
        when = deadline(slot, survey.jobs.get(slot.job), settings)
        if survey.now > when:
            found[slot] = when
    for run in (*survey.looked, *survey.began.values()):
        if run.record is not None and is_too_late(run.record) and run.slot not in survey.backfilled:
            found[run.slot] = run.record.finished or survey.now
    return found


def deadline(slot: Slot, seen: JobSeen | None, settings: Settings) -> Instant:
    """From when on a slot without a run is missed."""
    return expected(slot, seen) + max(policy_span(seen, "start_within") or NONE, settings.late)


def expected(slot: Slot, seen: JobSeen | None) -> Instant:
    """When a slot has started at the latest, if all is well. A call from outside may be the first that anybody hears of
    the job, and be for a slot of the past: that is not late."""
    known = [spec.first for spec in seen.job.specs] if seen and seen.job else []
    return max(slot.at + (policy_span(seen, "jitter") or NONE), min(known, default=slot.at))


def is_paused(survey: Survey, job: str) -> bool:
    seen = survey.jobs.get(job)
    return survey.halted is not None or seen is None or seen.job is None or seen.job.paused is not None


def _missed(seen: JobSeen, slots: Sequence[tuple[Instant, Instant]], survey: Survey) -> Iterator[Alert]:
    """Critical is what should have run. What the job's own policy passed over, as in any restart, is worth knowing."""
    spans = [span for span in seen.job.spans if is_recent(span, seen, survey)] if seen.job else []
    wanted, unwanted = (
        [span for span in spans if (span.reason in BY_POLICY) is by_policy] for by_policy in (False, True)
    )
    told = wanted if slots or wanted else unwanted
    ends = [*(at for at, _ in slots), *(span.end for span in told)]
    if not ends:
        return
    facts = [*_did_not_run(slots), *(_passed_over(span) for span in (*wanted, *unwanted))]
    since = min([*(when for _, when in slots), *(span.end for span in told)])
    start = min([*(at for at, _ in slots), *(_first(span, seen) for span in told)])
    end = survey.now if len(slots) >= UNCLAIMED else max(ends) + SECOND
    remedy = f"`cronce why {Slot(seen.name, max(ends)).key}` says why; {_made_up_for(seen.name, start, end, survey)}"
    if not seen.is_scheduled:
        remedy += (
            " If what calls it was switched off on purpose (a CronJob that was suspended or deleted),"
            f" `cronce pause {seen.name}` ends this alert."
        )
    severity: Severity = "critical" if slots or wanted else "info"
    yield Alert(Kind.MISSED, seen.name, severity, f"{seen.name}: {'; '.join(facts)}.", since, remedy=remedy)


def _made_up_for(job: str, start: Instant, end: Instant, survey: Survey) -> str:
    """Only what the store lets a person do."""
    if not survey.history:
        return "this store keeps no history, so no backfill runs it: if it is still wanted, start its command by hand."
    return f"`cronce backfill {job} --from {spell(start)} --to {spell(end)}` runs what did not run."


def _did_not_run(slots: Sequence[tuple[Instant, Instant]]) -> Iterator[str]:
    if slots:
        which = f"the first at {spell(slots[0][0])}" if len(slots) > 1 else f"at {spell(slots[0][0])}"
        yield f"{counted(len(slots), 'slot', more=len(slots) >= UNCLAIMED)} fell due and did not run, {which}"


def _passed_over(span: Span) -> str:
    count = counted(span.slots, "slot") if span.slots is not None else "slots"
    was = "was" if span.slots == 1 else "were"
    if span.reason in BY_POLICY:
        return f"{count} up to {spell(span.end)} {was} passed over by its policy, {BY_POLICY[span.reason]}"
    return f"{count} up to {spell(span.end)} {was} passed over: more fell due than are run at once"


def _first(span: Span, seen: JobSeen) -> Instant:
    """From where on a backfill finds them. A span begins at the job's floor, and some of it may have run: that is left
    alone. If the floor is too far below, it is as many slots as were passed over, counted back from the last."""
    rule, first = seen.schedule, span.start + SECOND
    if rule is None:
        return first
    if span.slots is None or span.slots > MOST or rule.count(span.start, span.end) <= MOST:
        return rule.next(span.start) or first
    at = span.end
    for _ in range(span.slots - 1):
        at = rule.previous(at) or at
    return at


def is_recent(span: Span, seen: JobSeen, survey: Survey) -> bool:
    """Whether slots were passed over within the last hour, or when the schedulers that now carry the job came back
    within that hour: at most the latest slot lies between, which was run instead."""
    if span.reason not in PASSED_OVER:
        return False
    if survey.now - span.end < REMEMBERED:
        return True
    since = min((one.holder.since for one in survey.live if _carries(survey, one.holder.bundle, seen)), default=None)
    if since is None or seen.schedule is None or survey.now - since >= REMEMBERED:
        return False
    return span.end <= since and seen.schedule.count(span.end, since) <= 1


def _carries(survey: Survey, bundle: str, seen: JobSeen) -> bool:
    return seen.name in survey.bundles.get(bundle, NO_JOBS).specs


# --- late ---


def late(survey: Survey, settings: Settings) -> Iterator[Alert]:
    """The newest slot of each job: not started yet, or started late within the last hour."""
    newest: dict[str, Slot] = {slot.job: slot for slot in sorted(survey.unclaimed, key=lambda slot: slot.at)}
    for job, slot in newest.items():
        due = expected(slot, survey.jobs.get(job))
        due_by = deadline(slot, survey.jobs.get(job), settings)
        if due + settings.late < survey.now <= due_by and not is_paused(survey, job):
            fact = f"was due {short(survey.now - due)} ago, and nobody has claimed it yet"
            yield _late(slot, due + settings.late, fact)
    for job, run in survey.began.items():
        if (job not in newest or newest[job].at < run.slot.at) and _has_hours(survey, job):
            yield from _late_run(run, survey, settings)


def _has_hours(survey: Survey, job: str) -> bool:
    """Whether there is a schedule by which it could be late: what is called for any instant is in time."""
    return not is_paused(survey, job) and watched_rule(survey.jobs[job]) is not None


def _late_run(run: RunSeen, survey: Survey, settings: Settings) -> Iterator[Alert]:
    assert run.record is not None
    due, start = expected(run.slot, survey.jobs.get(run.slot.job)), first_start(run.record)
    if start is None and not run.record.is_closed and survey.now - due > settings.late:
        fact = f"was due {short(survey.now - due)} ago, and is still {run.record.state}"
        yield _late(run.slot, due + settings.late, fact)
    elif start is not None and start[0] - due > settings.late and survey.now - start[0] < REMEMBERED:
        yield _late(run.slot, start[0], f"started {short(start[0] - due)} late, on {start[1]}")


def first_start(record: Record) -> tuple[Instant, str] | None:
    """When a slot was first begun, and by whom. What is due or retrying again has its last grant in the past."""
    granted = [(past.started, past.holder) for past in record.past if past.end not in NOTHING_RAN]
    if record.is_running or (record.is_closed and record.outcome is not Outcome.SKIPPED):
        granted.append((record.started, record.holder))
    return next(((at, holder) for at, holder in granted if at is not None), None)


def _late(slot: Slot, since: Instant, fact: str) -> Alert:
    remedy = f"`cronce why {slot.key}` says what it waits for; `cronce holders` says who is alive."
    return Alert(Kind.LATE, slot.job, "warning", f"{slot.key} {fact}.", since, remedy=remedy)


# --- failed ---


def failed(run: RunSeen) -> Iterator[Alert]:
    """What was cut short when its scheduler was stopped failed by no fault of its own: that is no more than a
    warning."""
    record = run.record
    if record is None or record.outcome is not Outcome.FAILED:
        return
    severity: Severity = "warning" if record.reason.removeprefix("stopped: ").startswith(STOPPED) else "critical"
    tries = f" after {counted(record.failures, 'attempt')}" if record.failures > 1 else ""
    why = f": {safe(record.reason)}" if record.reason else ""
    text = f"{run.slot.key} failed on {record.holder}{tries}{why}."
    remedy = f"See its log and `cronce why {run.slot.key}`; then `cronce resolve {run.slot.key} retry`, or done."
    yield Alert(Kind.FAILED, run.slot.job, severity, text, record.finished or run.slot.at, remedy=remedy)
