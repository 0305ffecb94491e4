"""The simple commands of shell text, and the processes that scripts start."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from cronce_audit.grammars import above, column, line, text, tree, within
from cronce_audit.model import CommandLine, Source

if TYPE_CHECKING:
    from tree_sitter import Node

WRAPPERS: Final = frozenset({
    "exec", "env", "poetry", "uv", "uvx", "pdm", "pipenv", "hatch", "rye", "pixi", "conda", "micromamba", "dumb-init",
    "tini", "tini-static", "catatonit", "ddtrace-run", "newrelic-admin", "opentelemetry-instrument", "gosu", "su-exec",
    "setpriv", "runuser", "sudo", "nice", "ionice", "nohup", "stdbuf", "chpst", "s6-setuidgid", "with-contenv", "time",
    "doppler", "dotenv", "chamber", "infisical", "wait-for-it", "wait-for", "dockerize", "command"
})  # fmt: skip
"""Programs that run another program, which comes after their own options."""
INITS: Final = frozenset({"tini", "tini-static", "dumb-init", "catatonit", "docker-init", "init", "my_init"})
"""They are process 1 above the program, and pass signals on."""
_AS: Final = frozenset({"su", "su-exec", "gosu"})
"""They take the user first, and then the command."""
_BARE: Final = frozenset(
    {"sudo", "doas", "exec", "command", "builtin", "nohup", "time", "nice", "ionice", "env", "chronic", *_AS}
)
_EXPANSIONS: Final = ("simple_expansion", "expansion", "command_substitution", "process_substitution")


class Simple(NamedTuple):
    """A simple command: its words without quotes, variables not filled in."""

    words: tuple[str, ...]
    assigned: tuple[tuple[str, str], ...]
    """`X=1` before it."""
    node: "Node"

    @property
    def bare(self) -> tuple[str, ...]:
        """Without `sudo`, `exec` and the like, and their options; of `su` the shell that it starts."""
        words = self.words
        if words[:1] == ("su",) and "-c" in words:
            return ("sh", *words[words.index("-c") :])
        while len(words) > 1 and (name := PurePosixPath(words[0]).name) in _BARE:
            words = words[2:] if name in _AS and not words[1].startswith("-") and len(words) > 2 else words[1:]
            while len(words) > 1 and re.match(r"-|\d+$|\w+=", words[0]):
                words = words[2:] if words[0] in ("-u", "-g", "--user") else words[1:]
        return words

    @property
    def name(self) -> str:
        """Of the program, without its folder."""
        return PurePosixPath(self.bare[0]).name if self.bare else ""

    @property
    def line(self) -> int:
        return line(self.node)


def simple_commands(node: "Node") -> Iterator[Simple]:
    return map(_simple, within(node, "command"))


def commands_of(node: "Node") -> Iterator[Simple]:
    """Without those of which only the output is taken: `$(date)`."""
    for one in simple_commands(node):
        if not any(parent.type == "command_substitution" for parent in above(one.node)):
            yield one


def commands_in(command: str) -> Iterator[Simple]:
    """The simple commands in a command of a crontab."""
    return simple_commands(tree("bash", command))


def _simple(node: "Node") -> Simple:
    words = []
    assigned = []
    for child in node.named_children:
        if child.type == "variable_assignment":
            assigned.append(assignment(child))
        elif not child.type.endswith("redirect"):
            words.append(word(child))
    outer = node.parent  # of `program > log word` the grammar takes the word for a second file
    for redirect in outer.children_by_field_name("redirect") if outer and outer.type == "redirected_statement" else ():
        words += [word(child) for child in redirect.children_by_field_name("destination")[1:]]
    return Simple(tuple(words), tuple(assigned), node)


def assignment(node: "Node") -> tuple[str, str]:
    value = node.child_by_field_name("value")
    name = node.child_by_field_name("name")
    return text(name) if name else "", word(value) if value else ""


def word(node: "Node") -> str:
    """The text of a word without its quotes."""
    match node.type:
        case "raw_string":
            return text(node)[1:-1]
        case "string":
            return re.sub(r'\\([\\"`\n])', lambda found: found[1].strip("\n"), text(node)[1:-1])
        case "concatenation" | "command_name":
            return "".join(word(child) for child in node.named_children)
        case kind if kind in _EXPANSIONS:
            return text(node)
        case _:
            return re.sub(r"\\(.)", r"\1", text(node))


_PROGRAMS: Final = (
    r"gunicorn|uvicorn|hypercorn|granian|daphne|uwsgi|waitress-serve|flask|fastapi|celery|django-admin|rqscheduler|rq|"
    r"huey_consumer(\.py)?|dramatiq|arq|python[\d.]*|pypy3?|node|npm|npx|yarn|pnpm|pm2|java|supervisord|supercronic|crond|"
    r"cron|(rc-)?service|manage\.py|[\w-]+\.py"
)
MAY_START: Final = re.compile(rf'"\$@"|\b({_PROGRAMS})\b')
_PROGRAM: Final = re.compile(_PROGRAMS)
_LOOPS: Final = ("for_statement", "c_style_for_statement", "while_statement")


def starts(source: Source, root: "Node") -> Iterator[CommandLine]:
    exported = _variables(root)
    for simple in simple_commands(root):
        if _is_start(simple):
            environment = {**exported, **dict(simple.assigned)}
            stays = simple.words[0] != "exec"
            yield CommandLine(
                simple.words if stays else simple.words[1:],
                source.place(simple.line),
                "script",
                source.path,
                None if any(parent.type in _LOOPS for parent in above(simple.node)) else 1,
                tuple(sorted(environment.items())),
                stays,
                _is_beside(simple.node),
                column(simple.node) == 1,
            )


def _is_beside(node: "Node") -> bool:
    """`… &`, also behind what its output is sent to."""
    outer = node.parent if node.parent is not None and node.parent.type == "redirected_statement" else node
    return outer.next_sibling is not None and outer.next_sibling.type == "&"


def _is_start(simple: Simple) -> bool:
    """Whether it starts a known program, directly or behind `exec` and the like; or the script's arguments."""
    if any(parent.type == "command_substitution" for parent in above(simple.node)):
        return False
    for at, word in enumerate(simple.words):
        name = PurePosixPath(word).name
        if word == "$@" or _PROGRAM.fullmatch(name):
            return True
        if at == 0 and name not in WRAPPERS:
            return False
    return False


def _variables(root: "Node") -> Mapping[str, str]:
    """Those that the script sets, where the value is written out; of one that counts processors, that it does."""
    found: dict[str, str] = {}
    for node in within(root, "variable_assignment"):
        name, value = assignment(node) if node.parent is None or node.parent.type != "command" else ("", "")
        told = _OR_VARIABLE.sub(lambda one: found.get(one["default"].lstrip("$"), one[0]), value)
        if name and _COUNTS.search(told):
            found[name] = "$(nproc)"
        elif name and "$" not in told and "`" not in told:
            found[name] = told
    return found


_OR_VARIABLE: Final = re.compile(r"\$\{\w+:?-(?P<default>\$\w+)\}")
"""`${WORKERS:-$MANY}`."""
_COUNTS: Final = re.compile(r"\$\(nproc\)|cpu_count|\$\(\([^)]*\*")
