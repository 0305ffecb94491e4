"""Reads crontabs: which files are crontabs, whether their lines name users; and which cron reads them, in which images,
by which clocks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce.integrations.crontab import CrontabEntry, Guard, entries, saying
from cronce_audit.clocks import is_zone
from cronce_audit.containers.facts import CronEngine, Image
from cronce_audit.containers.shell import given
from cronce_audit.model import Facts, Installed, Place, Source, Unreadable, ZoneSet, reader
from cronce_audit.processes.commands import started
from cronce_audit.scripts import commands_in

USERS: Final = frozenset({
    "root", "www-data", "nobody", "daemon", "mail", "backup", "news", "list", "postgres", "mysql", "munin", "apache",
    "nginx", "http", "logcheck", "git", "redis", "ubuntu", "ec2-user", "vagrant", "jenkins", "smmsp", "uucp", "admin",
    "app", "deploy", "deployer", "django", "bin", "sys", "operator"
})  # fmt: skip
COMMANDS: Final = frozenset({
    "[", "[[", "test", "if", "for", "while", "cd", "echo", "printf", "export", "sh", "bash", "ash", "zsh", "env",
    "sudo", "su", "nice", "ionice", "flock", "timeout", "sleep", "php", "php8", "python", "python2", "python3", "perl",
    "ruby", "node", "npm", "npx", "yarn", "java", "bundle", "rake", "rails", "curl", "wget", "find", "rm", "cp", "mv",
    "touch", "cat", "date", "rsync", "tar", "docker", "docker-compose", "podman", "kubectl", "systemctl", "service",
    "run-parts", "run-one", "cronce", "certbot", "logrotate", "mysqldump", "pg_dump", "psql", "mysql", "aws", "gsutil",
    "make", "poetry", "uv", "pipenv", "source", "exec", "nohup", "true", "command", "drush", "wp", "artisan", "git",
    "set", "chronic", "mkdir", "rmdir", "chmod", "chown", "ln", "ls", "grep", "sed", "awk", "kill", "pkill", "logger",
    "rclone", "gzip"
})  # fmt: skip
_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]*")


def has_users(rests: list[str]) -> bool:
    """Whether the lines of a crontab name a user after the schedule: judged by all lines together."""
    pairs = [rest.split(maxsplit=2) for rest in rests]
    firsts = {words[0] for words in pairs}
    if any(len(words) < 2 or words[0] in COMMANDS or not _NAME.fullmatch(words[0]) for words in pairs):
        return False
    return firsts <= USERS or all(words[1] in COMMANDS or words[1].startswith(("/", "./", "[", "~")) for words in pairs)


def lacks_user(command: str) -> bool:
    """Whether a line of /etc/cron.d surely has a command where cron expects the user."""
    first = command.split(maxsplit=1)[0]
    return first in COMMANDS - USERS or not _NAME.fullmatch(first)


INACTIVE: Final = frozenset({
    ".j2", ".jinja", ".jinja2", ".erb", ".in", ".tpl", ".tmpl", ".template", ".mustache", ".epp", ".dist", ".example",
    ".sample", ".bak", ".orig", ".old", ".disabled", ".off", ".swp", ".save", ".dpkg-dist", ".dpkg-old", ".dpkg-new",
    ".dpkg-bak", ".rpmsave", ".rpmnew", ".rpmorig", ".placeholder"
})  # fmt: skip
"""Endings of templates, samples and backups, which no cron reads."""
_OTHER: Final = frozenset({
    ".py", ".js", ".ts", ".tsx", ".go", ".rb", ".php", ".md", ".rst", ".html", ".htm", ".yml", ".yaml", ".json", ".xml",
    ".sh", ".java", ".c", ".h", ".cpp", ".rs", ".css", ".toml", ".tf", ".sql", ".pl", ".service", ".timer", ".po",
    ".1", ".5", ".8", ".gz", ".png", ".svg", ".log", ".pyc", ".so", ".o", ".lock", ".cfg", ".ini", ".adoc", ".vim"
})  # fmt: skip
_TEMPLATED: Final = re.compile(r"\{\{|\{%|<%|%%|@[A-Z_]{2,}@|__[A-Z_]{2,}__|<[A-Z_]{2,}>|^\s*\S*\$\{?\w", re.MULTILINE)
_CRONTAB_NAMES: Final = re.compile(r"(?i)crontab([.-].*)?|.*[._-]crontab|.*\.cron\.d")
_MAY_BE: Final = re.compile(r"(?i).+[_-]cron|cronjobs?(\.txt)?|(?:cron|schedule)\.txt")
"""Names that other files have too: it is a crontab if every line is valid in one."""
_MINUTE: Final = re.compile(r"@\w+|[\d*?H][\d*/,?~H()-]*")


def shown(command: str) -> str:
    """The program, and the next word if it is a name: other words may be secret."""
    for words in _programs(command):
        if words and PurePosixPath(words[0]).name not in ("cd", "test", "command", "sleep", "export"):
            more = [word for word in words[1:2] if re.fullmatch(r"[A-Za-z0-9_./-]*[A-Za-z][A-Za-z0-9_./-]*", word)]
            return " ".join([words[0], *(word for word in more if not word.startswith("-"))])[:60]
    return command.split(maxsplit=1)[0][:60]


def _programs(command: str) -> Iterator[tuple[str, ...]]:
    """The simple commands in it, without wrappers; for `sh -c "…"` those of the text."""
    for simple in commands_in(command):
        told = given(simple.bare)
        yield from (one.bare for one in commands_in(told[1])) if told else [simple.bare]


class NeverRun(NamedTuple):
    """A line for /etc/cron.d that names no user."""

    place: Place
    command: str


class CronLine(NamedTuple):
    """An entry of a crontab."""

    place: Place
    schedule: str
    user: str
    """"" where it is not given."""
    command: str
    zone: str
    """The CRON_TZ of this line; "" for none."""
    settings: tuple[tuple[str, str], ...]
    """Other variables that change what a command does."""
    guard: Guard
    job: str
    """The job's name in `cronce exec`."""


def wants(path: PurePosixPath) -> bool:
    if path.suffix.lower() in INACTIVE | _OTHER or path.name.startswith(".") or path.name.endswith("~"):
        return False
    in_bin = path.parent.name in ("bin", "sbin")
    named = _CRONTAB_NAMES.fullmatch(path.name) or _MAY_BE.fullmatch(path.name)
    return _is_certain(path) or path.suffix in (".cron", ".crontab") or (named is not None and not in_bin)


def _is_certain(path: PurePosixPath) -> bool:
    """Whether the path alone makes it a crontab."""
    folder = path.parent
    spool = folder.name in ("cron", "tabs") and "spool" in folder.parts
    return folder.name in ("cron.d", "crontabs") or spool or (path.name == "crontab" and folder.name == "etc")


@reader("crontab", wants)
def read(source: Source) -> Iterator[CronLine]:
    if source.text.startswith("#!") or "\0" in source.text:
        return
    path = PurePosixPath(source.path)
    try:
        plain = [entry for entry in entries(source.text) if _MINUTE.fullmatch(entry.schedule.split()[0])]
    except BadInput as error:
        raise Unreadable(1, str(error)) from error
    lines = list(saying(source.text))
    if _MAY_BE.fullmatch(source.name) and not _is_certain(path) and len(plain) < len(lines):
        return
    if not plain or (not _is_certain(path) and 2 * len(plain) <= len(lines)) or len(lines) > 2 * len(plain) + 8:
        return
    for entry in entries(source.text, system=_is_system(path, plain)):
        if entry.command and not _TEMPLATED.search(f"{entry.schedule} {entry.command}"):
            yield _line(source, entry)


def _is_system(path: PurePosixPath, plain: Sequence[CrontabEntry]) -> bool:
    if (
        path.parent.name == "cron.d"
        or path.name.endswith(".cron.d")
        or (path.name, path.parent.name) == ("crontab", "etc")
    ):
        return True
    return not _is_of_one_user(path) and has_users([entry.command for entry in plain])


def _is_of_one_user(path: PurePosixPath) -> bool:
    """A crontab that is named after its user."""
    return path.parent.name == "crontabs" or "spool" in path.parent.parts


def _line(source: Source, entry: CrontabEntry) -> CronLine:
    settings = dict(entry.settings)
    zone = settings.pop("CRON_TZ", "")
    changing = {name: value for name, value in settings.items() if name not in ("MAILTO", "MAILFROM", "SHELL", "PATH")}
    user = source.name if _is_of_one_user(PurePosixPath(source.path)) else entry.user
    return CronLine(
        source.place(entry.number), entry.schedule, user, entry.command.strip(), zone,
        tuple(sorted(changing.items())), entry.guard, entry.job,
    )  # fmt: skip


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
    run = (one.argv for one in facts.conclude(started) if one.argv.program == "supercronic")
    of_supercronic = {PurePosixPath(word).name for argv in run for word in argv.arguments}
    installed = {one.name for one in facts.of(Installed)}
    copies = [(image, _copied(image)) for image in facts.of(Image)]
    paths = {line.place.path for line in facts.of(CronLine)}
    return {path: _home(path, copies, of_supercronic, installed) for path in paths}


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
