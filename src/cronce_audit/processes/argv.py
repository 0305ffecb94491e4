"""How many: known, known to be several, or not known."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.containers.shell import filled, given
from cronce_audit.grammars import tree
from cronce_audit.scripts import WRAPPERS, commands_of


class Count(NamedTuple):
    """At least so many; exactly so many where that is known."""

    least: int
    exact: bool = True

    def times(self, other: "Count") -> "Count":
        return Count(self.least * other.least, self.exact and other.exact)

    @property
    def is_several(self) -> bool:
        return self.least > 1

    def __str__(self) -> str:
        return str(self.least) if self.exact else "several" if self.is_several else "an unknown number of"


ONE: Final = Count(1)
SEVERAL: Final = Count(2, exact=False)
"""One for each processor, whatever is added to it or multiplied: servers have more than one."""
UNKNOWN: Final = Count(1, exact=False)


def count(word: str | None) -> Count:
    """What a word, or an expression, says; None is a number that is not told."""
    if word is not None and re.fullmatch(r"\d{1,4}", word.strip()):
        return Count(max(int(word), 1))
    return SEVERAL if word and re.search(r"nproc|cpu_count|\bauto\b", word) else UNKNOWN


@dataclass(frozen=True, slots=True)
class Told:
    """What stands on a command line."""

    options: Sequence[tuple[str, str]]
    """In order, each with its value; "" for a flag."""
    words: Sequence[str]
    """What is no option and no value of one."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def value(self, *names: str) -> str | None:
        """The last one given counts."""
        return next((value for name, value in reversed(self.options) if name in names), None)


FLAGS: Final = frozenset({
    "-B", "-E", "-C", "-D", "-M", "-R", "-q", "--beat", "--detach", "--daemon", "--no-daemon", "--preload", "--reload",
    "--no-reload", "--debug", "--no-debug", "--debugger", "--with-threads", "--factory", "--proxy-headers",
    "--access-log", "--no-access-log", "--no-server-header", "--capture-output", "--reuse-port", "--master",
    "--enable-threads", "--lazy-apps", "--lazy", "--die-on-term", "--vacuum", "--purge", "--task-events", "--quiet",
    "--without-gossip", "--without-mingle", "--without-heartbeat", "--enable-source-maps", "--inspect",
    "--no-warnings", "--transpile-only", "--silent", "--watch", "--prod", "--production", "--json", "--force",
    "--no-autorestart", "--update-env", "--attach"
})  # fmt: skip
"""Options of all programs that take no value; of any other one the word behind it is taken for its value."""


def told_in(arguments: Sequence[str]) -> Told:
    options: list[tuple[str, str]] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            takes = not equals and name not in FLAGS and bool(rest) and not rest[0].startswith("--")
            options.append((name, rest.pop(0) if takes else value))
        else:
            options += _short(word, rest)
    return Told(options, words)


def _short(word: str, rest: list[str]) -> list[tuple[str, str]]:
    """`-w4`, `-w 4`, and `-BE` for two flags."""
    found: list[tuple[str, str]] = []
    for position in range(1, len(word)):
        name, value = f"-{word[position]}", word[position + 1 :]
        if name not in FLAGS:
            takes = not value and bool(rest) and not rest[0].startswith("--")
            return [*found, (name, rest.pop(0) if takes else value.removeprefix("="))]
        found.append((name, ""))
    return found


SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
SERVERS: Final = frozenset({
    "gunicorn", "uvicorn", "hypercorn", "granian", "waitress-serve", "uwsgi", "flask", "daphne", "fastapi"
})  # fmt: skip
RUNTIMES: Final = frozenset({
    "node", "nodejs", "pm2", "pm2-runtime", "npm", "yarn", "pnpm", "bun", "tsx", "ts-node", "java"
})  # fmt: skip
_PROGRAMS: Final = SERVERS | SHELLS | RUNTIMES | {"celery", "django-admin", "rqscheduler"}
_ASSIGNMENT: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_DEEPEST: Final = 4
"""Shells in shells that are followed."""


class Argv(NamedTuple):
    """One program, what it is told, and the environment that is set for it."""

    program: str
    """Its name without folders; of `python -m gunicorn`, gunicorn."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def programs(words: Sequence[str], environment: Mapping[str, str], depth: int = 0) -> Iterator[Argv]:
    """The programs that these words come to; none where a word stands first that we do not know."""
    words, environment = _without_assignments(tuple(filled(word, environment) for word in words), environment)
    if not words or depth > _DEEPEST:
        return
    name = _name(words[0])
    if told := given(words):
        for command in simple_commands(told[1]):
            yield from programs(command, environment, depth + 1)
    elif _is_python(name):
        yield from _of_python(words[1:], environment)
    elif name in _PROGRAMS or name.endswith((".py", ".sh")):
        yield Argv(name if name in _PROGRAMS else words[0], words[1:], environment)
        if name.endswith(".sh"):
            yield from _behind(words[1:], environment, depth)
    elif name in WRAPPERS:
        yield from _behind(words[1:], environment, depth)


def _behind(words: Sequence[str], environment: Mapping[str, str], depth: int) -> Iterator[Argv]:
    """What a wrapper starts: its own options and their values are no programs that we know."""
    for start, word in enumerate(words):
        if _ASSIGNMENT.fullmatch(word) or _is_program(_name(word)):
            yield from programs(words[start:], environment, depth + 1)
            return


def _of_python(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Argv]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-m" and rest:
            yield Argv(_MODULES.get(rest[0], f"-m {rest[0]}"), tuple(rest[1:]), environment)
            return
        if option == "-c":
            return
        if option in ("-W", "-X") and rest:
            rest.pop(0)
    if rest:
        yield Argv(_name(rest[0]) if _name(rest[0]) in _PROGRAMS else rest[0], tuple(rest[1:]), environment)


_MODULES: Final = {name: name for name in _PROGRAMS} | {"waitress": "waitress-serve", "django": "django-admin"}


def _is_program(name: str) -> bool:
    return name in _PROGRAMS or name in WRAPPERS or _is_python(name) or name.endswith((".py", ".sh"))


def _is_python(name: str) -> bool:
    return re.fullmatch(r"(python|pypy)[\d.]*", name) is not None


def _name(word: str) -> str:
    return PurePosixPath(word).name


def _without_assignments(
    words: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """`X=1 exec gunicorn`: the words from `exec` on, and the environment with X."""
    start = 0
    known = dict(environment)
    while start < len(words) and (found := _ASSIGNMENT.fullmatch(words[start])):
        known[found["name"]] = found["value"]
        start += 1
    return words[start:], known


def simple_commands(text: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of a text for a shell, in order."""
    for one in commands_of(tree("bash", text)):
        yield (*(f"{name}={value}" for name, value in one.assigned), *one.words)
