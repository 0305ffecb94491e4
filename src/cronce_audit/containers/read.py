"""Dockerfiles, compose files and Procfiles: what process 1 is, how many there are, and in which zone."""

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.containers.facts import Image, Said, Service, Start, commands, is_for_trying, joined
from cronce_audit.containers.shell import line, sh_of
from cronce_audit.model import Command, Place, Source, ZoneSet, reader
from cronce_audit.yaml import Node, documents

_INSTRUCTION: Final = re.compile(r"\s*(?P<name>[A-Za-z]+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_HEREDOC: Final = re.compile(r"<<-?\s*([\"']?)(?P<end>\w+)\1")
_DIRECTIVE: Final = re.compile(r"#\s*escape\s*=\s*(?P<char>\S)\s*$", re.MULTILINE)
_VARIABLE: Final = re.compile(
    r"(?<!\\)\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::?(?P<how>[-+])(?P<word>[^}]*))?\})"
)


_OTHER: Final = (
    ".md", ".py", ".sh", ".yml", ".yaml", ".in", ".j2", ".jinja", ".tmpl", ".tpl", ".erb", ".template", ".dockerignore"
)  # fmt: skip
"""Endings of what only speaks of a Dockerfile, or is made into one."""


class Instruction(NamedTuple):
    """`CMD ["cron", "-f"]`: its name in capitals, and the rest."""

    name: str
    rest: str
    line: int


def is_dockerfile(path: PurePosixPath) -> bool:
    name = path.name.lower()
    named = name.startswith(("dockerfile", "containerfile")) or name.endswith((".dockerfile", ".containerfile"))
    return named and not name.endswith(_OTHER) and not is_for_trying(path)


def instructions(text: str) -> Iterator[Instruction]:
    lines = text.splitlines()
    found = _DIRECTIVE.match(text)
    escape = found["char"] if found else "\\"
    number = 0
    while number < len(lines):
        start = number
        if not lines[start].strip() or lines[start].lstrip().startswith("#"):
            number += 1
            continue
        whole, number = _joined(lines, number, escape)
        match = _INSTRUCTION.fullmatch(whole)
        if not match:
            continue
        name, rest = match["name"].upper(), (match["rest"] or "").strip()
        if name in ("RUN", "COPY", "ADD"):
            body, number = _heredocs(rest, lines, number)
            rest += body
        yield Instruction(name, rest, start + 1)


def _joined(lines: list[str], number: int, escape: str) -> tuple[str, int]:
    """The line with those it goes on in, and the number of the next. Comments and empty lines between do not count."""
    parts: list[str] = []
    while number < len(lines):
        text = lines[number].rstrip()
        number += 1
        if text.lstrip().startswith("#") or (parts and not text):
            continue
        if not text.endswith(escape):
            parts.append(text)
            break
        parts.append(text[: -len(escape)])
    return " ".join(parts), number


def _heredocs(rest: str, lines: list[str], number: int) -> tuple[str, int]:
    body: list[str] = []
    for found in _HEREDOC.finditer(rest):
        while number < len(lines):
            text = lines[number]
            number += 1
            if text.strip("\t ") == found["end"]:
                break
            body.append(text)
    return "".join(f"\n{text}" for text in body), number


def exec_form(rest: str) -> tuple[str, ...] | None:
    """The words of `["cron", "-f"]`; None is the shell form. What is no JSON is handed to the shell as it stands."""
    if not rest.startswith("["):
        return None
    try:
        words = json.loads(rest)
    except ValueError:
        return None
    return tuple(words) if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def pairs(rest: str) -> Iterator[tuple[str, str]]:
    """`A=1 B="two words"`, or the old `A 1`."""
    if not re.match(r"[\w.-]+=", rest):
        name, _, value = rest.partition(" ")
        yield name, value.strip().strip("\"'")
        return
    try:
        words = shlex.split(rest)
    except ValueError:
        return
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value


def filled(text: str, known: Mapping[str, str]) -> str:
    """With the variables whose value the file tells; the others stay as they stand."""

    def value(found: re.Match[str]) -> str:
        name = found["plain"] or found["name"]
        if found["how"] == "+":
            return found["word"] if name in known else ""
        return known.get(name, found["word"] if found["how"] else found[0])

    return _VARIABLE.sub(value, text) if "$" in text else text


_LOCALTIME: Final = re.compile(
    r"\b(?:ln|cp)\b[^;&|\n]*\s\"?/usr/share/zoneinfo/(?P<zone>[^\s;&|\"]+)\"?\s+\"?/etc/localtime\b"
)


@dataclass(slots=True)
class Stage:
    """What holds at some line of a stage."""

    image: str
    known: dict[str, str] = field(default_factory=dict)
    """ARG and ENV, as far as their values are told."""
    environment: dict[str, str] = field(default_factory=dict)
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    entrypoint: Start | None = None
    cmd: Start | None = None
    own_cmd: bool = False
    tz: Said | None = None
    localtime: Said | None = None

    def child(self) -> "Stage":
        return replace(self, known=dict(self.environment), environment=dict(self.environment), own_cmd=False)


@reader("Dockerfile", is_dockerfile)
def _read_dockerfile(source: Source) -> Iterator[Any]:
    stage = _last_stage(source)
    if stage is None:
        return
    sh = sh_of(stage.image)
    start = joined(stage.entrypoint, stage.cmd)
    yield Image(source.path, sh, stage.entrypoint, stage.cmd, _stage_name(source))
    yield from commands(start, "dockerfile", source.path, sh=sh, copies=None, environment=stage.environment)
    zone = stage.tz or stage.localtime
    if zone and is_zone(zone.value):
        yield ZoneSet(zone.value, zone.place, source.path)


def _stage_name(source: Source) -> str:
    words = [one.rest.split() for one in instructions(source.text) if one.name == "FROM"]
    return words[-1][-1] if words and len(words[-1]) > 2 and words[-1][-2].lower() == "as" else ""


def _last_stage(source: Source) -> Stage | None:
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    stage: Stage | None = None
    for one in instructions(source.text):
        if one.name == "FROM":
            stage = _from(one, stages, arguments)
        elif stage is not None:
            _apply(stage, one, source, arguments)
        elif one.name == "ARG":
            arguments.update((name, filled(value, arguments)) for name, value in pairs(one.rest) if "=" in one.rest)
    return stage


def _from(one: Instruction, stages: dict[str, Stage], arguments: dict[str, str]) -> Stage:
    words = [word for word in filled(one.rest, arguments).split() if not word.startswith("--")]
    name = words[0] if words else ""
    stage = stages[name.lower()].child() if name.lower() in stages else Stage(name)
    if len(words) == 3 and words[1].lower() == "as":
        stages[words[2].lower()] = stage
    return stage


def _apply(stage: Stage, one: Instruction, source: Source, arguments: dict[str, str]) -> None:
    place = source.place(one.line)
    if one.name == "ARG":
        _arguments(stage, one, arguments)
    elif one.name == "ENV":
        told = {name: filled(value, stage.known) for name, value in pairs(one.rest)}
        stage.known.update(told)
        stage.environment.update(told)
        if "TZ" in told:
            stage.tz = Said(told["TZ"], place)
    elif one.name == "SHELL":
        stage.shell = exec_form(one.rest) or stage.shell
    elif one.name in ("CMD", "ENTRYPOINT"):
        _process_one(stage, one, source)
    elif one.name in ("RUN", "COPY", "ADD"):
        _build(stage, one, source)


def _arguments(stage: Stage, one: Instruction, arguments: dict[str, str]) -> None:
    """Without a value, one from before the first FROM is taken over."""
    if "=" in one.rest:
        stage.known.update((name, filled(value, stage.known)) for name, value in pairs(one.rest))
    else:
        stage.known.update((name, arguments[name]) for name in one.rest.split() if name in arguments)


def _process_one(stage: Stage, one: Instruction, source: Source) -> None:
    words = exec_form(one.rest)
    start = Start((*stage.shell, one.rest) if words is None else words, source.place(one.line))
    if one.name == "CMD":
        stage.cmd, stage.own_cmd = start, True
    else:
        stage.entrypoint = start
        # An entrypoint of its own empties the command that was inherited.
        stage.cmd = stage.cmd if stage.own_cmd else None


def _build(stage: Stage, one: Instruction, source: Source) -> None:
    found = _LOCALTIME.search(one.rest)
    if found:
        stage.localtime = Said(filled(found["zone"], stage.known), source.place(one.line))


_FAR: Final = 5
"""Services that extend one another in a row."""
_DOLLAR: Final = "\ue000"
"""Stands for a `$` that no variable follows."""


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".yml", ".yaml") and "compose" in path.name.lower() and not is_for_trying(path)


@reader("compose file", _wants)
def _read_compose(source: Source) -> Iterator[Any]:
    if "services" not in source.text or "{{" in source.text or "{%" in source.text:
        return  # not a compose file, or one that is made into one
    for document in documents(source.text):
        services = document.get("services")
        for key, node in services.pairs if services else ():
            if key.text and node.kind == "mapping":
                yield from _Reading(source, services, node).facts(key.text, key.line)


class _Reading:
    """One service: what it says itself, and what it has from the one it extends."""

    def __init__(self, source: Source, services: Node | None, node: Node) -> None:
        self._source = source
        self._nodes = list(_lineage(services, node))

    def facts(self, name: str, line: int) -> Iterator[Any]:
        service = self._service(name, line)
        environment = {key: value for key, (value, _) in self._environment().items()}
        yield service
        start = joined(service.entrypoint, service.command)
        yield from commands(start, "compose", name, sh=service.sh, copies=service.copies, environment=environment)
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
            sh=sh_of(filled(image.text or "", {})) if image and not self._get("build") else None,
            partial=not image and not self._get("build"),
            entrypoint=self._start("entrypoint"),
            command=self._start("command"),
            init=init is not None and init.text == "true",
            copies=self._copies(replicas),
            copies_place=self._source.place(replicas.line if replicas else line),
            on_demand=profiles is not None and bool(profiles.items),
            order=order if order and order.value == "start-first" else None,
            target=self._text("build", "target") or "",
        )

    def _get(self, *path: str) -> Node | None:
        return next((found for node in self._nodes if (found := node.get(*path)) and not found.is_null), None)

    def _said(self, *path: str) -> Said | None:
        node = self._get(*path)
        return Said(filled(node.text, {}), self._source.place(node.line)) if node and node.text else None

    def _copies(self, replicas: Node | None) -> int | None:
        """One, where nothing is said and it is not one on each machine."""
        if replicas is None:
            mode = self._said("deploy", "mode")
            return 1 if mode is None or mode.value == "replicated" else None
        text = filled(replicas.text or "", {})
        return int(text) if text.isdecimal() else None

    def _start(self, key: str) -> Start | None:
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
        return Start(tuple(word.replace(_DOLLAR, "$") for word in words), self._source.place(node.line))

    def _dockerfile(self) -> str:
        """Its path in the tree; "" where that is not told."""
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
        """What is spelled out, each with its line; a service's own before what it extends."""
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
    """Compose fills in variables before it splits words; what is `$$` is a `$` when both is done."""
    return filled(text.replace("$$", _DOLLAR), {})


def _lineage(services: Node | None, node: Node) -> Iterator[Node]:
    """A service, the one of this file that it extends, and so on."""
    for _ in range(_FAR):
        yield node
        extends = node.get("extends")
        name = extends and (extends.text or (extends.get("file") is None and extends.get("service")))
        text = name.text if isinstance(name, Node) else name
        parent = services.get(text) if services and text else None
        if parent is None:
            return
        node = parent


_PROCESS: Final = re.compile(r"^(?P<name>[A-Za-z0-9_-]+):[ \t]*(?P<text>\S.*?)[ \t]*$", re.MULTILINE)


def _is_procfile(path: PurePosixPath) -> bool:
    return path.stem == "Procfile" and path.suffix != ".md" and not is_for_trying(path)


@reader("Procfile", _is_procfile)
def _read_procfile(source: Source) -> Iterator[Command]:
    for found in _PROCESS.finditer(source.text):
        place = source.place(source.text.count("\n", 0, found.start()) + 1)
        yield from commands(_start_of(found["text"], place), "procfile", found["name"], copies=None)


def _start_of(text: str, place: Place) -> Start:
    """One simple command by its words, since who starts it signals all of its processes; else as told to a shell."""
    read = line(text)
    simple = len(read.commands) == 1 and read.plain
    return Start(read.commands[0].words if simple else ("sh", "-c", text), place)
