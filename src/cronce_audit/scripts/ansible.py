"""Ansible's `cron` tasks: without a name, each play adds a line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.model import Place, Source, Unreadable
from cronce_audit.yaml import Node, documents

_MODULES: Final = ("cron", "ansible.builtin.cron", "ansible.legacy.cron")
_LISTS: Final = ("tasks", "pre_tasks", "post_tasks", "block", "handlers", "always", "rescue")
_MAY: Final = re.compile(r"(?m)^\s*(- )?(ansible\.(builtin|legacy)\.)?cron:")


@dataclass(frozen=True, slots=True)
class NamelessCron:
    """A task that adds a line to a crontab, and has no name for it."""

    place: Place


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".yml", ".yaml")


def read(source: Source) -> Iterator[NamelessCron]:
    """Files that are no YAML are others' to complain about."""
    if not _MAY.search(source.text) or "{%" in source.text:
        return
    try:
        for document in documents(source.text):
            yield from _tasks(source, document)
    except Unreadable:
        return


def _tasks(source: Source, tasks: Node) -> Iterator[NamelessCron]:
    for task in tasks.items:
        for key, value in task.pairs:
            if key.text in _LISTS:
                yield from _tasks(source, value)
            elif key.text in _MODULES and _is_nameless(value):
                yield NamelessCron(source.place(key.line))


def _is_nameless(given: Node) -> bool:
    adds = _text(given, "state", "present") == "present" and given.get("job") is not None
    return adds and _text(given, "env", "no") not in ("yes", "true", "True") and given.get("name") is None


def _text(given: Node, key: str, usual: str) -> str:
    said = given.get(key)
    return usual if said is None else said.text or ""
