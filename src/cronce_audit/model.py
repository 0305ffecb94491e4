"""The words of the auditor: places, facts, rules and findings."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, Final, Literal, NamedTuple, TypeVar


class _Level(IntEnum):
    @property
    def word(self) -> str:
        return self.name.lower()


class Severity(_Level):
    """How bad it is if it is so."""

    INFO = 1
    WARNING = 2
    ERROR = 3


class Confidence(_Level):
    """How sure we are that it is so."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class Place(NamedTuple):
    """A path below the root with forward slashes, and a line and column from 1. Line 0 means no line of a file, such as
    an option."""

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

    @property
    def bare(self) -> str:
        """The text with blanks for its comments."""
        return _COMMENTS[self.suffix].sub(_blank, self.text)

    def place(self, line: int, column: int = 1) -> Place:
        return Place(self.path, line, column)

    def at(self, offset: int) -> Place:
        """The place of a character of the text."""
        return self.place(self.text.count("\n", 0, offset) + 1)


def _blank(found: re.Match[str]) -> str:
    return "\n".join(" " * len(line) for line in found[0].split("\n"))


_SLASHES: Final = r"/\*.*?\*/|(?<![:\w\"'`])//[^\n]*"
_HASHES: Final = r"^[ \t]*#[^\n]*"
_COMMENTS: Final = defaultdict(
    lambda: re.compile(_SLASHES, re.DOTALL),
    {
        ".py": re.compile(_HASHES, re.MULTILINE),
        ".php": re.compile(f"{_SLASHES}|{_HASHES}", re.DOTALL | re.MULTILINE),
        ".rb": re.compile(f"^=begin.*?^=end|{_HASHES}", re.DOTALL | re.MULTILINE),
    },
)
"""By the ending of a file; most languages have those of C."""


class Unreadable(Exception):
    """A reader should understand this file and cannot. It is reported, and reading goes on with the next file."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line = line
        self.why = why


class Unparsed(NamedTuple):
    """A file, or one line of it, that could not be understood."""

    place: Place
    why: str


class Reader(NamedTuple):
    """Turns files of one kind into facts. `wants` looks at the path alone. `read` may find nothing of its kind in the
    file, and raises Unreadable if the file is broken. Facts are sent between processes: plain, small, frozen."""

    name: str
    wants: Callable[[PurePosixPath], bool]
    read: Callable[[Source], Iterable[Any]]


F = TypeVar("F")
R = TypeVar("R")


class Facts:
    """All facts by kind, and the conclusions drawn from them, each computed once."""

    def __init__(self, facts: Iterable[Any], year: int) -> None:
        self.year: Final = year
        """The year whose clock changes are looked at."""
        self._facts: dict[type, list[Any]] = defaultdict(list)
        for fact in facts:
            self._facts[type(fact)].append(fact)
        self._concluded: dict[Callable[[Facts], Any], Any] = {}

    def of(self, kind: type[F]) -> Sequence[F]:
        """The facts of a kind, in the order of paths and lines."""
        return self._facts.get(kind, [])

    def conclude(self, how: Callable[["Facts"], R]) -> R:
        """The result of `how(self)`, computed once for all rules."""
        if how not in self._concluded:
            self._concluded[how] = how(self)
        known: R = self._concluded[how]
        return known


class Found(NamedTuple):
    """What a rule found: the place and a message. The other fields are the rule's own where they are None."""

    place: Place
    message: str
    confidence: Confidence | None = None
    severity: Severity | None = None
    remedy: str | None = None


class Noticed(NamedTuple):
    """What one file shows by itself, and the rule that tells it."""

    rule: str
    found: Found


Check = Callable[[Facts], Iterator[Found]]


class Rule(NamedTuple):
    """One thing that can be wrong. Its page, `pages/<id>.md`, explains it with samples that are tests."""

    id: str
    name: str
    severity: Severity
    confidence: Confidence
    remedy: str
    check: Check


RULES: Final[dict[str, Rule]] = {}
"""All declared rules, by id."""
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
    "suppressions", "python.apscheduler", "processes.rules", "processes.commands", "locks",
    "crontab.rules", "appends", "windows", "kubernetes.read", "kubernetes.rules", "containers.compose",
    "containers.dockerfiles", "containers.running", "containers.rules", "containers.schedules", "systemd",
    "javascript.read", "javascript.rules", "java", "other_languages", "rows", "job_rules", "live",
)  # fmt: skip
"""The modules that declare rules, or readers that no rule imports."""


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
    "CR713": "CR301", "CR803": "CR702", "CR655": "CR414", "CR304": "CR301", "CR611": "CR521",
    "CR801": "CR701", "CR203": "CR206", "CR802": "CR702", "CR805": "CR307", "CR520": "CR212",
    "CR602": "CR601", "CR208": "CR201",
    **dict.fromkeys((
        "CR112", "CR205", "CR213", "CR214", "CR221", "CR401", "CR402", "CR403", "CR407", "CR421", "CR502", "CR506",
        "CR508", "CR509", "CR510", "CR511", "CR512", "CR513", "CR514", "CR603", "CR612", "CR651", "CR652", "CR653",
        "CR654", "CR656", "CR703", "CR704", "CR804", "CR806", "CR807", "CR305", "CR322", "CR405", "CR811", "CR812",
        "CR813",
    ), ""),
}  # fmt: skip
"""Removed rules, each with the rule that it became part of; "" where cronce no longer checks it."""


class Finding(NamedTuple):
    """One reported problem: the rule, the place, why, how sure, and the fix."""

    rule: str
    name: str
    severity: Severity
    confidence: Confidence
    place: Place
    message: str
    remedy: str
    snippet: str
    """The text of its line, without the white space around it."""
    indent: int = 0
    """How many characters of white space come before the text."""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        return (self.place.path, self.place.line, self.place.column, self.rule, self.message)


Origin = Literal["dockerfile", "compose", "procfile", "systemd", "supervisor", "kubernetes", "script"]


class CommandLine(NamedTuple):
    """A command that starts a process: in a container, a unit, a Procfile or a script."""

    words: tuple[str, ...]
    """The words as the program gets them. If a shell is given one simple command, the words of that command."""
    place: Place
    origin: Origin
    unit: str
    """What starts it: the service, deployment, unit or process name; of a script or Dockerfile, its path."""
    copies: int | None = 1
    """How many copies of the unit are started (replicas, scale); None where no file says so."""
    environment: tuple[tuple[str, str], ...] = ()
    """Its environment variables, as far as their values are written out."""
    shell: bool = False
    """Of a script: it stays between the starter and the program, as there is no `exec`."""
    beside: bool = False
    """The script goes on meanwhile: a `&` stands behind it."""
    certain: bool = True
    """Of a script: it begins its line, so it is under no condition."""


class ZoneSet(NamedTuple):
    """The time zone of a unit or of the entries of a file, and the place that sets it."""

    zone: str
    place: Place
    unit: str
    """As in CommandLine; "" is the whole tree."""


LockAct = Literal[
    "take for ever",
    "take in two steps",
    "ask and take",
    "free",
    "renew",
    "end with the run",
]


class LockCall(NamedTuple):
    """A command to Redis about a key that is a lock, where it is wrong or too short; in any language."""

    act: LockAct
    key: str
    """As written, or where the lock is taken."""
    place: Place


class LockDeclared(NamedTuple):
    """A function, class or decorator that the config declares as a lock across machines."""

    name: str


GuardKind = Literal["cronce", "advisory lock", "redis lock", "file lock", "database lock", "declared lock"]


class Guarded(NamedTuple):
    """A use of something that keeps a job from running twice: an advisory lock, a file lock, cronce."""

    kind: GuardKind
    place: Place
    unit: str
    """The qualified name of the function it guards, or the path or unit."""
    across_hosts: bool
    keeps: bool = False
    """It outlasts the run: a process that is late, or whose clock is behind, still finds the slot taken."""


class Installed(NamedTuple):
    """A file that `crontab FILE` installs."""

    name: str
    """Without its folder."""


_DEVELOPMENT: Final = re.compile(
    r"(?:^|[/._-])(?:dev|development|(?<!usr/)local|override|test)(?:[/._-](?:.*[/._-])?)?"
    r"(?:[\w-]*\.(?:ya?ml|sh|env)|Dockerfile[\w.-]*|start[\w-]*|[\w-]*entrypoint[\w.-]*)?$"
)
"""Files for a developer's machine: `compose.dev.yml`, `docker/local/django/start`."""


def is_for_development(path: str) -> bool:
    return bool(_DEVELOPMENT.search(path))


_OF_PROCESS: Final = re.compile(r"(?i)metric|gauge|cache|heartbeat|keep_?alive|memory|health(?!_?care)|wake_?up")


def is_of_process(path: str, name: str) -> bool:
    """Whether a job, by its name or its file's, is about its own process, such as a cache: each process needs one."""
    return bool(_OF_PROCESS.search("/".join([*path.split("/")[-2:], name])))
