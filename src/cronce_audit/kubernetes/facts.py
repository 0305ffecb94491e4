"""Facts from manifests: CronJobs, other workloads, charts and patches; and workloads as deployed, with the values of
their charts and with patches applied.

What a template puts in is unknown, and marked: a value by a mark in its place, whole lines by a key that people do not
use, so that the mapping is known to have more than is seen. Conditions are left out and both branches kept: a key that
then occurs twice is unknown too. `.Values.a.b` is kept in the mark; the chart's values.yaml may give its value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.model import Facts, Place, Source
from cronce_audit.yaml import UNKNOWN, UNKNOWN_TAG, YamlNode

_INTEGER: Final = re.compile(r"(?a:-?[0-9]{1,9})")
VALUES: Final = frozenset({"values.yaml", "values.yml"})


class Field(NamedTuple):
    """The value of a field, and its place. None instead of a Field means that the field is surely missing."""

    text: str
    place: Place

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text

    @property
    def number(self) -> int | None:
        return int(self.text) if _INTEGER.fullmatch(self.text) else None


class Container(NamedTuple):
    """A container of a pod, not an init container."""

    name: str
    image: str
    place: Place
    """The place of its command, if it has one."""
    words: tuple[str, ...]
    """Command and arguments; empty if the image has them."""
    environment: tuple[tuple[str, str], ...]
    unexpanded: tuple[Field, ...]
    """Texts for a shell, such as `$(date)`, where no shell runs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A CronJob, Deployment, StatefulSet, ReplicaSet or DaemonSet."""

    kind: str
    name: str
    """With … for what a template puts in; "" if the template gives all of it."""
    place: Place
    """The place of its kind; of a CronJob that of its schedule."""
    partial: bool
    """It only changes another object: what it lacks is not missing."""
    chart: str | None
    said: Mapping[str, Field | None]
    """Its fields and those of its Job and pod, by their names in Kubernetes."""
    containers: tuple[Container, ...]

    def __getitem__(self, name: str) -> Field | None:
        return self.said.get(name)

    @property
    def called(self) -> str:
        other = "this CronJob" if self.kind == "CronJob" else f"the {self.kind} of {_file(self.place)}"
        return f"{self.kind} `{self.name}`" if self.name else other

    @property
    def unit(self) -> str:
        return unit(self.kind, self.name, self.place)

    @property
    def is_guarded(self) -> bool:
        return any("cronce" in re.split(r"[\s/;&|]", word) for each in self.containers for word in each.words)


def unit(kind: str, name: str, place: Place) -> str:
    """The name of the unit in CommandLine."""
    return f"{kind}/{name}" if name else f"{kind} of {_file(place)}"


def _file(place: Place) -> str:
    return "/".join(place.path.split("/")[-2:])


class Patched(NamedTuple):
    """Words of a file that changes objects of other files: what one of those lacks, it may set."""

    words: frozenset[str]


class ChartValues(NamedTuple):
    """The values.yaml of a chart, or a file used on top of it: dotted path, text and line of each value."""

    chart: str
    path: str
    entries: tuple[tuple[str, str, int], ...]


END: Final = "\ue001"
"""Closes a mark. Between the two is what values.yaml is asked for, `a.b|its default`, or nothing."""
MARK: Final = re.compile(f"{UNKNOWN}([^{END}]*){END}")

_TOKEN: Final = re.compile(
    r"\{\{-?\s{0,9}/\*(?:(?!/\*|\*/).)*\*/\s*-?\}\}|\{\{(?:(?!\{\{|\}\}).)*\}\}"
    r"|(?<!\$)\{%(?:(?!\{%|%\}).)*%\}|(?<!\$)\{#(?:(?!\{#|#\}).)*#\}",
    re.DOTALL,
)
"""No token contains the start of another, so one that is never closed swallows nothing and costs nothing."""
_AROUND: Final = 200
"""Lines before and after that are searched to see whether something is put into a list."""
_CONTROL: Final = re.compile(
    r"\{\{-?\s*(?:(?:if|else|end|range|with|define|block|break|continue)\b|/\*|\$[\w.]*\s*:?=)|\{%|\{#"
)
_UNDER_A_KEY: Final = re.compile(rf"(\s*(?:- )?[^\s:#]+:)\s*{UNKNOWN}(\d+){END}\s*")
"""`labels: {{- include "app.labels" . | nindent 4 }}`: lines below the key, where more may follow."""
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
    """YAML with its templates replaced by marks."""

    text: str
    marks: tuple[str, ...]
    """The token behind each mark, by its number."""


def plain(text: str) -> Plain:
    """The same lines, with marks for what templates put in; an OpenShift Template uses `${NAME}`."""
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
    """A numbered mark instead of the token, with as many lines."""
    marks.append(token)
    return f"{UNKNOWN}{len(marks) - 1}{END}" + "\n" * token.count("\n")


def _stand_in(lines: list[str], index: int, number: int, marks: list[str]) -> str:
    """A key that represents inserted lines; or an item, between items."""
    told = _INDENT.search(marks[number])
    width = int(told[1]) if told else len(lines[index]) - len(lines[index].lstrip())
    before = lines[max(index - _AROUND, 0) : index]
    around = (_near(before[::-1], width), _near(lines[index + 1 : index + _AROUND], width))
    dashed = any(line[width : width + 2].rstrip() == "-" for line in around)
    mark = f"{UNKNOWN}{number}{END}"
    return " " * width + (f"- {mark}" if dashed else f"{mark}: {mark}")


def _near(lines: list[str], width: int) -> str:
    """The first line that is not deeper than this, and not only a mark."""
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
    """Reads fields of nodes, and knows where a template may add something."""

    def __init__(self, source: Source, marks: tuple[str, ...]) -> None:
        self.source = source
        self._marks = marks

    @property
    def chart(self) -> str | None:
        """The folder of the chart, if this is one of its templates."""
        parts = PurePosixPath(self.source.path).parts
        return "/".join(parts[: parts.index("templates")]) or "." if "templates" in parts else None

    def place(self, node: YamlNode) -> Place:
        return self.source.place(node.line, node.column)

    def field(self, mapping: YamlNode | None, key: str) -> Field | None:
        if mapping is None:
            return None
        value = mapping.get(key)
        if value is None or value.is_null:
            return Field(UNKNOWN, self.place(mapping)) if self.is_open(mapping) else None
        if value.text is None or value.tag or any(again.text == key for again in mapping.repeated):
            return Field(UNKNOWN, self.place(value))
        return Field(self.text(value), self.place(value))

    def word(self, node: YamlNode, *path: str) -> str:
        """A text below a node; "" if there is none, or a template gives it."""
        value = node.get(*path)
        return value.text if value and value.text and not value.is_unknown else ""

    def name(self, node: YamlNode, *path: str) -> str:
        """The same, with … for what a template gives; "" if that is all."""
        value = node.get(*path)
        shown = MARK.sub("…", value.text) if value and value.text and value.tag != UNKNOWN_TAG else ""
        return shown if re.search(r"\w", shown) else ""

    def text(self, node: YamlNode) -> str:
        """The text of a scalar; its marks hold what they ask of values.yaml."""
        return MARK.sub(self._asked, node.text or "")

    def is_open(self, mapping: YamlNode) -> bool:
        """A template may add keys to it. After a list that is no deeper than its key, an insertion may be in either."""
        return mapping.is_unknown or any(
            key.is_unknown or (value.column == mapping.column and any(item.is_unknown for item in value.items))
            for key, value in mapping.pairs
        )

    def _asked(self, mark: re.Match[str]) -> str:
        return UNKNOWN + (self._marks[int(mark[1])] if mark[1] else "") + END


Said = Mapping[str, Field | None]


Entries = Mapping[str, tuple[str, Place]]


def _as_deployed(facts: Facts) -> Sequence[Workload]:
    """All of them, with what the values of charts and patches say; those that only change another are partial."""
    patched = frozenset[str]().union(*(patch.words for patch in facts.of(Patched)))
    return [replace(one, said=_said(one, patched, facts)) for one in facts.of(Workload)]


def running(facts: Facts) -> Iterator[Workload]:
    """The CronJobs that are not suspended."""
    for job in facts.conclude(_as_deployed):
        suspend = job["suspend"]
        if job.kind == "CronJob" and (suspend is None or suspend.text.lower() != "true"):
            yield job


def whole(facts: Facts) -> Iterator[Workload]:
    """The CronJobs of which all is seen, and whose runs nothing else guards."""
    return (job for job in running(facts) if not job.partial and not job.is_guarded)


def workloads(facts: Facts) -> Sequence[Workload]:
    """Those that run all the time, and are whole."""
    return [one for one in facts.conclude(_as_deployed) if one.kind != "CronJob" and not one.partial]


def _said(one: Workload, patched: frozenset[str], facts: Facts) -> Said:
    """Its fields with the chart's values; a missing field that a patch sets is unknown."""
    told = {name: _told(field, one.chart, facts) for name, field in one.said.items()}
    return {
        name: Field(UNKNOWN, one.place) if field is None and name in patched and not one.partial else field
        for name, field in told.items()
    }


def _charts(facts: Facts) -> Mapping[str, Entries]:
    return {
        values.chart: _entries(values) for values in facts.of(ChartValues) if PurePosixPath(values.path).name in VALUES
    }


def _entries(values: ChartValues) -> Entries:
    return {path: (text, Place(values.path, line)) for path, text, line in values.entries}


def _told(field: Field | None, chart: str | None, facts: Facts) -> Field | None:
    """The field with the chart's own values; its place is then that of the value."""
    if field is None or field.known:
        return field
    return _filled(field, facts.conclude(_charts).get(chart or "", {}))


def _filled(field: Field, entries: Entries) -> Field:
    text, place = field.text, field.place
    for mark in MARK.finditer(field.text):
        path, _, default = mark[1].partition("|")
        value, where = entries.get(path, (default, place))
        if value:
            text, place = text.replace(mark[0], value, 1), where
    return Field(text, place)
