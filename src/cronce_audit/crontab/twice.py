"""The same job in two lines that one cron reads."""

from collections.abc import Iterator, Sequence
from typing import Final

from cronce_audit.crontab.commands import job_of, leaves_if_locked, shown
from cronce_audit.crontab.hosts import homes
from cronce_audit.crontab.read import Line
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule
from cronce_audit.slots import shared_slot

_MOST: Final = 40
"""Different schedules of one job that are compared with each other; equal ones are found among any number."""


_BY_DEDUPE: Final = "keep one of the lines; `cronce crontab dedupe` takes away what stands there twice"


_BY_HAND: Final = (
    "keep one of the lines, the one whose output goes where you look for it; `cronce crontab dedupe` leaves lines that "
    "differ in anything"
)


@rule(
    "CR404",
    "same-job-twice",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="keep one of the lines",
)
def same_job_twice(facts: Facts) -> Iterator[Found]:
    told: set[Place] = set()
    for lines in _of_one_job(facts):
        for first, second, when in _together(lines, facts.year):
            if second.place not in told:
                told.add(second.place)
                yield _twice(first, second, when)


def _of_one_job(facts: Facts) -> Iterator[Sequence[Line]]:
    """On one host. What cronce guards runs once, however often it stands there."""
    known = facts.conclude(homes)
    same: dict[tuple[object, ...], list[Line]] = {}
    for line in facts.of(Line):
        if line.guard != "cronce":
            job = (job_of(line.command), line.user, line.zone, line.settings)
            for host in sorted(known[line.place.path].hosts):
                same.setdefault((host, *job), []).append(line)
    return iter(same.values())


def _together(lines: Sequence[Line], year: int) -> Iterator[tuple[Line, Line, str]]:
    """Each line that fires when one before it does."""
    firsts: dict[str, Line] = {}
    for line in lines:
        if line.schedule in firsts:
            yield firsts[line.schedule], line, "at each of its times"
            continue
        for first in firsts.values() if len(firsts) < _MOST and not leaves_if_locked(line.command) else ():
            if shared := shared_slot(first.schedule, line.schedule, year):
                yield first, line, f"at {shared:%H:%M}"
                break
        firsts[line.schedule] = line


def _twice(first: Line, second: Line, when: str) -> Found:
    one_file = first.place.path == second.place.path
    surely = one_file and first.schedule == second.schedule and not leaves_if_locked(second.command)
    unless = ", unless the second finds the lock still taken" if leaves_if_locked(second.command) else ""
    is_copy = one_file and (first.schedule, first.command) == (second.schedule, second.command)
    return Found(
        second.place,
        f"`{shown(second.command)}` stands at {first.place} too, and {when} both run it{unless}",
        Confidence.HIGH if one_file else Confidence.MEDIUM,
        Severity.ERROR if surely else Severity.WARNING,
        _BY_DEDUPE if is_copy else _BY_HAND if job_of(first.command) == job_of(second.command) else None,
    )
