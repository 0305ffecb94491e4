"""Slots and runs: which did not run, ran late or failed; which take too long, make no progress, or were left behind by
a process that is gone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from shlex import quote
from typing import Final

from cronce.model import Instant, Slot, effect_cells, slot_of_cell, spell
from cronce.monitor.alerts import STORE, TOUCHED_NAMED, AlertKind, Severity, host_cause
from cronce.monitor.figures import ranked
from cronce.monitor.settings import Settings
from cronce.monitor.survey import (
    MISSED_TTL,
    SHORTEST_COMPARED,
    SLICE,
    UNCLAIMED,
    Survey,
    WatchMemory,
    began,
    is_near,
    is_too_late,
    policy_span,
    timeout,
    watched_rule,
)
from cronce.protocol.notices import Alert
from cronce.protocol.record import FORGOTTEN, LAPSED, Outcome, Record, SpanRecord, effects_key
from cronce.protocol.table import NOTHING_RAN
from cronce.runtime.effects.review import EffectSeen, doubts_of
from cronce.runtime.effects.steps import Target
from cronce.runtime.journal import Entry, PendingEnd
from cronce.runtime.operations import MOST_BACKFILLED as MOST
from cronce.runtime.queries import JobSeen, RunSeen
from cronce.runtime.unfinished import is_cut
from cronce.telling.words import counted, listed, safe, short, what_next

BY_POLICY: Final = {"missed": 'missed="skip"', "superseded": 'missed="latest"'}
"""Why slots were skipped that fell due while no scheduler was alive, and the policy that says so."""

PASSED_OVER: Final = (*BY_POLICY, "capped")
"""The last: the policy is to run them all, but they were too many."""

CUT_SHORT: Final = "the scheduler was stopped"
"""Why a run failed that a restart cut short."""

ONE_SECOND: Final = timedelta(seconds=1)


def fold(survey: Survey, memory: WatchMemory, settings: Settings) -> Iterator[Alert]:
    for name, seen in survey.jobs.items():
        if name in memory.missed or (seen.job and seen.job.spans):
            yield from _missed(seen, memory.missed.get(name, ()), survey)
    for job, run in survey.ended.items():
        if job in survey.jobs:
            yield from failed(run, history=survey.history)
    yield from late(survey, settings)
    yield from first_of_each(overrun(survey))
    yield from near_timeout(survey)
    yield from first_of_each(no_progress(survey, memory, settings))
    yield from first_of_each(stuck(survey))
    yield from lapsing(memory, settings)
    yield from doubtful(survey)


# --- missed ---


def missed(survey: Survey, memory: WatchMemory, settings: Settings) -> Mapping[str, Sequence[tuple[Instant, Instant]]]:
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
            if Slot(job, at) in standing or (survey.now - when < MISSED_TTL and Slot(job, at) not in ran)
        ]
        told = [(at, when) for at, when in left if not _is_passed_over(survey.jobs.get(job), at)]
        if told and not is_paused(survey, job):
            kept[job] = told[-UNCLAIMED:]
    return kept


def _is_passed_over(seen: JobSeen | None, at: Instant) -> bool:
    spans = seen.job.spans if seen and seen.job else ()
    return any(span.start < at <= span.end and span.reason in PASSED_OVER for span in spans)


def _too_late(survey: Survey, settings: Settings) -> dict[Slot, Instant]:
    """Slots that may not start any more, or should have started long ago, and since when."""
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
    return expected(slot, seen) + max(policy_span(seen, "start_within") or timedelta(0), settings.late)


def expected(slot: Slot, seen: JobSeen | None) -> Instant:
    """When a slot has started at the latest, if all is well. A call from outside may be the first that anybody hears of
    the job, and be for a slot of the past: that is not late."""
    known = [spec.first for spec in seen.job.specs] if seen and seen.job else []
    return max(slot.at + (policy_span(seen, "jitter") or timedelta(0)), min(known, default=slot.at))


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
    end = survey.now if len(slots) >= UNCLAIMED else max(ends) + ONE_SECOND
    remedy = f"`cronce why {Slot(seen.name, max(ends)).key}` shows why; {_made_up_for(seen.name, start, end, survey)}"
    if not seen.is_scheduled:
        remedy += (
            " If what calls it was switched off on purpose (a CronJob that was suspended or deleted),"
            f" `cronce pause {seen.name}` ends this alert."
        )
    severity: Severity = "critical" if slots or wanted else "info"
    keys = tuple(Slot(seen.name, at).key for at, _ in slots)
    text = f"{seen.name}: {'; '.join(facts)}."
    yield Alert(AlertKind.MISSED, seen.name, severity, text, since, remedy=remedy, slots=keys)


def _made_up_for(job: str, start: Instant, end: Instant, survey: Survey) -> str:
    """Only what the store lets a person do."""
    if not survey.history:
        return "this store keeps no history, so no backfill is possible: if you need it, start its command by hand."
    return f"`cronce rerun {job} --from {spell(start)} --to {spell(end)}` runs the slots that did not run."


def _did_not_run(slots: Sequence[tuple[Instant, Instant]]) -> Iterator[str]:
    if slots:
        which = f"the first at {spell(slots[0][0])}" if len(slots) > 1 else f"at {spell(slots[0][0])}"
        yield f"{counted(len(slots), 'slot', more=len(slots) >= UNCLAIMED)} fell due and did not run, {which}"


def _passed_over(span: SpanRecord) -> str:
    count = counted(span.slots, "slot") if span.slots is not None else "slots"
    was = "was" if span.slots == 1 else "were"
    if span.reason in BY_POLICY:
        return f"{count} up to {spell(span.end)} {was} skipped by the job's policy, {BY_POLICY[span.reason]}"
    return f"{count} up to {spell(span.end)} {was} skipped: more fell due than cronce catches up on"


def _first(span: SpanRecord, seen: JobSeen) -> Instant:
    """From where on a backfill finds them. A span begins at the job's floor, and some of it may have run: that is left
    alone. If the floor is too far below, it is as many slots as were passed over, counted back from the last."""
    rule, first = seen.schedule, span.start + ONE_SECOND
    if rule is None:
        return first
    if span.slots is None or span.slots > MOST or rule.count(span.start, span.end) <= MOST:
        return rule.next(span.start) or first
    at = span.end
    for _ in range(span.slots - 1):
        at = rule.previous(at) or at
    return at


def is_recent(span: SpanRecord, seen: JobSeen, survey: Survey) -> bool:
    """Whether slots were passed over within the last hour, or when the schedulers that now carry the job came back
    within that hour: at most the latest slot lies between, which was run instead."""
    if span.reason not in PASSED_OVER:
        return False
    if survey.now - span.end < MISSED_TTL:
        return True
    since = min((one.holder.since for one in survey.live if seen.name in survey.carried_by(one.holder)), default=None)
    if since is None or seen.schedule is None or survey.now - since >= MISSED_TTL:
        return False
    return span.end <= since and seen.schedule.count(span.end, since) <= 1


# --- late ---


def late(survey: Survey, settings: Settings) -> Iterator[Alert]:
    """The newest slot of each job: not started yet, or started late within the last hour."""
    newest: dict[str, Slot] = {slot.job: slot for slot in sorted(survey.unclaimed, key=lambda slot: slot.at)}
    for job, slot in newest.items():
        due = expected(slot, survey.jobs.get(job))
        due_by = deadline(slot, survey.jobs.get(job), settings)
        if due + settings.late < survey.now <= due_by and not is_paused(survey, job):
            fact = f"was due {short(survey.now - due)} ago, and no process has claimed it yet"
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
    elif start is not None and start[0] - due > settings.late and survey.now - start[0] < MISSED_TTL:
        yield _late(run.slot, start[0], f"started {short(start[0] - due)} late, on {start[1]}")


def first_start(record: Record) -> tuple[Instant, str] | None:
    """When a slot was first begun, and by whom. What is due or retrying again has its last grant in the past."""
    granted = [(past.started, past.holder) for past in record.past if past.end not in NOTHING_RAN]
    if record.is_running or (record.is_closed and record.outcome is not Outcome.SKIPPED):
        granted.append((record.started, record.holder))
    return next(((at, holder) for at, holder in granted if at is not None), None)


def _late(slot: Slot, since: Instant, fact: str) -> Alert:
    remedy = f"`cronce why {slot.key}` shows what it waits for; `cronce status holders` lists who is alive."
    text = f"{slot.key} {fact}."
    return Alert(AlertKind.LATE, slot.job, "warning", text, since, remedy=remedy, slots=(slot.key,))


# --- failed ---


def failed(run: RunSeen, *, history: bool) -> Iterator[Alert]:
    """What was cut short when its scheduler was stopped failed by no fault of its own: that is no more than a
    warning."""
    record = run.record
    if record is None or record.outcome is not Outcome.FAILED:
        return
    severity: Severity = "warning" if record.reason.removeprefix("stopped: ").startswith(CUT_SHORT) else "critical"
    tries = f" after {record.failures + 1:,} attempts" if record.failures else ""  # the last one is not among them
    why = f": {safe(record.reason)}" if record.reason else ""
    text = f"{run.slot.key} failed on {record.holder}{tries}{why}.{_last_words(record)}"
    look = f"Check its log and `cronce why {run.slot.key}`."
    remedy = f"{look} {what_next(run.slot.key, history=history)}"
    since, slots = record.finished or run.slot.at, (run.slot.key,)
    yield Alert(AlertKind.FAILED, run.slot.job, severity, text, since, remedy=remedy, slots=slots)


OUTPUT_LINES: Final = 3
"""Lines of the end of its output, or of its traceback, that an alert has."""


def _last_words(record: Record) -> str:
    lines = [safe(line.strip()) for line in record.output.splitlines() if line.strip(" ~^")]
    lines = [line for line in lines if line != "Traceback (most recent call last):"]
    if lines and record.reason and lines[-1].endswith(safe(record.reason)):  # that is said already
        lines = lines[:-1]
    return f" Its last output: {' / '.join(lines[-OUTPUT_LINES:])}" if lines else ""


RUNS_NEEDED: Final = 5
"""From fewer runs that succeeded one cannot tell how long a run takes."""

TIMES_LONGER: Final = 3
"""This many times the longest of them is too long."""

TAKEOVER_DUE: Final = timedelta(seconds=60)
"""Within this long after a lease expired a process acts on it; within another lease, if that is longer."""

END_SAID_WITHIN: Final = timedelta(seconds=10)
"""Within this long the end of a run is usually recorded by a retry, and no alert is needed."""

LAPSES: Final = 20
"""Expired leases of a job that are remembered."""


def first_of_each(found: Iterable[Alert]) -> Iterator[Alert]:
    """A job may have several such runs: the alert is about the oldest."""
    oldest: dict[str, Alert] = {}
    for one in sorted(found, key=lambda one: one.since):
        oldest.setdefault(one.subject, one)
    yield from oldest.values()


# --- how long ---


def overrun(survey: Survey) -> Iterator[Alert]:
    for run in survey.open:
        since = began(run)
        if since is None or run.lapsed or run.gone:
            continue
        if run.record is not None and run.record.overdue:
            yield _overdue(run, run.record.overdue, since)
            continue
        for limit, what in _limits(run, survey):
            if survey.now - since > limit:
                text = f"{run.slot.key} has been running for {short(survey.now - since)} on {_holder(run)}, {what}."
                remedy = f"Check what it does; `cronce cancel {run.slot.key}` stops it."
                yield Alert(
                    AlertKind.OVERRUN,
                    run.slot.job,
                    "warning",
                    text,
                    since + limit,
                    remedy=remedy,
                    slots=(run.slot.key,),
                )


def _overdue(run: RunSeen, why: str, since: Instant) -> Alert:
    text = (
        f"{run.slot.key} is overdue, still running on {_holder(run)}: it was told to stop ({why}). Its effects are"
        " refused, and it keeps its turn and its worker."
    )
    remedy = "Check what it waits for, or restart that process. A job with isolate=True can be killed."
    return Alert(AlertKind.OVERRUN, run.slot.job, "critical", text, since, remedy=remedy, slots=(run.slot.key,))


def _limits(run: RunSeen, survey: Survey) -> Iterator[tuple[timedelta, str]]:
    """What a run should not take longer than."""
    limit, took = timeout(survey.jobs.get(run.slot.job)), survey.took.get(run.slot.job, ())
    if limit is not None:
        yield limit, f"longer than its timeout of {short(limit)}"
    if len(took) >= RUNS_NEEDED:
        yield (
            max(TIMES_LONGER * max(took), SHORTEST_COMPARED),
            f"and the longest of the last {len(took)} took {short(max(took))}",
        )


def near_timeout(survey: Survey) -> Iterator[Alert]:
    """A job whose runs come near its timeout will be cut short one day. One that overruns has said enough."""
    overrunning = {one.subject for one in overrun(survey)}
    for job, took in survey.took.items():
        limit = timeout(survey.jobs.get(job))
        most = ranked(sorted(took), 95) if len(took) >= RUNS_NEEDED else None
        if limit is None or most is None or job in overrunning or not is_near(most, limit):
            continue
        text = (
            f"{job} is close to its timeout of {short(limit)}: 95 % of the last {len(took)} runs took up to"
            f" {short(most)}."
        )
        remedy = f"Give it a longer timeout, or less work; `cronce runs {job}` lists its runs."
        yield Alert(AlertKind.OVERRUN, job, "warning", text, survey.now, remedy=remedy)


def progress(survey: Survey, memory: WatchMemory) -> Mapping[str, tuple[tuple[int, int], Instant]]:
    """How far each run is, and since when it is no further."""
    told = {}
    for run in survey.open:
        if run.record is not None and run.record.progress is not None and began(run) is not None:
            key = f"{run.cell.key} {run.cell.fence}"
            known = memory.progress.get(key)
            same = known is not None and known[0] == run.record.progress
            told[key] = known if known is not None and same else (run.record.progress, survey.now)
    return told


def no_progress(survey: Survey, memory: WatchMemory, settings: Settings) -> Iterator[Alert]:
    for run in survey.open:
        known = memory.progress.get(f"{run.cell.key} {run.cell.fence}")
        if known is None or run.gone or survey.now - known[1] < settings.no_progress:
            continue
        (done, total), since = known
        stalled = f"has made no progress for {short(survey.now - since)}"
        text = f"{run.slot.key} {stalled}: {done:,} of {total:,} done, on {_holder(run)}."
        remedy = f"Check what it is waiting for; `cronce cancel {run.slot.key}` stops it."
        yield Alert(AlertKind.NO_PROGRESS, run.slot.job, "warning", text, since, remedy=remedy, slots=(run.slot.key,))


# --- left behind ---


def _by_hand(run: RunSeen, record: Record, survey: Survey) -> str:
    """What a person can do about a run whose lease has expired. One that would be taken over is only due again."""
    if record.closes_as_lost:
        return what_next(run.slot.key, history=survey.history)
    return f"To drop it: `cronce cancel {run.slot.key}`."


def stuck(survey: Survey) -> Iterator[Alert]:
    for run in survey.open:
        until, record = run.cell.until, run.record
        if record is None or not record.is_running or until is None:
            continue
        if survey.now - until > max(record.lease, TAKEOVER_DUE):
            then = "closed as lost" if record.closes_as_lost else "taken over"
            ended = f"its lease expired at {spell(until)}, and no process has acted on it"
            text = f"{run.slot.key} was granted to {record.holder}: {ended}."
            remedy = f"Start a scheduler, or call the job: then it is {then}. {_by_hand(run, record, survey)}"
            cause, slots = host_cause(record.holder), (run.slot.key,)
            yield Alert(AlertKind.STUCK, run.slot.job, "critical", text, until, remedy=remedy, cause=cause, slots=slots)


def lapses(survey: Survey, memory: WatchMemory) -> Mapping[str, Sequence[tuple[Instant, str]]]:
    """The leases of each job that lapsed within the last hour, and who had them."""
    found = {job: set(known) for job, known in memory.lapses.items()}
    for run in (*survey.looked, *survey.open, *survey.attention):
        for lapse in _lapsed(run):
            found.setdefault(run.slot.job, set()).add(lapse)
    recent = {job: [one for one in sorted(known) if survey.now - one[0] < MISSED_TTL] for job, known in found.items()}
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


def lapsing(memory: WatchMemory, settings: Settings) -> Iterator[Alert]:
    for job, known in memory.lapses.items():
        if len(known) >= settings.flapping:
            whose = listed(sorted({holder for _, holder in known}))
            text = f"{counted(len(known), 'lease')} of {job} expired within the last hour; they were held by {whose}."
            remedy = f"Their processes crashed, hung or lost the store: check their logs, and `cronce why {job}`."
            cause = host_cause(known[-1][1])
            yield Alert(AlertKind.LAPSING, job, "warning", text, known[0][0], remedy=remedy, cause=cause)


def unsaid(journal: Iterable[Entry], now: Instant) -> Iterator[Alert]:
    """Runs that ended on this machine, and whose end is not recorded yet: by this machine's clock."""
    for entry in journal:
        if isinstance(entry, PendingEnd) and now - entry.at >= END_SAID_WITHIN:
            slot = slot_of_cell(entry.run)
            text = f"{slot.key}: {entry.what} at {spell(entry.at)} on {entry.holder}, which could not be recorded yet."
            remedy = "Any cronce process of this machine records it as soon as the store accepts writes."
            yield Alert(AlertKind.UNSAID, slot.job, "warning", text, entry.at, remedy=remedy)


# --- in doubt ---

_DOUBTS: Final = {
    Outcome.LOST: (AlertKind.LOST, "lost: its process was gone and its lease expired; how much was done is not known"),
    Outcome.UNKNOWN: (AlertKind.UNKNOWN, "unknown: the store has no record of whether it ran"),
}


def doubtful(survey: Survey) -> Iterator[Alert]:
    """Runs that wait for a person, by job. Effects in doubt come first: until those are resolved, a retry is stopped by
    them again."""
    found: dict[tuple[Outcome, str], list[RunSeen]] = {}
    left = left_by(survey.doubts)
    for run in survey.attention:
        if run.record is not None and run.record.outcome in _DOUBTS:
            found.setdefault((run.record.outcome, run.slot.job), []).append(run)
    for (outcome, job), all_runs in found.items():
        waiting = [run for run in all_runs if not _is_settled(run, survey)]
        runs, kind, what = waiting or all_runs, *_DOUBTS[outcome]
        ordered = sorted(runs, key=lambda run: (run.slot.at, run.slot.request), reverse=True)
        newest, key = ordered[0], ordered[0].slot.key
        count = f"; {counted(len(runs), 'run', more=survey.more)} of {job} in all" if len(runs) > 1 else ""
        since = min(run.record.finished or run.slot.at for run in runs if run.record is not None)
        listing = f"`cronce runs {job} --state {outcome}` lists them"
        effects = [effect.name for run in ordered[:TOUCHED_NAMED] for effect in left(run)]
        in_doubt = left(newest)
        own = [effect.name for effect in in_doubt]
        if own:
            unsure = (
                f"; how much was done is not known, nor whether {own[0]} happened" if kind is AlertKind.LOST else ""
            )
            told = unsure or f" is unknown: cronce does not know whether {own[0]} happened"
            lost = " is lost: its process was gone and its lease expired" if kind is AlertKind.LOST else ""
            text = safe(f"{key}{lost}{told}{count}.")
            others = f" (`cronce status effects {key}` lists its other effects)" if len(own) > 1 else ""
            first = f"Find out, then run `cronce resolve {quote(safe(own[0]))} done`, or retry{others}"
            remedy = (
                f"{first}; then `cronce resolve {key} retry` continues it, and repeats nothing that is done; {listing}."
            )
        elif waiting:
            text = f"{key} is {what}{count}."
            remedy = f"Check what it did. {what_next(key, history=survey.history)} {listing}."
        else:
            text = safe(f"{key} was stopped by {doubts_of(newest.record)[0].name}, which has been resolved{count}.")
            remedy = f"`cronce rerun {key}` continues it; {listing}."
        yield Alert(
            kind,
            job,
            "critical" if waiting else "warning",
            text,
            since,
            remedy=remedy,
            cause=_cause(newest, kind, in_doubt, survey),
            slots=tuple(run.slot.key for run in ordered[:TOUCHED_NAMED]),
            effects=tuple(dict.fromkeys(effects))[:TOUCHED_NAMED],
        )


LeftBy = Callable[[RunSeen], list[EffectSeen]]


def left_by(doubts: Iterable[EffectSeen]) -> LeftBy:
    """Which effects in doubt a run met, or left behind itself: by their names, their slot, and who made them."""
    found: dict[str, list[EffectSeen]] = {}
    for one in doubts:
        under = one.record.under if one.record else None
        made_by = [under.run.partition("#")[0]] if under else []
        for key in (one.cell.key, "/".join(one.cell.key.split("/")[:3]) + "/", *made_by):
            found.setdefault(key, []).append(one)

    def left(run: RunSeen) -> list[EffectSeen]:
        met = [effect.cell for effect in doubts_of(run.record)]
        own = (effect_cells(effects_key(run.record, run.slot)), run.slot._replace(request="").cell)
        return list({one.cell.key: one for key in (*met, *own) for one in found.get(key, ())}.values())

    return left


def _cause(run: RunSeen, kind: AlertKind, effects: Sequence[EffectSeen], survey: Survey) -> str:
    """A lost run is one whose host was gone. An unknown one, if the host that left its effect in doubt is."""
    if run.record is None:
        return ""
    if kind is AlertKind.LOST:
        return host_cause(run.record.holder)
    if run.record.reason.startswith(FORGOTTEN):
        return STORE
    begun_by = {one.record.holder for one in effects if one.record}
    dead = {one.holder.holder for one in survey.holders if one.life(survey.now) == "dead"}
    return host_cause(min(begun_by & dead)) if begun_by & dead else f"job {run.slot.job}"


def _is_settled(run: RunSeen, survey: Survey) -> bool:
    """It is unknown for nothing but an effect that was resolved since: as far as one can see all effects in doubt."""
    effects = doubts_of(run.record)
    if not effects or run.record is None or is_cut(run.record.reason) or len(survey.doubts) >= SLICE:
        return False
    return not any(_is_doubtful(effect, survey) for effect in effects)


def _is_doubtful(effect: Target, survey: Survey) -> bool:
    return any(one.cell.key == effect.cell for one in survey.doubts)


def _holder(run: RunSeen) -> str:
    return run.record.holder if run.record is not None else ""
