"""Shell scripts and Makefiles: which files are some, and the shell text in them."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from cronce_audit.common import Command
from cronce_audit.grammars import tree
from cronce_audit.model import Source
from cronce_audit.scripts.appends import Append, Installed, appends
from cronce_audit.scripts.starts import MAY_START, starts

_SUFFIXES: Final = frozenset({".sh", ".bash", ".ksh", ".postinst", ".preinst"})
_NAMES: Final = frozenset({
    "entrypoint", "docker-entrypoint", "start", "run", "install", "setup", "bootstrap", "provision", "deploy",
    "postinst", "preinst", "init"
})  # fmt: skip
_MAKEFILES: Final = frozenset({"makefile", "gnumakefile"})
_MAY_APPEND: Final = re.compile(r"crontab|cron\.d|spool/cron|cron/tabs")
_SHEBANG: Final = re.compile(r"#!.*\b(sh|bash|ash|dash|ksh|with-contenv)\b")


def wants(path: PurePosixPath) -> bool:
    name = path.name.lower()
    return path.suffix.lower() in _SUFFIXES or name in _NAMES | _MAKEFILES or path.suffix == ".mk"


def read(source: Source) -> Iterator[Append | Installed | Command]:
    makes = source.name.lower() in _MAKEFILES or source.suffix == ".mk"
    may_append = _MAY_APPEND.search(source.text)
    may_start = not makes and MAY_START.search(source.text)
    if not (may_append or may_start) or not (makes or source.suffix or _SHEBANG.match(source.text)):
        return
    root = tree("bash", _recipes(source.text) if makes else source.text)
    if may_start:
        yield from starts(source, root)
    if may_append:
        yield from appends(source, root)


def _recipes(text: str) -> str:
    """The shell text of a Makefile, each line where it was; a `$$` is the shell's `$`."""
    kept = []
    goes_on = False
    for line in text.split("\n"):
        is_recipe = line.startswith("\t") or goes_on
        kept.append(re.sub(r"^\t[@+-]*", "", line).replace("$$", "$") if is_recipe else "")
        goes_on = is_recipe and line.endswith("\\")
    return "\n".join(kept)
