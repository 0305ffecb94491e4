"""Which cron reads a crontab of the tree, in which images, and by which clocks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.clocks import is_zone
from cronce_audit.containers.facts import CronEngine, Image
from cronce_audit.crontab.read import CronLine, Tab
from cronce_audit.model import CommandLine, Facts, Installed, ZoneSet

HONOURS_CRON_TZ: Final[frozenset[CronEngine]] = frozenset({"cronie", "supercronic"})
_INSTALLED: Final = re.compile(r"((?:.*/)?)(?:etc/crontab|etc/cron\.d/[^/]+|var/spool/cron/.+)")


class CrontabHome(NamedTuple):
    """Where a crontab is used."""

    engine: CronEngine
    images: Mapping[str, str]
    """The Dockerfiles that copy it, and its path in each image; "" where that is not known."""
    hosts: frozenset[str]
    """Crontabs that share one of these are read by the same cron."""


Copies = Sequence[tuple[Image, Mapping[str, str]]]
"""Images with their copies: path in the tree to path in the image."""


def homes(facts: Facts) -> Mapping[str, CrontabHome]:
    """By path."""
    commands = [{PurePosixPath(word).name for word in command.words} for command in facts.of(CommandLine)]
    of_supercronic = {name for names in commands if "supercronic" in names for name in names}
    installed = {one.name for one in facts.of(Installed)}
    copies = [(image, _copied(image)) for image in facts.of(Image)]
    return {tab.path: _home(tab.path, copies, of_supercronic, installed) for tab in facts.of(Tab)}


def _home(path: str, copies: Copies, of_supercronic: set[str], installed: set[str]) -> CrontabHome:
    name = PurePosixPath(path).name
    takers = {image: target for image, copied in copies if (target := _target(image, copied, path)) is not None}
    engines: set[CronEngine] = {image.engine for image in takers}
    if name in of_supercronic:
        engines.add("supercronic")
    engine: CronEngine = engines.pop() if len(engines) == 1 else ""
    targets = {PurePosixPath(target).name for target in takers.values()} | {name}
    by_command = any("crontab" in image.runs and targets & image.runs for image in takers)
    by_command = by_command or not targets.isdisjoint(installed)
    images = {image.path: target for image, target in takers.items()}
    lies = images or ({} if by_command else {_machine(path): path})
    hosts = {host for host, place in lies.items() if not _is_passed_over(place)}
    return CrontabHome(engine, images, frozenset(hosts | {_machine(path)} if hosts or by_command else ()))


def _is_passed_over(path: str) -> bool:
    """Debian's cron skips files in cron.d with a dot in their name: `backup.off`."""
    return PurePosixPath(path).parent.name == "cron.d" and "." in PurePosixPath(path).name


def _machine(path: str) -> str:
    """Files where cron looks are read together; any other file alone."""
    found = _INSTALLED.fullmatch(path)
    return f"{found[1]}/" if found else path


def _copied(image: Image) -> Mapping[str, str]:
    context = PurePosixPath(image.path).parent
    return {str(base / copied.source): copied.target for copied in image.copied for base in (PurePosixPath(), context)}


def _target(image: Image, copied: Mapping[str, str], path: str) -> str | None:
    """The path of a file of the tree in the image; None if it is not copied."""
    if path in copied:
        return copied[path]
    name = PurePosixPath(path).name
    for source, target in copied.items():
        if source in (".", "*") or path.startswith(f"{source}/"):
            into = target.rstrip("/")
            if into.endswith("/cron.d"):
                return f"{into}/{name}"
            if name in image.named and all(PurePosixPath(other).name != name for other in copied):
                return ""
    return None


def zones(line: CronLine, home: CrontabHome, facts: Facts) -> Iterator[str]:
    """The time zones in which a line is scheduled, as far as the tree shows."""
    if line.zone and home.engine in HONOURS_CRON_TZ | {""}:
        found = {line.zone}
    else:
        units = set(home.images) | {""}
        found = {said.zone for said in facts.of(ZoneSet) if said.unit in units}
    yield from (zone for zone in sorted(found) if is_zone(zone))
