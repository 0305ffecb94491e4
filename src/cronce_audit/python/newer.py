"""Python that is newer than the one that audits: what only a newer one reads is written in older words, line for line.

Type parameters and aliases, quotes inside f-strings (3.12), `except A, B:` and t-strings (3.14) say nothing of jobs, so
that little is lost: what stands in such an f-string.
"""

import re
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import text, tree, within

if TYPE_CHECKING:
    from tree_sitter import Node

_EXCEPT: Final = re.compile(
    r"^(?P<head>[ \t]*except\*?[ \t]+)(?P<kinds>[\w.]+(?:[ \t]*,[ \t]*[\w.]+)+)(?P<end>[ \t]*:)", re.M
)
_TEMPLATE: Final = re.compile(r"""(?<![\w"'])[tT](?=[rR]?["'])|(?<![\w"'])(?<=[rR])[tT](?=["'])""")


def in_older_words(source: str) -> str:
    plain = _TEMPLATE.sub("f", _EXCEPT.sub(r"\g<head>(\g<kinds>)\g<end>", source))
    data = plain.encode()
    for node in sorted(_newer(tree("python", plain)), key=lambda one: -one.start_byte):
        data = data[: node.start_byte] + _older(node).encode() + data[node.end_byte :]
    return data.decode()


def _newer(root: "Node") -> list["Node"]:
    """The outermost of each: an f-string in an f-string goes with it."""
    found = [*within(root, "type_parameter", "type_alias_statement")]
    end = -1
    for node in within(root, "string"):
        if node.start_byte >= end and any(child.type == "interpolation" for child in node.named_children):
            end = node.end_byte
            found.append(node)
    return [node for node in found if not any(_is_in(node, other) for other in found)]


def _is_in(node: "Node", other: "Node") -> bool:
    return node is not other and other.start_byte <= node.start_byte and node.end_byte <= other.end_byte


def _older(node: "Node") -> str:
    lines = "\n" * text(node).count("\n")
    if node.type == "type_parameter":
        return lines.replace("\n", "\\\n")
    if node.type == "type_alias_statement":
        name = re.match(r"type\s+(\w+)", text(node))
        return f"{name[1] if name else '_'} = None{lines}"
    return f"(''{lines})" if lines else "''"
