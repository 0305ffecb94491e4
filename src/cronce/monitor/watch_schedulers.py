"""Our schedulers: who is alive, who should be, and what they carry."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Final

from cronce.model import Instant, spell
from cronce.monitor.alerts import AlertKind
from cronce.monitor.incidents import TOUCHED_NAMED, host_cause
from cronce.monitor.settings import Settings
from cronce.monitor.survey import RESTART_WITHIN, Survey
from cronce.protocol.notices import Alert, Holder
from cronce.runtime.queries import HolderSeen, JobSeen, mixed_tzdata, shared_names
from cronce.telling.words import NAMES_LISTED, counted, fate, listed, short

DEPLOY: Final = timedelta(minutes=5)
"""So long after the last that carried a job left, a newer version may still bring it back."""

MOURNED: Final = timedelta(minutes=15)
"""For so long it is told that a scheduler died, if no other took its place."""


def of_schedulers(survey: Survey, settings: Settings) -> Iterator[Alert]:
    yield from silent(survey)
    yield from gone(survey)
    yield from crowded(survey, settings)
    yield from skew(survey, settings)
    yield from superseded(survey, settings)
    yield from shared(survey)
    yield from mixed(survey)


# --- silent ---


def silent(survey: Survey) -> Iterator[Alert]:
    """Jobs that nobody runs. Where nobody is there at all, that is one finding, whatever the number of jobs."""
    if survey.halted is not None:
        return
    carriers = [one for one in survey.holders if _runs(one, survey.now)]
    carried = set().union(*(survey.carried_by(one.holder) for one in carriers))
    idle = sorted(name for name, seen in survey.jobs.items() if name not in carried and _is_expected(seen, survey.now))
    if idle and not carriers:
        text = f"no live scheduler runs {counted(len(idle), 'scheduled job')}: {listed(idle)}."
        yield Alert(AlertKind.SILENT, "", "critical", text, survey.now, remedy="Start one: `cronce run`.")
        return
    for name in idle:
        yield from _silent_job(name, survey)


def _silent_job(name: str, survey: Survey) -> Iterator[Alert]:
    """Whoever carried it died, was stopped or is drained; or lives on in a version that does not carry it: then most
    likely it was taken out of the code, and a deploy that is under way has its time."""
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
    """On its host since, or elsewhere after it said goodbye: whoever carries a job that it did."""
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


# --- gone, crowded, skew ---


def gone(survey: Survey, *, soon: bool = False) -> Iterator[Alert]:
    """Those that are dead; `soon`: also those that most likely are and left something running, for a page."""
    left_runs = {run.record.holder for run in survey.open if run.record and run.gone}
    silent = [one for one in survey.holders if soon and one.until > survey.now and one.holder.holder in left_runs]
    for one in (*missed(survey.holders, survey.now), *silent):
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


def missed(holders: Collection[HolderSeen], now: Instant) -> Iterator[HolderSeen]:
    """Those that died lately, and whose place nobody took: who was started on the same host after the last beat, each
    for one. Whoever died last has the fewest to choose from, so it chooses first."""
    heirs: dict[str, list[HolderSeen]] = {}
    for one in sorted(holders, key=lambda one: one.holder.since):
        heirs.setdefault(host(one.holder.holder), []).append(one)
    dead = (one for one in holders if not one.holder.gone and timedelta(0) <= now - one.until < MOURNED)
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


# --- superseded ---


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


# --- what they mean by a name, and by a zone ---


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
    """Two versions of the time zone database may mean two instants by one time on the wall."""
    found = mixed_tzdata((one.holder for one in survey.live), survey.tzdata)
    if found:
        where = listed([f"{version} ({place})" for version, place in found.items()])
        text = f"machines have different versions of the time zone database: {where}."
        remedy = "Update tzdata on all of them. Until then, a job that cron calls may run at the wrong time."
        yield Alert(AlertKind.TZDATA, "", "warning", text, survey.now, remedy=remedy)
