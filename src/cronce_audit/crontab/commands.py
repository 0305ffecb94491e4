"""Commands of crontabs: when two are the same job, and how one is shown."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.containers.shell import given
from cronce_audit.scripts import commands_in

_OUTPUT: Final = re.compile(
    r"(\s*([12&]?>>\s*[^\s&]\S*|[12&]?>\s*/dev/null|2>\s*[^\s&]\S*|[12]>&[12]|<\s*/dev/null))+\s*$"
)
"""Output that is discarded or appended. A file written by `>` may be the purpose of the job."""
_SAY: Final = frozenset({"echo", "printf", "date", "cat", "df", "free", "uptime", "ps", "w", "who"})
"""Programs that only print."""
_AT_ONCE: Final = re.compile(r"\bflock(\s+-\S+(\s+[\d.]+)?)*?\s+(-[a-z]*n[a-z]*|--nonblock|--nb)\s")


def job_of(command: str) -> str:
    """The command without redirections of its output."""
    job = " ".join(_OUTPUT.sub("", command).split())
    return " ".join(command.split()) if job.partition(" ")[0] in _SAY | {""} and ">>" in command else job


def leaves_if_locked(command: str) -> bool:
    """`flock -n`: a run that finds the lock taken ends. Without -n it waits, and then runs too."""
    return _AT_ONCE.search(command) is not None


def shown(command: str) -> str:
    """The program, and the next word if it is a name: other words may be secret."""
    for words in _programs(command):
        if words and PurePosixPath(words[0]).name not in ("cd", "test", "command", "sleep", "export"):
            more = [word for word in words[1:2] if re.fullmatch(r"[A-Za-z0-9_./-]*[A-Za-z][A-Za-z0-9_./-]*", word)]
            return " ".join([words[0], *(word for word in more if not word.startswith("-"))])[:60]
    return command.split(maxsplit=1)[0][:60]


def _programs(command: str) -> Iterator[tuple[str, ...]]:
    """The simple commands in it, without wrappers; for `sh -c "…"` those of the text."""
    for simple in commands_in(command):
        told = given(simple.bare)
        yield from (one.bare for one in commands_in(told[1])) if told else [simple.bare]
