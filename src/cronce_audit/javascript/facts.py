"""What the readers of JavaScript tell the rules."""

from dataclasses import dataclass
from typing import Literal

from cronce_audit.model import Place


@dataclass(frozen=True, slots=True)
class Module:
    """A file of code, and the files of this tree that it imports when it is loaded."""

    path: str
    imports: tuple[str, ...]
    """As written; packages are left out."""
    is_opaque: bool
    """It also loads what is not spelled out: `require(file)`."""
    has_lock: bool
    """It speaks of locks, leaders or claims."""
    surely_locks: bool
    """It does so in words that mean nothing else."""
    conditional_calls: tuple[str, ...]
    """Functions that it calls under a condition."""
    forks: int | None
    """The line on which it forks workers of itself by `cluster.fork()`."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package.json."""

    path: str
    name: str
    scripts: tuple[tuple[str, str, Place], ...]
    needs: tuple[tuple[str, str], ...]
    """Its dependencies with their version ranges."""


@dataclass(frozen=True, slots=True)
class Job:
    """A call or decorator that makes this process run something on a schedule."""

    library: str
    what: str
    """What is run, in a word for people: `sendReports`, `the job of 0 3 * * *`."""
    pattern: str | None
    """The cron expression, where it is spelled out."""
    zone: str | None
    place: Place
    is_rule: bool
    """Times come from a RecurrenceRule of node-schedule rather than from a cron expression."""
    is_guarded: bool
    """A lock or a condition was seen around it, or it cannot be seen whether there is one."""
    is_locked: bool
    """It takes a lock that others see."""
    leans_on: tuple[str, ...]
    """Modules, as imported, that its body uses: a lock may be in them."""
    starters: tuple[str, ...]
    """The functions of its file that register it; none where that happens when the file is loaded."""


@dataclass(frozen=True, slots=True)
class Pm2App:
    """An entry of an ecosystem file of pm2."""

    script: str
    instances: str
    """As written: `4`, `max`, `-1`."""
    place: Place


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A repeatable job that is added to a queue of Bull or BullMQ: it stays in Redis until it is removed."""

    queue: str
    name: str
    pattern: str
    place: Place


Act = Literal[
    "take for ever", "take in two steps", "free after get", "free unasked", "renew after get", "renew unasked"
]


@dataclass(frozen=True, slots=True)
class LockCall:
    """A command to Redis about a key that is a lock, where it is wrong."""

    act: Act
    key: str
    place: Place
