"""Tasks of Windows' Task Scheduler, as it exports them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate

from cronce_audit.model import Confidence, Facts, Found, Place, Severity, Source, Unreadable, reader, rule

_NAMESPACE: Final = "schemas.microsoft.com/windows/2004/02/mit/task"
_BY_TIME: Final = frozenset({"CalendarTrigger", "TimeTrigger"})
_INTERVALS: Final = frozenset({"DaysInterval", "WeeksInterval"})
"""Of every second day there are two kinds: from which day on tells which."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger by time: what it says, but not from which day on, unless that tells on which days it fires."""

    says: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task that is not switched off."""

    place: Place
    """Of what it runs."""
    uri: str
    """Where it is registered; "" where that is not said."""
    action: tuple[str, ...]
    """Paths in small letters: to Windows they are the same."""
    user: str
    triggers: tuple[Trigger, ...]


@dataclass
class _Found:
    """The leaves of a task: which elements they stand in, their text, their line."""

    path: list[str] = field(default_factory=list)
    leaves: list[tuple[tuple[str, ...], str, int]] = field(default_factory=list)
    triggers: int = 0
    innermost: bool = False
    """No element ended since the last one began."""


def wants(path: PurePosixPath) -> bool:
    return path.suffix.lower() == ".xml" or (not path.suffix and "Tasks" in path.parent.parts)


@reader("task", wants)
def read(source: Source) -> Iterator[Task]:
    """Documents with entities of their own are passed over: no export has any."""
    if _NAMESPACE not in source.text or "<!ENTITY" in source.text:
        return
    leaves = _leaves(source.text)
    texts = {path: text for path, text, _ in leaves}
    commands = [(text, line) for path, text, line in leaves if path[1:] == ("Actions", "Exec", "Command")]
    if not commands or texts.get(("Task", "Settings", "Enabled")) == "false":
        return
    yield Task(
        source.place(commands[0][1]),
        texts.get(("Task", "RegistrationInfo", "URI"), ""),
        tuple(
            text.lower() if path[-1] in ("Command", "WorkingDirectory") else text
            for path, text, _ in leaves
            if path[1:2] == ("Actions",)
        ),
        " ".join(
            text for path, text, _ in leaves if path[1:2] == ("Principals",) and path[-1] in ("UserId", "GroupId")
        ),
        tuple(_triggers(leaves)),
    )


def _leaves(text: str) -> list[tuple[tuple[str, ...], str, int]]:
    """Each element with a text in it, and of triggers those without (`<Monday />`) too. A trigger's own number
    is part of its name, to tell it from the next."""
    found = _Found()
    pieces: list[str] = []
    parser = ParserCreate("utf-8")

    def start(name: str, _: object) -> None:
        is_trigger = found.path[1:] == ["Triggers"]
        found.triggers += is_trigger
        found.path.append(f"{name} {found.triggers}" if is_trigger else name)
        pieces.clear()
        found.innermost = True

    def end(_: str) -> None:
        said = "".join(pieces).strip()
        if said or (found.innermost and found.path[1:2] == ["Triggers"]):
            found.leaves.append((tuple(found.path), said, parser.CurrentLineNumber))
        found.innermost = False
        found.path.pop()
        pieces.clear()

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, pieces.append
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003  its only form: this is all of it
    except ExpatError as error:
        raise Unreadable(error.lineno, "this is not well-formed XML") from error
    return found.leaves


def _triggers(leaves: list[tuple[tuple[str, ...], str, int]]) -> Iterator[Trigger]:
    names = dict.fromkeys(path[2] for path, _, _ in leaves if path[1:2] == ("Triggers",) and len(path) > 3)
    for name in names:
        kind = name.split()[0]
        says = [(path[-1], text) for path, text, _ in leaves if path[2:3] == (name,)]
        if kind in _BY_TIME and ("Enabled", "false") not in says:
            each = kind == "CalendarTrigger" and all(text == "1" for key, text in says if key in _INTERVALS)
            when = sorted((key, _timeless(key, text) if each else text) for key, text in says if key != "Enabled")
            yield Trigger((("", kind), *when))


def _timeless(name: str, text: str) -> str:
    """A time of day, without the day that it first was one."""
    return re.sub(r"^[\d-]+T", "", text) if name == "StartBoundary" else text


@rule(
    "CR420 task-registered-twice",
    Severity.WARNING,
    "keep one of the tasks, and delete the other where it is registered (`schtasks /delete /tn NAME`)",
    confidence=Confidence.MEDIUM,
)
def task_registered_twice(facts: Facts) -> Iterator[Found]:
    """Under one name the second import replaces the first, or fails; under two, both are there."""
    for first, second in combinations(facts.of(Task), 2):
        shared = set(first.triggers) & set(second.triggers)
        if shared and (first.action, first.user) == (second.action, second.user) and _are_two(first, second):
            program = PureWindowsPath(second.action[0].strip('"')).name
            yield Found(
                second.place, f"{first.place} runs the same `{program}` at the same times: each time both run it"
            )


def _are_two(first: Task, second: Task) -> bool:
    if first.uri and second.uri:
        return first.uri.lower() != second.uri.lower()
    return PurePosixPath(first.place.path).parent == PurePosixPath(second.place.path).parent
