"""Units of systemd and programs of supervisor: what they start, when, and how often again."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.common import Command
from cronce_audit.model import Place, Source
from cronce_audit.systemd.calendars import Calendar, calendar, is_refused
from cronce_audit.systemd.units import Setting, environment, settings, value, values, words

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
    type: str
    restart: str
    restart_place: Place | None

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
    again: bool
    """It elapses again and again, not only some time after the machine was started or the unit ended."""
    refused: tuple[tuple[str, Place], ...]
    """The OnCalendar= lines that systemd cannot read."""


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".service", ".timer")


def wants_supervisor(path: PurePosixPath) -> bool:
    return (
        path.suffix in (".conf", ".ini") and "supervis" in f"{path.parent.name}/{path.parent.parent.name}/{path.name}"
    )


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
    refused = [(one.value, source.place(one.line)) for one in calendars if is_refused(one.value)]
    line = elapses[0].place.line if elapses else first
    again = any(values(found, "Timer", key) for key in ("OnCalendar", "OnUnitActiveSec"))
    return Timer(source.place(line), unit, tuple(elapses), again, tuple(refused))


def _service(source: Source, found: Sequence[Setting], execs: Sequence[Setting]) -> Service:
    around = [
        (setting.key, setting.value)
        for setting in found
        if setting.section in ("Service", "Unit") and _AROUND.fullmatch(setting.key)
    ]
    restarts = values(found, "Service", "Restart")
    return Service(
        source.place(execs[0].line),
        tuple(setting.value for setting in execs),
        tuple(sorted(around)),
        value(found, "Service", "Type") or "simple",
        value(found, "Service", "Restart"),
        source.place(restarts[-1].line) if restarts else None,
    )


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
