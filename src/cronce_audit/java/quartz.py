"""The settings of Quartz: quartz.properties, and those of Spring Boot that are handed on to it."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.java.facts import QuartzSettings
from cronce_audit.model import Reader, Source, Unreadable
from cronce_audit.yaml import Node, documents

_LINE: Final = re.compile(r"^[ \t]*(?P<key>[\w.-]+)[ \t]*[=:](?P<value>[^\n]*)$", re.MULTILINE)
_FILE: Final = re.compile(r"(?:application|bootstrap)[\w.-]*\.(?:properties|ya?ml)|[\w.-]*quartz[\w.-]*\.properties")
_PREFIX: Final = re.compile(r"^(?:spring\.quartz\.properties\.)?org\.quartz\.")
_SPRING: Final = "spring.quartz."


def _wants(path: PurePosixPath) -> bool:
    return bool(_FILE.fullmatch(path.name))


def _read(source: Source) -> Iterator[QuartzSettings]:
    if "quartz" not in source.text:
        return
    said = _of_yaml(source.text) if source.suffix in (".yml", ".yaml") else _of_properties(source.text)
    known = tuple((name, value, line) for key, value, line in said if (name := _name(key)))
    if known:
        yield QuartzSettings(known, source.path)


def _name(key: str) -> str:
    """`jobStore.isClustered`; of Spring Boot's own settings `spring.job-store-type`; "" for anything else."""
    if _PREFIX.match(key):
        return _PREFIX.sub("", key)
    return f"spring.{key.removeprefix(_SPRING)}" if key.startswith(_SPRING) else ""


def _of_properties(text: str) -> Iterator[tuple[str, str, int]]:
    for found in _LINE.finditer(text):
        yield found["key"], found["value"].strip(), text.count("\n", 0, found.start("key")) + 1


def _of_yaml(text: str) -> Iterator[tuple[str, str, int]]:
    try:
        for document in documents(text):
            yield from _flat(document, "", set())
    except Unreadable:
        return  # a template: nothing is known of it


def _flat(node: Node, prefix: str, seen: set[int]) -> Iterator[tuple[str, str, int]]:
    """The settings as Spring names them. A part that aliases repeat is looked at once: they may unfold to billions."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, value in node.pairs:
        name = f"{prefix}{key.text}"
        if value.kind == "scalar":
            yield name, value.text or "", key.line
        else:
            yield from _flat(value, f"{name}.", seen)


READER: Final = Reader("quartz", _wants, _read)
