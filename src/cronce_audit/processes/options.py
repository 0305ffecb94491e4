"""Options of a command line: enough of them to tell values from words."""

from collections.abc import Sequence
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a program that take no value; every other one takes one."""

    flags: frozenset[str] = field(default_factory=frozenset)

    def read(self, arguments: Sequence[str]) -> Told:
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
                takes = not equals and name not in self.flags and bool(rest) and not rest[0].startswith("--")
                options.append((name, rest.pop(0) if takes else value))
            else:
                options += self._short(word, rest)
        return Told(options, words)

    def _short(self, word: str, rest: list[str]) -> list[tuple[str, str]]:
        """`-w4`, `-w 4`, and `-BE` for two flags."""
        found: list[tuple[str, str]] = []
        for position in range(1, len(word)):
            name, value = f"-{word[position]}", word[position + 1 :]
            if name not in self.flags:
                takes = not value and bool(rest) and not rest[0].startswith("--")
                return [*found, (name, rest.pop(0) if takes else value.removeprefix("="))]
            found.append((name, ""))
        return found
