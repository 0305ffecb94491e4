"""What is wrong, by what a survey shows and what was remembered. Pure: no I/O, no clock.

A finding is made at every look for as long as its reason lasts; `alerts` sends it when it comes, and when it goes. Here
are those about schedulers, the store, leaders, effects, and what is only watched: schedulers that are not ours, and
calls that were observed. `watch_runs` has those about slots and runs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from shlex import quote
from typing import Final, Literal

from cronce.model import MONITOR, Instant, Origin, spell
from cronce.monitor import watch_runs
from cronce.monitor.alerts import (
    REST_OF_KIND,
    TOUCHED_NAMED,
    AlertKind,
    Severity,
    host_cause,
    with_causes,
    worst_first,
)
from cronce.monitor.settings import Settings
from cronce.monitor.survey import MISSED_TTL, RESTART_WITHIN, SLICE, Survey, WatchMemory
from cronce.protocol.notices import Alert, Beats, Holder, LastBeat, Observed
from cronce.protocol.record import RELEASED, Past
from cronce.protocol.specs import is_floor_ahead
from cronce.protocol.store_clock import REMEDY, SET_CLOCK, Doubt, closed_ahead, dated_ahead, is_ahead
from cronce.runtime.effects.review import EffectSeen
from cronce.runtime.queries import HeldSeen, HolderSeen, JobSeen, RunSeen, mixed_tzdata, shared_names
from cronce.telling.words import NAMES_LISTED, counted, fate, listed, safe, short, times

FLAPPING_WITHIN: Final = timedelta(minutes=10)

SILENT_INTERVALS: Final = 2
"""After this many intervals without a heartbeat a scheduler is silent."""

INTERVALS_UNTIL_WELL: Final = 5
"""This many intervals after heartbeats came too often, all is well again."""

DEPLOY: Final = timedelta(minutes=5)
"""For this long after the last process with a job left, a newer version may still bring it back."""

DEAD_TOLD_FOR: Final = timedelta(minutes=15)
"""For this long an alert says that a scheduler died, if no other replaced it."""


def judge(survey: Survey, memory: WatchMemory, settings: Settings) -> tuple[list[Alert], WatchMemory]:
    """What is wrong, the worst first, and the memory to go on with."""
    memory = _remember(survey, memory, settings)
    found = [
        *of_schedulers(survey, settings),
        *watch_runs.fold(survey, memory, settings),
        *of_others(survey, memory, settings),
    ]
    standing = [one._replace(since=min(one.since, memory.since.get(one.id, one.since))) for one in found]
    standing = with_causes(standing)
    return sorted(standing, key=worst_first), memory._replace(since={one.id: one.since for one in standing})


BY_ONE_LOOK: Final = (AlertKind.GONE, AlertKind.LOST, AlertKind.UNKNOWN, AlertKind.STUCK, AlertKind.IN_DOUBT)
"""What can be judged by one look, without a memory."""


def at_once(survey: Survey, stored: Iterable[Alert]) -> list[Alert]:
    """The stored alerts, but for what can be judged by this look: that is as it is now, though the watcher may not have
    looked yet. Acknowledgements are kept."""
    known = {one.id: one for one in stored}
    runs = watch_runs.first_of_each(watch_runs.stuck(survey))
    found = [*gone(survey, soon=True), *watch_runs.doubtful(survey), *runs, *in_doubt(survey)]
    now = [_as_stored(one, known.get(one.id)) for one in found]
    others = [one for one in known.values() if one.kind not in BY_ONE_LOOK]
    return with_causes([*now, *others])


def _as_stored(finding: Alert, was: Alert | None) -> Alert:
    if was is None or was.cleared is not None:
        return finding._replace(times=0)
    return finding._replace(since=was.since, times=was.times, deliveries=was.deliveries, handled=was.handled)


def _remember(survey: Survey, memory: WatchMemory, settings: Settings) -> WatchMemory:
    reborn = survey.now if memory.birth not in (None, survey.epoch.birth) else memory.reborn
    return memory._replace(
        first=memory.first or survey.now,
        birth=survey.epoch.birth,
        reborn=reborn,
        progress=watch_runs.progress(survey, memory),
        lapses=watch_runs.lapses(survey, memory),
        missed=watch_runs.missed(survey, memory, settings),
    )


def is_over(alert: Alert, survey: Survey, memory: WatchMemory, settings: Settings) -> bool:
    """Whether an alert is over that was not found: some things show only after a while of watching, and another process
    may have led until now."""
    watched, job = survey.now - (memory.first or survey.now), alert.subject
    match alert.kind:
        case AlertKind.NO_PROGRESS:
            return watched >= settings.no_progress or not any(
                job in (run.slot.job, REST_OF_KIND) for run in survey.open
            )
        case AlertKind.MISSED:
            return watched >= MISSED_TTL or (job != REST_OF_KIND and watch_runs.is_paused(survey, job))
        case AlertKind.LAPSING | AlertKind.AMNESIA:
            return watched >= MISSED_TTL
        case AlertKind.FAILED:
            return job in survey.ended or job not in survey.jobs
        case _:
            return True


# --- our schedulers: who is alive, who should be, and what they carry -------------------------------------------------


def of_schedulers(survey: Survey, settings: Settings) -> Iterator[Alert]:
    yield from silent(survey)
    yield from gone(survey)
    yield from crowded(survey, settings)
    yield from skew(survey, settings)
    yield from superseded(survey, settings)
    yield from shared(survey)
    yield from mixed(survey)


# --- schedulers: jobs that none of them runs ---


def silent(survey: Survey) -> Iterator[Alert]:
    """Jobs that no scheduler runs. Where no scheduler is alive at all, that is one finding, however many jobs there
    are."""
    if survey.halted is not None:
        return
    carriers = [one for one in survey.holders if _runs(one, survey.now)]
    carried = set().union(*(survey.carried_by(one.holder) for one in carriers))
    idle = sorted(name for name, seen in survey.jobs.items() if name not in carried and _is_expected(seen, survey.now))
    if idle and not carriers:
        text = f"no live scheduler runs {counted(len(idle), 'scheduled job')}: {listed(idle)}."
        yield Alert(AlertKind.SILENT, "", "critical", text, survey.now, remedy="Start one: `cronce run app:cron`.")
        return
    for name in idle:
        yield from _silent_job(name, survey)


def _silent_job(name: str, survey: Survey) -> Iterator[Alert]:
    """The schedulers that had it died, were stopped or drained; or they were replaced by a version without it. Then
    most likely it was removed from the code, and a deploy in progress has its time."""
    text = f"{name} is scheduled, and no live scheduler has this job: {_alive(survey)}."
    before = [one for one in survey.holders if name in survey.carried_by(one.holder)]
    if "revision" in survey.jobs[name].policies or not all(_is_replaced(one, survey) for one in before):
        listed = "`cronce status holders` lists all processes"
        remedy = f"Start a process that has it ({listed}), or end this alert: `cronce pause {name}`."
        yield Alert(AlertKind.SILENT, name, "critical", text, survey.now, remedy=remedy)
        return
    since = max((one.until + DEPLOY for one in before), default=survey.now)
    if survey.now >= since:
        ends = f"Then `cronce pause {name}` ends this alert; if not, start a process that has it."
        yield Alert(AlertKind.SILENT, name, "warning", text, since, remedy=f"Was it removed or renamed? {ends}")


def _is_replaced(one: HolderSeen, survey: Survey) -> bool:
    return one.until <= survey.now and any(_replaces(other, one, survey) for other in survey.live)


def _replaces(other: HolderSeen, one: HolderSeen, survey: Survey) -> bool:
    """A later process on its host; or, if it shut down properly, a later one elsewhere that shares a job with it."""
    if host(other.holder.holder) == host(one.holder.holder) and other.holder.since > one.beat:
        return True
    ours, theirs = (survey.carried_by(which.holder).keys() for which in (one, other))
    return one.holder.gone and other.holder.since > one.holder.since and not ours.isdisjoint(theirs)


def _runs(one: HolderSeen, now: Instant) -> bool:
    """Whether it runs what it carries, or has just left and may be back."""
    if one.holder.role == "schedule":
        return False
    return now - one.until < RESTART_WITHIN if one.holder.gone else one.claims and one.until > now


def _is_expected(seen: JobSeen, now: Instant) -> bool:
    return seen.is_scheduled and seen.job is not None and not seen.job.paused and seen.next(now) is not None


def _alive(survey: Survey) -> str:
    live = [one.holder.holder for one in survey.live]
    return f"{listed(live)} {'do' if len(live) > 1 else 'does'} not" if live else "none is alive"


# --- schedulers: gone, too many, a clock that is off ---


def gone(survey: Survey, *, soon: bool = False) -> Iterator[Alert]:
    """Those that are dead; `soon`: also those that most likely are and left something running, for a page."""
    left_runs = {run.record.holder for run in survey.open if run.record and run.gone}
    silent = [one for one in survey.holders if soon and one.until > survey.now and one.holder.holder in left_runs]
    for one in (*not_replaced(survey.holders, survey.now), *silent):
        had = f" with {counted(one.holder.running, 'run')} in progress" if one.holder.running else ""
        heard = f"its last heartbeat came {short(survey.now - one.beat)} ago"
        dead = heard if one in silent else f"it has counted as dead since {spell(one.until)}"
        runs = [run for run in survey.open if run.record and run.record.holder == one.holder.holder and fate(run)]
        left = "".join(f" {run.slot.key}: {fate(run)}." for run in runs[:NAMES_LISTED])
        text = f"{one.holder.holder} stopped sending heartbeats{had}, without shutting down: {dead}.{left}"
        remedy = "Find in its log why it died, and start it again; `cronce status holders` lists who is alive."
        since = min(one.until, survey.now)
        cause, slots = host_cause(one.holder.holder), tuple(run.slot.key for run in runs[:TOUCHED_NAMED])
        yield Alert(AlertKind.GONE, one.holder.holder, "warning", text, since, remedy=remedy, cause=cause, slots=slots)


def not_replaced(holders: Collection[HolderSeen], now: Instant) -> Iterator[HolderSeen]:
    """Those that died lately and were not replaced by a process on the same host, started after their last heartbeat.
    Each replaces one. The last to die has the fewest to choose from, so it chooses first."""
    heirs: dict[str, list[HolderSeen]] = {}
    for one in sorted(holders, key=lambda one: one.holder.since):
        heirs.setdefault(host(one.holder.holder), []).append(one)
    dead = (one for one in holders if not one.holder.gone and timedelta(0) <= now - one.until < DEAD_TOLD_FOR)
    for one in sorted(dead, key=lambda one: one.beat, reverse=True):
        left = heirs[host(one.holder.holder)]
        heir = next((other for other in reversed(left) if other is not one), None)  # a clock may have been set back
        if heir is not None and heir.holder.since > one.beat:
            left.remove(heir)
        else:
            yield one


def host(holder: str) -> str:
    return holder.partition(":")[0]


def crowded(survey: Survey, settings: Settings) -> Iterator[Alert]:
    live = sorted(one.holder.holder for one in survey.live if one.holder.role != "work")
    if settings.schedulers is None or len(live) <= settings.schedulers:
        return
    text = f"{counted(len(live), 'scheduler')} are alive, and {settings.schedulers} expected: {listed(live)}."
    remedy = "Stop those that should not run, or expect more; `cronce status holders` lists where they are."
    yield Alert(AlertKind.CROWDED, "", "warning", text, survey.now, remedy=remedy)


def skew(survey: Survey, settings: Settings) -> Iterator[Alert]:
    """A machine's clock: of its processes, the one that is furthest off speaks."""
    off: dict[str, Holder] = {}
    for one in survey.live:
        place = host(one.holder.holder)
        if abs(one.holder.skew) > max(settings.skew, abs(off[place].skew) if place in off else timedelta(0)):
            off[place] = one.holder
    for place, holder in off.items():
        way = "ahead of" if holder.skew > timedelta(0) else "behind"
        text = f"the clock of {place} is {short(holder.skew)} {way} the store's."
        remedy = f"Run NTP on {place}. Until then, a job that cron calls there may run the wrong slot."
        yield Alert(AlertKind.SKEW, place, "warning", text, survey.now, remedy=remedy)


# --- schedulers: old versions ---


def superseded(survey: Survey, settings: Settings) -> Iterator[Alert]:
    old: dict[str, dict[str, Instant]] = {}
    for one in survey.live:
        old[one.holder.bundle] = old.get(one.holder.bundle) or dict(_old_versions(survey, one.holder))
    for one in survey.live:
        since = {job: max(when, one.holder.since) for job, when in old[one.holder.bundle].items()}
        long = sorted(job for job, when in since.items() if survey.now - when > settings.superseded)
        if long:
            first = min(since[job] for job in long)
            text = (
                f"for {short(survey.now - first)}, {one.holder.holder} has had an outdated version of"
                f" {counted(len(long), 'job')}: {listed(long)}. Only the newest version runs."
            )
            remedy = "Restart it with the new version; `cronce why JOB` shows which version fires."
            yield Alert(AlertKind.SUPERSEDED, one.holder.holder, "warning", text, first, remedy=remedy)


def _old_versions(survey: Survey, holder: Holder) -> Iterator[tuple[str, Instant]]:
    """The jobs of which another version fires than stands in the bundle, and when that was first seen."""
    for job, digest in survey.carried_by(holder).items():
        seen = survey.jobs.get(job)
        if seen is None or seen.job is None or seen.job.firing in ("", digest):
            continue
        first = [spec.first for spec in seen.job.specs if spec.digest == seen.job.firing]
        yield job, first[0] if first else survey.now


# --- schedulers: what they mean by a name, and by a zone ---


def shared(survey: Survey) -> Iterator[Alert]:
    """One name, and code in two places: two applications share its slots, or the code moved in a deploy."""
    for job, found in shared_names((one.holder for one in survey.live), survey.bundles).items():
        where = listed([f"{code} ({holder})" for code, holder in found.items()])
        text = f"{job} is the name of more than one function: {where}. Each slot runs only one of them."
        remedy = (
            "Give one of them another name, or each application a namespace of its own. If the code moved, this alert"
            " ends when the last process of the old deploy is gone."
        )
        yield Alert(AlertKind.SHARED_NAME, job, "warning", text, survey.now, remedy=remedy)


def mixed(survey: Survey) -> Iterator[Alert]:
    """With two versions of the time zone database, one local time may mean two instants."""
    found = mixed_tzdata((one.holder for one in survey.live), survey.tzdata)
    if found:
        where = listed([f"{version} ({place})" for version, place in found.items()])
        text = f"machines have different versions of the time zone database: {where}."
        remedy = "Update tzdata on all of them. Until then, a job that cron calls may run at the wrong time."
        yield Alert(AlertKind.TZDATA, "", "warning", text, survey.now, remedy=remedy)


# --- the store, leaders, effects, and what is only watched -----------------------------------------------------------


def of_others(survey: Survey, memory: WatchMemory, settings: Settings) -> Iterator[Alert]:
    yield from in_doubt(survey)
    yield from ahead(survey)
    yield from amnesia(survey, memory)
    yield from flapping(survey, settings)
    for name, beats in survey.beats.items():
        yield from beating(name, beats, survey.now)
    for name, observed in survey.observed.items():
        yield from doubled(name, observed, survey.now)


def in_doubt(survey: Survey) -> Iterator[Alert]:
    """By job, or by the function whose keys they are."""
    found: dict[str, list[EffectSeen]] = {}
    left = watch_runs.left_by(survey.doubts)
    of_runs = {one.cell.key for run in survey.attention for one in left(run)}
    for one in survey.doubts:
        if one.cell.key in of_runs:  # that is told with its run
            continue
        found.setdefault(one.cell.key.split("/")[1], []).append(one)
    for subject, effects in found.items():
        newest = max(effects, key=lambda one: (_begun(one) or survey.epoch.born, one.name))
        more = len(survey.doubts) >= SLICE
        count = f"; {counted(len(effects), 'effect', more=more)} of {subject} in all" if len(effects) > 1 else ""
        since = min((begun for one in effects if (begun := _begun(one))), default=survey.now)
        text = safe(f"{newest.name} was begun, and cronce does not know whether it happened{count}.")
        named = quote(safe(newest.name))
        remedy = (
            f"Find out, then run `cronce resolve {named} done`, or retry; `cronce status effects {subject}` lists them."
        )
        names = tuple(one.name for one in effects[:TOUCHED_NAMED])
        yield Alert(AlertKind.IN_DOUBT, subject, "critical", text, since, remedy=remedy, effects=names)


def _begun(one: EffectSeen) -> Instant | None:
    return one.record.started if one.record else None


def clock(doubt: Doubt, now: Instant) -> Alert:
    """While it lasts nothing else can be judged: everything is by the store's clock."""
    remedy = f"This ends by itself when the clock is right again. {REMEDY}."
    return Alert(AlertKind.CLOCK, "", "critical", f"{doubt.text}.", now, remedy=remedy)


def ahead(survey: Survey) -> Iterator[Alert]:
    """What a clock that jumped ahead left behind: floors and leases in the future."""
    jobs = [name for name, seen in survey.jobs.items() if is_floor_ahead(seen.job, survey.now)]
    if jobs:
        text = f"{closed_ahead(f'the slots to come of {listed(sorted(jobs))}')}."
        yield Alert(AlertKind.AHEAD, "jobs", "critical", text, survey.now, remedy=f"{SET_CLOCK}.")
    open_runs = [run.slot.key for run in survey.open if run.record and run.record.is_running and _is_far(run, survey)]
    others = [one.name for one in survey.leaders if one.record and one.record.is_running and _is_far(one, survey)]
    others += [one.holder.holder for one in survey.holders if is_ahead(one.until, survey.now)]
    if open_runs or others:
        text = f"{dated_ahead(listed([*open_runs, *others]))}."
        yield Alert(AlertKind.AHEAD, "leases", "warning", text, survey.now, remedy=f"{SET_CLOCK}.")


def _is_far(one: RunSeen | HeldSeen, survey: Survey) -> bool:
    return one.cell.until is not None and is_ahead(one.cell.until, survey.now)


def amnesia(survey: Survey, memory: WatchMemory) -> Iterator[Alert]:
    epoch, now = survey.epoch, survey.now
    forgot = epoch.forgot and now - epoch.born < MISSED_TTL
    if not forgot and (memory.reborn is None or now - memory.reborn >= MISSED_TTL):
        return
    born = spell(epoch.born)
    if epoch.origin is Origin.FOUND and memory.reborn is None and not _was_before(survey):
        remedy = "If it is new, later slots run. If not, find out why it is empty: slots until then do not run."
        yield Alert(AlertKind.AMNESIA, "", "info", f"the store was found empty at {born}.", epoch.born, remedy=remedy)
        return
    match epoch.origin:
        case Origin.RESTORED:
            since = spell(epoch.since) if epoch.since else "its last write"
            text = f"the store was set back: records written between {since} and {born} are lost."
        case Origin.FOUND:
            text = f"the store was found empty at {born}: its earlier records are lost."
        case Origin.MADE:
            text = f"this is another store than before, created at {born}: it has no records of the old one."
    remedy = (
        "Find out why. Slots until then do not run by themselves; `cronce runs --state unknown` lists those that may"
        " have run."
    )
    yield Alert(AlertKind.AMNESIA, "", "critical", text, epoch.born, remedy=remedy)


def _was_before(survey: Survey) -> bool:
    """Whether a record is older than the store's birth: then there was an earlier store."""
    since = [one.holder.since for one in survey.holders]
    since += [one.at for beats in survey.beats.values() for one in beats.recent]
    since += [spec.first for seen in survey.jobs.values() if seen.job for spec in seen.job.specs]
    return min(since, default=survey.now) < survey.epoch.born


def flapping(survey: Survey, settings: Settings) -> Iterator[Alert]:
    """A leader that resigns ends properly, as in any restart. The watchers' own leadership does not count."""
    for one in survey.leaders:
        ended = [past for past in one.record.past if _broke_off(past, survey.now)] if one.record else []
        if len(ended) < settings.flapping or one.name == MONITOR:
            continue
        whose = listed(sorted({past.holder for past in ended}))
        text = f"{one.name} lost its leader {times(len(ended))} within {short(FLAPPING_WITHIN)}: {whose}."
        remedy = "Its processes crash, hang or lose the store: check their logs, and `cronce status leaders`."
        yield Alert(AlertKind.FLAPPING, one.name, "warning", text, ended[0].ended or survey.now, remedy=remedy)


def _broke_off(past: Past, now: Instant) -> bool:
    return past.ended is not None and past.end != RELEASED and now - past.ended < FLAPPING_WITHIN


# --- schedulers that are not ours ---


def state(beats: Beats, now: Instant) -> Literal["silent", "doubled", "alive"]:
    """How another scheduler is, by its last heartbeats. Silent: two of them are overdue."""
    last = max(beats.recent, default=None)
    if last is not None and now - last.at > SILENT_INTERVALS * beats.every:
        return "silent"
    lately = [
        window
        for window in (*_often(beats), *_in_one(beats))
        if now - window[-1].at < INTERVALS_UNTIL_WELL * beats.every
    ]
    return "doubled" if lately else "alive"


def beating(name: str, beats: Beats, now: Instant) -> Iterator[Alert]:
    match state(beats, now):
        case "silent":
            yield _silent(name, beats, now)
        case "doubled":
            yield _double(name, beats, now)


def _silent(name: str, beats: Beats, now: Instant) -> Alert:
    last = max(beats.recent)
    text = (
        f"{name} sent its last heartbeat {short(now - last.at)} ago, on {host(last.by)}; it should send one every"
        f" {short(beats.every)}."
    )
    remedy = f"Check whether that scheduler is alive: it should run `cronce beat {name}` at every interval."
    return Alert(
        AlertKind.BEAT_SILENT, name, "critical", safe(text), last.at + SILENT_INTERVALS * beats.every, remedy=remedy
    )


def _double(name: str, beats: Beats, now: Instant) -> Alert:
    """Sure by five heartbeats, if lately; else by three, which a scheduler that restarts often may send, too."""
    often = _often(beats)
    sure = bool(often) and now - often[-1][-1].at < INTERVALS_UNTIL_WELL * beats.every
    often = often if sure else _in_one(beats)
    window = often[-1]
    hosts = Counter(host(one.by) for one in window)  # a beat may come from a process of its own
    whose = listed(f"{times(count)} on {place}" for place, count in sorted(hosts.items()))
    text = (
        f"{name} should send one heartbeat every {short(beats.every)}, and sent {len(window)} within"
        f" {short(window[-1].at - window[0].at)} ({whose}): more than one scheduler uses this name"
        f"{'' if sure else ', or it was restarted several times'}."
    )
    remedy = f"Stop all but one of the schedulers that use the name {name}."
    severity: Severity = "critical" if sure else "warning"
    return Alert(AlertKind.BEAT_DOUBLE, name, severity, safe(text), often[0][-1].at, remedy=remedy)


def _often(beats: Beats) -> list[Sequence[LastBeat]]:
    """Five beats of one scheduler take four intervals, and three if it was restarted between them; of two schedulers
    they take two, however these are shifted. Half-way is the line, so that no beat that comes a moment early or late
    makes a difference."""
    return _windows(beats, 5, 2.5)


def _in_one(beats: Beats) -> list[Sequence[LastBeat]]:
    """Three beats within one interval. One scheduler takes two for them, and one if it was restarted; a moment less,
    since it may beat a moment early."""
    return _windows(beats, 3, 0.9)


def _windows(beats: Beats, number: int, intervals: float) -> list[Sequence[LastBeat]]:
    recent = sorted(beats.recent)
    windows = [recent[place : place + number] for place in range(len(recent) - number + 1)]
    return [window for window in windows if window[-1].at - window[0].at <= intervals * beats.every]


def doubled(name: str, observed: Observed, now: Instant) -> Iterator[Alert]:
    recent = [one for one in observed.recent if now - one.at < MISSED_TTL]
    if not recent:
        return
    callers = " and ".join(dict.fromkeys(call.by for call in observed.calls[-2:])) or recent[-1].by
    were = "was a duplicate" if observed.doubled == 1 else "were duplicates"
    text = (
        f"{name} was called twice for {recent[-1].slot}, and both calls ran ({recent[-1].why}). Of"
        f" {counted(observed.times, 'call')} until now, {observed.doubled:,} {were}; the last came from {callers}."
    )
    remedy = "It is only observed. If you guard it, the second call is refused."
    yield Alert(AlertKind.DOUBLED, name, "critical", safe(text), recent[0].at, remedy=remedy)
