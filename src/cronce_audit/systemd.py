"""Units of systemd, and programs of supervisor: what they start and when, and what can be wrong with timers.

What systemd 252 does was asked of `systemd-analyze`.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.clocks import disputed, is_zone, season, shared_slot
from cronce_audit.crontab.commands import shown
from cronce_audit.model import Command, Confidence, Facts, Found, Place, Severity, Source, ZoneSet, reader, rule


class Setting(NamedTuple):
    """`Key=value` in a section; what a backslash joins is one value."""

    section: str
    key: str
    value: str
    line: int


def settings(text: str) -> Iterator[Setting]:
    section = ""
    for number, line in _whole_lines(text):
        if heading := re.fullmatch(r"\[([^\]]+)\]", line):
            section = heading[1]
        elif not line.startswith(("#", ";")) and "=" in line:
            key, _, value = line.partition("=")
            yield Setting(section, key.strip(), value.strip(), number)


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    start = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if joined and line.lstrip().startswith(("#", ";")):
            continue
        start = start if joined else number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = f"{joined[:-1]} "
        else:
            yield start, joined
            joined = ""


def values(found: Sequence[Setting], section: str, key: str) -> list[Setting]:
    """All values of a key that may stand there several times; an empty one takes back those before it."""
    kept: list[Setting] = []
    for setting in found:
        if (setting.section, setting.key) == (section, key):
            kept = [*kept, setting] if setting.value else []
    return kept


def value(found: Sequence[Setting], section: str, key: str) -> str:
    """The last one counts."""
    return next((one.value for one in reversed(values(found, section, key))), "")


def words(line: str) -> tuple[str, ...]:
    """The words of `ExecStart=`, without what is said to systemd before the first; none where quotes do not match."""
    try:
        return tuple(shlex.split(re.sub(r"^[@:+!|-]+", "", line)))
    except ValueError:
        return ()


def environment(found: Sequence[Setting]) -> Mapping[str, str]:
    """`Environment=A=1 "B=two words"`."""
    pairs = [word.partition("=") for setting in found for word in words(setting.value)]
    return {name: given for name, equals, given in pairs if equals}


_NAMED: Final = {
    "minutely": "* * * * *",
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "weekly": "0 0 * * 1",
    "monthly": "0 0 1 * *",
    "quarterly": "0 0 1 1,4,7,10 *",
    "semiannually": "0 0 1 1,7 *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
}
_PART: Final = r"[\d*.,/]+"
_CALENDAR: Final = re.compile(
    rf"(?:(?P<days>[A-Za-z.,]+)\s+)?(?:(?:\*-)?(?P<month>{_PART})-(?P<date>{_PART})(?:\s+|$))?"
    rf"(?:(?P<hour>{_PART}):(?P<minute>{_PART})(?::(?P<second>{_PART}))?)?"
)


class Calendar(NamedTuple):
    """When a timer elapses."""

    expression: str
    """As cron has it."""
    zone: str
    """"" is that of the host."""


def calendar(text: str) -> Calendar | None:
    """None for what cron cannot say: years, days from the end of the month, a weekday and a date together, seconds."""
    text, zone = _zone(" ".join(text.split()))
    if text.lower() in _NAMED:
        return Calendar(_NAMED[text.lower()], zone)
    found = _CALENDAR.fullmatch(text)
    if not found or not text or (found["second"] or "0").strip("0"):
        return None
    days, date = found["days"], found["date"] or "*"
    if days and (date != "*" or not re.fullmatch(r"(?i)(mon|tue|wed|thu|fri|sat|sun|[a-z]*day|[.,])+", days)):
        return None
    weekday = re.sub(r"[A-Za-z]+", lambda name: name[0][:3].upper(), days).replace("..", "-") if days else "*"
    fields = (found["minute"] or "0", found["hour"] or "0", date, found["month"] or "*")
    return Calendar(" ".join((*map(_field, fields), weekday)), zone)


def _zone(text: str) -> tuple[str, str]:
    rest, _, last = text.rpartition(" ")
    return (rest, last) if rest and re.match(r"[A-Z][A-Za-z]", last) and is_zone(last) else (text, "")


def _field(part: str) -> str:
    """`1..7` is `1-7`; of `5/15` cron and systemd mean the same."""
    return part.replace("..", "-")


_AROUND: Final = re.compile(
    r"User|WorkingDirectory|Environment(File)?|Root(Directory|Image)|ExecStart(Pre|Post)|ExecCondition|(Condition|Assert)\w+"
)
_SPECIFIER: Final = re.compile(r"(?<!%)(%%)*%[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Service:
    """A service, as far as timers are concerned."""

    place: Place
    execs: tuple[str, ...]
    """Its ExecStart= lines."""
    around: tuple[tuple[str, str], ...]
    """What else makes the same command another job: whose, where, with which settings, under which conditions."""

    def is_same_job(self, other: "Service") -> bool:
        """A specifier (`%n`, `%i`) is another word in each of them."""
        said = (*self.execs, *(value for _, value in self.around))
        alike = (self.execs, self.around) == (other.execs, other.around)
        return alike and not any(map(_SPECIFIER.search, said))


@dataclass(frozen=True, slots=True)
class Elapse:
    """An OnCalendar= line that cron could say."""

    calendar: Calendar
    place: Place


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer, and the unit it starts."""

    place: Place
    unit: str
    elapses: tuple[Elapse, ...]


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".service", ".timer")


def wants_supervisor(path: PurePosixPath) -> bool:
    return (
        path.suffix in (".conf", ".ini") and "supervis" in f"{path.parent.name}/{path.parent.parent.name}/{path.name}"
    )


@reader("unit", wants)
def read(source: Source) -> Iterator[Service | Timer | Command]:
    found = list(settings(source.text))
    if source.suffix == ".timer":
        if any(setting.section == "Timer" for setting in found):
            yield _timer(source, found)
    elif execs := values(found, "Service", "ExecStart"):
        yield _service(source, found, execs)
        yield from _commands(source, found, execs)


def _timer(source: Source, found: Sequence[Setting]) -> Timer:
    calendars = values(found, "Timer", "OnCalendar")
    elapses = [Elapse(when, source.place(one.line)) for one in calendars if (when := calendar(one.value))]
    first = next(setting.line for setting in found if setting.section == "Timer")
    unit = value(found, "Timer", "Unit") or f"{source.name.removesuffix('.timer')}.service"
    line = elapses[0].place.line if elapses else first
    return Timer(source.place(line), unit, tuple(elapses))


def _service(source: Source, found: Sequence[Setting], execs: Sequence[Setting]) -> Service:
    around = [
        (setting.key, setting.value)
        for setting in found
        if setting.section in ("Service", "Unit") and _AROUND.fullmatch(setting.key)
    ]
    return Service(source.place(execs[0].line), tuple(one.value for one in execs), tuple(sorted(around)))


def _commands(source: Source, found: Sequence[Setting], execs: Sequence[Setting]) -> Iterator[Command]:
    given = tuple(sorted(environment(values(found, "Service", "Environment")).items()))
    copies = None if "@" in source.name else 1
    for setting in execs:
        if argv := words(setting.value):
            yield Command(argv, source.place(setting.line), "systemd", source.name, copies, given, _keeps_shell(argv))


def _keeps_shell(argv: Sequence[str]) -> bool:
    """`sh -c "…"` without an `exec` in it."""
    shell = PurePosixPath(argv[0]).name in ("sh", "bash", "dash", "ash")
    return shell and any(re.fullmatch(r"-[a-z]*c", word) for word in argv[1:-1]) and "exec " not in argv[-1]


@reader("supervisor", wants_supervisor)
def read_supervisor(source: Source) -> Iterator[Command]:
    found = list(settings(re.sub(r"[ \t]+;[^\n]*", "", source.text)))
    for section in dict.fromkeys(setting.section for setting in found):
        kind, _, name = section.partition(":")
        for command in values(found, section, "command") if kind == "program" else ():
            number = value(found, section, "numprocs") or "1"
            argv = words(command.value)
            given = re.findall(r'([A-Za-z_]\w*)=(?:"([^"]*)"|([^",]*))', value(found, section, "environment"))
            if argv:
                yield Command(
                    argv,
                    source.place(command.line),
                    "supervisor",
                    name,
                    int(number) if number.isdecimal() else None,
                    tuple(sorted((key, quoted or plain) for key, quoted, plain in given)),
                    _keeps_shell(argv),
                )


Services = Mapping[tuple[str, str], Service]
"""By folder and name."""


def _services(facts: Facts) -> Services:
    return {
        (_folder(service.place.path), PurePosixPath(service.place.path).name): service for service in facts.of(Service)
    }


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def service_of(timer: Timer, facts: Facts) -> Service | None:
    """The service that a timer starts, from the same folder: others are other machines' or another package's."""
    return facts.conclude(_services).get((_folder(timer.place.path), timer.unit))


@rule(
    "CR651 two-timers-for-one-job",
    Severity.WARNING,
    "keep one of the timers, or give it all the OnCalendar= lines: where two elapse together, one timer runs the"
    " job once",
)
def two_timers_for_one_job(facts: Facts) -> Iterator[Found]:
    for first, second in _beside(facts.of(Timer)):
        one, other = service_of(first, facts), service_of(second, facts)
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
    "CR654 time-that-clocks-pass-over",
    Severity.INFO,
    "write the time in UTC (`OnCalendar=*-*-* 01:30 UTC`), or choose an hour that no change of clocks touches",
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
