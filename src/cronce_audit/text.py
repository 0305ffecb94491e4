"""Functions in the text of any language, by their heads and by indentation."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_FUNCTION_HEAD: Final = re.compile(
    r"\b(?:def|func|fun|fn|function)\s+(?:\([^)]*\)\s*)?(?P<named>\w+)|"
    r"^(?!if|for|while|switch|catch|else|return|await|new|try|with|\}|\.)(?:[\w<>\[\],.?@]+\s+)*?(?P<bound>[\w.]+)\s*"
    r"(?:[:=]\s*(?:async\s*)?)?\((?:.*\)[^(){}]*|.*=>\s*)\{$|\b(?P<planned>schedule\w*|setInterval|every|CronJob)\(.*\{$"
)


class Body(NamedTuple):
    """A function: its name, its first line (from 0; a decorator's, if it has one) and the line behind it."""

    name: str
    start: int
    end: int

    def text(self, whole: str) -> str:
        return "\n".join(whole.split("\n")[self.start : self.end])


def body_around(lines: Sequence[str], at: int) -> Body | None:
    """The function around a line."""
    deep = depth(lines[at])
    for start in range(at - 1, -1, -1) if deep else ():
        if lines[start].strip() and depth(lines[start]) < deep:
            deep = depth(lines[start])
            head = _FUNCTION_HEAD.search(lines[start].strip())
            if head:
                below = (end for end in range(at, len(lines)) if lines[end].strip() and depth(lines[end]) <= deep)
                end = next(below, len(lines))
                plain = (one for one in range(start - 1, -1, -1) if not lines[one].lstrip().startswith("@"))
                return Body(next(filter(None, head.groups())), next(plain, -1) + 1, end)
    return None


def depth(line: str) -> int:
    return len(line) - len(line.lstrip())
