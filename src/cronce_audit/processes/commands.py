"""From the commands of a tree to what they serve or run, in how many processes.

`facts.conclude(servings)` are the web servers, `facts.conclude(runnings)` the plain Python programs, and
`facts.conclude(celeries)` what Celery is told to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.common import Command, Origin
from cronce_audit.containers.running import Scripts
from cronce_audit.model import Confidence, Facts, Place
from cronce_audit.processes.argv import Argv, programs
from cronce_audit.processes.counts import ONE, Count, count
from cronce_audit.processes.options import Options
from cronce_audit.processes.units import Unit, units


@dataclass(frozen=True, slots=True)
class Serving:
    """A web server that is started, with the app it serves."""

    server: str
    app: str
    """`pkg.mod:app` as the server is told; "" where it is not, as with manage.py."""
    workers: Count
    place: Place
    by: Unit | None = None
    """Who starts it; None where code does."""
    preload: bool = False
    """The app is imported once, before the workers are forked."""
    reload: bool = False
    """A parent that watches the files imports the app too, and starts the one that serves."""
    config: str = ""
    """The file of settings that it is told to read, or would find; "" is none."""
    counted: str = ""
    """That file, if it says how many workers there are."""
    decided: bool = False
    """Somebody says how many workers there are; it is not the default."""

    @property
    def copies(self) -> Count:
        """Of the whole server: replicas, scale."""
        return self.by.copies if self.by else ONE

    @property
    def module(self) -> str:
        return self.app.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Running:
    """A Python program that is started: a module as `-m` has it, or the path of a file."""

    what: str
    arguments: tuple[str, ...]
    place: Place
    by: Unit

    @property
    def copies(self) -> Count:
        return self.by.copies


@dataclass(frozen=True, slots=True)
class Celery:
    """A celery worker or beat that is started."""

    kind: Literal["worker", "worker with beat", "beat"]
    app: str
    scheduler: str
    """The class that decides what is due; "" where none is given."""
    copies: Count
    place: Place
    origin: Origin
    by: Unit

    @property
    def unit(self) -> str:
        return self.by.name

    @property
    def sureness(self) -> Confidence:
        return self.by.confidence


class Started(NamedTuple):
    """A program, and the command it stands in."""

    argv: Argv
    command: Command
    words_at: Place
    by: Unit
    """Who starts it, or the script that has the command."""

    @property
    def copies(self) -> Count:
        return self.by.copies

    @property
    def folder(self) -> str:
        """Of the file that has the words: what they name is below it."""
        return str(PurePosixPath(self.words_at.path).parent)


def started(facts: Facts) -> Sequence[Started]:
    """Every program that is started, also through a script or an image of this tree."""
    scripts = Scripts(facts)
    return [one for unit in facts.conclude(units) for one in _started_by(unit, scripts)]


def _started_by(unit: Unit, scripts: Scripts) -> Iterator[Started]:
    command = unit.command
    for argv in programs(command.words, dict(command.environment)):
        yield Started(argv, command, unit.words_at, unit)
        if command.origin != "script":
            for inner in _lines_of(argv, unit, scripts):
                for one in programs(inner.words, {**argv.environment, **dict(inner.environment)}):
                    yield Started(one, inner, inner.place, unit)


def _lines_of(argv: Argv, unit: Unit, scripts: Scripts) -> Sequence[Command]:
    """The commands in the script that is started, if it is one of this tree."""
    named = argv.program if argv.program.endswith(".sh") else next(iter(argv.arguments), "")
    found = scripts.find(named, unit.dockerfile, unit.words_at) if argv.program.endswith("sh") else None
    return scripts.lines[found] if found else ()


def runnings(facts: Facts) -> Sequence[Running]:
    """The Python programs that are started as such."""
    found = []
    for argv, _, place, by in facts.conclude(started):
        if argv.program.startswith("-m "):
            found.append(Running(argv.program[3:], argv.arguments, place, by))
        elif argv.program.endswith(".py"):
            found.append(Running(argv.program, argv.arguments, place, by))
    return found


def celeries(facts: Facts) -> Sequence[Celery]:
    """The workers and beats that are started."""
    return [celery for one in facts.conclude(started) if one.argv.program == "celery" and (celery := _celery(one))]


_CELERY: Final = Options(
    flags=frozenset({"-B", "--beat", "-E", "--task-events", "--detach", "-C", "--no-color", "-q", "--quiet",
                     "--without-gossip", "--without-mingle", "--without-heartbeat", "--purge", "--skip-checks"})
)  # fmt: skip


def _celery(one: Started) -> Celery | None:
    argv, command, _, by = one
    told = _CELERY.read(argv.arguments)
    app = told.value("-A", "--app") or argv.environment.get("CELERY_APP", "")
    kind = next(iter(told.words), "")
    scheduler = ("-S", "--scheduler") if kind == "beat" else ("--scheduler",)  # a worker's -S is its state file
    made = partial(
        Celery,
        app=app,
        scheduler=told.value(*scheduler) or "",
        copies=by.copies,
        place=command.place,
        origin=command.origin,
        by=by,
    )
    if kind == "beat":
        return made("beat")
    if kind == "multi" and told.words[1:2] in (["start"], ["restart"]):
        nodes = count(told.words[2]) if told.words[2:3] and told.words[2].isdigit() else Count(len(told.words) - 2)
        return made("worker with beat" if told.has("-B", "--beat") else "worker", copies=by.copies.times(nodes))
    if kind == "worker":
        return made("worker with beat" if told.has("-B", "--beat") else "worker")
    return None
