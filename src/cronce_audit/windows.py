"""Tasks of Windows' Task Scheduler, as it exports them."""

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final, NamedTuple
from xml.etree import ElementTree

from cronce_audit.model import Confidence, Facts, Found, Place, Severity, Source, Unreadable, reader, rule

_NAMESPACE: Final = "schemas.microsoft.com/windows/2004/02/mit/task"
_BY_TIME: Final = frozenset({"CalendarTrigger", "TimeTrigger"})
_INTERVALS: Final = frozenset({"DaysInterval", "WeeksInterval"})
"""Of every second day there are two kinds: the start date decides which."""


Trigger = tuple[tuple[str, str], ...]
"""The settings of a trigger by time; the start date only where it decides on which days the task runs."""


class Task(NamedTuple):
    """An enabled task."""

    place: Place
    """The place of its command."""
    uri: str
    """Where it is registered; "" if the file does not say so."""
    action: tuple[str, ...]
    """Paths in lower case: Windows ignores case."""
    user: str
    triggers: tuple[Trigger, ...]


def wants(path: PurePosixPath) -> bool:
    return path.suffix.lower() == ".xml" or (not path.suffix and "Tasks" in path.parent.parts)


@reader("task", wants)
def read(source: Source) -> Iterator[Task]:
    """Documents that declare entities are skipped: no export has any."""
    if _NAMESPACE not in source.text or "<!ENTITY" in source.text:
        return
    try:
        task = ElementTree.fromstring(re.sub(r'\sxmlns="[^"]*"', "", source.text))  # noqa: S314  without entities
    except ElementTree.ParseError as error:
        raise Unreadable(error.position[0], "this is not well-formed XML") from error
    actions = [(leaf.tag, _text(leaf)) for leaf in task.iterfind("Actions//*") if _text(leaf)]
    command = re.search(r"</Command\s*>", source.text)
    if not command or "Command" not in dict(actions) or task.findtext("Settings/Enabled", "").strip() == "false":
        return
    yield Task(
        source.at(command.start()),
        task.findtext("RegistrationInfo/URI", "").strip(),
        tuple(text.lower() if name in ("Command", "WorkingDirectory") else text for name, text in actions),
        " ".join(_text(leaf) for leaf in task.iterfind("Principals//*") if leaf.tag in ("UserId", "GroupId")),
        tuple(filter(None, map(_trigger, task.iterfind("Triggers/*")))),
    )


def _text(element: ElementTree.Element) -> str:
    return (element.text or "").strip()


def _trigger(element: ElementTree.Element) -> Trigger | None:
    """None for a trigger that is disabled, or does not depend on the time."""
    says = [(leaf.tag, _text(leaf)) for leaf in element.iterfind(".//*") if not len(leaf)]
    if element.tag not in _BY_TIME or not says or ("Enabled", "false") in says:
        return None
    each = element.tag == "CalendarTrigger" and all(text == "1" for key, text in says if key in _INTERVALS)
    when = sorted((key, _timeless(key, text) if each else text) for key, text in says if key != "Enabled")
    return (("", element.tag), *when)


def _timeless(name: str, text: str) -> str:
    """The time of day, without the start date."""
    return re.sub(r"^[\d-]+T", "", text) if name == "StartBoundary" else text


@rule(
    "CR420 task-registered-twice",
    Severity.WARNING,
    "keep one of the tasks, and delete the other where it is registered (`schtasks /delete /tn NAME`)",
    confidence=Confidence.MEDIUM,
)
def task_registered_twice(facts: Facts) -> Iterator[Found]:
    """With one name the second import replaces the first, or fails; with two names both run."""
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
