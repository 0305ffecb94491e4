"""Which cron an image has, and which crontabs of the tree it takes: Dockerfiles tell."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from cronce_audit.containers.instructions import Instruction, instructions
from cronce_audit.model import Place, Source

Engine = Literal["debian", "cronie", "busybox", "supercronic", "other", ""]

_ENGINES: Final[Sequence[tuple[Engine, str]]] = (
    ("supercronic", r"supercronic"),
    ("other", r"apk\b[^\n]*\badd\b[^\n]*\b(dcron|fcron)\b|\b(go-cron|yacron|jobber|ofelia|bcron|systemd-cron)\b"),
    ("cronie", r"\b(apk|yum|dnf|microdnf|zypper|pacman|tdnf)\b[^\n]*\b(cronie|crontabs)\b"),
    ("debian", r"\bapt(-get|itude)?\b[^\n]*\binstall\b[^\n]*(?<![\w./-])cron(?![\w./-])"),
)
_BUSYBOX: Final = r"(?<![\w-])crond(?![\w-])"


@dataclass(frozen=True, slots=True)
class Copied:
    """A file of the tree that an image takes, and where it lies there."""

    source: str
    target: str
    place: Place
    lies: str
    """Its path there, as far as the lines before say in which folder they are."""
    folder: str
    """The same, where the source is a folder: what is in it lies there."""
    handled: bool
    """Another line does something with it there: runs it, renames it, hands it to `crontab`."""


@dataclass(frozen=True, slots=True)
class Image:
    """A Dockerfile."""

    path: str
    engine: Engine
    """"" where it has no cron, or several."""
    debian: bool
    """Its packages come by apt: run-parts and cron pass over names with a dot."""
    copied: tuple[Copied, ...]
    runs: frozenset[str]
    """The names of files in its RUN lines: scripts that run once, when it is built, and crontabs it installs."""
    named: frozenset[str]
    """The names of files that any of its lines speak of."""


def read(source: Source) -> Iterator[Image]:
    found = list(instructions(source.text))
    text = "\n".join(f"{one.name} {one.rest}" for one in found)
    runs = [one.rest for one in found if one.name == "RUN"]
    others = [one.rest for one in found if one.name in ("RUN", "CMD", "ENTRYPOINT")]
    copied = tuple(_all_copied(source, found, others))
    by_apt = bool(re.search(r"\bapt(-get)?\b", text))
    yield Image(source.path, _engine(text), by_apt, copied, _names(runs), _names([text]))


def _engine(text: str) -> Engine:
    found: list[Engine] = [engine for engine, pattern in _ENGINES if re.search(pattern, text)]
    if not found and re.search(r"(?im)^FROM\s+\S*alpine", text) and re.search(_BUSYBOX, text):
        return "busybox"
    return found[0] if len(found) == 1 else ""


def _all_copied(source: Source, found: Sequence[Instruction], others: Sequence[str]) -> Iterator[Copied]:
    here = ""
    for one in found:
        if one.name in ("FROM", "WORKDIR"):
            here = posixpath.join(here, one.rest.strip()) if one.name == "WORKDIR" else ""
        yield from _copies(one, source.place(one.line), others, here)


def _copies(one: Instruction, place: Place, others: Sequence[str], here: str) -> Iterator[Copied]:
    """COPY and ADD from the tree; from another stage or the network is not of it."""
    line = one.rest.partition("\n")[0]
    if one.name not in ("COPY", "ADD") or "--from=" in line:
        return
    words = [word for word in line.split() if not word.startswith("--")]
    if words and words[0].startswith("["):
        words = re.findall(r'"([^"]+)"', line)
    if len(words) < 2:
        return
    *sources, target = words
    for name in sources:
        into = target.endswith("/") or len(sources) > 1
        whole = f"{target.rstrip('/')}/{PurePosixPath(name).name}" if into else target
        lies, folder = (posixpath.normpath(posixpath.join(here, path)) for path in (whole, target))
        yield Copied(name.removeprefix("./").rstrip("/"), whole, place, lies, folder, _is_handled(whole, others))


def _is_handled(target: str, others: Sequence[str]) -> bool:
    """To make it executable is not to do something with it."""
    parts = [part.strip() for line in others for part in re.split(r"&&|;|\||\n", line)]
    folder = PurePosixPath(target).parent
    return any(
        target in part or re.search(rf"{re.escape(str(folder))}(/\*|/?(?![\w./-]))", part)
        for part in parts
        if not re.match(r"(chmod|chown|ls|touch|mkdir|dos2unix)\b", part)
    )


def _names(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(
        PurePosixPath(word).name for line in lines for word in re.findall(r"[\w./~$\{\}-]+", line) if word.strip("./")
    )


def paths_in(image: Image, path: str) -> Iterator[str]:
    """Where a file of the tree lies in an image."""
    context = PurePosixPath(image.path).parent
    for copied in image.copied:
        for source in {str(PurePosixPath(copied.source)), str(context / copied.source)}:
            if path == source:
                yield copied.lies
            elif source == "." or path.startswith(f"{source}/"):
                yield posixpath.join(copied.folder, path.removeprefix(f"{source}/"))


def passes_over(image: Image, copied: Copied) -> bool:
    """Whether Debian's cron does not read a crontab where the image has it, for its name."""
    in_cron_d = str(PurePosixPath(copied.target).parent) == "/etc/cron.d"
    by_debian = image.debian and image.engine == "debian"
    return in_cron_d and by_debian and not copied.handled and is_odd(copied.target)


def is_odd(path: str) -> bool:
    """Whether run-parts and Debian's cron pass over a name; what is filled in later is not judged."""
    name = PurePosixPath(path).name
    return "." in name and not set(name) & set("*?$[{<@")
