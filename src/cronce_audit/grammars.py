"""Trees of other languages, by their tree-sitter grammars: what the readers of JavaScript, shell and Python share.

A grammar copes with code that does not parse: what it cannot place becomes an ERROR node, and the rest is as it is.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from cronce_audit.model import Unreadable

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Language = Literal["javascript", "typescript", "tsx", "bash", "python"]


_GRAMMARS: Final[Mapping[Language, tuple[str, str]]] = {
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "bash": ("tree_sitter_bash", "language"),
    "python": ("tree_sitter_python", "language"),
}
_DEEPEST: Final = 1000
"""Levels. Nobody writes as many, and each way up from the ground takes their number, squared."""


@cache
def _parser(language: Language) -> "Parser":
    module, function = _GRAMMARS[language]
    try:
        tree_sitter = import_module("tree_sitter")
        grammar = tree_sitter.Language(getattr(import_module(module), function)())
    except ImportError:
        raise Unreadable(1, f"reading {language} needs tree-sitter: pip install 'cronce[audit]'") from None
    parser: Parser = tree_sitter.Parser(grammar)
    return parser


def tree(language: Language, text: str) -> "Node":
    """The root of the tree, however much of the text is in that language."""
    return _parser(language).parse(text.encode()).root_node


def parse(language: Language, text: str) -> "Node":
    """The root of the tree; Unreadable where hardly anything of the text is in that language."""
    root = tree(language, text)
    if root.type == "ERROR":
        raise Unreadable(line(root), f"this is not {language}")
    return root


def text(node: "Node | None") -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


def line(node: "Node") -> int:
    return node.start_point.row + 1


def column(node: "Node") -> int:
    return node.start_point.column + 1


def within(node: "Node", *types: str) -> Iterator["Node"]:
    """The node and all below it of these types, in the order of the text."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type in types:
            yield current
        waiting += reversed(current.named_children)


def above(node: "Node") -> Iterator["Node"]:
    """The nodes around it, the nearest first."""
    current = node.parent
    for _ in range(_DEEPEST):
        if current is None:
            return
        yield current
        current = current.parent
    raise RecursionError


def words(node: "Node") -> Iterator[str]:
    """The names, texts and numbers in it, without comments: its leaves."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type.endswith("comment"):
            continue
        if current.named_child_count == 0 and current.is_named:
            yield text(current)
        waiting += reversed(current.children)
