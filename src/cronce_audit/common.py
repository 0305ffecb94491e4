"""Facts that readers of several kinds yield, and rules of several kinds use."""

import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from cronce_audit.model import Place

Origin = Literal["dockerfile", "compose", "procfile", "systemd", "supervisor", "kubernetes", "script"]

_DEVELOPMENT: Final = re.compile(
    r"(?:^|[/._-])(?:dev|development|(?<!usr/)local|override|test)(?:[/._-](?:.*[/._-])?)?"
    r"(?:[\w-]*\.(?:ya?ml|sh|env)|Dockerfile[\w.-]*|start[\w-]*|[\w-]*entrypoint[\w.-]*)?$"
)
"""Files that start something on the machine of whoever works on it: `compose.dev.yml`, `docker/local/django/start`."""


def is_for_development(path: str) -> bool:
    return bool(_DEVELOPMENT.search(path))


_OF_PROCESS: Final = re.compile(
    r"(?i)metric|gauge|cache|heartbeat|keep_?alive|memory|health_?(?:check|monitor)|wake_?up"
)


def is_of_process(path: str, name: str) -> bool:
    """Whether a job, by its name or that of its file, is about the process it runs in: each process has its own."""
    return bool(_OF_PROCESS.search("/".join([*path.split("/")[-2:], name])))


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


@dataclass(frozen=True, slots=True)
class ZoneSet:
    """The time zone that is in force for a unit, or for a file's entries, and where that is said."""

    zone: str
    place: Place
    unit: str
    """As in Command; "" is the whole tree."""


LockAct = Literal[
    "take for ever", "take in two steps", "free after get", "free unasked", "renew after get", "renew unasked"
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
