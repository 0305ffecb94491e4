"""Rules about crontabs. The behaviour of Debian's cron (3.0pl1) and busybox's (1.35) was measured."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.clocks import Disputed, disputed, never, season, shared_slot
from cronce_audit.containers.facts import Image
from cronce_audit.containers.running import containers
from cronce_audit.containers.schedules import scheduled
from cronce_audit.crontab.read import CronLine, CrontabHome, NeverRun, homes, lacks_user, shown, zones
from cronce_audit.javascript.code import Job as JavaScriptJob
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule
from cronce_audit.processes.commands import same_entries, started
from cronce_audit.python.facts import Bound, Const, Items
from cronce_audit.python.jobs import expression, jobs
from cronce_audit.python.names import names

_OUTPUT: Final = re.compile(
    r"(\s*([12&]?>>\s*[^\s&]\S*|[12&]?>\s*/dev/null|2>\s*[^\s&]\S*|[12]>&[12]|<\s*/dev/null))+\s*$"
)
"""Output that is discarded or appended. A file written by `>` may be the purpose of the job."""
_SAY: Final = frozenset({"echo", "printf", "date", "cat", "df", "free", "uptime", "ps", "w", "who"})
"""Programs that only print."""
_AT_ONCE: Final = re.compile(r"\bflock(\s+-\S+(\s+[\d.]+)?)*?\s+(-[a-z]*n[a-z]*|--nonblock|--nb)\s")


def job_of(command: str) -> str:
    """The command without redirections of its output."""
    job = " ".join(_OUTPUT.sub("", command).split())
    return " ".join(command.split()) if job.partition(" ")[0] in _SAY | {""} and ">>" in command else job


def leaves_if_locked(command: str) -> bool:
    """`flock -n`: a run that finds the lock taken ends. Without -n it waits, and then runs too."""
    return _AT_ONCE.search(command) is not None


# --- too often --------------------------------------------------------------------------------------------------------


@rule(
    "CR408 every-minute-of-one-hour",
    Severity.WARNING,
    "write a minute; if sixty runs are meant, say so with `0-59`",
    confidence=Confidence.MEDIUM,
)
def every_minute_of_one_hour(facts: Facts) -> Iterator[Found]:
    for one in facts.conclude(scheduled):
        if one.guard is not True and "flock" not in one.command:
            yield from _each_minute(one.schedule, one.what, one.place)
    for bound in facts.of(Bound):
        entries = bound.value.values if bound.name.endswith(".CRONJOBS") and isinstance(bound.value, Items) else ()
        for entry in entries:
            match entry:
                case Items((Const(str(schedule)), Const(str(job)), *_)):
                    yield from _each_minute(schedule, f"`{job}`", bound.place)
    known = facts.conclude(names)
    for call in known.calls("crontab", "cron"):
        hour, whose = call.called.keyword("hour"), _MINUTELESS.get(known.target(call) or "")
        minute = call.called.keyword("minute") or (call.method == "crontab" and call.called.args)
        if whose and not minute and not call.called.splat and hour not in (None, Const("*")):
            yield Found(
                call.place,
                f"`{call.method}` of {whose} without a minute is due in each minute of its hours: sixty times an hour",
                Confidence.HIGH,
                remedy=f"write a minute: `{call.method}(…, minute=0, hour=…)`",
            )


_MINUTELESS: Final = {"celery.schedules.crontab": "Celery", "arq.cron": "arq", "arq.cron.cron": "arq"}


def _each_minute(schedule: str, what: str, place: Place) -> Iterator[Found]:
    *seconds, minute, hour, day, month, weekday = fields if len(fields := schedule.split()) in (5, 6) else [""] * 5
    rest = " ".join((hour, day, month, weekday))
    if minute == "*" and re.fullmatch(r"\d+(,\d+)*|\*/(?!1\b)\d+", hour):
        each = f"from {int(hour):02}:00 on" if hour.isdecimal() else f"of the hours `{hour}`"
        yield Found(
            place,
            f"`{schedule}` runs {what} sixty times, each minute {each}",
            remedy=f"write a minute (`0 {rest}`); if sixty runs are meant, say so with `0-59 {rest}`",
        )
    elif seconds == ["*"] and minute != "*":
        yield Found(
            place,
            f"`{schedule}` runs {what} sixty times a minute: the first of six fields is the second",
            remedy=f"write a second: `0 {minute} {rest}`",
        )
    for field, unit, whole in ((minute, "minute", "hour"), *((one, "second", "minute") for one in seconds)):
        step = _UNEVEN.fullmatch(field)
        if step:
            uneven = f"once a {whole}" if step["long"] else f"at {unit}s 0 and {step['step']} of each {whole}"
            yield Found(
                place,
                f"`{schedule}` runs {what} {uneven}: a step counts from the full {whole}, and begins anew with the"
                " next",
                severity=Severity.INFO if step["long"] else None,
                remedy=f"write the {unit}s (`0,30`), or use an interval instead of a cron expression",
            )


_UNEVEN: Final = re.compile(r"[*0]/(?P<step>3[1-9]|[45]\d|(?P<long>6[1-9]|[7-9]\d|\d{3,}))")


# --- never ------------------------------------------------------------------------------------------------------------


@rule(
    "CR412 crontab-that-never-runs",
    Severity.INFO,
    "name the user behind the schedule (`0 3 * * * root /app/run.sh`), or install the file with `crontab FILE`",
)
def crontab_that_never_runs(facts: Facts) -> Iterator[Found]:
    told: set[str] = set()
    for place, command in (*facts.of(NeverRun), *_copied_without_user(facts)):
        if place.path not in told:
            told.add(place.path)
            yield Found(
                place,
                "a line of /etc/cron.d names its user before the command: cron takes"
                f" `{command.split(maxsplit=1)[0]}` for the user, finds none of that name, and does not run the line",
            )
    yield from _without_daemon(facts)
    yield from _without_times(facts)


def _without_times(facts: Facts) -> Iterator[Found]:
    """Schedules with no time at all, in whatever reads them."""
    for job in facts.conclude(scheduled):
        if why := never(job.schedule):
            is_typo = " is not in " in why
            yield Found(
                job.place,
                f"`{job.schedule}` never runs {job.what} ({why})",
                severity=Severity.WARNING if is_typo else None,
                remedy="correct the schedule"
                if is_typo
                else "correct the schedule; if it is off on purpose, ignore this",
            )


def _copied_without_user(facts: Facts) -> Iterator[NeverRun]:
    known = facts.conclude(homes)
    for image in facts.of(Image):
        for line in facts.of(CronLine):
            target = PurePosixPath(known[line.place.path].images.get(image.path, ""))
            if target.parent.name == "cron.d" and not line.user and lacks_user(line.command):
                copied = next((one.line for one in image.copied if one.target == str(target)), 1)
                yield NeverRun(Place(image.path, copied), line.command)


def _without_daemon(facts: Facts) -> Iterator[Found]:
    """Images that install cron and a crontab in a tree where nothing starts cron."""
    if any((found := one.role) and found.kind == "cron" for one in facts.conclude(started)):
        return
    for container in facts.conclude(containers):
        image = container.image
        if image and image.tab and image.engine in ("debian", "cronie") and not _may_start(container.start.words):
            program_name = PurePosixPath(container.start.words[0]).name
            yield Found(
                image.tab,
                f"the image gets a crontab, and {container.name} starts `{program_name}` and no cron: its lines never"
                " run",
                Confidence.MEDIUM,
                remedy="start cron in a container of its own (`cron -f`, `crond -f`, supercronic), once",
            )
            return


def _may_start(words: Sequence[str]) -> bool:
    """It names cron, or is a script or a supervisor, of which not all may be seen."""
    return any(re.search(r"cron|supervisor|s6|init|runit|\.sh\b|entrypoint", word) for word in words)


# --- clocks -----------------------------------------------------------------------------------------------------------


@rule(
    "CR406 time-that-clocks-show-twice-or-never",
    Severity.INFO,
    "let cron use UTC (TZ=UTC for the daemon, `CRON_TZ=UTC` where cron knows it), or choose an hour that no"
    " change of clocks touches, or guard the line with `cronce exec NAME --schedule '…' --tz ZONE --`",
    confidence=Confidence.MEDIUM,
)
def time_that_clocks_show_twice_or_never(facts: Facts) -> Iterator[Found]:
    for line in facts.of(CronLine):
        home = facts.conclude(homes)[line.place.path]
        if home.engine in ("debian", "supercronic", "other") or line.guard == "cronce":
            continue
        for zone in zones(line, home, facts):
            found = disputed(line.schedule, zone, facts.year)
            if found and (found.twice or found.never):
                yield _by_the_clocks(line, home, zone, found)
                break


def _by_the_clocks(line: CronLine, home: CrontabHome, zone: str, found: Disputed) -> Found:
    says = []
    if found.twice:
        says.append(f"{season(found.twice)} {found.twice:%H:%M} occurs twice")
    if found.never:
        says.append(f"{season(found.never)} {found.never:%H:%M} does not exist")
    seen = f"`{line.schedule}` in {zone}: {' and '.join(says)}"
    if home.engine == "busybox":
        return Found(
            line.place,
            f"{seen}; busybox's cron runs it as often as the clock shows it",
            Confidence.HIGH,
        )
    return Found(
        line.place,
        f"{seen}; Debian's cron and cronie run it once, busybox's and others as often as the clock shows it",
    )


_MOST_SCHEDULES: Final = 40
"""Different schedules of one job that are compared with each other; equal ones are found among any number."""


_BY_DEDUPE: Final = "keep one of the lines; `cronce deploy crontab dedupe` removes duplicate lines"


_DEDUPE_BY_HAND: Final = (
    "keep the line whose output goes where you want it; `cronce deploy crontab dedupe` removes only lines that are"
    " exactly the same"
)


@rule("CR404 same-job-twice", Severity.ERROR, "keep one of the lines")
def same_job_twice(facts: Facts) -> Iterator[Found]:
    told: set[Place] = set()
    for lines in _of_one_job(facts):
        for first, second, when in _together(lines, facts.year):
            if second.place not in told:
                told.add(second.place)
                yield _twice(first, second, when)
    yield from same_entries(facts)
    yield from _twice_in_code(facts)


def _twice_in_code(facts: Facts) -> Iterator[Found]:
    """Two jobs of a program's own scheduler that call the same function, and meet."""
    found = [(one.does, one.pattern or "", one.what, one.place) for one in facts.of(JavaScriptJob) if one.does]
    by_id = {(job.full_name, job.options.get("id") or job.place): job for job in reversed(facts.conclude(jobs))}
    found += [
        (job.full_name, expression(job) or "", job.function, job.place)
        for job in reversed(by_id.values())  # a second one of the same id replaces the first
        if job.full_name and not any(job.options.get(key) for key in ("args", "kwargs"))
    ]
    earlier: dict[str, list[tuple[str, Place]]] = {}
    for does, schedule, what, place in found:
        known = earlier.setdefault(does, [])
        met = ((shared_slot(other, schedule, facts.year), at) for other, at in known if at.line != place.line)
        slot, first = next(((slot, at) for slot, at in met if slot), (None, place))
        if slot is not None:
            yield Found(
                place,
                f"{what} does the same as the job at {first}: at {slot:%H:%M} both run it",
                Confidence.MEDIUM,
                Severity.INFO,
                "keep one of the two jobs",
            )
        known.append((schedule, place))


def _of_one_job(facts: Facts) -> Iterator[Sequence[CronLine]]:
    """The lines of each job on one host. What cronce guards runs once, however many lines there are."""
    known = facts.conclude(homes)
    same: dict[tuple[object, ...], list[CronLine]] = {}
    for line in facts.of(CronLine):
        if line.guard != "cronce":
            job = (job_of(line.command), line.user, line.zone, line.settings)
            for host in sorted(known[line.place.path].hosts):
                same.setdefault((host, *job), []).append(line)
    return iter(same.values())


def _together(lines: Sequence[CronLine], year: int) -> Iterator[tuple[CronLine, CronLine, str]]:
    """Each line that fires at the same time as an earlier one."""
    firsts: dict[str, CronLine] = {}
    for line in lines:
        if line.schedule in firsts:
            yield firsts[line.schedule], line, "at each of its times"
            continue
        for first in firsts.values() if len(firsts) < _MOST_SCHEDULES and not leaves_if_locked(line.command) else ():
            if shared := shared_slot(first.schedule, line.schedule, year):
                yield first, line, f"at {shared:%H:%M}"
                break
        firsts[line.schedule] = line


def _twice(first: CronLine, second: CronLine, when: str) -> Found:
    one_file = first.place.path == second.place.path
    surely = one_file and first.schedule == second.schedule and not leaves_if_locked(second.command)
    unless = ", unless the second finds the lock still taken" if leaves_if_locked(second.command) else ""
    is_copy = one_file and (first.schedule, first.command) == (second.schedule, second.command)
    return Found(
        second.place,
        f"`{shown(second.command)}` is also at {first.place}; {when} both lines run it{unless}",
        Confidence.HIGH if one_file else Confidence.MEDIUM,
        Severity.ERROR if surely else Severity.WARNING,
        _BY_DEDUPE if is_copy else _DEDUPE_BY_HAND if job_of(first.command) == job_of(second.command) else None,
    )
