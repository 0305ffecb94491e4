"""What can be wrong with timers. What systemd 252 does was asked of `systemd-analyze`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import PurePosixPath

from cronce_audit.common import ZoneSet
from cronce_audit.crontab.commands import shown
from cronce_audit.crontab.read import Line, Tab
from cronce_audit.folds import disputed, season
from cronce_audit.model import Confidence, Facts, Found, Severity, rule
from cronce_audit.scripts.shell import commands_in
from cronce_audit.slots import shared_slot
from cronce_audit.systemd.read import Elapse, Service, Timer
from cronce_audit.systemd.units import words

Services = Mapping[tuple[str, str], Service]
"""By folder and name."""


def _services(facts: Facts) -> Services:
    return {
        (_folder(service.place.path), PurePosixPath(service.place.path).name): service for service in facts.of(Service)
    }


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _service_of(timer: Timer, facts: Facts) -> Service | None:
    """The service that a timer starts, from the same folder: others are other machines' or another package's."""
    return facts.conclude(_services).get((_folder(timer.place.path), timer.unit))


@rule(
    "CR651",
    "two-timers-for-one-job",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="keep one of the timers, or give it all the OnCalendar= lines: where two elapse together, one timer runs the"
    " job once",
)
def two_timers_for_one_job(facts: Facts) -> Iterator[Found]:
    for first, second in _beside(facts.of(Timer)):
        one, other = _service_of(first, facts), _service_of(second, facts)
        same = first.unit == second.unit or (one and other and one.is_same_job(other))
        together = _together(first.elapses, second.elapses, facts.year) if same else None
        if together is None:
            continue
        if first.unit == second.unit:
            said = f"{together.calendar.expression} is a time of {first.place} too, and both start {second.unit}"
            yield Found(together.place, f"{said}: once if it still runs then, else twice", severity=Severity.INFO)
        elif one:
            program = shown(one.execs[0])
            yield Found(
                together.place,
                f"{first.place} starts the same `{program}` as {second.unit}, and both elapse at the same time",
            )


def _beside(timers: Sequence[Timer]) -> Iterator[tuple[Timer, Timer]]:
    """Each two of one folder."""
    folders: dict[str, list[Timer]] = {}
    for timer in timers:
        folders.setdefault(_folder(timer.place.path), []).append(timer)
    return chain.from_iterable(combinations(beside, 2) for beside in folders.values())


def _together(first: Sequence[Elapse], second: Sequence[Elapse], year: int) -> Elapse | None:
    """A line of the second that elapses when one of the first does."""
    for other in second:
        for one in first:
            same_clocks = one.calendar.zone == other.calendar.zone
            if same_clocks and shared_slot(one.calendar.expression, other.calendar.expression, year):
                return other
    return None


@rule(
    "CR652",
    "timer-without-a-service",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="add the service, or name the one that is meant with Unit=",
)
def timer_without_a_service(facts: Facts) -> Iterator[Found]:
    """Where the folder of a timer has services at all; else they may be kept elsewhere."""
    known = facts.conclude(_services)
    names = {name for _, name in known}
    folders = {folder for folder, _ in known}
    for timer in facts.of(Timer):
        template = _template(timer.unit)
        beside = _folder(timer.place.path) in folders
        if timer.unit.endswith(".service") and beside and not {timer.unit, template} & names and "%" not in timer.unit:
            yield Found(timer.place, f"it starts {timer.unit}, and there is no such service here: the job never runs")


def _template(unit: str) -> str:
    name, at, _ = unit.partition("@")
    return f"{name}@.service" if at else unit


@rule(
    "CR653",
    "service-of-a-timer-restarts",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="leave Restart= out, or say Restart=on-failure: the timer starts it again when it is time",
)
def service_of_a_timer_restarts(facts: Facts) -> Iterator[Found]:
    for timer in facts.of(Timer):
        service = _service_of(timer, facts)
        if (
            not timer.again
            or service is None
            or service.restart not in ("always", "on-success")
            or service.restart_place is None
        ):
            continue
        said = f"Restart={service.restart} on the service of {timer.place.path}"
        if service.type == "oneshot":
            yield Found(service.restart_place, f"{said}: systemd refuses that for Type=oneshot, and the job never runs")
        else:
            yield Found(service.restart_place, f"{said}: when the job ends it is started again at once, for ever")


@rule(
    "CR654",
    "time-that-clocks-pass-over",
    Severity.WARNING,
    Confidence.HIGH,
    remedy="write the time in UTC (`OnCalendar=*-*-* 01:30 UTC`), or choose an hour that no change of clocks touches",
)
def time_that_clocks_pass_over(facts: Facts) -> Iterator[Found]:
    everywhere = sorted({said.zone for said in facts.of(ZoneSet) if not said.unit})
    for timer in facts.of(Timer):
        for elapse in timer.elapses:
            zones = [elapse.calendar.zone] if elapse.calendar.zone else everywhere
            if said := next(filter(None, (_passed_over(elapse, zone, facts.year) for zone in zones)), ""):
                yield Found(elapse.place, said, None if elapse.calendar.zone else Confidence.MEDIUM)


def _passed_over(elapse: Elapse, zone: str, year: int) -> str:
    found = disputed(elapse.calendar.expression, zone, year)
    if not found or not found.never:
        return ""
    wall = found.never
    return f"{wall:%H:%M} does not exist in {zone} {season(wall)}: systemd leaves the job out that day"


@rule(
    "CR655",
    "cron-and-timer-for-one-job",
    Severity.WARNING,
    Confidence.MEDIUM,
    remedy="keep one of the two; a line for hosts without systemd begins with `test -d /run/systemd/system ||`",
)
def cron_and_timer_for_one_job(facts: Facts) -> Iterator[Found]:
    installed = {tab.path for tab in facts.of(Tab) if tab.installed}
    lines = [line for line in facts.of(Line) if line.place.path in installed and "systemd" not in line.command]
    for timer in facts.of(Timer) if lines else ():
        service = _service_of(timer, facts)
        if service is None or PurePosixPath(service.place.path).parent.parts[-2:] != ("systemd", "system"):
            continue
        started = {words(one) for one in service.execs}
        for line in lines:
            if _root(line.place.path) == _root(timer.place.path) and started & _commands_of(line):
                yield Found(
                    line.place,
                    f"{timer.place} starts `{shown(line.command)}` too: the job runs by cron and by its timer",
                )


def _root(path: str) -> str:
    """What stands before etc/, lib/ or usr/: the package or image that a file is part of."""
    parts = PurePosixPath(path).parts
    cut = next((at for at, part in enumerate(parts) if part in ("etc", "lib", "usr", "var")), len(parts))
    return "/".join(parts[:cut])


def _commands_of(line: Line) -> set[tuple[str, ...]]:
    return {simple.bare for simple in commands_in(line.command)}


@rule(
    "CR656",
    "calendar-systemd-cannot-read",
    Severity.ERROR,
    Confidence.HIGH,
    remedy="write `*:0/5` for every five minutes, `*-*-* 03:00` for three o'clock; `systemd-analyze calendar` tries it",
)
def calendar_systemd_cannot_read(facts: Facts) -> Iterator[Found]:
    for timer in facts.of(Timer):
        for text, place in timer.refused:
            yield Found(place, f"systemd cannot read `{text}`, and passes over the line: the job does not run by it")
