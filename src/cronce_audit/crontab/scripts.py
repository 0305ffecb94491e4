"""Scripts that a line of a crontab may run: whether they take care that only one of them runs."""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.crontab.commands import is_short
from cronce_audit.crontab.images import Image, paths_in
from cronce_audit.model import Source

_LOCKS: Final = re.compile(r"(?i)lock|pid_?file|\.pid|pgrep|pidof|mutex|singleton|single_instance|setnx|cronce|already")
_ELSEWHERE: Final = re.compile(r"(?m)^\s*(\.|source)\s|\.(sh|bash|py|php|pl|rb|js)\b|\spython\S*\s+-m\s")
_IMPORTS: Final = re.compile(r"(?m)^\s*(?:from\s+(\S+)\s+import\s|import\s+([\w., ]+))")
_LITTLE: Final = 2000
"""Characters. What is longer does more than something short."""

Does = Literal["locks", "short", "works", "unseen"]
"""There is a word in it as scripts have that lock (which lock, and whether it is any good, is not asked here); nothing
that takes long; something that may; or what others do, in other files."""


class Script(NamedTuple):
    """A script."""

    path: str
    does: Does


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".sh", ".bash", ".py")


def read(source: Source) -> Iterator[Script]:
    if source.suffix != ".py" or "__main__" in source.text or source.text.startswith("#!"):
        yield Script(source.path, _does(source.text, is_python=source.suffix == ".py"))


def _does(text: str, *, is_python: bool) -> Does:
    if _LOCKS.search(text):
        return "locks"
    if is_python:
        return "works" if _imported(text) <= sys.stdlib_module_names else "unseen"
    said = re.sub(r"(?m)^\s*#.*", "", text)
    if re.search(r"\bmkdir\s(?!-p)", said) and re.search(r"\brmdir\s", said):
        return "locks"
    if _ELSEWHERE.search(said):
        return "unseen"
    return "short" if len(said) < _LITTLE and is_short(said) else "works"


def _imported(text: str) -> set[str]:
    """Where its modules come from; "" is its own package."""
    several = (name for one, many in _IMPORTS.findall(text) for name in (one or many).split(","))
    return {name.strip().partition(" ")[0].partition(".")[0] for name in several}


def is_meant(script: Script, path: str, images: Iterable[Image]) -> bool:
    """Whether a path on a host is that of a script of the tree: an image has it there, or its folder is called the
    same."""
    one, other = PurePosixPath(path).parts[-2:], PurePosixPath(script.path).parts[-2:]
    if one[-1] != other[-1]:
        return False
    return (one == other and len(one) == 2) or any(path in paths_in(image, script.path) for image in images)
