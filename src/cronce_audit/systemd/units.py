"""Unit files, and files of supervisor, as settings with their lines."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Setting(NamedTuple):
    """`Key=value` in a section; what a backslash joins is one value."""

    section: str
    key: str
    value: str
    line: int


def settings(text: str) -> Iterator[Setting]:
    section = ""
    for number, line in _whole_lines(text):
        if heading := re.fullmatch(r"\[([^\]]+)\]", line):
            section = heading[1]
        elif not line.startswith(("#", ";")) and "=" in line:
            key, _, value = line.partition("=")
            yield Setting(section, key.strip(), value.strip(), number)


def _whole_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    start = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if joined and line.lstrip().startswith(("#", ";")):
            continue
        start = start if joined else number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = f"{joined[:-1]} "
        else:
            yield start, joined
            joined = ""


def values(found: Sequence[Setting], section: str, key: str) -> list[Setting]:
    """All values of a key that may stand there several times; an empty one takes back those before it."""
    kept: list[Setting] = []
    for setting in found:
        if (setting.section, setting.key) == (section, key):
            kept = [*kept, setting] if setting.value else []
    return kept


def value(found: Sequence[Setting], section: str, key: str) -> str:
    """The last one counts."""
    return next((one.value for one in reversed(values(found, section, key))), "")


def words(line: str) -> tuple[str, ...]:
    """The words of `ExecStart=`, without what is said to systemd before the first; none where quotes do not match."""
    try:
        return tuple(shlex.split(re.sub(r"^[@:+!|-]+", "", line)))
    except ValueError:
        return ()


def environment(found: Sequence[Setting]) -> Mapping[str, str]:
    """`Environment=A=1 "B=two words"`."""
    pairs = [word.partition("=") for setting in found for word in words(setting.value)]
    return {name: given for name, equals, given in pairs if equals}
