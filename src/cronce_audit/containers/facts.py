"""What Dockerfiles, compose files and the scripts that are process 1 say, before it is put together."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.shell import ASSIGNMENT, Kind, given, line, stays
from cronce_audit.model import CommandLine, Origin, Place

_CALLS: Final = re.compile(r"\b(?:curl|wget|http)\b[^\n]*?(?:https?:|\$\{?)")
_TRYING: Final = frozenset({"dev", "develop", "development", "local", "test", "tests", "testing", "ci", "debug", "e2e"})


def is_for_trying(path: PurePosixPath) -> bool:
    """`Dockerfile.dev`, `docker-compose.local.yml`: nobody's jobs run there."""
    return not _TRYING.isdisjoint(re.split(r"[._-]", path.name.lower()))


class StartWords(NamedTuple):
    """Words that a container is started with, and where they stand."""

    words: tuple[str, ...]
    place: Place


class Planned(NamedTuple):
    """Something that is started on a schedule."""

    by: str
    """Who starts it, as people say: `ofelia`, `GitHub Actions`."""
    schedule: str
    command: str
    place: Place

    @property
    def calls_a_server(self) -> bool:
        return self.by == "GitHub Actions" and _CALLS.search(self.command) is not None


class PlacedValue(NamedTuple):
    """A setting, and where it stands."""

    value: str
    place: Place


CronEngine = Literal["debian", "cronie", "busybox", "supercronic", "other", ""]


class Copied(NamedTuple):
    """A file of the tree that an image takes, and where it lies there."""

    source: str
    target: str
    lies: str
    """Its path there, as far as the lines before say in which folder they are."""
    folder: str
    """The same, where the source is a folder: what is in it lies there."""


class Image(NamedTuple):
    """What a Dockerfile builds: its last stage, with what that has from stages before."""

    path: str
    sh: Kind | None
    """What `/bin/sh` is in the base image."""
    entrypoint: StartWords | None
    cmd: StartWords | None
    stage: str = ""
    """The name of that stage; "" where it has none."""
    engine: CronEngine = ""
    """"" where it has no cron, or several."""
    copied: tuple[Copied, ...] = ()
    runs: frozenset[str] = frozenset()
    """The names of files in its RUN lines: scripts that run once, when it is built, and crontabs it installs."""
    named: frozenset[str] = frozenset()
    """The names of files that any of its lines speak of."""


class Service(NamedTuple):
    """A service of a compose file."""

    name: str
    place: Place
    dockerfile: str
    """The path of the Dockerfile that it builds; "" where it builds none."""
    sh: Kind | None
    """What `/bin/sh` is in its image, where it is one that we know."""
    partial: bool
    """It has neither image nor build: it only adds to a service of the same name in another file."""
    entrypoint: StartWords | None
    command: StartWords | None
    init: bool
    copies: int | None
    copies_place: Place
    on_demand: bool
    """It is in a profile: not started with the others."""
    order: PlacedValue | None
    """Which of old and new comes first in an update."""
    target: str = ""
    """The stage that it builds; "" is the last."""


class EntryScript(NamedTuple):
    """A shell script, as process 1 of a container: does it pass on the signals it gets?"""

    path: str
    passes_on: bool
    """It handles signals itself, or puts an init in its place."""
    arguments: Place | None
    """Where it runs what it is given, `"$@"`, and stays."""
    gives_way: bool
    """It puts what it is given in its place: `exec "$@"`."""
    service: Place | None
    """Where it starts the cron of the system."""
    always: frozenset[int]
    """Lines that begin with a cron and are not indented: they stand below no condition."""


def joined(entrypoint: StartWords | None, cmd: StartWords | None) -> StartWords | None:
    """What process 1 gets: the entrypoint, with the command as its arguments. A text for a shell takes none."""
    if entrypoint is None or not entrypoint.words:
        return cmd
    if cmd is None or given(entrypoint.words):
        return entrypoint
    return StartWords(entrypoint.words + cmd.words, cmd.place)


def kind_of(name: str, sh: Kind | None) -> Kind | None:
    """Which shell a name means, where `sh` is that of the image."""
    return "bash" if name == "bash" else "dash" if name == "dash" else "ash" if name == "ash" else sh


def commands(
    start: StartWords | None,
    origin: Origin,
    unit: str,
    *,
    sh: Kind | None = None,
    copies: int | None = 1,
    environment: Mapping[str, str] | None = None,
) -> Iterator[CommandLine]:
    if start is None or not start.words:
        return
    words, shell = _without_shell(_without_entry_script(start.words), sh)
    known = tuple(sorted((environment or {}).items()))
    yield CommandLine(words, start.place, origin, unit, copies, known, shell)


def _without_entry_script(words: tuple[str, ...]) -> tuple[str, ...]:
    """`docker-entrypoint cron -f` comes to `cron -f`: such programs do what is to be done before, and run the rest."""
    first = PurePosixPath(words[0]).name
    return words[1:] if len(words) > 1 and "entrypoint" in first and not first.endswith(".sh") else words


def _without_shell(words: tuple[str, ...], sh: Kind | None) -> tuple[tuple[str, ...], bool]:
    told = given(words)
    if told is None:
        return words, False
    name, text = told
    read = line(text)
    if not read.commands:
        return words, True
    lingers = stays(read, read.commands[-1], kind_of(name, sh)) is not False
    alone = len(read.commands) == 1 and read.plain and not ASSIGNMENT.match(text)  # `X=1 program` is more
    return (read.commands[0].words if alone else words), lingers


def paths_in(image: Image, path: str) -> Iterator[str]:
    """Where a file of the tree lies in an image."""
    context = PurePosixPath(image.path).parent
    for copied in image.copied:
        for source in {str(PurePosixPath(copied.source)), str(context / copied.source)}:
            if path == source:
                yield copied.lies
            elif source == "." or path.startswith(f"{source}/"):
                yield posixpath.join(copied.folder, path.removeprefix(f"{source}/"))
