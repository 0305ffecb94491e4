"""What can be wrong with crontabs. What Debian's cron (3.0pl1) and busybox's (1.35) do was measured, not looked up."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.crontab.commands import cut_by_percent, scripts_of, shown, work
from cronce_audit.crontab.hosts import Home, homes, zones
from cronce_audit.crontab.images import Engine, Image, is_odd, passes_over
from cronce_audit.crontab.periodic import Periodic
from cronce_audit.crontab.read import Fault, Line
from cronce_audit.crontab.scripts import Script, is_meant
from cronce_audit.folds import Disputed, disputed, season
from cronce_audit.locks.guards import guards
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, rule
from cronce_audit.python.facts import Bound, Const, Items
from cronce_audit.python.names import names
from cronce_audit.slots import minutes_between

OFTEN: Final = 10
"""Minutes. A job that fires at least as often as this overlaps with itself one day."""
_READS_SIX_FIELDS: Final[frozenset[Engine]] = frozenset({"supercronic", "other"})


def _homes_of_lines(facts: Facts) -> Iterator[tuple[Line, Home]]:
    known = facts.conclude(homes)
    return ((line, known[line.place.path]) for line in facts.of(Line))


# --- lost -------------------------------------------------------------------------------------------------------------


@rule(
    "CR401",
    "line-cron-cannot-read",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="mend the line; `crontab FILE` and `cronce crontab install` refuse such a file instead of losing its jobs",
)
def line_cron_cannot_read(facts: Facts) -> Iterator[Found]:
    known = facts.conclude(homes)
    for fault in facts.of(Fault):
        home = known[fault.place.path]
        if _counts(fault, home):
            what = (
                "never runs"
                if home.engine in ("busybox", "cronie")
                else "never runs; Debian's cron then reads nothing of the file"
            )
            sure = Confidence.HIGH if home.tab.installed or home.engine else Confidence.MEDIUM
            yield Found(fault.place, f"{fault.why}: the job {what}", sure)
    for home in known.values():
        yield from _without_users(home, facts)


def _counts(fault: Fault, home: Home) -> bool:
    match fault.kind:
        case "newline":
            return home.engine in ("debian", "") and (home.tab.installed or home.engine == "debian")
        case "foreign":
            return home.engine == "debian"
        case "six fields":
            return home.engine not in _READS_SIX_FIELDS
        case "user":
            return not home.installed_by_command and home.engine not in ("supercronic", "busybox", "other")
        case _:
            return home.engine != "other"


def _without_users(home: Home, facts: Facts) -> Iterator[Found]:
    """A crontab without users that an image puts where there must be some."""
    into = [path for path, target in home.images.items() if PurePosixPath(target).parent.name == "cron.d"]
    if into and home.tab.userless and not home.tab.system and not home.installed_by_command and home.engine == "debian":
        first = next((line for line in facts.of(Line) if line.place.path == home.tab.path), None)
        if first:
            word = first.command.split()[0][:40]
            yield Found(
                first.place,
                f"{into[0]} copies this file into cron.d, where a user stands before the command, and here `{word}` is"
                " taken for one: no job of this file ever runs",
            )


@rule(
    "CR402",
    "name-cron-ignores",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="give it a name of letters, digits, - and _ only, without an ending",
)
def name_cron_ignores(facts: Facts) -> Iterator[Found]:
    """Where a Dockerfile takes the file, what counts is the name it has there."""
    for home in facts.conclude(homes).values():
        path = home.tab.path
        if home.passed_over:
            first = next((line.place for line in facts.of(Line) if line.place.path == path), Place(path, 1))
            yield Found(first, f"Debian's cron passes over `{path}`, for the dot in its name: nothing in it runs")
    taken = {name for image in facts.of(Image) for name in image.named}
    for periodic in facts.of(Periodic):
        path = periodic.place.path
        if is_odd(path) and PurePosixPath(path).name not in taken:
            yield Found(periodic.place, f"run-parts passes over `{path}`, for the dot in its name: it never runs")
    for image in facts.of(Image):
        yield from _odd_targets(image)


def _odd_targets(image: Image) -> Iterator[Found]:
    alpine = not image.debian
    for copied in image.copied:
        folder = PurePosixPath(copied.target).parent
        by_cron = passes_over(image, copied)
        by_parts = folder.parent in _PERIODIC[alpine] and folder.name.removeprefix("cron.") in _PERIODS
        if by_cron or (by_parts and is_odd(copied.target) and not copied.handled):
            who = "cron" if by_cron else "run-parts"
            yield Found(
                copied.place,
                f"{who} passes over `{copied.target}`, for the dot in its name: it never runs",
                Confidence.HIGH,
                Severity.ERROR,
            )


_PERIODIC: Final = {False: [PurePosixPath("/etc")], True: [PurePosixPath("/etc/periodic")]}
_PERIODS: Final = frozenset({"15min", "hourly", "daily", "weekly", "monthly"})


@rule(
    "CR403",
    "percent-ends-the-command",
    Severity.WARNING,
    Confidence.HIGH,
    remedy=r"write `\%` for each `%`, or put the command into a script",
)
def percent_ends_the_command(facts: Facts) -> Iterator[Found]:
    for line, home in _homes_of_lines(facts):
        if home.engine not in ("busybox", "supercronic", "other") and cut_by_percent(line.command):
            yield Found(
                line.place,
                f"cron ends the command of `{shown(line.command)}` at its first bare `%`: what is left is half of it",
            )


# --- too often --------------------------------------------------------------------------------------------------------


@rule(
    "CR408",
    "every-minute-of-one-hour",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="write a minute; if sixty runs are meant, say so with `0-59`",
)
def every_minute_of_one_hour(facts: Facts) -> Iterator[Found]:
    for line, _ in _homes_of_lines(facts):
        if not line.guard:
            yield from _each_minute(line.schedule, f"`{shown(line.command)}`", line.place)
    for bound in facts.of(Bound):
        entries = bound.value.values if bound.name.endswith(".CRONJOBS") and isinstance(bound.value, Items) else ()
        for entry in entries:
            match entry:
                case Items((Const(str(schedule)), Const(str(job)), *_)):
                    yield from _each_minute(schedule, f"`{job}`", bound.place)
    known = facts.conclude(names)
    for call in known.calls("crontab"):
        hour = call.called.keyword("hour")
        every = call.called.args or call.called.keyword("minute") or call.called.splat or hour in (None, Const("*"))
        if not every and known.target(call) == "celery.schedules.crontab":
            yield Found(
                call.place,
                "`crontab` of Celery without a minute is due in each minute of its hours: sixty times an hour",
                Confidence.HIGH,
                remedy="write a minute: `crontab(minute=0, hour=…)`",
            )


def _each_minute(schedule: str, what: str, place: Place) -> Iterator[Found]:
    minute, _, rest = schedule.partition(" ")
    hour = rest.partition(" ")[0]
    if minute == "*" and re.fullmatch(r"\d+(,\d+)*|\*/(?!1\b)\d+", hour):
        each = f"from {int(hour):02}:00 on" if hour.isdecimal() else f"of the hours `{hour}`"
        yield Found(
            place,
            f"`{schedule}` runs {what} sixty times, each minute {each}",
            remedy=f"write a minute (`0 {rest}`); if sixty runs are meant, say so with `0-59 {rest}`",
        )


# --- overlapping ------------------------------------------------------------------------------------------------------


@rule(
    "CR405",
    "no-lock-on-a-frequent-job",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="put `flock -n /run/lock/NAME.lock` before the command, or `cronce exec NAME --schedule '…' --` where more"
    " than one machine has this line",
)
def no_lock_on_a_frequent_job(facts: Facts) -> Iterator[Found]:
    scripts: dict[str, list[Script]] = {}
    for script in facts.of(Script):
        scripts.setdefault(PurePosixPath(script.path).name, []).append(script)
    locked = {guarded.place.path for guarded in facts.conclude(guards).values()}
    for line, home in _homes_of_lines(facts):
        minutes = minutes_between(line.schedule)
        if minutes is None or minutes > OFTEN or home.engine == "supercronic":  # it skips a run while the last one runs
            continue
        doing = work(line, minutes)
        run = [
            script
            for path in scripts_of(line.command)
            for script in scripts.get(PurePosixPath(path).name, ())
            if is_meant(script, path, facts.of(Image))
        ]
        if doing in ("locked", "short") or any(script.does == "locks" or script.path in locked for script in run):
            continue
        if doing == "long" or not run or any(script.does != "short" for script in run):
            seen = [script for script in run if script.does == "works"]
            yield from _unlocked(line, minutes, seen, is_long=doing == "long")


def _unlocked(line: Line, minutes: int, run: Sequence[Script], *, is_long: bool) -> Iterator[Found]:
    every = "minute" if minutes == 1 else f"{minutes} minutes"
    if not is_long and not run:
        if minutes == 1:
            said = "no lock is seen; if it ever takes longer, the next one starts beside it"
            yield Found(line.place, f"`{shown(line.command)}` starts every {every}, and {said}", severity=Severity.INFO)
        return
    where = f" ({run[0].path} takes none)" if run else ""
    yield Found(
        line.place,
        f"`{shown(line.command)}` starts every {every} without a lock{where}: when it takes longer, the next one starts"
        " beside it",
        severity=Severity.WARNING if minutes == 1 else Severity.INFO,
    )


# --- clocks -----------------------------------------------------------------------------------------------------------


@rule(
    "CR406",
    "time-that-clocks-show-twice-or-never",
    Severity.INFO,
    Confidence.MEDIUM,
    remedy="let cron go by UTC (TZ=UTC for the daemon, `CRON_TZ=UTC` where cron knows it), or choose an hour that no"
    " change of clocks touches, or guard the line with `cronce exec NAME --schedule '…' --tz ZONE --`",
)
def time_that_clocks_show_twice_or_never(facts: Facts) -> Iterator[Found]:
    for line, home in _homes_of_lines(facts):
        if home.engine in ("debian", "supercronic", "other") or line.guard == "cronce":
            continue
        for zone in zones(line, home, facts):
            found = disputed(line.schedule, zone, facts.year)
            if found and (found.twice or found.never):
                yield _by_the_clocks(line, home, zone, found)
                break


def _by_the_clocks(line: Line, home: Home, zone: str, found: Disputed) -> Found:
    says = []
    if found.twice:
        says.append(f"{season(found.twice)} {found.twice:%H:%M} shows twice")
    if found.never:
        says.append(f"{season(found.never)} {found.never:%H:%M} does not show at all")
    seen = f"`{line.schedule}` in {zone}: {' and '.join(says)}"
    if home.engine == "busybox":
        return Found(
            line.place,
            f"{seen}; busybox's cron runs it as often as the clock shows it",
            Confidence.HIGH,
            Severity.WARNING,
        )
    return Found(
        line.place,
        f"{seen}; Debian's cron and cronie run it once, busybox's and others as often as the clock shows it",
    )


@rule(
    "CR407",
    "zone-that-cron-does-not-know",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="set TZ for the cron daemon itself (`ENV TZ=…` with tzdata), or use a cron that knows CRON_TZ (cronie)",
)
def zone_that_cron_does_not_know(facts: Facts) -> Iterator[Found]:
    told: set[str] = set()
    for line, home in _homes_of_lines(facts):
        unknown = home.engine in ("debian", "busybox")
        if line.zone and unknown and line.place.path not in told and not _is_in_force(line, home, facts):
            told.add(line.place.path)
            whose = "Debian's cron" if home.engine == "debian" else "busybox's cron"
            yield Found(
                line.place,
                f"CRON_TZ={line.zone} means nothing to {whose}: `{line.schedule}` is by the clocks of the host",
            )


def _is_in_force(line: Line, home: Home, facts: Facts) -> bool:
    return (
        line.zone in zones(line, home, facts)
        or line.schedule == "@reboot"
        or minutes_between(line.schedule) is not None
    )
