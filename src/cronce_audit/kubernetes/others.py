"""What says something of an object that stands elsewhere: the patches of a kustomization, and a chart's values."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any, Final

from cronce_audit.containers.facts import is_for_trying
from cronce_audit.kubernetes.facts import ChartValues, Patched, PatchFile, Workload
from cronce_audit.kubernetes.fields import Fields
from cronce_audit.model import Source, Unreadable
from cronce_audit.yaml import Node, documents

KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
VALUES: Final = frozenset({"values.yaml", "values.yml"})
_ON_TOP: Final = re.compile(r"values[-_.][\w.-]+\.ya?ml")
"""`values-prod.yaml`: what `helm install -f` puts over them."""
MOST: Final = 20_000
"""Nodes of a values.yaml that are looked at."""


def patched(node: Node, fields: Fields) -> Patched:
    """What an object in part gives to the whole one of its name."""
    return Patched(fields.word(node, "kind"), fields.word(node, "metadata", "name"), _keys(node))


def _keys(node: Node) -> frozenset[str]:
    return frozenset(key.text for each in node.walk() for key, _ in each.pairs if key.text)


def kustomization(node: Node, fields: Fields) -> Iterator[Any]:
    folder = PurePosixPath(fields.source.path).parent
    for listed in ("patches", "patchesStrategicMerge", "patchesJson6902"):
        for patch in (node.get(listed) or node).items:
            path = patch.text if patch.text else (patch.get("path") or patch).text
            inline = path if path and "\n" in path else (patch.get("patch") or patch).text
            if path and "\n" not in path:
                yield PatchFile(normpath(folder / path))
            if inline and "\n" in inline:
                yield from _inline(inline, patch)
    for replicas in (node.get("replicas") or node).items:
        name = fields.word(replicas, "name")
        count = fields.field(replicas, "count")
        for kind in ("Deployment", "StatefulSet"):
            said = {"replicas": count, "strategy": None, "maxSurge": None}
            yield Workload(kind, name, fields.place(replicas), partial=True, chart=None, said=said, containers=())
            yield Patched(kind, name, frozenset({"replicas"}))


def _inline(text: str, patch: Node) -> Iterator[Patched]:
    """A patch that is written into the kustomization: an object in part, or operations with paths."""
    target = patch.get("target") or patch
    try:
        for document in documents(text):
            kind, name = (document.get("kind") or target.get("kind")), document.get("metadata", "name")
            name = name or target.get("name")
            paths = {(one.get("path") or one).text or "" for one in document.items}
            fields = _keys(document) | {path.rpartition("/")[2] for path in paths}
            yield Patched((kind and kind.text) or "", (name and name.text) or "", fields)
    except Unreadable:
        return


def is_values(name: str) -> bool:
    on_top = _ON_TOP.fullmatch(name) and not is_for_trying(PurePosixPath(name))
    return name in VALUES or bool(on_top)


def chart_values(source: Source) -> Iterator[ChartValues]:
    try:
        roots = list(documents(source.text))
    except Unreadable:
        return
    entries = tuple(_leaves(roots[0])) if roots else ()
    yield ChartValues(str(PurePosixPath(source.path).parent), source.path, entries)


def _leaves(root: Node) -> Iterator[tuple[str, str, int]]:
    """The scalars by their dotted paths; of a file that unfolds to more than a chart has, some."""
    stack = [("", root)]
    for _ in range(MOST):
        if not stack:
            return
        path, node = stack.pop()
        if node.kind == "mapping":
            stack += [(f"{path}.{key.text}".lstrip("."), value) for key, value in node.pairs]
        elif node.text is not None and not node.is_null and "{{" not in node.text:
            yield path, node.text, node.line
