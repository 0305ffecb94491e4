"""Procfiles: processes by name. How many of each run is told elsewhere, if at all."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.common import Command
from cronce_audit.containers.facts import Start, is_for_trying
from cronce_audit.containers.shell import line
from cronce_audit.containers.starts import commands
from cronce_audit.model import Place, Reader, Source

_PROCESS: Final = re.compile(r"^(?P<name>[A-Za-z0-9_-]+):[ \t]*(?P<text>\S.*?)[ \t]*$", re.MULTILINE)


def _is_procfile(path: PurePosixPath) -> bool:
    return path.stem == "Procfile" and path.suffix != ".md" and not is_for_trying(path)


def _read_procfile(source: Source) -> Iterator[Command]:
    for found in _PROCESS.finditer(source.text):
        place = source.place(source.text.count("\n", 0, found.start()) + 1)
        yield from commands(_start(found["text"], place), "procfile", found["name"], copies=None)


def _start(text: str, place: Place) -> Start:
    """One simple command by its words, since who starts it signals all of its processes; else as told to a shell."""
    read = line(text)
    simple = len(read.commands) == 1 and read.plain
    return Start(read.commands[0].words if simple else ("sh", "-c", text), place)


READER: Final = Reader("Procfile", _is_procfile, _read_procfile)
