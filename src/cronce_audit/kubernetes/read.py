"""Manifests to facts: plain ones, templates of charts, and lists.

An object is known by its apiVersion, its kind and what its spec has. A rule of RBAC, the schema of a CRD or a text that
speaks of CronJobs has none of that at its root.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from cronce_audit.common import Guarded
from cronce_audit.kubernetes.facts import CronJob, Field, Misplaced, Scaler, Workload, unit
from cronce_audit.kubernetes.fields import Fields
from cronce_audit.kubernetes.others import KUSTOMIZATIONS, chart_values, is_values, kustomization, patched
from cronce_audit.kubernetes.pods import commands, containers, has_image
from cronce_audit.kubernetes.templates import Plain, plain
from cronce_audit.model import Reader, Source, Unreadable
from cronce_audit.yaml import Node, documents

_SUFFIX: Final = re.compile(r".*\.(ya?ml|tpl)(\.(j2|jinja2?|tpl|tmpl|gotmpl|template))?")
_KINDS: Final = re.compile(
    r"^[ \t-]*[\"']?kind[\"']?:\s*[\"']?"
    r"(CronJob|Deployment|StatefulSet|ReplicaSet|DaemonSet|HorizontalPodAutoscaler|Kustomization)\b",
    re.MULTILINE,
)
_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"})

_SPEC = "spec"
_TEMPLATE = "spec.jobTemplate"
_JOB = "spec.jobTemplate.spec"
_POD_TEMPLATE = "spec.jobTemplate.spec.template"
_POD = "spec.jobTemplate.spec.template.spec"
_LEVELS: Final = ("", _SPEC, _TEMPLATE, _JOB, _POD_TEMPLATE, _POD)
_HOMES: Final = {
    **dict.fromkeys(
        ("schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "successfulJobsHistoryLimit",
         "failedJobsHistoryLimit"), (_SPEC,)
    ),
    **dict.fromkeys(
        ("backoffLimit", "parallelism", "completions", "completionMode", "ttlSecondsAfterFinished", "podFailurePolicy"),
        (_JOB,),
    ),
    "activeDeadlineSeconds": (_JOB, _POD),
    "suspend": (_SPEC, _JOB),
    "restartPolicy": (_POD,),
    "terminationGracePeriodSeconds": (_POD,),
}  # fmt: skip
"""Where the fields of a CronJob belong; the first is the one that is meant."""


def wants(path: PurePosixPath) -> bool:
    return path.name in KUSTOMIZATIONS or _SUFFIX.fullmatch(path.name) is not None


def read(source: Source) -> Iterator[Any]:
    if is_values(source.name):
        yield from chart_values(source)
    elif _KINDS.search(source.text) or source.name in KUSTOMIZATIONS:
        for document, how in _documents(source):
            for node in _objects(document):
                yield from _object(node, Fields(source, how.marks))


def _documents(source: Source) -> Iterator[tuple[Node, Plain]]:
    """A template that does not become YAML is beyond us; what should be YAML and is not, is reported."""
    how = plain(source.text)
    try:
        yield from [(document, how) for document in documents(how.text)]
    except Unreadable:
        if not how.marks and "apiVersion" in source.text and source.suffix != ".tpl":
            raise


def _objects(document: Node) -> Iterator[Node]:
    kind = document.get("kind")
    inside = document.get("objects" if kind and kind.text == "Template" else "items")
    if kind and kind.text and (kind.text == "Template" or kind.text.endswith("List")) and inside:
        yield from inside.items
    else:
        yield document


def _object(node: Node, fields: Fields) -> Iterator[Any]:
    kind = fields.word(node, "kind")
    group = fields.word(node, "apiVersion").partition("/")[0]
    if kind == "CronJob" and group in ("batch", "") and node.get("spec", "jobTemplate"):
        yield from _cron_job(node, fields)
    elif kind == "CronJob" and group == "batch":
        yield patched(node, fields)
    elif kind in _WORKLOADS and group in ("apps", "extensions", "") and node.get("spec"):
        yield from _workload(kind, node, fields)
    elif kind == "HorizontalPodAutoscaler":
        target = node.get("spec", "scaleTargetRef")
        if target:
            most = fields.field(node.get("spec"), "maxReplicas")
            named = fields.name(target, "name")
            yield Scaler(fields.word(target, "kind"), named, most, fields.chart, fields.place(node))
    elif fields.source.name in KUSTOMIZATIONS:
        yield from kustomization(node, fields)


def _cron_job(node: Node, fields: Fields) -> Iterator[Any]:
    spec, pod = node.get(_SPEC), node.get(*_POD.split("."))
    name = fields.word(node, "metadata", "name")
    partial = not (spec and (spec.get("schedule") or fields.is_open(spec)) and pod and has_image(pod, fields))
    if partial:
        yield patched(node, fields)
    key = spec.key("schedule") if spec else None
    place = fields.source.place((key or node).line)
    found = CronJob(
        place=place,
        name=name,
        namespace=fields.word(node, "metadata", "namespace"),
        partial=partial,
        chart=fields.chart,
        said={name: _said(node, name, homes, fields) for name, homes in _HOMES.items()},
        containers=tuple(containers(pod, fields)),
        misplaced=tuple(_misplaced(node, fields)),
    )
    yield found
    if found.is_guarded:
        yield Guarded("cronce", place, f"CronJob/{name}", across_hosts=True)
    if not partial:
        yield from commands(pod, fields, f"CronJob/{name}", 1)


def _said(node: Node, name: str, homes: tuple[str, ...], fields: Fields) -> Field | None:
    found = (fields.field(node.get(*home.split(".")), name) for home in homes)
    return next((field for field in found if field), None)


def _misplaced(node: Node, fields: Fields) -> Iterator[Misplaced]:
    for level in _LEVELS:
        inside = node.get(*level.split(".")) if level else node
        for key, _ in inside.pairs if inside else ():
            homes = _HOMES.get(key.text or "", (level,))
            if level not in homes:
                yield Misplaced(key.text or "", level or "the object", homes[0], fields.place(key))


def _workload(kind: str, node: Node, fields: Fields) -> Iterator[Any]:
    spec, pod = node.get("spec"), node.get("spec", "template", "spec")
    name, place = fields.name(node, "metadata", "name"), fields.place(node.key("kind") or node)
    partial = not (pod and has_image(pod, fields))
    if partial:
        yield patched(node, fields)
    replicas = fields.field(spec, "replicas")
    strategy = node.get("spec", "strategy")
    yield Workload(
        kind=kind,
        name=name,
        place=place,
        partial=partial,
        chart=fields.chart,
        said={
            "replicas": replicas,
            "strategy": fields.field(strategy, "type") if strategy else fields.field(spec, "strategy"),
            "maxSurge": fields.field(strategy.get("rollingUpdate"), "maxSurge") if strategy else None,
        },
        containers=tuple(containers(pod, fields)),
    )
    if not partial:
        yield from commands(pod, fields, unit(kind, name, place), _copies(kind, replicas))


def _copies(kind: str, replicas: Field | None) -> int | None:
    """How many pods on every node make is not told."""
    if kind == "DaemonSet":
        return None
    return replicas.number if replicas else 1


READERS: Final = (Reader("kubernetes", wants, read),)
