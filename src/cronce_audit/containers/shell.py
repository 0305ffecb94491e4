"""Whether a shell stays process 1 while the program runs, or is replaced by it.

The kernel ignores TERM for a process 1 that does not handle it. So behind a shell that stays, the program never gets
TERM, and is killed when the grace period is over. Measured with `sh -c`: Debian's dash (11 to 13) stays unless it is
told to `exec`; bash and BusyBox's ash replace themselves by the last command, bash not where its output is redirected.
A script that is read from a file is never replaced.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.grammars import tree, within
from cronce_audit.scripts import Simple, commands_of

_COMPOUND: Final = (
    "while_statement", "for_statement", "c_style_for_statement", "if_statement", "case_statement", "subshell",
    "function_definition", "compound_statement", "negated_command",
)  # fmt: skip
_BEHIND: Final = re.compile(
    rb"(?:(?:[ \t]*(?:\d*|&)(?:>>|[<>])&?[ \t]*[^\s;&|]+)*)[ \t]*(?P<operator>&&|\|\||[|&;\n])?"
)
"""The operator behind a command, past where its output goes."""


_VARIABLE: Final = re.compile(
    r"(?<!\\)\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::?(?P<how>[-+])(?P<word>[^}]*))?\})"
)


class ShellCommand(NamedTuple):
    """One command of a list."""

    words: tuple[str, ...]
    """Without `exec` and assignments before it."""
    assigned: tuple[str, ...]
    exec: bool
    behind: str
    """The operator behind it: `&&`, `|`, `&`, `;`, or "" where it is the last."""


class ShellText(NamedTuple):
    """The commands of a text for a shell."""

    commands: tuple[ShellCommand, ...]
    plain: bool
    """Only commands in a row: no loops, branches, subshells or traps."""


def is_shell(word: str) -> bool:
    return PurePosixPath(word).name in ("sh", "bash", "ash", "dash", "busybox")


def given(words: Sequence[str]) -> tuple[str, str] | None:
    """Of `/bin/bash -lc 'text' …`, the shell's name and the text."""
    if not words or not is_shell(words[0]):
        return None
    name = PurePosixPath(words[0]).name
    rest = list(words[1:])
    if name == "busybox":
        name = rest.pop(0) if rest else ""
    while rest and rest[0].startswith(("-", "+")):
        option = rest.pop(0)
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", option):
            return (name, rest[0]) if rest and "trap " not in rest[0] else None
        if option in ("-o", "+o", "-O") and rest:
            rest.pop(0)
    return None


def line(text: str) -> ShellText:
    """The commands of a text, without those whose output it takes in."""
    root = tree("bash", text)
    found = [_told(one, root.text or b"") for one in commands_of(root) if one.words]
    return ShellText(tuple(found), not root.has_error and next(within(root, *_COMPOUND), None) is None)


def _told(simple: Simple, text: bytes) -> ShellCommand:
    execs = simple.words[0] == "exec"
    behind = _BEHIND.match(text, simple.node.end_byte)
    assert behind is not None
    operator = (behind["operator"] or b"").decode().replace("\n", ";")
    return ShellCommand(simple.words[execs:], tuple(map("=".join, simple.assigned)), execs, operator)


def filled(text: str, known: Mapping[str, str]) -> str:
    """The text with the known variables filled in; others stay unchanged."""

    def value(found: re.Match[str]) -> str:
        name = found["plain"] or found["name"]
        if found["how"] == "+":
            return found["word"] if name in known else ""
        return known.get(name, found["word"] if found["how"] else found[0])

    return _VARIABLE.sub(value, text) if "$" in text else text


def stays(told: ShellText, command: ShellCommand) -> bool | None:
    """Whether the shell is still process 1 while this command runs; None where that depends on the shell."""
    if command.exec and command.behind != "|":
        return False
    piped = any(one.behind == "|" for one in told.commands[-2:-1])
    return True if command != told.commands[-1] or command.behind.strip(";") or piped else None
