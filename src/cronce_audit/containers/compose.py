"""Reads compose files and Procfiles: what is started, how many copies, and in which time zone."""

import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from cronce_audit.clocks import is_zone
from cronce_audit.containers.facts import PlacedValue, Service, StartWords, is_for_trying
from cronce_audit.containers.shell import filled
from cronce_audit.model import CommandLine, Source, ZoneSet, reader
from cronce_audit.yaml import YamlNode, documents

_FAR: Final = 5
"""Steps of `extends` that are followed."""
_DOLLAR: Final = "\ue000"
"""Replaces a `$$` until variables are filled in."""


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".yml", ".yaml") and "compose" in path.name.lower() and not is_for_trying(path)


@reader("compose file", _wants)
def _read_compose(source: Source) -> Iterator[Any]:
    if "services" not in source.text or "{{" in source.text or "{%" in source.text:
        return  # not a compose file, or a template of one
    for document in documents(source.text):
        services = document.get("services")
        for key, node in services.pairs if services else ():
            if key.text and node.kind == "mapping":
                yield from _Reading(source, services, node).facts(key.text, key.line)


class _Reading:
    """One service, with what it inherits by `extends`."""

    def __init__(self, source: Source, services: YamlNode | None, node: YamlNode) -> None:
        self._source = source
        self._nodes = list(_lineage(services, node))

    def facts(self, name: str, line: int) -> Iterator[Any]:
        yield self._service(name, line)
        zone, at = self._environment().get("TZ", ("", 0))
        if zone and is_zone(zone):
            yield ZoneSet(zone, self._source.place(at), name)

    def _service(self, name: str, line: int) -> Service:
        image = self._get("image")
        replicas = self._get("deploy", "replicas") or self._get("scale")
        order = self._said("deploy", "update_config", "order")
        profiles = self._get("profiles")
        init = self._get("init")
        return Service(
            name=name,
            place=self._source.place(line),
            dockerfile=self._dockerfile(),
            is_alpine="alpine" in ((image and image.text) or ""),
            partial=not image and not self._get("build"),
            entrypoint=self._start("entrypoint"),
            command=self._start("command"),
            init=init is not None and init.text == "true",
            copies=self._copies(replicas),
            copies_place=self._source.place(replicas.line if replicas else line),
            on_demand=profiles is not None and bool(profiles.items),
            order=order if order and order.value == "start-first" else None,
            target=self._text("build", "target") or "",
            environment=tuple((key, value) for key, (value, _) in self._environment().items()),
        )

    def _get(self, *path: str) -> YamlNode | None:
        return next((found for node in self._nodes if (found := node.get(*path)) and not found.is_null), None)

    def _said(self, *path: str) -> PlacedValue | None:
        node = self._get(*path)
        return PlacedValue(filled(node.text, {}), self._source.place(node.line)) if node and node.text else None

    def _copies(self, replicas: YamlNode | None) -> int | None:
        """One by default; None if unknown, or one on each machine."""
        if replicas is None:
            mode = self._said("deploy", "mode")
            return 1 if mode is None or mode.value == "replicated" else None
        text = filled(replicas.text or "", {})
        return int(text) if text.isdecimal() else None

    def _start(self, key: str) -> StartWords | None:
        node = self._get(key)
        if node is None:
            return None
        if node.kind == "sequence":
            words = [_filled(item.text or "") for item in node.items]
        else:
            try:
                words = shlex.split(_filled(node.text or ""))
            except ValueError:
                return None
        return StartWords(tuple(word.replace(_DOLLAR, "$") for word in words), self._source.place(node.line))

    def _dockerfile(self) -> str:
        """Its path in the tree; "" where that is not known."""
        build = self._get("build")
        if build is None or self._get("build", "dockerfile_inline"):
            return ""
        context = build.text if build.kind == "scalar" else (self._text("build", "context") or ".")
        file = self._text("build", "dockerfile") or "Dockerfile"
        if not context or "$" in context + file or re.match(r"\w+://|git@", context):
            return ""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self._source.path), context, file))

    def _text(self, *path: str) -> str | None:
        node = self._get(*path)
        return node.text if node else None

    def _environment(self) -> dict[str, tuple[str, int]]:
        """The variables with a written value, each with its line; a service's own override those it extends."""
        found: dict[str, tuple[str, int]] = {}
        for node in reversed(self._nodes):
            environment = node.get("environment")
            for key, value in environment.pairs if environment else ():
                found[key.text or ""] = (filled(value.text or "", {}), value.line)
            for item in environment.items if environment else ():
                name, equals, text = (item.text or "").partition("=")
                if equals:
                    found[name] = (filled(text, {}), item.line)
        return found


def _filled(text: str) -> str:
    """Compose fills in variables before it splits words, and then turns `$$` into `$`."""
    return filled(text.replace("$$", _DOLLAR), {})


def _lineage(services: YamlNode | None, node: YamlNode) -> Iterator[YamlNode]:
    """A service, the one of this file that it extends, and so on."""
    for _ in range(_FAR):
        yield node
        extends = node.get("extends")
        name = extends and (extends.text or (extends.get("file") is None and extends.get("service")))
        text = name.text if isinstance(name, YamlNode) else name
        parent = services.get(text) if services and text else None
        if parent is None:
            return
        node = parent


_PROCESS: Final = re.compile(r"^(?P<name>[A-Za-z0-9_-]+):[ \t]*(?P<text>\S.*?)[ \t]*$", re.MULTILINE)


def _is_procfile(path: PurePosixPath) -> bool:
    return path.stem == "Procfile" and path.suffix != ".md" and not is_for_trying(path)


@reader("Procfile", _is_procfile)
def _read_procfile(source: Source) -> Iterator[CommandLine]:
    for found in _PROCESS.finditer(source.text):
        words = ("sh", "-c", found["text"])
        yield CommandLine(words, source.at(found.start()), "procfile", found["name"], copies=None)
