"""Dockerfiles: what process 1 of the image is, and in which zone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cronce_audit.common import ZoneSet
from cronce_audit.containers.bases import sh_of
from cronce_audit.containers.facts import Image, Said, Start
from cronce_audit.containers.instructions import Instruction, exec_form, filled, instructions, is_dockerfile, pairs
from cronce_audit.containers.starts import commands, joined
from cronce_audit.folds import is_zone
from cronce_audit.model import Reader, Source

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
    stop_signal: Said | None = None
    tz: Said | None = None
    localtime: Said | None = None

    def child(self) -> "Stage":
        return replace(self, known=dict(self.environment), environment=dict(self.environment), own_cmd=False)


def _read(source: Source) -> Iterator[Any]:
    stage = _last_stage(source)
    if stage is None:
        return
    sh = sh_of(stage.image)
    start = joined(stage.entrypoint, stage.cmd)
    yield Image(source.path, sh, stage.entrypoint, stage.cmd, stage.stop_signal, _stage_name(source))
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
    elif one.name == "STOPSIGNAL":
        stage.stop_signal = Said(filled(one.rest, stage.known), place)
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


READER: Final = Reader("Dockerfile", is_dockerfile, _read)
