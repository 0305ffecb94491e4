"""Reads manifests, charts and kustomizations: workloads, what their containers start, patches and values."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from cronce_audit.clocks import is_zone
from cronce_audit.containers.shell import is_shell
from cronce_audit.kubernetes.facts import (
    MARK,
    VALUES,
    ChartValues,
    Container,
    Field,
    Fields,
    Patched,
    Plain,
    Workload,
    plain,
    unit,
)
from cronce_audit.model import Guarded, Place, Source, Unreadable, ZoneSet, reader
from cronce_audit.yaml import YamlNode, documents

_SUBSTITUTION: Final = re.compile(
    r"(?<!\$)\$\((?:date|hostname|uuidgen|whoami|nproc|uname|id|pwd|cat|echo|curl|openssl|git|kubectl)(?:\s[^()]*)?\)"
    r"|`(?:date|hostname|uuidgen|whoami|nproc|uname)(?:\s[^`]*)?`"
)
"""What a shell would run. `$(NAME)` is a variable of Kubernetes, and `$$(date)` escapes it."""
_INTERPRETED: Final = re.compile(r"-\w*[ce]|--eval|--command|--execute|eval|ssh")
"""Words after which a text may be run after all."""


def has_image(pod: YamlNode, fields: Fields) -> bool:
    """Whether a pod is complete: a patch names a container, and rarely its image."""
    found = pod.get("containers")
    if found is None or not found.items:
        return found is not None and fields.is_open(found)
    return all(one.get("image") or fields.is_open(one) for one in found.items)


def containers(pod: YamlNode | None, fields: Fields) -> Iterator[Container]:
    for node in _nodes(pod):
        words = _words(node)
        environment = tuple(_environment(node, fields))
        yield Container(
            name=fields.word(node, "name"),
            image=_shown((node.get("image") or node).text or ""),
            place=_place(node, fields),
            words=words,
            environment=environment,
            unexpanded=tuple(_unexpanded(node, fields, words, {name for name, _ in environment})),
        )


def zones(pod: YamlNode | None, fields: Fields, unit: str) -> Iterator[ZoneSet]:
    """In which time zones its containers are."""
    for node in _nodes(pod):
        zone = dict(_environment(node, fields)).get("TZ", "")
        if is_zone(zone):
            yield ZoneSet(zone, fields.place(node.get("env") or node), unit)


def _place(node: YamlNode, fields: Fields) -> Place:
    return fields.place(node.key("command") or node.key("args") or node)


def _nodes(pod: YamlNode | None) -> list[YamlNode]:
    found = pod.get("containers") if pod else None
    return [node for node in (found.items if found else ()) if node.kind == "mapping"]


def _words(node: YamlNode) -> tuple[str, ...]:
    return tuple(
        _shown(item.text or "")
        for key in ("command", "args")
        for item in (node.get(key) or node).items
        if item.text is not None
    )


def _shown(text: str) -> str:
    """The text with `$unknown` for what a template gives."""
    return MARK.sub("$unknown", text)


def _environment(node: YamlNode, fields: Fields) -> Iterator[tuple[str, str]]:
    for item in (node.get("env") or node).items:
        value = item.get("value")
        name = fields.word(item, "name")
        if name and value and value.text is not None and not value.is_unknown:
            yield name, value.text


def _unexpanded(node: YamlNode, fields: Fields, words: tuple[str, ...], defined: set[str]) -> Iterator[Field]:
    if "$" in ((node.get("image") or node).text or ""):
        return  # a shell, or envsubst, generates the manifest
    values = [item.get("value") for item in (node.get("env") or node).items]
    if any(re.search(r"\beval\b|\benvsubst\b", word) for word in words):
        values = []
    if not _is_interpreted(words):
        told = [item for key in ("command", "args") for item in (node.get(key) or node).items]
        values += [one for one in told if node.get("command") or _RUNS.search(one.text or "")]
    for value in values:
        found = _SUBSTITUTION.search(value.text) if value and value.text and "\n" not in value.text else None
        if value and found and found[0][2:-1] not in defined:
            yield Field(found[0], fields.place(value))


_RUNS: Final = re.compile(r"\$\(\w+ [^)]+\)")
"""`$(date +%F)`: a command with arguments; no variable has such a name."""


def _is_interpreted(words: tuple[str, ...]) -> bool:
    """Whether a shell, or something else that runs a text, is among the words."""
    return any(is_shell(word) or _INTERPRETED.fullmatch(PurePosixPath(word).name) for word in words)


KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
MOST: Final = 20_000
"""Nodes of a values.yaml that are read."""


def patched(source: Source) -> Patched:
    return Patched(frozenset(re.findall(r"\w+", source.text)))


def chart_values(source: Source) -> Iterator[ChartValues]:
    try:
        roots = list(documents(source.text))
    except Unreadable:
        return
    entries = tuple(_leaves(roots[0])) if roots else ()
    yield ChartValues(str(PurePosixPath(source.path).parent), source.path, entries)


def _leaves(root: YamlNode) -> Iterator[tuple[str, str, int]]:
    """The scalars by their dotted paths; not all, if a file expands to more than a chart has."""
    stack = [("", root)]
    for _ in range(MOST):
        if not stack:
            return
        path, node = stack.pop()
        if node.kind == "mapping":
            stack += [(f"{path}.{key.text}".lstrip("."), value) for key, value in node.pairs]
        elif node.text is not None and not node.is_null and "{{" not in node.text:
            yield path, node.text, node.line


_SUFFIX: Final = re.compile(r".*\.(ya?ml|tpl)(\.(j2|jinja2?|tpl|tmpl|gotmpl|template))?")
_KINDS: Final = re.compile(
    r"^[ \t-]*[\"']?kind[\"']?:\s*[\"']?"
    r"(CronJob|Deployment|StatefulSet|ReplicaSet|DaemonSet|Kustomization)\b",
    re.MULTILINE,
)
_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})

_SPEC = "spec"
_JOB = "spec.jobTemplate.spec"
_POD = "spec.jobTemplate.spec.template.spec"
_HOMES: Final = {
    **dict.fromkeys(("schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy"), (_SPEC,)),
    "backoffLimit": (_JOB,),
    "activeDeadlineSeconds": (_JOB, _POD),
    "suspend": (_SPEC, _JOB),
}
"""Where the fields of a CronJob belong; the first that has the field counts."""


def wants(path: PurePosixPath) -> bool:
    return path.name in KUSTOMIZATIONS or _SUFFIX.fullmatch(path.name) is not None


@reader("kubernetes", wants)
def read(source: Source) -> Iterator[Any]:
    if source.name in VALUES:
        yield from chart_values(source)
    elif _KINDS.search(source.text) or source.name in KUSTOMIZATIONS:
        for document, how in _documents(source):
            for node in _objects(document):
                yield from _object(node, Fields(source, how.marks))


def _documents(source: Source) -> Iterator[tuple[YamlNode, Plain]]:
    """Broken YAML is reported, unless it is a template that we cannot read."""
    how = plain(source.text)
    try:
        yield from [(document, how) for document in documents(how.text)]
    except Unreadable:
        if not how.marks and "apiVersion" in source.text and source.suffix != ".tpl":
            raise


def _objects(document: YamlNode) -> Iterator[YamlNode]:
    kind = document.get("kind")
    inside = document.get("objects" if kind and kind.text == "Template" else "items")
    if kind and kind.text and (kind.text == "Template" or kind.text.endswith("List")) and inside:
        yield from inside.items
    else:
        yield document


def _object(node: YamlNode, fields: Fields) -> Iterator[Any]:
    kind = fields.word(node, "kind")
    group = fields.word(node, "apiVersion").partition("/")[0]
    if kind == "CronJob" and group in ("batch", "") and node.get("spec", "jobTemplate"):
        yield from _cron_job(node, fields)
    elif kind == "CronJob" and group == "batch":
        yield patched(fields.source)
    elif kind in _WORKLOADS and group in ("apps", "extensions", "") and node.get("spec"):
        yield from _workload(kind, node, fields)
    elif fields.source.name in KUSTOMIZATIONS:
        yield patched(fields.source)


def _cron_job(node: YamlNode, fields: Fields) -> Iterator[Any]:
    spec, pod = node.get(_SPEC), node.get(*_POD.split("."))
    name = fields.word(node, "metadata", "name")
    partial = not (spec and (spec.get("schedule") or fields.is_open(spec)) and pod and has_image(pod, fields))
    if partial:
        yield patched(fields.source)
    key = spec.key("schedule") if spec else None
    place = fields.source.place((key or node).line)
    found = Workload(
        kind="CronJob",
        name=name,
        place=place,
        partial=partial,
        chart=fields.chart,
        said={name: _said(node, name, homes, fields) for name, homes in _HOMES.items()},
        containers=tuple(containers(pod, fields)),
    )
    yield found
    if found.is_guarded:
        yield Guarded("cronce", place, f"CronJob/{name}", across_hosts=True)
    if not partial:
        yield from zones(pod, fields, f"CronJob/{name}")


def _said(node: YamlNode, name: str, homes: tuple[str, ...], fields: Fields) -> Field | None:
    found = (fields.field(node.get(*home.split(".")), name) for home in homes)
    return next((field for field in found if field), None)


def _workload(kind: str, node: YamlNode, fields: Fields) -> Iterator[Any]:
    spec, pod = node.get("spec"), node.get("spec", "template", "spec")
    name, place = fields.name(node, "metadata", "name"), fields.place(node.key("kind") or node)
    partial = not (pod and has_image(pod, fields))
    if partial:
        yield patched(fields.source)
    strategy = node.get("spec", "strategy")
    yield Workload(
        kind=kind,
        name=name,
        place=place,
        partial=partial,
        chart=fields.chart,
        said={
            "replicas": fields.field(spec, "replicas"),
            "strategy": fields.field(strategy, "type") if strategy else fields.field(spec, "strategy"),
            "maxSurge": fields.field(strategy.get("rollingUpdate"), "maxSurge") if strategy else None,
        },
        containers=tuple(containers(pod, fields)),
    )
    if not partial:
        yield from zones(pod, fields, unit(kind, name, place))
