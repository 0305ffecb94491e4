"""Why a slot ran, runs or did not run, in sentences. `runtime.why` finds the facts."""

import re
from collections.abc import Iterator
from shlex import quote
from typing import Final, NamedTuple

from cronce.errors import NOBODY_KNOWS, BadInput
from cronce.model import Fence, Instant, slot_of_cell, spell
from cronce.protocol import record as written
from cronce.protocol.record import LAPSED, MOST_LAPSED, Record, SpanRecord
from cronce.protocol.specs import is_floor_ahead
from cronce.protocol.store_clock import SET_CLOCK, closed_ahead
from cronce.runtime.effects.review import STATES, EffectsSurvey
from cronce.runtime.journal import PendingEnd, UnaskedCall
from cronce.runtime.process_notes import UNASKED, UNSTARTED
from cronce.runtime.queries import JobSeen
from cronce.runtime.why import ONCE_STILL_RAN, Case, Story, Why
from cronce.schedule.describe import describe
from cronce.telling import words
from cronce.telling.words import as_written, away, by_whom, fate, how_long, moment, safe

_NO_LIVE_SCHEDULER = "no live scheduler has this job"

PAYLOAD_SHOWN = 200
"""So many characters; all of it is in the JSON."""

# --- a job ----------------------------------------------------------------------------------------------------------


def about(found: Why, prevented: int | None = None) -> str:
    """What is to be said of the job itself, before its slots. `prevented`: how many duplicate runs of it were, if that
    is known."""
    return "\n".join(_about(found, prevented))


def _about(found: Why, prevented: int | None) -> Iterator[str]:
    seen, now = found.job, found.now
    if seen.job is None:
        yield f"{seen.name} cannot be read: {seen.trouble}."
        return
    upcoming = seen.next(now)
    if seen.schedule is None:
        yield f"{seen.name} has no schedule on record: what calls it decides when it runs."
    elif len(seen.schedules) > 1:
        listed = "; ".join(map(as_written, seen.schedules))
        yield f"{seen.name} is called with {len(seen.schedules)} schedules: {listed}."
    else:
        yield f"{seen.name} runs {describe(seen.schedule)} ({as_written(seen.schedule)})."
    yield from warnings(found)
    if seen.job.paused:
        whom = "Everything" if found.halted else "It"
        paused = f"{whom} is paused {by_whom(seen.job.paused)}".rstrip()
        yield safe(f"{paused}: its slots do not run until it is resumed.")
    elif upcoming is not None:
        yield f"Its next slot is {spell(upcoming)} ({away(upcoming, now)})."
    if found.abandoned:
        yield (
            f"{_NO_LIVE_SCHEDULER[0].upper()}{_NO_LIVE_SCHEDULER[1:]}, so it will not run;"
            " `cronce status holders` lists the processes that are alive."
        )
    yield from _calls(found, prevented)
    if found.effects and found.effects.counts.get("in doubt"):
        many, more = found.effects.counts["in doubt"], "in doubt" in found.effects.capped
        are = "is" if many == 1 and not more else "are"
        doubts = f"{words.counted(many, 'effect', more=more)} {are} in doubt"
        yield f"{doubts}: `cronce status effects {seen.name}` lists them."
    if not found.stories:
        yield "It has no runs on record."


def _calls(found: Why, prevented: int | None) -> Iterator[str]:
    """Which did not run; of those, the duplicates are the ones whose slot runs elsewhere, or is done."""
    if found.refusals:
        of_each = len(found.refusals) > 1
        hosts = (f"{host} ({times:,})" if of_each else host for host, times in sorted(found.refusals.items()))
        calls = sum(found.refusals.values())
        known = prevented is not None and prevented <= calls  # else schedulers counted more than calls were noted
        would = f" ({_would_be(prevented)})" if prevented is not None and known else ""
        yield f"Calls that did not run: {calls:,}{would}, from {', '.join(hosts)}."
        if not known and prevented:
            yield f"Duplicate runs prevented: {prevented:,}."


def _would_be(prevented: int) -> str:
    number = f"{prevented:,}" if prevented else "none"
    return f"{number} would have been {'a duplicate' if prevented < 2 else 'duplicates'}"


def warnings(found: Why) -> Iterator[str]:
    """About the store and the job: also shown where one slot was asked about."""
    if found.doubt:
        yield f"{found.doubt[0].upper()}{found.doubt[1:]}."
    job = found.job.job
    if job is not None and is_floor_ahead(job, found.now):
        closed = closed_ahead(f"slots up to {spell(job.floor)}")
        yield f"{closed[0].upper()}{closed[1:]}. {SET_CLOCK}."


# --- a slot ---------------------------------------------------------------------------------------------------------


def tell(story: Story, found: Why) -> str:
    """The answer, then everything that happened to the slot in its order, then the end of what it printed."""
    record = story.run.record if story.run else None
    lines = [headline(story, found)]
    lines += [f"  {safe(line)}" for line in _request(record)] if record else []
    lines += [f"  {line}" for line in _timeline(story)]
    lines += [f"  {line}" for line in _effects(story)]
    lines += [f"  {safe(line)}" for line in _journal(story, found)]
    lines += [f"  {words.what_next(story.slot.key, history=found.history)}"] if _is_to_settle(story) else []
    if record and record.output:
        lines += ["  the end of its output:", *(f"    | {safe(line)}" for line in record.output.splitlines())]
    return "\n".join(lines)


def _is_to_settle(story: Story) -> bool:
    """Whether a person has to choose; what effects in doubt leave open is said with them."""
    record = story.run.record if story.run else None
    bad = story.case in (Case.FAILED, Case.LOST, Case.UNKNOWN)
    lapsed = story.case is Case.LAPSED and record is not None and record.closes_as_lost
    superseded = record is not None and record.superseded
    return (bad or lapsed) and not superseded and not story.effects.counts.get("in doubt")


def headline(story: Story, found: Why) -> str:
    key, run = story.slot.key, story.run
    if run is None:
        return f"{key} {_never(story, found)}"
    if run.record is None:
        return f"{key} cannot be read: {safe(run.trouble)}."
    if story.case is Case.TOO_OLD:
        return safe(f"{key} is too old: {run.record.reason}. It may have run; it does not run again.")
    return safe(f"{key} {_recorded(story, run.record, found)}")


def _recorded(story: Story, record: Record, found: Why) -> str:
    """The sentence about a slot that is on record, after its key."""
    say = _Clock(story.slot.at)
    finished = say(record.finished)
    match story.case:
        case Case.SUCCEEDED if record.resolved:
            rerun = _rerun(story, record)
            return f"counts as succeeded since {finished}, {f'by rerun {rerun}' if rerun else record.reason}."
        case Case.SUCCEEDED:
            ran = f"{record.holder} ran it from {say(record.started)} to {finished}{_took(record)}"
            return f"succeeded: {ran}{f'; {record.reason}' if record.reason else ''}."
        case Case.FAILED:
            return (
                f"failed at {finished} on {record.holder}{_attempt(record)}: {record.reason or 'no reason was given'}."
            )
        case Case.LOST:
            return (
                f"is lost: {record.holder} was granted it at {say(record.started)} and did not renew its"
                f" lease, which was noticed at {finished}."
                f" There is no record of how much of its work is done; {_why_lost(record)}"
            )
        case Case.UNKNOWN if record.reason.startswith(NOBODY_KNOWS):
            return f"was stopped at {finished}, and is unknown until a person has checked it: {record.reason}."
        case Case.UNKNOWN:
            return f"is unknown since {finished}: {record.reason}. The store has no record of whether it ran."
        case Case.TOO_LATE:
            return f"was skipped at {finished}: by then it was too late to start{_within(found.job)}."
        case Case.OVERLAP:
            reason = record.reason.replace(ONCE_STILL_RAN, written.STILL_RAN)
            return f'was skipped at {finished}: {reason}{_since_then(story)}, and overlap="skip" skips it then.'
        case Case.SKIPPED:
            return f"was skipped at {finished}: {record.reason}."
        case _:
            return _open(story, record, found, say)


def _since_then(story: Story) -> str:
    """What is known by now of the run that had not ended: its host may have been gone already."""
    run = story.blocker
    if run is None or run.record is None:
        return ""
    if run.shown == "lost":
        return f" ({run.record.holder} was gone; it was closed as lost)"
    if run.record.past and run.record.past[-1].end == LAPSED:
        return f" ({run.record.past[-1].holder} was gone; it was taken over)"
    return f" ({fate(run)})" if fate(run) else ""


def _why_lost(record: Record) -> str:
    if len(record.past) >= MOST_LAPSED and record.past[-1].end == LAPSED:
        return f"{MOST_LAPSED} runs before it ended the same way: find out why before you retry it."
    if record.closes_as_lost:
        return 'on_lost="skip" does not run it again.'
    return "it was asked to stop, so it does not run again."


def _open(story: Story, record: Record, found: Why, say: "_Clock") -> str:
    """The sentence about a slot that is not closed."""
    assert story.run is not None
    until, now = story.run.cell.until, found.now
    match story.case:
        case Case.RUNNING:
            since = f"{say(record.started)}{_took(record, now)}"
            asked = f" It was asked to stop: {record.ask}." if record.ask else ""
            if record.overdue:
                return (
                    f"is overdue, still running: {record.holder} has had it since {since}, and was told to stop"
                    f" ({record.overdue}). Its effects are refused, and it keeps its turn until it has ended."
                    " A job with isolate=True can be killed."
                )
            if story.run.gone:
                return f"is on record as running on {record.holder} since {since}, but {fate(story.run)}.{asked}"
            then = "closes it as lost" if record.closes_as_lost else "takes it over"
            return (
                f"is running: {record.holder} has had it since {since}. If its lease is not renewed by {say(until)},"
                f" the next call or scheduler {then}.{asked}"
            )
        case Case.LAPSED:
            return f"was granted to {record.holder} at {say(record.started)}, until {say(until)}: {fate(story.run)}."
        case Case.RETRYING:
            return f"is retrying: {_failed_so_far(record)}; {_again(until, found, say)}."
        case Case.WAITING:
            return f"is waiting for the job's turn{_blocked(found, say)}."
        case Case.FORGOTTEN:
            return (
                f"was open when the store lost its records, at {say(found.epoch.born)}: there is no record of"
                " whether it ran. The next process that reads it closes it as unknown."
            )
        case _:
            had = f", {record.past[-1].holder} had it last ({_end(record.past[-1].end)})" if record.past else ""
            return f"is due, and no process has claimed it{had}; {_again(until, found, say)}."


def _never(story: Story, found: Why) -> str:
    """The sentence about a slot that has no record, after its key."""
    say = _Clock(story.slot.at)
    job, at = found.job, story.slot.at
    if story.backfill:
        return f"was backfilled: {headline(story.backfill, found)}"
    match story.case:
        case Case.NO_REQUEST:
            return "does not exist: it has no record, and no run was requested for it by hand."
        case Case.NO_SLOT:
            rules = "; or ".join(f"{describe(rule)} ({as_written(rule)})" for rule in job.schedules)
            return f"is not a slot: {job.name} runs {rules or 'by no schedule any more'}.{_nearest(job, at)}"
        case Case.FUTURE:
            return f"is not due yet: it is {away(at, found.now)}."
        case Case.PAUSED:
            return f"has not run: {job.name} is paused, and slots that have not started when it is resumed do not run."
        case Case.TOO_OLD:
            assert job.job is not None
            return f"has no record and will not run: {_passed_over(story.span, job, say)}."
        case Case.UNREADABLE:
            return f"has no record, and the job cannot be read: {safe(job.trouble)}."
        case _ if any(UNASKED in one.refused.why for one in story.refused):
            return f"fell due {away(at, found.now)}: a process called for it, but could not reach the store."
        case _ if any(UNSTARTED in one.refused.why for one in story.refused):
            return f"fell due {away(at, found.now)}: a process called for it, but could not start its command."
        case _:
            nobody = f": {_NO_LIVE_SCHEDULER}" if found.abandoned else ""
            return f"fell due {away(at, found.now)}, and no process has claimed it{nobody}."


def _request(record: Record) -> Iterator[str]:
    """Who asked for it by hand, and with what; how far it has come."""
    if record.by:
        yield f"asked for by {record.by}{f', with {record.payload[:PAYLOAD_SHOWN]}' if record.payload else ''}"
    if record.key:
        yield f"its effects use the key {record.key}"
    if record.progress:
        done, total = record.progress
        yield f"{done:,} of {total:,} done"


def _journal(story: Story, found: Why) -> Iterator[str]:
    """What this machine's journal has of it that could not be recorded yet."""
    say = _Clock(story.slot.at)
    for entry in found.journal:
        if isinstance(entry, UnaskedCall) and entry.slot == story.slot.key:
            yield f"in this machine's journal: at {say(entry.at)} {entry.holder} {entry.why}"
        if isinstance(entry, PendingEnd) and entry.run == story.slot.cell:
            yield f"in this machine's journal: {entry.what} at {say(entry.at)} on {entry.holder}, not on record yet"


def _effects(story: Story) -> Iterator[str]:
    """Its effects by state, and how to resolve those that are in doubt."""
    if any(story.effects.counts.values()):
        stopped = story.case is Case.UNKNOWN and story.run and story.run.record
        settled = stopped and stopped.reason.startswith(NOBODY_KNOWS) and not story.effects.counts.get("in doubt")
        yield f"its effects: {counted(story.effects)}{'; none is in doubt any more' if settled else ''}"
        yield from (f"  {line}" for line in tell_doubts(story.effects))


class _Clock(NamedTuple):
    """Says instants in a text about one slot: without the date on its day."""

    day: Instant

    def __call__(self, instant: Instant | None) -> str:
        return moment(instant, self.day) if instant else "a time not on record"


def _took(record: Record, now: Instant | None = None) -> str:
    span = how_long(record, now)
    return f" ({span})" if span else ""


def _attempt(record: Record) -> str:
    return f", attempt {record.failures + 1} of {record.attempts}" if record.attempts > 1 else ""


def _failed_so_far(record: Record) -> str:
    why = record.past[-1].end.removeprefix("failed").removeprefix(": ") if record.past else ""
    if not record.failures:
        return f"it was stopped early ({why or 'no reason was given'}), which does not count as an attempt"
    return f"attempt {record.failures} of {record.attempts} failed{': ' if why else ''}{why}"


def _again(until: Instant | None, found: Why, say: _Clock) -> str:
    now, job = found.now, found.job.job
    if job is not None and job.paused:
        return f"it waits until {'everything' if found.halted else found.job.name} is resumed"
    if found.abandoned:
        return _NO_LIVE_SCHEDULER
    if until is not None and now < until:
        return f"it may be claimed from {say(until)} on ({away(until, now)})"
    return "it may be claimed now"


def _blocked(found: Why, say: _Clock) -> str:
    if not found.blockers:
        return ", and no other run has the turn: the next claim gets it"
    return ": " + ", ".join(f"{_key(run)} has it until {say(until)} at least" for run, until in found.blockers)


def _key(cell: str) -> str:
    """A run's cell as the key that people know."""
    try:
        return slot_of_cell(cell).key
    except BadInput:
        return cell


def _within(job: JobSeen) -> str:
    within = job.policies.get("start_within")
    return f" (start_within is {within})" if within else ""


def _nearest(job: JobSeen, at: Instant) -> str:
    near = [spell(one) for one in (job.latest(at), job.after(at)) if one is not None]
    return f" The nearest {'are' if len(near) > 1 else 'is'} {' and '.join(near)}." if near else ""


def _passed_over(span: SpanRecord | None, seen: JobSeen, say: _Clock) -> str:
    job = seen.name
    if span is None:
        first = "registered" if seen.is_scheduled else "called for the first time"
        return f"it was due before {job} was {first}, and such slots do not run"
    when = say(span.end)
    match span.reason:
        case reason if reason.startswith(written.EDITED):
            what = reason.removeprefix(written.EDITED).removeprefix(": ")
            edit = f" ({safe(what)})" if what else ""
            return f"the schedule was edited at {when}{edit}, and a new schedule does not run slots of the past"
        case written.PAUSED:
            return f"{job} was paused until {when}, and slots up to then that had not started do not run"
        case reason if reason.startswith(f"{written.PAUSED} by "):
            return f"{job} was {safe(reason)} at {when}, and slots up to then that had not started do not run"
        case written.PURGED:
            return f"runs that closed until {when} were purged, so there is no record of whether it ran"
        case written.REGISTERED:
            return f"{job} was registered at {when}, and slots before that do not run"
        case written.FORGOTTEN:
            return f"the store lost its records from before {when}, so there is no record of whether it ran"
        case reason:
            return f"slots from {say(span.start)} to {when} were passed over ({safe(reason)})"


# --- what happened, in its order ---


def events(story: Story) -> list[tuple[Instant, str]]:
    """Each grant, how it ended, and each refusal, the earliest first."""
    record = story.run.record if story.run else None
    grants = list(_grants(story, record, story.run.cell.fence)) if record is not None and story.run is not None else []
    refused = [(_after(record, one.at), refusal(host, one.why)[1]) for host, one in story.refused]
    told = sorted([*grants, *refused], key=lambda event: event[0])
    return [(at, safe(text)) for at, text in told]


def _timeline(story: Story) -> list[str]:
    """One line for each event."""
    say = _Clock(story.slot.at)
    told = events(story)
    width = max((len(say(at)) for at, _ in told), default=0)
    return [f"{say(at):<{width}}  {text}" for at, text in told]


def _after(record: Record | None, at: Instant) -> Instant:
    """When a refusal is listed: after the grant, if both are in the same second. Two processes do not know the store's
    clock more exactly."""
    starts = (*(past.started for past in record.past), record.started) if record is not None else ()
    return max(at, min((start for start in starts if start and spell(start) == spell(at)), default=at))


def refusal(host: str, told: str) -> tuple[str, str]:
    """Who did not run a slot, and the same with the reason: most say themselves which process of the host it was."""
    whom = told if told.startswith(f"{host}:") else f"{host}: {told}"
    holder, _, reason = whom.partition(": ")
    if UNASKED in whom or UNSTARTED in whom:
        return holder, f"called by {whom}"
    closed = _CLOSED_BEFORE.fullmatch(reason)
    if closed is None or closed[1] not in _HAD_BECOME:
        return holder, f"{holder} was refused: {reason}"
    why = f" ({closed[2]})" if closed[2] else ""
    return holder, f"{holder} did not run it: it {_HAD_BECOME[closed[1]]} already{why}"


_CLOSED_BEFORE: Final = re.compile(r"it is closed: (\w+)(?:, (.+))?", re.DOTALL)
_HAD_BECOME: Final = {
    "succeeded": "had succeeded",
    "failed": "had failed",
    "lost": "was lost",
    "unknown": "was closed as unknown",
    "skipped": "was skipped",
}
"""What a slot had become by its outcome, before it was called for once more."""


def _grants(story: Story, record: Record, fence: Fence | None) -> Iterator[tuple[Instant, str]]:
    lapsed = False
    for past in record.past:
        if past.started:
            yield past.started, f"{'taken over by' if lapsed else 'granted to'} {past.holder}"
        end, again = _told_apart(past.end) if past.retried else (_end(past.end), "")
        if past.ended:
            yield past.ended, end
        if past.retried:
            yield past.retried, again
        lapsed = past.end == LAPSED
    in_past = any(past.fence == fence for past in record.past)
    if fence is not None and record.started and not in_past:
        yield record.started, f"{'taken over by' if lapsed else 'granted to'} {record.holder}"
    if record.finished:
        rerun, why = _rerun(story, record), f": {record.reason}" if record.reason else ""
        yield record.finished, f"{record.outcome}{f' by rerun {rerun}' if rerun else why}"


def _told_apart(end: str) -> tuple[str, str]:
    """How it ended, in its own words, and what people said of it since."""
    *_, said = (None, *_WORD_OF_PERSON.finditer(end))
    return (end[: said.start()], end[said.end() :]) if said else (end, "")


_WORD_OF_PERSON: Final = re.compile(f", (?=(?:{written.RESOLVED}|retried: )by )")


def _rerun(story: Story, record: Record) -> str:
    """The rerun that succeeded in the slot's place, if one did."""
    by = record.reason.removeprefix(f"{written.RESOLVED}by ")
    return by if record.resolved and by.startswith(story.slot.key) else ""


def _end(end: str) -> str:
    match end:
        case written.LAPSED:
            return "lapsed: its lease was not renewed"
        case written.RELEASED:
            return "given back, never started"
        case _:
            return end


# --- effects that are in doubt, and what to say of them ---


def counted(survey: EffectsSurvey) -> str:
    """3 done, 1,000 or more in doubt."""
    return ", ".join(
        f"{survey.counts[state]:,}{' or more' if state in survey.capped else ''} {state}"
        for state in STATES
        if survey.counts.get(state)
    )


def said_before(record: Record | None, verdict: str) -> str:
    """Whether a person said the same before, or the other: who, and when. The record is that of before this word."""
    if record is None or record.is_running:
        return ""
    retried = record.past[-1].retried if record.past else None
    if record.resolved:
        before, by, at = "done", record.reason.removeprefix(written.RESOLVED), record.finished
    elif retried is not None and not record.is_closed:
        before, by, at = "retry", record.past[-1].end.rpartition("retried: ")[2], retried
    else:
        return ""
    when = f" at {spell(at)}" if at else ""
    return (
        f"; already resolved {by}{when}" if before == verdict else f"; it was resolved as {before} before, {by}{when}"
    )


def tell_doubts(survey: EffectsSurvey) -> Iterator[str]:
    """What is in doubt, why, and what to say of it. A key may hold anything that can be printed, so it is quoted."""
    for one in survey.doubtful:
        began = f", begun by {one.record.holder}" if one.record else ""
        since = f" at {spell(one.record.started)}" if one.record and one.record.started else ""
        yield safe(f"{one.name}{began}{since}: {one.why}")
        yield from verdicts(one.name)
    left = survey.counts.get("in doubt", 0) - len(survey.doubtful)
    if left > 0:
        yield f"and {left:,}{' or more' if 'in doubt' in survey.capped else ''}: `cronce status effects` lists them"


def verdicts(name: str) -> Iterator[str]:
    """The commands for one that is in doubt."""
    quoted = quote(safe(name))
    yield f"  it happened:  cronce resolve {quoted} done"
    yield f"  it did not:   cronce resolve {quoted} retry"
