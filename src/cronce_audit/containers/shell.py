"""Whether a shell stays process 1 while the program runs, or is replaced by it.

The kernel ignores TERM for a process 1 that does not handle it. So behind a shell that stays, the program never gets
TERM, and is killed when the grace period is over. Measured with `sh -c`: Debian's dash (11 to 13) stays unless it is
told to `exec`; bash and BusyBox's ash replace themselves by the last command, bash not where its output is redirected.
A script that is read from a file is never replaced.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.grammars import tree, within
from cronce_audit.scripts import Simple, commands_of

Kind = Literal["dash", "bash", "ash"]

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_COMPOUND: Final = (
    "while_statement", "for_statement", "c_style_for_statement", "if_statement", "case_statement", "subshell",
    "function_definition", "compound_statement", "negated_command",
)  # fmt: skip
_BEHIND: Final = re.compile(
    rb"(?P<to>(?:[ \t]*(?:\d*|&)(?:>>|[<>])&?[ \t]*[^\s;&|]+)*)[ \t]*(?P<operator>&&|\|\||[|&;\n])?"
)
"""Where the output of a command goes, and the operator behind it."""


_VARIABLE: Final = re.compile(
    r"(?<!\\)\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?::?(?P<how>[-+])(?P<word>[^}]*))?\})"
)


class ShellCommand(NamedTuple):
    """One command of a list."""

    words: tuple[str, ...]
    """Without `exec` and assignments before it."""
    exec: bool
    redirected: bool
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
    return ShellCommand(simple.words[execs:], execs, bool(behind["to"]), operator)


def simple_commands(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands of these words, in order; of a text for a shell only if they are all in a row."""
    told = given(words)
    if told is None:
        return [tuple(words)]
    read = line(told[1])
    return [command.words for command in read.commands] if read.plain else []


def filled(text: str, known: Mapping[str, str]) -> str:
    """The text with the known variables filled in; others stay unchanged."""

    def value(found: re.Match[str]) -> str:
        name = found["plain"] or found["name"]
        if found["how"] == "+":
            return found["word"] if name in known else ""
        return known.get(name, found["word"] if found["how"] else found[0])

    return _VARIABLE.sub(value, text) if "$" in text else text


def stays(told: ShellText, command: ShellCommand, kind: Kind | None) -> bool | None:
    """Whether the shell is still process 1 while this command runs; None if the shell is not known."""
    if command.exec and command.behind != "|":
        return False
    piped = any(one.behind == "|" for one in told.commands[-2:-1])
    if command != told.commands[-1] or command.behind.strip(";") or piped:
        return True
    if kind is None:
        return None
    return kind == "dash" or (kind == "bash" and command.redirected)


_DEBIAN_TAGS: Final = re.compile(
    r"\b(slim|debian|ubuntu|buster|bullseye|bookworm|trixie|stretch|jessie|bionic|focal|jammy|noble)"
)
_BASH: Final = frozenset({
    "centos", "fedora", "rockylinux", "almalinux", "amazonlinux", "oraclelinux", "ubi7", "ubi8", "ubi9", "ubi-minimal",
    "opensuse", "leap", "tumbleweed", "archlinux"
})  # fmt: skip
_DEBIAN: Final = frozenset({
    "debian", "ubuntu", "python", "node", "ruby", "php", "golang", "openjdk", "eclipse-temurin", "perl", "rust",
    "buildpack-deps", "pypy", "elixir", "erlang", "composer", "wordpress", "nextcloud", "httpd", "nginx", "postgres"
})  # fmt: skip
"""Docker's official images that are based on Debian or Ubuntu unless the tag says otherwise."""


class Base(NamedTuple):
    """An image's name, taken apart."""

    name: str
    """The last part of the path."""
    tag: str
    library: bool
    """An official image of Docker, not another one of the same name."""


def base(image: str) -> Base:
    path, _, tag = image.partition("@")[0].rpartition(":")
    if not path or "/" in tag:
        path, tag = image.partition("@")[0], ""
    own = re.sub(r"^(docker\.io/|public\.ecr\.aws/docker/)?(library/)?", "", path.lower())
    return Base(own.rpartition("/")[2], tag.lower(), "/" not in own)


def sh_of(image: str) -> Kind | None:
    """The shell that `/bin/sh` is; None if the name does not show it."""
    if "$" in image:
        return None
    name, tag, library = base(image)
    if "alpine" in tag or name in ("alpine", "busybox") or name.endswith("-alpine"):
        return "ash"
    if name in _BASH or re.search(r"\b(ubi\d|centos|fedora|rocky|amazonlinux|ol\d)", tag):
        return "bash"
    if _DEBIAN_TAGS.search(tag) or (library and name in _DEBIAN and name != "composer"):
        return "dash"
    return None
