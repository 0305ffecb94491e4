"""A Dockerfile as instructions: lines joined, comments left out, heredocs taken whole."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.facts import is_for_trying

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
