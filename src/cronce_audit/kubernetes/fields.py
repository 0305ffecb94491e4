"""The fields of one file's objects: there, not there, or not to be told."""

import re
from pathlib import PurePosixPath

from cronce_audit.kubernetes.facts import Field
from cronce_audit.kubernetes.templates import END, MARK
from cronce_audit.model import Place, Source
from cronce_audit.yaml import UNKNOWN, UNKNOWN_TAG, Node


class Fields:
    """Asks nodes for fields, knowing what a template may put there."""

    def __init__(self, source: Source, marks: tuple[str, ...]) -> None:
        self.source = source
        self._marks = marks

    @property
    def chart(self) -> str | None:
        """The folder of the chart whose template this is."""
        parts = PurePosixPath(self.source.path).parts
        return "/".join(parts[: parts.index("templates")]) or "." if "templates" in parts else None

    def place(self, node: Node) -> Place:
        return self.source.place(node.line, node.column)

    def field(self, mapping: Node | None, key: str) -> Field | None:
        if mapping is None:
            return None
        value = mapping.get(key)
        if value is None or value.is_null:
            return Field(UNKNOWN, self.place(mapping)) if self.is_open(mapping) else None
        if value.text is None or value.tag or any(again.text == key for again in mapping.repeated):
            return Field(UNKNOWN, self.place(value))
        return Field(self.text(value), self.place(value))

    def word(self, node: Node, *path: str) -> str:
        """A text below a node; "" where there is none, or where a template says it."""
        value = node.get(*path)
        return value.text if value and value.text and not value.is_unknown else ""

    def name(self, node: Node, *path: str) -> str:
        """The same, with … for what a template says, as long as that is not all."""
        value = node.get(*path)
        shown = MARK.sub("…", value.text) if value and value.text and value.tag != UNKNOWN_TAG else ""
        return shown if re.search(r"\w", shown) else ""

    def text(self, node: Node) -> str:
        """Of a scalar, with what its marks ask for."""
        return MARK.sub(self._asked, node.text or "")

    def is_open(self, mapping: Node) -> bool:
        """A template may put more into it. Where a list is no deeper than its key, what follows it may be either's."""
        return mapping.is_unknown or any(
            key.is_unknown or (value.column == mapping.column and any(item.is_unknown for item in value.items))
            for key, value in mapping.pairs
        )

    def _asked(self, mark: re.Match[str]) -> str:
        return UNKNOWN + (self._marks[int(mark[1])] if mark[1] else "") + END
