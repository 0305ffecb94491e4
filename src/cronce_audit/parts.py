"""The kinds of source that are understood, and all the rules. A part is a package: its `part` has READERS and RULES.
Its facts can be imported without its rules, which may ask other parts."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from cronce_audit.model import Reader, Rule

PARTS: Final = (
    "python", "processes", "crontab", "scripts", "windows", "kubernetes", "containers", "systemd",
    "javascript", "java", "locks", "live",
)  # fmt: skip


@cache
def readers() -> Sequence[Reader]:
    """The first is for comments, in whatever the others read."""
    return [reader for part in _parts() for reader in part.READERS]


@cache
def rules() -> Mapping[str, Rule]:
    """By id, in the order of ids."""
    found = [rule for part in _parts() for rule in part.RULES]
    return {rule.id: rule for rule in sorted(found, key=lambda rule: rule.id)}


def _parts() -> Sequence[ModuleType]:
    names = ("suppressions", *(f"{part}.part" for part in PARTS))
    return [import_module(f"cronce_audit.{name}") for name in names]
