"""YAML with the line of every part, for Kubernetes, compose and CI files.

    for document in documents(source.text):
        policy = document.get("spec", "concurrencyPolicy")
        if policy and policy.text == "Allow":
            yield source.place(policy.line)

No Python objects are constructed: a scalar is its text, and the caller interprets it. An alias is the same node each
time it is used, so a file that expands to a billion nodes costs no more than its text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Literal

import yaml
from yaml.events import (
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from cronce_audit.model import Unreadable

UNKNOWN: Final = "\ue000"
"""Marks in a text what a template puts there: a character that YAML allows and people do not use."""
UNKNOWN_TAG: Final = "!unknown"
"""The tag of a collection to which a template adds; without a collection, the template gives all of it."""
DEEPEST: Final = 200
"""Levels. No manifest is as deep, and the parser's time grows with the square of the depth."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, eq=False)
class YamlNode:
    """A scalar, a sequence or a mapping, and where it starts, from 1. Each has all attributes: a scalar has no items,
    and its `get` is None."""

    kind: Literal["scalar", "sequence", "mapping"]
    line: int
    column: int
    text: str | None = None
    """The value of a scalar, without quotes."""
    plain: bool = False
    """A scalar without quotes: 3 and not "3"."""
    tag: str | None = None
    """Only a tag that is written out: `!Ref`, `!reset`."""
    items: list["YamlNode"] = field(default_factory=list)
    pairs: list[tuple["YamlNode", "YamlNode"]] = field(default_factory=list)
    """Keys and values of a mapping: its own in order, then those that `<<` merges in."""
    repeated: list["YamlNode"] = field(default_factory=list)
    """Keys that occur again. The last value counts."""

    def get(self, *path: str) -> "YamlNode | None":
        """The value below it, key by key."""
        node: YamlNode | None = self
        for key in path:
            node = node and next((value for name, value in reversed(node.pairs) if name.text == key), None)
        return node

    def key(self, name: str) -> "YamlNode | None":
        """The key itself, for its line."""
        return next((key for key, _ in self.pairs if key.text == name), None)

    @property
    def is_null(self) -> bool:
        return self.plain and self.tag != UNKNOWN_TAG and self.text in _NULLS

    @property
    def is_unknown(self) -> bool:
        """A template gives at least a part of it."""
        return self.tag == UNKNOWN_TAG or bool(self.text and UNKNOWN in self.text)


def documents(text: str) -> Iterator[YamlNode]:
    """The root of each document that is not empty. Raises Unreadable if it is not YAML."""
    last = text.count("\n") + (not text.endswith("\n"))
    try:
        yield from _composed(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(min(mark.line + 1, last) if mark else 1, f"not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise Unreadable(text.count("\n", 0, error.position) + 1, f"not YAML: {error.reason}") from error
    except UnicodeEncodeError as error:
        raise Unreadable(1, "not YAML: half a character") from error


def _composed(events: Iterator[Event]) -> Iterator[YamlNode]:
    for event in events:
        if isinstance(event, DocumentStartEvent):
            root = _node(next(events), events, {}, 0)
            if not root.is_null:
                yield root


def _node(event: Event, events: Iterator[Event], anchors: dict[str, YamlNode], depth: int) -> YamlNode:
    """The node that begins with an event. An anchor is known when its node is complete."""
    assert isinstance(event, NodeEvent)
    assert event.start_mark is not None
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    if depth > DEEPEST:
        raise Unreadable(line, "it is nested too deeply")
    match event:
        case ScalarEvent():
            node = YamlNode("scalar", line, column, event.value, not event.style, event.tag)
        case MappingStartEvent():
            node = YamlNode("mapping", line, column, tag=event.tag)
            for key in _until_end(events):
                pair = _node(key, events, anchors, depth + 1), _node(next(events), events, anchors, depth + 1)
                node.pairs.append(pair)
            _merge(node)
        case SequenceStartEvent():
            items = [_node(item, events, anchors, depth + 1) for item in _until_end(events)]
            node = YamlNode("sequence", line, column, tag=event.tag, items=items)
        case _:
            named = anchors.get(event.anchor or "")
            if named is None:
                raise Unreadable(line, f"not YAML: *{event.anchor} names nothing that is complete")
            return named
    if event.anchor:
        anchors[event.anchor] = node
    return node


def _until_end(events: Iterator[Event]) -> Iterator[Event]:
    return takewhile(lambda event: not isinstance(event, CollectionEndEvent), events)


def _merge(mapping: YamlNode) -> None:
    """Add what `<<` names and the mapping lacks; remember keys that occur twice."""
    known: set[str] = set()
    sources: list[YamlNode] = []
    for key, value in mapping.pairs:
        if key.text == "<<" and key.plain:
            sources += value.items or [value]
        elif key.text is not None:
            mapping.repeated.extend([key] * (key.text in known))
            known.add(key.text)
    if sources:
        mapping.pairs[:] = [pair for pair in mapping.pairs if not (pair[0].text == "<<" and pair[0].plain)]
    for source in sources:
        for key, value in source.pairs:
            if key.text is not None and key.text not in known:
                known.add(key.text)
                mapping.pairs.append((key, value))
