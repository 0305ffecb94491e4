"""Commands that do their work and end: what restarts them whenever they end repeats the work for ever."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

_ALONE: Final = frozenset({"pg_dump", "pg_dumpall", "mysqldump", "mariadb-dump", "mongodump", "pg_restore"})
_WITH: Final[dict[str, frozenset[str]]] = {
    "manage.py": frozenset({"migrate", "clearsessions", "collectstatic", "loaddata", "dumpdata", "flush"}),
    "alembic": frozenset({"upgrade", "downgrade"}),
    "artisan": frozenset({"schedule:run", "migrate", "db:seed", "queue:prune-failed"}),
    "restic": frozenset({"backup", "forget", "prune", "check"}),
    "borg": frozenset({"create", "prune"}),
    "rclone": frozenset({"sync", "copy", "move"}),
    "aws": frozenset({"s3"}),
    "certbot": frozenset({"renew", "certonly"}),
    "cronce": frozenset({"exec"}),
    "rake": frozenset({"db:migrate"}),
    "rails": frozenset({"db:migrate"}),
    "prisma": frozenset({"migrate"}),
}
_LANGUAGES: Final = re.compile(r"(python|php)[\d.]*")


def one_shot(words: Sequence[str]) -> str | None:
    """`manage.py migrate`, where these words start it and nothing else."""
    rest = list(words)
    while rest and (_LANGUAGES.fullmatch(PurePosixPath(rest[0]).name) or rest[0].startswith("-")):
        rest.pop(0)
    name = PurePosixPath(rest[0]).name if rest else ""
    if name in _ALONE:
        return name
    first = next((word for word in rest[1:] if not word.startswith("-")), "")
    return f"{name} {first}" if first in _WITH.get(name, ()) else None
