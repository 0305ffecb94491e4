"""Units of systemd and programs of supervisor: what they start, and when."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import CommandLine, Facts, Found, Noticed, Place, Source, reader


class Setting(NamedTuple):
    """`Key=value` in a section; lines joined by a backslash are one value."""

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
    """All values of a key that may be repeated; an empty one removes those before it."""
    kept: list[Setting] = []
    for setting in found:
        if (setting.section, setting.key) == (section, key):
            kept = [*kept, setting] if setting.value else []
    return kept


def value(found: Sequence[Setting], section: str, key: str) -> str:
    """The last value of a key; "" if there is none."""
    return next((one.value for one in reversed(values(found, section, key))), "")


def words(line: str) -> tuple[str, ...]:
    """The words of `ExecStart=`, without systemd's prefixes; none if quotes do not match."""
    try:
        return tuple(shlex.split(re.sub(r"^[@:+!|-]+", "", line)))
    except ValueError:
        return ()


def environment(found: Sequence[Setting]) -> Mapping[str, str]:
    """`Environment=A=1 "B=two words"`."""
    pairs = [word.partition("=") for setting in found for word in words(setting.value)]
    return {name: given for name, equals, given in pairs if equals}


class SystemdService(NamedTuple):
    """A service that a timer may start."""

    place: Place
    execs: tuple[str, ...]
    """Its ExecStart= lines."""


class Timer(NamedTuple):
    """A timer with a calendar, and the unit it starts."""

    place: Place
    unit: str
    calendar: str
    """Its first OnCalendar=."""


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".service", ".timer")


def wants_supervisor(path: PurePosixPath) -> bool:
    return (
        path.suffix in (".conf", ".ini") and "supervis" in f"{path.parent.name}/{path.parent.parent.name}/{path.name}"
    )


_DAILY: Final = re.compile(r"(?i)(?:dai|week|month|year)ly|(?:[^:]* )?\d{1,2}:\d\d(?::\d\d)?(?: [A-Z]\S+)?")
"""Of OnCalendar=: once a day, or less often."""


@reader("unit", wants)
def read(source: Source) -> Iterator[SystemdService | Timer | CommandLine | Noticed]:
    found = list(settings(source.text))
    if source.suffix == ".timer":
        for when in values(found, "Timer", "OnCalendar")[:1]:
            unit = value(found, "Timer", "Unit") or f"{source.name.removesuffix('.timer')}.service"
            yield Timer(source.place(when.line), unit, when.value)
            if _DAILY.fullmatch(when.value) and value(found, "Timer", "Persistent").lower() in ("", "false", "no"):
                message = f"`{unit}` is due at `{when.value}`: if the machine is off then, the slot is left out"
                remedy = "set `Persistent=true` under [Timer]"
                yield Noticed("CR323", Found(source.place(when.line), message, remedy=remedy))
    elif execs := values(found, "Service", "ExecStart"):
        yield SystemdService(source.place(execs[0].line), tuple(one.value for one in execs))
        yield from _commands(source, found, execs)


def _commands(source: Source, found: Sequence[Setting], execs: Sequence[Setting]) -> Iterator[CommandLine]:
    given = tuple(sorted(environment(values(found, "Service", "Environment")).items()))
    copies = None if "@" in source.name else 1
    for setting in execs:
        if argv := words(setting.value):
            yield CommandLine(argv, source.place(setting.line), "systemd", source.name, copies, given)


@reader("supervisor", wants_supervisor)
def read_supervisor(source: Source) -> Iterator[CommandLine]:
    found = list(settings(re.sub(r"[ \t]+;[^\n]*", "", source.text)))
    for section in dict.fromkeys(setting.section for setting in found):
        kind, _, name = section.partition(":")
        for command in values(found, section, "command") if kind == "program" else ():
            number = value(found, section, "numprocs") or "1"
            argv = words(command.value)
            given = re.findall(r'([A-Za-z_]\w*)=(?:"([^"]*)"|([^",]*))', value(found, section, "environment"))
            if argv:
                yield CommandLine(
                    argv,
                    source.place(command.line),
                    "supervisor",
                    name,
                    int(number) if number.isdecimal() else None,
                    tuple(sorted((key, quoted or plain) for key, quoted, plain in given)),
                )


Services = Mapping[tuple[str, str], SystemdService]
"""By folder and name."""


def _services(facts: Facts) -> Services:
    return {
        (_folder(service.place.path), PurePosixPath(service.place.path).name): service
        for service in facts.of(SystemdService)
    }


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def service_of(timer: Timer, facts: Facts) -> SystemdService | None:
    """The service that a timer starts, from the same folder: others are other machines' or another package's."""
    return facts.conclude(_services).get((_folder(timer.place.path), timer.unit))
