"""Which processes fire something on a schedule, by their command lines: more of them cannot be seen from outside."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.containers.programs import program

DAEMONS: Final = {"cron": "cron", "crond": "cron", "supercronic": "supercronic", "anacron": "anacron"}
_TITLED: Final = re.compile(r"\[celery beat\b")
_BEAT: Final = re.compile(r"-[a-zA-Z]*B|--beat")


def scheduler_of(words: Sequence[str]) -> str:
    """What it is: `celery beat`, `cron`, `scheduler.py`; nothing for a process that fires nothing, so far as seen."""
    if _TITLED.match(words[0]):
        return "celery beat"
    if daemon := DAEMONS.get(PurePosixPath(words[0]).name):
        return daemon
    found = program(words)
    if found is None:
        return ""
    if found.name == "celery worker":
        return "celery worker -B" if any(map(_BEAT.fullmatch, words)) else ""
    return "" if found.kind == "worker" else PurePosixPath(found.name).name
