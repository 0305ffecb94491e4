"""What Dockerfiles, compose files and the scripts that are process 1 say, before it is put together."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.shell import Kind
from cronce_audit.model import Place

_TRYING: Final = frozenset({"dev", "develop", "development", "local", "test", "tests", "testing", "ci", "debug", "e2e"})


def is_for_trying(path: PurePosixPath) -> bool:
    """`Dockerfile.dev`, `docker-compose.local.yml`: nobody's jobs run there."""
    return not _TRYING.isdisjoint(re.split(r"[._-]", path.name.lower()))


class Start(NamedTuple):
    """Words that a container is started with, and where they stand."""

    words: tuple[str, ...]
    place: Place


class Said(NamedTuple):
    """A setting, and where it stands."""

    value: str
    place: Place


@dataclass(frozen=True, slots=True)
class Image:
    """What a Dockerfile builds: its last stage, with what that has from stages before."""

    path: str
    sh: Kind | None
    """What `/bin/sh` is in the base image."""
    entrypoint: Start | None
    cmd: Start | None
    stop_signal: Said | None
    stage: str = ""
    """The name of that stage; "" where it has none."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a compose file."""

    name: str
    place: Place
    dockerfile: str
    """The path of the Dockerfile that it builds; "" where it builds none."""
    sh: Kind | None
    """What `/bin/sh` is in its image, where it is one that we know."""
    partial: bool
    """It has neither image nor build: it only adds to a service of the same name in another file."""
    entrypoint: Start | None
    command: Start | None
    init: bool
    copies: int | None
    copies_place: Place
    on_demand: bool
    """It is in a profile: not started with the others."""
    restart: Said | None
    stop_signal: Said | None
    stop_grace: Said | None
    order: Said | None
    """Which of old and new comes first in an update."""
    target: str = ""
    """The stage that it builds; "" is the last."""


@dataclass(frozen=True, slots=True)
class EntryScript:
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
