"""Reads Dockerfiles: process 1, time zone, which cron is installed, which files are copied where."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from cronce.errors import BadInput
from cronce.integrations.crontab import entries
from cronce_audit.clocks import is_zone
from cronce_audit.containers.facts import (
    Copied,
    CronEngine,
    Image,
    PlacedValue,
    ScheduledJob,
    StartWords,
    is_for_trying,
)
from cronce_audit.containers.shell import filled
from cronce_audit.crontab.read import NeverRun, lacks_user, shown
from cronce_audit.model import Place, Source, ZoneSet, reader

_INSTRUCTION: Final = re.compile(r"\s*(?P<name>[A-Za-z]+)(?:\s+(?P<rest>.*))?", re.DOTALL)
_HEREDOC: Final = re.compile(r"<<-?\s*([\"']?)(?P<end>\w+)\1")
_DIRECTIVE: Final = re.compile(r"#\s*escape\s*=\s*(?P<char>\S)\s*$", re.MULTILINE)
_OTHER: Final = (
    ".md", ".py", ".sh", ".yml", ".yaml", ".in", ".j2", ".jinja", ".tmpl", ".tpl", ".erb", ".template",
    ".dockerignore",
)  # fmt: skip
"""Endings of files about Dockerfiles, or templates of them."""


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
    """A line with its continuation lines, and the number of the next. Comments and empty lines between are skipped."""
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
    """The words of `["cron", "-f"]`; None for the shell form, which includes what is no valid JSON."""
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


_LOCALTIME: Final = re.compile(
    r"\b(?:ln|cp)\b[^;&|\n]*\s\"?/usr/share/zoneinfo/(?P<zone>[^\s;&|\"]+)\"?\s+\"?/etc/localtime\b"
)


@dataclass(slots=True)
class Stage:
    """The state of a build stage at some line."""

    image: str
    name: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """ARG and ENV, as far as their values are known."""
    environment: dict[str, str] = field(default_factory=dict)
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    entrypoint: StartWords | None = None
    cmd: StartWords | None = None
    own_cmd: bool = False
    tz: PlacedValue | None = None
    localtime: PlacedValue | None = None

    def child(self) -> "Stage":
        environment = dict(self.environment)
        return replace(self, name="", known=dict(environment), environment=environment, own_cmd=False)


@reader("Dockerfile", is_dockerfile)
def _read(source: Source) -> Iterator[Any]:
    found = list(instructions(source.text))
    stage = _last_stage(found, source) or Stage("")
    text = "\n".join(f"{one.name} {one.rest}" for one in found)
    yield Image(
        source.path,
        "alpine" in stage.image,
        stage.entrypoint,
        stage.cmd,
        tuple(sorted(stage.environment.items())),
        stage.name,
        _engine(text),
        tuple(copied for one in found for copied in _copies(one)),
        _names([one.rest for one in found if one.name == "RUN"]),
        _names([text]),
        next((source.place(one.line) for one in found if _TAB.search(one.rest)), None),
    )
    zone = stage.tz or stage.localtime
    if zone and is_zone(zone.value):
        yield ZoneSet(zone.value, zone.place, source.path)
    yield from _echoed(source)


def _last_stage(found: Sequence[Instruction], source: Source) -> Stage | None:
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    stage: Stage | None = None
    for one in found:
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
        stage.name = words[2]
        stages[words[2].lower()] = stage
    return stage


def _apply(stage: Stage, one: Instruction, source: Source, arguments: dict[str, str]) -> None:
    place = source.place(one.line)
    match one.name:
        case "ARG" if "=" in one.rest:
            stage.known.update((name, filled(value, stage.known)) for name, value in pairs(one.rest))
        case "ARG":  # without a value, one from before the first FROM is taken over
            stage.known.update((name, arguments[name]) for name in one.rest.split() if name in arguments)
        case "ENV":
            told = {name: filled(value, stage.known) for name, value in pairs(one.rest)}
            stage.known.update(told)
            stage.environment.update(told)
            stage.tz = PlacedValue(told["TZ"], place) if "TZ" in told else stage.tz
        case "SHELL":
            stage.shell = exec_form(one.rest) or stage.shell
        case "CMD":
            stage.cmd, stage.own_cmd = _start(stage, one, place), True
        case "ENTRYPOINT":
            stage.entrypoint = _start(stage, one, place)
            # Setting an entrypoint resets an inherited command.
            stage.cmd = stage.cmd if stage.own_cmd else None
        case "RUN" | "COPY" | "ADD":
            if found := _LOCALTIME.search(one.rest):
                stage.localtime = PlacedValue(filled(found["zone"], stage.known), place)


def _start(stage: Stage, one: Instruction, place: Place) -> StartWords:
    words = exec_form(one.rest)
    return StartWords((*stage.shell, one.rest) if words is None else words, place)


_ENGINES: Final[Sequence[tuple[CronEngine, str]]] = (
    ("supercronic", r"supercronic"),
    ("other", r"apk\b[^\n]*\badd\b[^\n]*\b(dcron|fcron)\b|\b(go-cron|yacron|jobber|ofelia|bcron|systemd-cron)\b"),
    ("cronie", r"\b(apk|yum|dnf|microdnf|zypper|pacman|tdnf)\b[^\n]*\b(cronie|crontabs)\b"),
    ("debian", r"\bapt(-get|itude)?\b[^\n]*\binstall\b[^\n]*(?<![\w./-])cron(?![\w./-])"),
)
_BUSYBOX: Final = r"(?<![\w-])crond(?![\w-])"


def _engine(text: str) -> CronEngine:
    found: list[CronEngine] = [engine for engine, pattern in _ENGINES if re.search(pattern, text)]
    if not found and re.search(r"(?im)^FROM\s+\S*alpine", text) and re.search(_BUSYBOX, text):
        return "busybox"
    return found[0] if len(found) == 1 else ""


_TAB: Final = re.compile(r"cron\.d/|/crontabs/|\bcrontab\s+(?!-l)\S|/etc/crontab\b")


def _copies(one: Instruction) -> Iterator[Copied]:
    """COPY and ADD from the tree, not from another stage or the network."""
    line = one.rest.partition("\n")[0]
    if one.name not in ("COPY", "ADD") or "--from=" in line:
        return
    words = [word for word in line.split() if not word.startswith("--")]
    if words and words[0].startswith("["):
        words = re.findall(r'"([^"]+)"', line)
    if len(words) < 2:
        return
    *sources, target = words
    for name in sources:
        into = target.endswith("/") or len(sources) > 1
        whole = f"{target.rstrip('/')}/{PurePosixPath(name).name}" if into else target
        yield Copied(name.removeprefix("./").rstrip("/"), whole, one.line)


def _names(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(
        PurePosixPath(word).name for line in lines for word in re.findall(r"[\w./~$\{\}-]+", line) if word.strip("./")
    )


_ECHOED: Final = re.compile(
    r"""(?:echo|printf)\s+(?:-\w+\s+)?(?P<quote>["'])(?P<line>(?:(?!(?P=quote)).)+)(?P=quote)[\s\\]*"""
    r"""(?:>>?\s*(?P<to>\S*(?:crontab|cron\.d/|/cron/)\S*)|\|\s*crontab\b)"""
)


def _echoed(source: Source) -> Iterator[ScheduledJob | NeverRun]:
    """`RUN echo "0 3 * * * /app/run.sh" > /etc/crontabs/root`."""
    for found in _ECHOED.finditer(source.text):
        try:
            [entry] = entries(f"{found['line']}\n")
        except (BadInput, ValueError):
            continue
        place = source.at(found.start())
        what = f"`{shown(entry.command)}`"
        yield ScheduledJob(what, "the cron of the image", place, entry.schedule, entry.command)
        if found["to"] and "cron.d/" in found["to"] and lacks_user(entry.command):
            yield NeverRun(place, entry.command)
