"""A Dockerfile as instructions: lines joined, comments left out, heredocs taken whole."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.common import ZoneSet
from cronce_audit.containers.facts import Image, Said, Start, commands, is_for_trying, joined
from cronce_audit.containers.shell import sh_of
from cronce_audit.model import Source, reader

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
def _read(source: Source) -> Iterator[Any]:
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
        _start(stage, one, source)
    elif one.name in ("RUN", "COPY", "ADD"):
        _build(stage, one, source)


def _arguments(stage: Stage, one: Instruction, arguments: dict[str, str]) -> None:
    """Without a value, one from before the first FROM is taken over."""
    if "=" in one.rest:
        stage.known.update((name, filled(value, stage.known)) for name, value in pairs(one.rest))
    else:
        stage.known.update((name, arguments[name]) for name in one.rest.split() if name in arguments)


def _start(stage: Stage, one: Instruction, source: Source) -> None:
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
