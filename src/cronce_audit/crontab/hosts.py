"""Which cron an image has, and which crontabs of the tree it takes: Dockerfiles tell."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.containers.read import Instruction, instructions, is_dockerfile
from cronce_audit.crontab.read import Line, Tab
from cronce_audit.model import Command, Facts, Installed, Source, ZoneSet, reader

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
    lies: str
    """Its path there, as far as the lines before say in which folder they are."""
    folder: str
    """The same, where the source is a folder: what is in it lies there."""


@dataclass(frozen=True, slots=True)
class Image:
    """A Dockerfile."""

    path: str
    engine: Engine
    """"" where it has no cron, or several."""
    copied: tuple[Copied, ...]
    runs: frozenset[str]
    """The names of files in its RUN lines: scripts that run once, when it is built, and crontabs it installs."""
    named: frozenset[str]
    """The names of files that any of its lines speak of."""


@reader("image", is_dockerfile)
def read(source: Source) -> Iterator[Image]:
    found = list(instructions(source.text))
    text = "\n".join(f"{one.name} {one.rest}" for one in found)
    runs = [one.rest for one in found if one.name == "RUN"]
    yield Image(source.path, _engine(text), tuple(_all_copied(found)), _names(runs), _names([text]))


def _engine(text: str) -> Engine:
    found: list[Engine] = [engine for engine, pattern in _ENGINES if re.search(pattern, text)]
    if not found and re.search(r"(?im)^FROM\s+\S*alpine", text) and re.search(_BUSYBOX, text):
        return "busybox"
    return found[0] if len(found) == 1 else ""


def _all_copied(found: Sequence[Instruction]) -> Iterator[Copied]:
    here = ""
    for one in found:
        if one.name in ("FROM", "WORKDIR"):
            here = posixpath.join(here, one.rest.strip()) if one.name == "WORKDIR" else ""
        yield from _copies(one, here)


def _copies(one: Instruction, here: str) -> Iterator[Copied]:
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
        yield Copied(name.removeprefix("./").rstrip("/"), whole, lies, folder)


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


HONOURS_CRON_TZ: Final[frozenset[Engine]] = frozenset({"cronie", "supercronic"})
_INSTALLED: Final = re.compile(r"((?:.*/)?)(?:etc/crontab|etc/cron\.d/[^/]+|var/spool/cron/.+)")


class Home(NamedTuple):
    """What is known about a crontab."""

    tab: Tab
    engine: Engine
    images: Mapping[str, str]
    """The Dockerfiles that take it, and where it lies in each; "" where that is not said."""
    hosts: frozenset[str]
    """Whatever shares one of these is read by the same cron."""


class _Known(NamedTuple):
    """What is said of all crontabs together."""

    images: Sequence[tuple[Image, Mapping[str, str]]]
    """Each with what it copies: from which path of the tree to which of its own."""
    of_supercronic: frozenset[str]
    installed: frozenset[str]


def homes(facts: Facts) -> Mapping[str, Home]:
    """By path."""
    commands = [{PurePosixPath(word).name for word in command.words} for command in facts.of(Command)]
    known = _Known(
        [(image, _copied(image)) for image in facts.of(Image)],
        frozenset(name for names in commands if "supercronic" in names for name in names),
        frozenset(installed.name for installed in facts.of(Installed)),
    )
    return {tab.path: _home(tab, known) for tab in facts.of(Tab)}


def _home(tab: Tab, known: _Known) -> Home:
    name = PurePosixPath(tab.path).name
    takers = {
        image: target for image, copied in known.images if (target := _target(image, copied, tab.path)) is not None
    }
    engines: set[Engine] = {image.engine for image in takers}
    if name in known.of_supercronic:
        engines.add("supercronic")
    engine: Engine = engines.pop() if len(engines) == 1 else ""
    targets = {PurePosixPath(target).name for target in takers.values()} | {name}
    by_command = any("crontab" in image.runs and targets & image.runs for image in takers)
    by_command = by_command or not targets.isdisjoint(known.installed)
    images = {image.path: target for image, target in takers.items()}
    lies = images or ({} if by_command else {_machine(tab.path): tab.path})
    hosts = {host for host, path in lies.items() if not _is_passed_over(path)}
    return Home(tab, engine, images, frozenset(hosts | {_machine(tab.path)} if hosts or by_command else ()))


def _is_passed_over(path: str) -> bool:
    """Debian's cron reads nothing in cron.d that has a dot in its name: `backup.off`."""
    return PurePosixPath(path).parent.name == "cron.d" and "." in PurePosixPath(path).name


def _machine(path: str) -> str:
    """What lies where cron looks for it is read together with the others there; any other file is for itself."""
    found = _INSTALLED.fullmatch(path)
    return f"{found[1]}/" if found else path


def _copied(image: Image) -> Mapping[str, str]:
    context = PurePosixPath(image.path).parent
    return {str(base / copied.source): copied.target for copied in image.copied for base in (PurePosixPath(), context)}


def _target(image: Image, copied: Mapping[str, str], path: str) -> str | None:
    """Where the image has a file of the tree; None where it does not take it."""
    if path in copied:
        return copied[path]
    name = PurePosixPath(path).name
    for source, target in copied.items():
        if source in (".", "*") or path.startswith(f"{source}/"):
            into = target.rstrip("/")
            if into.endswith("/cron.d"):
                return f"{into}/{name}"
            if name in image.named:
                return ""
    return None


def zones(line: Line, home: Home, facts: Facts) -> Iterator[str]:
    """The zones by whose clocks a line fires, as far as the tree says."""
    if line.zone and home.engine in HONOURS_CRON_TZ | {""}:
        found = {line.zone}
    else:
        units = set(home.images) | {""}
        found = {said.zone for said in facts.of(ZoneSet) if said.unit in units}
    yield from (zone for zone in sorted(found) if is_zone(zone))
