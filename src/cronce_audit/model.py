"""The words of the auditor: places, facts, rules and findings."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, Final, Literal, NamedTuple, TypeVar


class Severity(IntEnum):
    """How bad it is if it is so."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Confidence(IntEnum):
    """How sure we are that it is so."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Place(NamedTuple):
    """Where something stands: a path below the root with forward slashes, and a line and column from 1. Line 0 is what
    stands in no line of a file, such as an option."""

    path: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class Source(NamedTuple):
    """A file that is read."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    def place(self, line: int, column: int = 1) -> Place:
        return Place(self.path, line, column)


class Unreadable(Exception):
    """A file that a reader was to understand and cannot: it is reported, and the others are read."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line = line
        self.why = why


class Unparsed(NamedTuple):
    """A file, or one line of it, that could not be understood."""

    place: Place
    why: str


class Reader(NamedTuple):
    """Turns files of one kind into facts. `wants` judges by the path alone; `read` may find that there is nothing in it
    for this reader, and raises Unreadable where there should be. Facts cross process borders: plain, small, frozen."""

    name: str
    wants: Callable[[PurePosixPath], bool]
    read: Callable[[Source], Iterable[Any]]


F = TypeVar("F")
R = TypeVar("R")


class Facts:
    """All that was read, by kind; and what is concluded from it, once."""

    def __init__(self, facts: Iterable[Any], year: int) -> None:
        self.year: Final = year
        """The year whose changes of clocks count."""
        self._facts: dict[type, list[Any]] = defaultdict(list)
        for fact in facts:
            self._facts[type(fact)].append(fact)
        self._concluded: dict[Callable[[Facts], Any], Any] = {}

    def of(self, kind: type[F]) -> Sequence[F]:
        """The facts of a kind, in the order of paths and lines."""
        return self._facts.get(kind, [])

    def conclude(self, how: Callable[["Facts"], R]) -> R:
        """What `how` makes of these facts; it is asked once, however many rules want to know."""
        if how not in self._concluded:
            self._concluded[how] = how(self)
        known: R = self._concluded[how]
        return known


class Found(NamedTuple):
    """What a rule sees: where, and the facts in a sentence. What it leaves open is as the rule has it."""

    place: Place
    message: str
    confidence: Confidence | None = None
    severity: Severity | None = None
    remedy: str | None = None


Check = Callable[[Facts], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong. Its page, `pages/<id>.md`, explains it with samples that are tests."""

    id: str
    name: str
    severity: Severity
    confidence: Confidence
    remedy: str
    check: Check


RULES: Final[dict[str, Rule]] = {}
"""All that were declared, by id."""
READERS: Final[list[Reader]] = []


def rule(
    title: str, severity: Severity, remedy: str, *, confidence: Confidence = Confidence.HIGH
) -> Callable[[Check], Rule]:
    """Declares a rule by its check: `@rule("CR101 a-copy-of-the-job-per-start", Severity.ERROR, "give it an id")`."""
    number, name = title.split()

    def declared(check: Check) -> Rule:
        assert number not in RULES, f"{number} is declared twice"
        RULES[number] = Rule(number, name, severity, confidence, remedy, check)
        return RULES[number]

    return declared


Reads = TypeVar("Reads", bound=Callable[[Source], Iterable[Any]])


def reader(name: str, wants: Callable[[PurePosixPath], bool]) -> Callable[[Reads], Reads]:
    """Declares a reader of files by the function that reads one."""

    def declared(read: Reads) -> Reads:
        READERS.append(Reader(name, wants, read))
        return read

    return declared


MODULES: Final = (
    "suppressions", "python.apscheduler", "processes.rules", "processes.commands", "locks", "crontab.rules", "appends",
    "windows", "kubernetes.read", "kubernetes.cronjobs", "kubernetes.workloads", "containers.read",
    "containers.running", "containers.rules", "containers.schedules", "systemd", "javascript.read",
    "javascript.rules", "java", "java_rules", "other_languages", "clockwork", "live",
)  # fmt: skip
"""Those that declare rules, and the readers that no rule imports."""


@cache
def rules() -> Mapping[str, Rule]:
    """By id, in the order of ids."""
    _declare()
    return dict(sorted(RULES.items()))


@cache
def readers() -> Sequence[Reader]:
    _declare()
    return sorted(READERS, key=lambda one: one.name)


def _declare() -> None:
    for name in MODULES:
        import_module(f"cronce_audit.{name}")


GONE: Final[Mapping[str, str]] = {
    "CR108": "CR107", "CR204": "CR206", "CR303": "CR302", "CR411": "CR410", "CR711": "CR301", "CR712": "CR302",
    "CR713": "CR304", "CR803": "CR802", "CR813": "CR811", "CR655": "CR414",
    **dict.fromkeys((
        "CR112", "CR205", "CR213", "CR214", "CR221", "CR401", "CR402", "CR403", "CR407", "CR421", "CR502", "CR506",
        "CR508", "CR509", "CR510", "CR511", "CR512", "CR513", "CR514", "CR603", "CR612", "CR651", "CR652", "CR653",
        "CR654", "CR656", "CR703", "CR704", "CR804", "CR806", "CR807",
    ), ""),
}  # fmt: skip
"""Rules of before, each with the one that it is part of now; "" where nothing looks for it any more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is told: by which rule, where, why, how sure, and the fix."""

    rule: str
    name: str
    severity: Severity
    confidence: Confidence
    place: Place
    message: str
    remedy: str
    snippet: str
    """The line it stands on, without the white space around it."""
    indent: int = 0
    """How much of that stood before it."""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        return (self.place.path, self.place.line, self.place.column, self.rule, self.message)


Origin = Literal["dockerfile", "compose", "procfile", "systemd", "supervisor", "kubernetes", "script"]


@dataclass(frozen=True, slots=True)
class Command:
    """A process that is started somewhere: in a container, by a unit, by a line of a Procfile or of a script."""

    words: tuple[str, ...]
    """Its words as the program gets them; of a command for a shell, the words of the one simple command it is."""
    place: Place
    origin: Origin
    unit: str
    """What starts it: the service, deployment, unit or process name; of a script or Dockerfile, its path."""
    copies: int | None = 1
    """How many of the unit are started: replicas, scale; None where that is not told."""
    environment: tuple[tuple[str, str], ...] = ()
    """What is set for it there, as far as it is spelled out."""
    shell: bool = False
    """A shell is between the starter and the program, and stays there (no `exec`)."""
    beside: bool = False
    """The script goes on meanwhile: a `&` stands behind it."""


@dataclass(frozen=True, slots=True)
class ZoneSet:
    """The time zone that is in force for a unit, or for a file's entries, and where that is said."""

    zone: str
    place: Place
    unit: str
    """As in Command; "" is the whole tree."""


LockAct = Literal[
    "take for ever",
    "take in two steps",
    "ask and take",
    "free after get",
    "free unasked",
    "renew after get",
    "renew unasked",
]


class LockCall(NamedTuple):
    """A command to Redis about a key that is a lock, where it is wrong; in any language."""

    act: LockAct
    key: str
    """As it is written, or where it is taken."""
    place: Place
    sure: bool = True


class LockDeclared(NamedTuple):
    """A function, class or decorator of which the project's config says that it is a lock that all machines see."""

    name: str


GuardKind = Literal["cronce", "advisory lock", "redis lock", "file lock", "database lock", "declared lock"]


@dataclass(frozen=True, slots=True)
class Guarded:
    """Something that keeps a job from running twice, where it is used: an advisory lock, a file lock, cronce."""

    kind: GuardKind
    place: Place
    unit: str
    """The qualified name of the function it guards, or the path or unit."""
    across_hosts: bool
    keeps: bool = False
    """It is still there when the run has ended: another who comes late, or whose clock is behind, finds it taken."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A file that is handed to `crontab`."""

    name: str
    """Without its folder."""


_DEVELOPMENT: Final = re.compile(
    r"(?:^|[/._-])(?:dev|development|(?<!usr/)local|override|test)(?:[/._-](?:.*[/._-])?)?"
    r"(?:[\w-]*\.(?:ya?ml|sh|env)|Dockerfile[\w.-]*|start[\w-]*|[\w-]*entrypoint[\w.-]*)?$"
)
"""Files that start something on the machine of whoever works on it: `compose.dev.yml`, `docker/local/django/start`."""


def is_for_development(path: str) -> bool:
    return bool(_DEVELOPMENT.search(path))


_OF_PROCESS: Final = re.compile(r"(?i)metric|gauge|cache|heartbeat|keep_?alive|memory|health(?!_?care)|wake_?up")


def is_of_process(path: str, name: str) -> bool:
    """Whether a job, by its name or that of its file, is about the process it runs in: each process has its own."""
    return bool(_OF_PROCESS.search("/".join([*path.split("/")[-2:], name])))
