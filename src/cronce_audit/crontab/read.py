"""Reads crontabs: which files are crontabs, and whether their lines name users."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce.errors import BadInput
from cronce.integrations.crontab import CrontabEntry, Guard, entries, saying
from cronce_audit.model import Place, Source, Unreadable, reader

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


class Tab(NamedTuple):
    """A crontab."""

    path: str


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
def read(source: Source) -> Iterator[Tab | CronLine]:
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
    yield Tab(source.path)
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
