"""Where several instances of a Java program are started.

A tree with one Spring Boot application has one program to start. Where there are several, a command belongs to the
application in whose folder it stands, and says nothing of the others.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from cronce_audit.java.facts import Enabled
from cronce_audit.kubernetes.seen import workloads
from cronce_audit.kubernetes.workloads import stays_one
from cronce_audit.model import Confidence, Facts, Place
from cronce_audit.processes.commands import Started, started


class Instances(NamedTuple):
    """Several instances of a program that are started."""

    place: Place
    how: str
    confidence: Confidence


def module_of(path: str) -> str:
    """The folder of a build: what is above `src/main`."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[: parts.index("src")]) if "src" in parts else str(PurePosixPath(path).parent)


def several(facts: Facts, path: str) -> Instances | None:
    """The evidence that the program which this file is part of runs in several instances."""
    found = _starts(facts, path) if facts.conclude(_applications) else ()
    return next((_instances(one) for one in found if one.copies.is_several), None)


def _instances(one: Started) -> Instances:
    return Instances(one.by.copies_at, f"`{one.by.name}` has {one.copies} copies", one.by.confidence)


def is_alone(facts: Facts, path: str) -> bool:
    """Whether all that starts the program in a cluster ends the one instance before it starts the next."""
    named = {one.by.name for one in _starts(facts, path) if one.by.command.origin == "kubernetes"}
    found = [one for one in facts.conclude(workloads) if one.unit in named]
    return bool(found) and all(stays_one(one, facts) for one in found)


def _starts(facts: Facts, path: str) -> Sequence[Started]:
    applications, found = facts.conclude(_applications), facts.conclude(_javas)
    if len(applications) <= 1:
        return found
    home = module_of(path)
    return [one for one in found if home in applications and f"{one.folder}/".startswith(f"{home}/")]


def _applications(facts: Facts) -> set[str]:
    return {module_of(one.place.path) for one in facts.of(Enabled) if one.what == "application"}


def _javas(facts: Facts) -> Sequence[Started]:
    return [one for one in facts.conclude(started) if one.argv.program == "java"]
