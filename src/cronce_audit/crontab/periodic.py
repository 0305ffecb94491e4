"""Scripts that run-parts is to run: etc/cron.daily and its like, etc/periodic/daily of Alpine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.crontab.read import INACTIVE
from cronce_audit.model import Place, Source

_FOLDERS: Final = frozenset({"cron.hourly", "cron.daily", "cron.weekly", "cron.monthly"})


@dataclass(frozen=True, slots=True)
class Periodic:
    """A script in such a folder."""

    place: Place


def wants(path: PurePosixPath) -> bool:
    folders = path.parent.parts
    by_cron = folders[-2:-1] == ("etc",) and path.parent.name in _FOLDERS
    by_alpine = folders[-3:-1] == ("etc", "periodic")
    return (by_cron or by_alpine) and not path.name.startswith(".") and path.suffix.lower() not in INACTIVE | {".md"}


def read(source: Source) -> Iterator[Periodic]:
    if source.text.startswith("#!"):
        yield Periodic(source.place(1))
