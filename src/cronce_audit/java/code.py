"""Java as a tree: annotations and their values, and what imports make of a name."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import text, within

if TYPE_CHECKING:
    from tree_sitter import Node

_IMPORT: Final = re.compile(r"^\s*import\s+(?:static\s+)?([\w.]+(?:\.\*)?)\s*;", re.MULTILINE)
TYPES: Final = ("class_declaration", "record_declaration", "enum_declaration", "interface_declaration")


class Imports:
    """What the simple names of a file mean."""

    def __init__(self, source: str) -> None:
        self.names: Final = frozenset(_IMPORT.findall(source))

    def means(self, name: str, *qualified: str) -> bool:
        """Whether a name is one of these classes: imported by itself or with its package, or written out."""
        return any(
            name == one
            or (name == one.rpartition(".")[2] and (one in self.names or f"{one.rpartition('.')[0]}.*" in self.names))
            for one in qualified
        )

    def any(self, *prefixes: str) -> bool:
        return any(name.startswith(prefixes) for name in self.names)


def annotations(node: "Node") -> "Iterator[Node]":
    """Those of a class or method, also the ones in a container like `@Schedules({…})`."""
    for child in node.named_children:
        if child.type == "modifiers":
            yield from within(child, "annotation", "marker_annotation")


def name_of(annotation: "Node") -> str:
    return text(annotation.child_by_field_name("name"))


def values(annotation: "Node") -> "dict[str, Node]":
    """What an annotation is given, by name; a single value is `value`."""
    told = annotation.child_by_field_name("arguments")
    found: dict[str, Node] = {}
    for child in told.named_children if told is not None else ():
        key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
        if child.type == "element_value_pair" and value is not None:
            found[text(key)] = value
        else:
            found["value"] = child
    return found


def string(node: "Node | None") -> str | None:
    """A text that is spelled out; None for a constant, or for one with `${…}` or `#{…}` in it."""
    if node is None or node.type != "string_literal":
        return None
    found = text(node)[1:-1]
    return None if "${" in found or "#{" in found else found


def number(node: "Node | None") -> int | None:
    """`60_000L`, and products of such."""
    factors = text(node).replace("_", "").split("*") if node is not None else []
    plain = [re.fullmatch(r"\s*(\d+)[lL]?\s*", factor) for factor in factors]
    if not plain:
        return None
    product = 1
    for found in plain:
        if found is None:
            return None
        product *= int(found[1])
    return product
