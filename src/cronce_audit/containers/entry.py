"""Scripts that may be process 1 of a container: whether they handle signals, and how they run what they are given."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.containers.facts import EntryScript
from cronce_audit.containers.programs import INITS
from cronce_audit.model import Place, Reader, Source

_NAMES: Final = frozenset({"entrypoint", "docker-entrypoint", "start", "run"})
_SHEBANG: Final = re.compile(r"#!.*\b(sh|bash|ash|dash)\b")
_TRAP: Final = re.compile(r"^[ \t]*trap[ \t]+(?!-)", re.MULTILINE)
_INIT: Final = re.compile(rf"\bexec\b[^\n]*[\s/]({'|'.join(INITS)})\s")
_GIVEN: Final = re.compile(r"[ \t]*((gosu|su-exec)\s+\S+\s+)?(\"\$@\"|\$@|\"\$\{@\}\")\s*")
_EXEC: Final = re.compile(r"^[ \t]*exec\b[^\n#]*\$(\{@\}|@)", re.MULTILINE)
_SERVICE: Final = re.compile(r"^[ \t]*(sudo )?((rc-)?service crond? start|/etc/init\.d/crond? start)\b", re.MULTILINE)
_CRON: Final = re.compile(r"^(exec |sudo )*(\S*/)?(crond?|supercronic|(rc-)?service crond?)\b", re.MULTILINE)


def _wants(path: PurePosixPath) -> bool:
    return path.suffix in (".sh", ".bash") or path.name in _NAMES


def _read(source: Source) -> Iterator[EntryScript]:
    if not source.suffix and not _SHEBANG.match(source.text):
        return
    service = _SERVICE.search(source.text)
    yield EntryScript(
        source.path,
        passes_on=bool(_TRAP.search(source.text) or _INIT.search(source.text)),
        arguments=_last_line(source),
        gives_way=bool(_EXEC.search(source.text)),
        service=source.place(_number(source, service)) if service else None,
        always=frozenset(_number(source, found) for found in _CRON.finditer(source.text)),
    )


def _number(source: Source, found: re.Match[str]) -> int:
    return source.text.count("\n", 0, found.start()) + 1


def _last_line(source: Source) -> Place | None:
    """Where the last command is `"$@"`, without `exec`."""
    lines = source.text.splitlines()
    for number in range(len(lines), 0, -1):
        text = lines[number - 1]
        if text.strip() and not text.lstrip().startswith("#"):
            return source.place(number) if _GIVEN.fullmatch(text) else None
    return None


READER: Final = Reader("entry script", _wants, _read)
