"""The processes that a script starts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from cronce_audit.common import Command
from cronce_audit.containers.shell import WRAPPERS
from cronce_audit.grammars import above, within
from cronce_audit.model import Source
from cronce_audit.scripts.shell import Simple, assignment, simple_commands

if TYPE_CHECKING:
    from tree_sitter import Node

_PROGRAMS: Final = (
    r"gunicorn|uvicorn|hypercorn|granian|daphne|uwsgi|waitress-serve|flask|fastapi|celery|django-admin|rqscheduler|rq|"
    r"huey_consumer(\.py)?|dramatiq|arq|python[\d.]*|pypy3?|node|npm|npx|yarn|pnpm|pm2|java|supervisord|supercronic|crond|"
    r"cron|manage\.py|[\w-]+\.py"
)
MAY_START: Final = re.compile(rf'"\$@"|\b({_PROGRAMS})\b')
_PROGRAM: Final = re.compile(_PROGRAMS)
_LOOPS: Final = ("for_statement", "c_style_for_statement", "while_statement")


def starts(source: Source, root: "Node") -> Iterator[Command]:
    exported = _exported(root)
    for simple in simple_commands(root):
        if _is_start(simple):
            environment = {**exported, **dict(simple.assigned)}
            stays = simple.words[0] != "exec"
            yield Command(
                simple.words if stays else simple.words[1:],
                source.place(simple.line),
                "script",
                source.path,
                None if any(parent.type in _LOOPS for parent in above(simple.node)) else 1,
                tuple(sorted(environment.items())),
                stays,
            )


def _is_start(simple: Simple) -> bool:
    """Whether it is a program that we know, itself or behind `exec` and the like; or what the script was told to be."""
    if any(parent.type == "command_substitution" for parent in above(simple.node)):
        return False
    for at, word in enumerate(simple.words):
        name = PurePosixPath(word).name
        if word == "$@" or _PROGRAM.fullmatch(name):
            return True
        if at == 0 and name not in WRAPPERS:
            return False
    return False


def _exported(root: "Node") -> Mapping[str, str]:
    """`export X=1`, as far as it is spelled out."""
    found = {}
    for node in within(root, "declaration_command"):
        if node.children[0].type == "export":
            for child in node.named_children:
                if child.type == "variable_assignment":
                    name, value = assignment(child)
                    if name and "$" not in value and "`" not in value:
                        found[name] = value
    return found
