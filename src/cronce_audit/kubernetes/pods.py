"""Containers of a pod: what they start, with which environment."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from cronce_audit.common import Command, ZoneSet
from cronce_audit.containers.shell import given, is_shell, line
from cronce_audit.folds import is_zone
from cronce_audit.kubernetes.facts import Container, Field
from cronce_audit.kubernetes.fields import Fields
from cronce_audit.kubernetes.templates import MARK
from cronce_audit.model import Place
from cronce_audit.yaml import Node

_SUBSTITUTION: Final = re.compile(
    r"(?<!\$)\$\((?:date|hostname|uuidgen|whoami|nproc|uname|id|pwd|cat|echo|curl|openssl|git|kubectl)(?:\s[^()]*)?\)"
    r"|`(?:date|hostname|uuidgen|whoami|nproc|uname)(?:\s[^`]*)?`"
)
"""What a shell would run. `$(NAME)` is Kubernetes' own, and `$$(date)` is how it is told to leave it alone."""
_INTERPRETED: Final = re.compile(r"-\w*[ce]|--eval|--command|--execute|eval|ssh")
"""Words whose neighbours may be run as text after all."""


def has_image(pod: Node, fields: Fields) -> bool:
    """A pod that is whole: a patch names a container, and rarely its image."""
    found = pod.get("containers")
    if found is None or not found.items:
        return found is not None and fields.is_open(found)
    return all(one.get("image") or fields.is_open(one) for one in found.items)


def containers(pod: Node | None, fields: Fields) -> Iterator[Container]:
    for node in _nodes(pod):
        words = _words(node)
        environment = tuple(_environment(node, fields))
        yield Container(
            name=fields.word(node, "name"),
            image=_shown((node.get("image") or node).text or ""),
            place=_place(node, fields),
            words=words,
            environment=environment,
            is_told=not node.get("envFrom") and len(environment) == len((node.get("env") or node).items),
            unexpanded=tuple(_unexpanded(node, fields, words, {name for name, _ in environment})),
        )


def commands(pod: Node | None, fields: Fields, unit: str, copies: int | None) -> Iterator[Any]:
    """The facts that others share: what is started, and in which zone."""
    for node in _nodes(pod):
        words = _words(node)
        environment = tuple(_environment(node, fields))
        if words:
            yield _command(words, Command(words, _place(node, fields), "kubernetes", unit, copies, environment))
        zone = dict(environment).get("TZ", "")
        if is_zone(zone):
            yield ZoneSet(zone, fields.place(node.get("env") or node), unit)


def _command(words: tuple[str, ...], whole: Command) -> Command:
    """Of a shell that is told one simple command, that command."""
    told = given(words)
    simple = line(told[1]).commands if told else ()
    if len(simple) != 1:
        return whole
    return Command(
        simple[0].words, whole.place, whole.origin, whole.unit, whole.copies, whole.environment, not simple[0].exec
    )


def _place(node: Node, fields: Fields) -> Place:
    return fields.place(node.key("command") or node.key("args") or node)


def _nodes(pod: Node | None) -> list[Node]:
    found = pod.get("containers") if pod else None
    return [node for node in (found.items if found else ()) if node.kind == "mapping"]


def _words(node: Node) -> tuple[str, ...]:
    return tuple(
        _shown(item.text or "")
        for key in ("command", "args")
        for item in (node.get(key) or node).items
        if item.text is not None
    )


def _shown(text: str) -> str:
    """With a name in place of what a template says, as others write what they do not know."""
    return MARK.sub("$unknown", text)


def _environment(node: Node, fields: Fields) -> Iterator[tuple[str, str]]:
    for item in (node.get("env") or node).items:
        value = item.get("value")
        name = fields.word(item, "name")
        if name and value and value.text is not None and not value.is_unknown:
            yield name, value.text


def _unexpanded(node: Node, fields: Fields, words: tuple[str, ...], defined: set[str]) -> Iterator[Field]:
    if "$" in ((node.get("image") or node).text or ""):
        return  # a shell, or envsubst, makes the manifest out of this
    values = [item.get("value") for item in (node.get("env") or node).items]
    if any(re.search(r"\beval\b|\benvsubst\b", word) for word in words):
        values = []
    if node.get("command") and not _is_interpreted(words):
        values += [item for key in ("command", "args") for item in (node.get(key) or node).items]
    for value in values:
        found = _SUBSTITUTION.search(value.text) if value and value.text and "\n" not in value.text else None
        if value and found and found[0][2:-1] not in defined:
            yield Field(found[0], fields.place(value))


def _is_interpreted(words: tuple[str, ...]) -> bool:
    """A shell is among them, or something that runs a text; a script may be one too, but gets the text as it stands."""
    return any(is_shell(word) or _INTERPRETED.fullmatch(PurePosixPath(word).name) for word in words)
