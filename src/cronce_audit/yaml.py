"""YAML with the line of every part: what Kubernetes, compose and CI files are read with.

    for document in documents(source.text):
        policy = document.get("spec", "concurrencyPolicy")
        if policy and policy.text == "Allow":
            yield source.place(policy.line)

Nothing is constructed: a scalar is its text, and what the text means is for who asks. What an alias
names is one node however often it is used, so a file that unfolds to a billion nodes costs what its text costs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from cronce_audit.model import Unreadable

UNKNOWN: Final = "\ue000"
"""Stands in a text for what a template puts there: nobody writes it, and YAML allows it."""
UNKNOWN_TAG: Final = "!unknown"
"""Stands before a collection to which a template adds; or before nothing, and then it is all there is."""
DEEPEST: Final = 200
"""Levels. No manifest has as many, and the parser takes the square of them in time."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A scalar, a sequence or a mapping, and where it starts, from 1. Asking one for what another has is asking for
    nothing: a scalar has no items, and `get` is None."""

    kind: Literal["scalar", "sequence", "mapping"]
    line: int
    column: int
    text: str | None = None
    """Of a scalar, what it says, without its quotes."""
    plain: bool = False
    """A scalar without quotes: 3 and not "3"."""
    tag: str | None = None
    """Only one that is written: `!Ref`, `!reset`."""
    items: list["Node"] = field(default_factory=list)
    pairs: list[tuple["Node", "Node"]] = field(default_factory=list)
    """Of a mapping, key and value: its own in their order, then what `<<` merges in."""
    repeated: list["Node"] = field(default_factory=list)
    """Keys that were there before. The last of them counts."""

    def get(self, *path: str) -> "Node | None":
        """What is below it by these keys."""
        node: Node | None = self
        for key in path:
            node = node and next((value for name, value in reversed(node.pairs) if name.text == key), None)
        return node

    def key(self, name: str) -> "Node | None":
        """The key itself, for its line."""
        return next((key for key, _ in self.pairs if key.text == name), None)

    def walk(self) -> Iterator["Node"]:
        """It and all below it, each once, in the order of the text."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                stack += reversed([*node.items, *(value for _, value in node.pairs)])

    @property
    def is_null(self) -> bool:
        return self.plain and self.tag != UNKNOWN_TAG and self.text in _NULLS

    @property
    def is_unknown(self) -> bool:
        """A template says at least a part of it."""
        return self.tag == UNKNOWN_TAG or bool(self.text and UNKNOWN in self.text)


def documents(text: str) -> Iterator[Node]:
    """The roots of all documents that are not empty. Raises Unreadable where it is not YAML."""
    last = text.count("\n") + (not text.endswith("\n"))
    try:
        yield from _Composer().documents(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(min(mark.line + 1, last) if mark else 1, f"not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        raise Unreadable(text.count("\n", 0, error.position) + 1, f"not YAML: {error.reason}") from error
    except UnicodeEncodeError as error:
        raise Unreadable(1, "not YAML: half a character") from error


class _Composer:
    """Nodes out of the events of the parser, without recursion: depth costs a list, not the stack."""

    def __init__(self) -> None:
        self._open: list[Node] = []
        self._keys: list[Node | None] = []
        """For each open mapping the key whose value is awaited."""
        self._anchors: dict[str, Node] = {}

    def documents(self, events: Iterator[Event]) -> Iterator[Node]:
        root: Node | None = None
        for event in events:
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                root = None
            elif isinstance(event, DocumentEndEvent):
                if root and not root.is_null:
                    yield root
            elif isinstance(event, NodeEvent):
                node = self._node(event)
                root = root or node
                self._put(node)
                if not isinstance(event, ScalarEvent | AliasEvent):
                    self._enter(node)
            elif isinstance(event, CollectionEndEvent):
                self._leave()

    def _node(self, event: NodeEvent) -> Node:
        assert event.start_mark is not None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        match event:
            case ScalarEvent():
                node = Node("scalar", line, column, event.value, not event.style, event.tag)
            case MappingStartEvent():
                node = Node("mapping", line, column, tag=event.tag)
            case SequenceStartEvent():
                node = Node("sequence", line, column, tag=event.tag)
            case _:
                return self._named(event.anchor or "", line)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _named(self, anchor: str, line: int) -> Node:
        node = self._anchors.get(anchor)
        if node is None or any(node is one for one in self._open):
            raise Unreadable(line, f"not YAML: *{anchor} names nothing that is complete")
        return node

    def _put(self, node: Node) -> None:
        """Where it belongs in the innermost collection."""
        if not self._open:
            return
        into = self._open[-1]
        if into.kind == "sequence":
            into.items.append(node)
        elif self._keys[-1] is None:
            self._keys[-1] = node
        else:
            into.pairs.append((self._keys[-1], node))
            self._keys[-1] = None

    def _enter(self, node: Node) -> None:
        if len(self._open) == DEEPEST:
            raise Unreadable(node.line, "it is nested too deeply")
        self._open.append(node)
        self._keys.append(None)

    def _leave(self) -> None:
        self._keys.pop()
        node = self._open.pop()
        if node.kind == "mapping":
            _merge(node)


def _merge(mapping: Node) -> None:
    """Put in what `<<` names, less what the mapping has; and notice keys that are there twice."""
    known: set[str] = set()
    sources: list[Node] = []
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
