"""Helm and Jinja templates as the YAML that they become, as far as that is told, line by line.

What a template puts in is unknown, and marked: a value by a mark in its place, whole lines by a key that nobody writes,
so that the mapping is known to have more than is seen. Conditions are left out and both of their branches kept: what
then stands there twice is not known either. `.Values.a.b` is kept in the mark; the chart's values.yaml, which is
read in its turn, may say what it is.
"""

import re
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.kubernetes.facts import Field
from cronce_audit.model import Place, Source
from cronce_audit.yaml import UNKNOWN, UNKNOWN_TAG, Node

END: Final = "\ue001"
"""Closes a mark. Between the two is what is asked of values.yaml, `a.b|its default`, or nothing."""
MARK: Final = re.compile(f"{UNKNOWN}([^{END}]*){END}")

_TOKEN: Final = re.compile(
    r"\{\{-?\s{0,9}/\*(?:(?!/\*|\*/).)*\*/\s*-?\}\}|\{\{(?:(?!\{\{|\}\}).)*\}\}"
    r"|(?<!\$)\{%(?:(?!\{%|%\}).)*%\}|(?<!\$)\{#(?:(?!\{#|#\}).)*#\}",
    re.DOTALL,
)
"""None reaches over the start of another, so that one that is never closed swallows nothing, and costs nothing."""
_AROUND: Final = 200
"""Lines before and behind that are looked at, to see whether something is put into a list."""
_CONTROL: Final = re.compile(
    r"\{\{-?\s*(?:(?:if|else|end|range|with|define|block|break|continue)\b|/\*|\$[\w.]*\s*:?=)|\{%|\{#"
)
_UNDER_A_KEY: Final = re.compile(rf"(\s*(?:- )?[^\s:#]+:)\s*{UNKNOWN}(\d+){END}\s*")
"""`labels: {{- include "app.labels" . | nindent 4 }}`: lines below the key, and more may be written there."""
_INDENT: Final = re.compile(r"\bn?indent\s+(\d+)\s*-?\}\}$")
_VALUE: Final = re.compile(
    r"""\{\{-?\s*\(?(?:default\s+(?P<before>"[^"]*"|'[^']*'|\d+|true|false)\s+)?\$?\.Values\.(?P<path>[\w.]+)\)?
    (?P<pipes>(?:\s*\|\s*(?:quote|squote|int|int64|toString|toYaml|default\s+(?:"[^"]*"|'[^']*'|\d+|true|false)))*)\s*-?\}\}""",
    re.VERBOSE,
)
_DEFAULT: Final = re.compile(r"""default\s+("[^"]*"|'[^']*'|\d+|true|false)""")
_PARAMETER: Final = re.compile(r"\$\{\{?\w+\}?\}")
_OPENSHIFT: Final = re.compile(r"^kind:\s*Template\b", re.MULTILINE)


class Plain(NamedTuple):
    """YAML without its templates."""

    text: str
    marks: tuple[str, ...]
    """What each mark asks for, by its number."""


def plain(text: str) -> Plain:
    """The same lines, with marks for what is put in; an OpenShift Template has `${NAME}` for that."""
    marks: list[str] = []
    bare = text.translate({ord(UNKNOWN): "?", ord(END): "?"})
    tokens = _PARAMETER if _OPENSHIFT.search(text) else _TOKEN
    joined = tokens.sub(lambda token: _number(token[0], marks), bare)
    lines = joined.split("\n")
    for index, line in enumerate(lines):
        under = _UNDER_A_KEY.fullmatch(line)
        if under and _INDENT.search(marks[int(under[2])]):
            lines[index] = f"{under[1]} {UNKNOWN_TAG}"
        elif UNKNOWN in line and not MARK.sub("", line).strip():
            shown = [int(number) for number in MARK.findall(line) if not _CONTROL.match(marks[int(number)])]
            lines[index] = _stand_in(lines, index, shown[-1], marks) if shown else ""
    return Plain("\n".join(lines), tuple(map(_asked, marks)))


def _number(token: str, marks: list[str]) -> str:
    """A mark with a number instead of the token; the lines that it took stay lines."""
    marks.append(token)
    return f"{UNKNOWN}{len(marks) - 1}{END}" + "\n" * token.count("\n")


def _stand_in(lines: list[str], index: int, number: int, marks: list[str]) -> str:
    """A key for lines that are put in; or an item, where items are around it."""
    told = _INDENT.search(marks[number])
    width = int(told[1]) if told else len(lines[index]) - len(lines[index].lstrip())
    before = lines[max(index - _AROUND, 0) : index]
    around = (_near(before[::-1], width), _near(lines[index + 1 : index + _AROUND], width))
    dashed = any(line[width : width + 2].rstrip() == "-" for line in around)
    mark = f"{UNKNOWN}{number}{END}"
    return " " * width + (f"- {mark}" if dashed else f"{mark}: {mark}")


def _near(lines: list[str], width: int) -> str:
    """The first line that is not deeper than this, and not a mark alone."""
    for line in lines:
        bare = MARK.sub("", line)
        if bare.strip() and not bare.lstrip().startswith("#") and len(bare) - len(bare.lstrip()) <= width:
            return line
    return ""


def _asked(token: str) -> str:
    found = _VALUE.fullmatch(token)
    if not found:
        return ""
    default = found["before"] or next(iter(_DEFAULT.findall(found["pipes"])), "")
    return f"{found['path']}|{default.strip(chr(34) + chr(39))}"


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
