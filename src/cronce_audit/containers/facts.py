"""Facts from Dockerfiles, compose files and entry scripts, before they are combined."""

import re
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.shell import given
from cronce_audit.model import Place

_TRYING: Final = frozenset({"dev", "develop", "development", "local", "test", "tests", "testing", "ci", "debug", "e2e"})


def is_for_trying(path: PurePosixPath) -> bool:
    """`Dockerfile.dev`, `docker-compose.local.yml`: not for production."""
    return not _TRYING.isdisjoint(re.split(r"[._-]", path.name.lower()))


class StartWords(NamedTuple):
    """The words that start a container, and their place."""

    words: tuple[str, ...]
    place: Place


class ScheduledJob(NamedTuple):
    """A job of any kind: of a program's own scheduler, of cron, of a cluster."""

    what: str
    by: str
    """Who starts it, as people say: `GitHub Actions`."""
    place: Place
    schedule: str = ""
    """A cron expression, or a calendar of systemd; "" where it is none, or not spelled out."""
    command: str = ""
    """What is started; "" where it is a function."""
    guard: bool | None = False
    """It is under a lock across machines, or cronce; None where that is not known."""
    kept: bool = False
    """The guard outlasts the run: a slot runs once, even if a process is late."""
    single: bool = False
    """The files show that one process starts it."""


class PlacedValue(NamedTuple):
    """The value of a setting, and its place."""

    value: str
    place: Place


CronEngine = Literal["debian", "cronie", "busybox", "supercronic", "other", ""]


class Copied(NamedTuple):
    """A file or folder of the tree that an image copies, and its path in the image."""

    source: str
    target: str
    line: int


class Image(NamedTuple):
    """The last stage of a Dockerfile, with what it inherits from earlier stages."""

    path: str
    is_alpine: bool
    """Its shell makes way for the last program of a text."""
    entrypoint: StartWords | None
    cmd: StartWords | None
    environment: tuple[tuple[str, str], ...] = ()
    """Its variables, as far as their values are known."""
    stage: str = ""
    """The name of the stage; "" if it has none."""
    engine: CronEngine = ""
    """Which cron it has; "" for none, or several."""
    copied: tuple[Copied, ...] = ()
    runs: frozenset[str] = frozenset()
    """File names in its RUN lines: scripts that run once, during the build, and crontabs that it installs."""
    named: frozenset[str] = frozenset()
    """File names in any of its lines."""
    tab: Place | None = None
    """The line that puts a crontab where cron looks."""


class Service(NamedTuple):
    """A service of a compose file."""

    name: str
    place: Place
    dockerfile: str
    """The path of the Dockerfile that it builds; "" if it builds none."""
    is_alpine: bool
    partial: bool
    """It has neither image nor build: it only changes a service of the same name in another file."""
    entrypoint: StartWords | None
    command: StartWords | None
    init: bool
    copies: int | None
    copies_place: Place
    on_demand: bool
    """It is in a profile, so it is not started by default."""
    order: PlacedValue | None
    """The `start-first` of an update, if it is set."""
    target: str = ""
    """The stage that it builds; "" means the last."""
    environment: tuple[tuple[str, str], ...] = ()
    """The variables whose values are written out."""


class EntryScript(NamedTuple):
    """A shell script that may be process 1 of a container: does it pass signals on?"""

    path: str
    passes_on: bool
    """It handles signals itself, or replaces itself by an init."""
    arguments: Place | None
    """The place of `"$@"` without `exec`, if that is its last command."""
    gives_way: bool
    """It replaces itself by its arguments: `exec "$@"`."""


def joined(entrypoint: StartWords | None, cmd: StartWords | None) -> StartWords | None:
    """The words of process 1: the entrypoint, with the command as arguments. A text for a shell takes none."""
    if entrypoint is None or not entrypoint.words:
        return cmd
    if cmd is None or given(entrypoint.words):
        return entrypoint
    return StartWords(entrypoint.words + cmd.words, cmd.place)
