"""The watch: what is wrong, by what a survey shows and what was remembered. Pure: no I/O, no clock.

Every finding stands as long as its reason does; whoever raises alerts tells of it when it comes, and when it goes.
"""

from cronce.monitor import watch_others, watch_runs, watch_schedulers, watch_slots
from cronce.monitor.known import REMEMBERED
from cronce.monitor.model import MORE, Kind, worst_first
from cronce.monitor.settings import Settings
from cronce.monitor.survey import Memory, Survey
from cronce.protocol.notices import Alert


def judge(survey: Survey, memory: Memory, settings: Settings) -> tuple[list[Alert], Memory]:
    """What is wrong, the worst first, and the memory to go on with."""
    memory = _remember(survey, memory, settings)
    found = [
        *watch_schedulers.fold(survey, settings),
        *watch_slots.fold(survey, memory, settings),
        *watch_runs.fold(survey, memory, settings),
        *watch_others.fold(survey, memory, settings),
    ]
    standing = [one._replace(since=min(one.since, memory.since.get(one.id, one.since))) for one in found]
    return sorted(standing, key=worst_first), memory._replace(since={one.id: one.since for one in standing})


def _remember(survey: Survey, memory: Memory, settings: Settings) -> Memory:
    reborn = survey.now if memory.birth not in (None, survey.epoch.birth) else memory.reborn
    return memory._replace(
        first=memory.first or survey.now,
        birth=survey.epoch.birth,
        reborn=reborn,
        progress=watch_runs.progress(survey, memory),
        lapses=watch_runs.lapses(survey, memory),
        missed=watch_slots.missed(survey, memory, settings),
    )


def is_over(alert: Alert, survey: Survey, memory: Memory, settings: Settings) -> bool:
    """Whether an alert is over of which nothing was found: some things show only to whoever has watched for a while,
    and another may have led until now."""
    watched, job = survey.now - (memory.first or survey.now), alert.subject
    match alert.kind:
        case Kind.NO_PROGRESS:
            return watched >= settings.no_progress or not any(job in (run.slot.job, MORE) for run in survey.open)
        case Kind.MISSED:
            return watched >= REMEMBERED or (job != MORE and watch_slots.is_paused(survey, job))
        case Kind.LAPSING | Kind.AMNESIA:
            return watched >= REMEMBERED
        case Kind.FAILED:
            return job in survey.ended or job not in survey.jobs
        case _:
            return True
