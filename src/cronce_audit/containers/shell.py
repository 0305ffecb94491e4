"""Whether a shell stays process 1 while the program runs, or is replaced by it.

The kernel ignores TERM for a process 1 that does not handle it. So behind a shell that stays, the program never gets
TERM, and is killed when the grace period is over. Measured with `sh -c`: Debian's dash (11 to 13) stays unless it is
told to `exec`; bash and BusyBox's ash replace themselves by the last command, bash not where its output is redirected.
A script that is read from a file is never replaced.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

Kind = Literal["dash", "bash", "ash"]

_OPERATORS: Final = ";&|()<>\n"
_SUBSTITUTION: Final = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_STREAM: Final = re.compile(r"(?<!\S)\d+(?=[<>])")
"""The 2 of `2>&1`; that of `-w 2 > log` is an argument."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
WRAPPERS: Final = frozenset({
    "exec", "env", "poetry", "uv", "uvx", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "micromamba", "dumb-init",
    "tini", "tini-static", "catatonit", "ddtrace-run", "newrelic-admin", "opentelemetry-instrument", "gosu", "su-exec",
    "setpriv", "runuser", "sudo", "nice", "ionice", "nohup", "stdbuf", "chpst", "s6-setuidgid", "with-contenv", "time",
    "doppler", "dotenv", "chamber", "infisical", "wait-for-it", "wait-for", "dockerize", "command"
})  # fmt: skip
"""Programs that run another program, which comes after their own options."""
_COMPOUND: Final = frozenset({"while", "until", "for", "if", "case", "function", "{", "select", "!"})


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
    """The commands of a text; none if it cannot be split."""
    commands: list[ShellCommand] = []
    plain = True
    try:
        for words, redirected, behind in split(text):
            plain = plain and not (words and words[0] in _COMPOUND)
            commands += _simple(words, redirected, behind)
    except ValueError:
        return ShellText((), plain=False)
    return ShellText(tuple(commands), plain and "(" not in _SUBSTITUTION.sub("", text))


def simple_commands(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands of these words, in order; of a text for a shell only if they are all in a row."""
    told = given(words)
    if told is None:
        return [tuple(words)]
    read = line(told[1])
    return [command.words for command in read.commands] if read.plain else []


def _simple(words: Sequence[str], redirected: bool, behind: str) -> Iterator[ShellCommand]:
    start = 0
    while start < len(words) and ASSIGNMENT.fullmatch(words[start]):
        start += 1
    execs = words[start : start + 1] == ["exec"]
    rest = tuple(words[start + execs :])
    if rest:
        yield ShellCommand(rest, execs, redirected, behind)


def split(text: str) -> Iterator[tuple[list[str], bool, str]]:
    """Words, whether something is redirected, and the operator behind."""
    text = _SUBSTITUTION.sub(lambda found: "$nproc" if "nproc" in found[0] else "$unknown", text.replace("\\\n", " "))
    text = _STREAM.sub("", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    redirected = skip = False
    for word in lexer:
        if not set(word) <= set(_OPERATORS):
            if not skip:
                words.append(word)
            skip = False
        elif set(word) & set("<>"):
            redirected = skip = True
        else:
            yield words, redirected, word.strip("\n") or ";"
            words, redirected = [], False
    if words:
        yield words, redirected, ""


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
