"""What the words of crontabs commonly are: users, and commands that can be no users."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from cronce.errors import BadInput
from cronce.integrations.crontab import Entry, Guard, entries, is_readable, saying
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
_NO_USER: Final = re.compile(r"[/=\"'`;|&<>()\[\]{}~]|\$\w|\.(sh|py|php|pl|rb|js)$")
_FIELD: Final = re.compile(r"\*(/\d+)?|\?|\d[\d,*/-]*[,*/-][\d,*/-]*")


def is_command(word: str) -> bool:
    """Whether a word is a command, and surely no user. Directories have `john.doe`, `DOMAIN\\user` and `app$`."""
    return word in COMMANDS or _NO_USER.search(word) is not None


def is_field(word: str) -> bool:
    """Whether a word is one more field of a schedule: nobody's command is `*` or `*/5`."""
    return _FIELD.fullmatch(word) is not None


def has_users(rests: list[str]) -> bool:
    """Whether what stands behind the schedules of a crontab begins with users: judged by all its lines together."""
    pairs = [rest.split(maxsplit=2) for rest in rests]
    firsts = {words[0] for words in pairs}
    if any(len(words) < 2 or words[0] in COMMANDS or not _NAME.fullmatch(words[0]) for words in pairs):
        return False
    return firsts <= USERS or all(words[1] in COMMANDS or words[1].startswith(("/", "./", "[", "~")) for words in pairs)


FaultKind = Literal["fields", "range", "foreign", "user", "six fields", "newline"]

INACTIVE: Final = frozenset({
    ".j2", ".jinja", ".jinja2", ".erb", ".in", ".tpl", ".tmpl", ".template", ".mustache", ".epp", ".dist", ".example",
    ".sample", ".bak", ".orig", ".old", ".disabled", ".off", ".swp", ".save", ".dpkg-dist", ".dpkg-old", ".dpkg-new",
    ".dpkg-bak", ".rpmsave", ".rpmnew", ".rpmorig", ".placeholder"
})  # fmt: skip
"""Endings of files that are made into others, or were: no cron reads them as they are, and nobody expects that."""
_OTHER: Final = frozenset({
    ".py", ".js", ".ts", ".tsx", ".go", ".rb", ".php", ".md", ".rst", ".html", ".htm", ".yml", ".yaml", ".json", ".xml",
    ".sh", ".java", ".c", ".h", ".cpp", ".rs", ".css", ".toml", ".tf", ".sql", ".pl", ".service", ".timer", ".po",
    ".1", ".5", ".8", ".gz", ".png", ".svg", ".log", ".pyc", ".so", ".o", ".lock", ".cfg", ".ini", ".adoc", ".vim"
})  # fmt: skip
_TEMPLATED: Final = re.compile(r"\{\{|\{%|<%|%%|@[A-Z_]{2,}@|__[A-Z_]{2,}__|<[A-Z_]{2,}>|^\s*\S*\$\{?\w", re.MULTILINE)
_NAMED: Final = re.compile(r"(?i)crontab([.-].*)?|.*[._-]crontab|.*\.cron\.d")
_MAY_BE: Final = re.compile(r"(?i).+[_-]cron|cronjobs?(\.txt)?|cron\.txt")
"""Names that other files have too: it is a crontab if each of its lines is one of a crontab."""
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final[tuple[tuple[str, ...], ...]] = ((), (), (), _MONTHS, _DAYS)
_MINUTE: Final = re.compile(r"@\w+|[\d*?H][\d*/,?~H()-]*")


@dataclass(frozen=True, slots=True)
class Tab:
    """A crontab."""

    path: str
    system: bool
    """There is a user before each command."""
    installed: bool
    """It lies where cron looks for it: below etc/ or var/spool/."""
    userless: bool
    """Each command begins with a word that can be no user."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a crontab."""

    place: Place
    schedule: str
    user: str
    """"" where that is not said."""
    command: str
    zone: str
    """CRON_TZ as it is in force here; "" is none."""
    settings: tuple[tuple[str, str], ...]
    """The others that change what a command does."""
    guard: Guard
    job: str
    """Of `cronce exec`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that cron cannot read."""

    place: Place
    kind: FaultKind
    why: str


def wants(path: PurePosixPath) -> bool:
    if path.suffix.lower() in INACTIVE | _OTHER or path.name.startswith(".") or path.name.endswith("~"):
        return False
    in_bin = path.parent.name in ("bin", "sbin")
    named = _NAMED.fullmatch(path.name) or _MAY_BE.fullmatch(path.name)
    return _is_certain(path) or path.suffix in (".cron", ".crontab") or (named is not None and not in_bin)


def _is_certain(path: PurePosixPath) -> bool:
    """Whether the path alone says that this is a crontab."""
    folder = path.parent
    spool = folder.name in ("cron", "tabs") and "spool" in folder.parts
    return folder.name in ("cron.d", "crontabs") or spool or (path.name == "crontab" and folder.name == "etc")


@reader("crontab", wants)
def read(source: Source) -> Iterator[Tab | Line | Fault]:
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
    system = _is_system(path, plain)
    found = entries(source.text, system=system)
    yield Tab(source.path, system, _is_installed(path), all(is_command(entry.command.split()[0]) for entry in plain))
    if not _TEMPLATED.search(source.text):
        yield from _faults(source, found, lines, system=system)
    for entry in found:
        if entry.command and not _TEMPLATED.search(f"{entry.schedule} {entry.command}"):
            yield _line(source, entry)


def _is_system(path: PurePosixPath, plain: Sequence[Entry]) -> bool:
    if (
        path.parent.name == "cron.d"
        or path.name.endswith(".cron.d")
        or (path.name, path.parent.name) == ("crontab", "etc")
    ):
        return True
    return not _is_of_one_user(path) and has_users([entry.command for entry in plain])


def _is_of_one_user(path: PurePosixPath) -> bool:
    """It is called like the user."""
    return path.parent.name == "crontabs" or "spool" in path.parent.parts


def _is_installed(path: PurePosixPath) -> bool:
    folders = path.parent.parts
    return folders[-2:] == ("etc", "cron.d") or folders[-1:] == ("etc",) or "spool" in folders


def _line(source: Source, entry: Entry) -> Line:
    settings = dict(entry.settings)
    zone = settings.pop("CRON_TZ", "")
    changing = {name: value for name, value in settings.items() if name not in ("MAILTO", "MAILFROM", "SHELL", "PATH")}
    user = source.name if _is_of_one_user(PurePosixPath(source.path)) else entry.user
    return Line(
        source.place(entry.number), entry.schedule, user, entry.command.strip(), zone,
        tuple(sorted(changing.items())), entry.guard, entry.job,
    )  # fmt: skip


# --- what cron cannot read --------------------------------------------------------------------------------------------


def _faults(
    source: Source, found: Sequence[Entry], lines: Sequence[tuple[int, str]], *, system: bool
) -> Iterator[Fault]:
    known = {entry.number: entry for entry in found if _MINUTE.fullmatch(entry.schedule.split()[0])}
    joined = {number for number, line in enumerate(source.text.split("\n"), start=2) if line.endswith("\\")}
    for number, _ in lines:
        if number in joined and number not in known:
            if number - 1 not in joined:
                yield Fault(source.place(number), "fields", "cron joins no lines, and this one is no entry of its own")
        elif number not in known:
            yield Fault(source.place(number), "fields", "it is neither five fields and a command nor a setting")
        elif fault := _fault(known[number], system=system):
            yield Fault(source.place(number), *fault)
    last = source.text.rpartition("\n")[2]
    if last.strip() and not last.lstrip().startswith("#"):
        number = source.text.count("\n") + 1
        yield Fault(source.place(number), "newline", "it is the last line, and no end of line follows it")


def _fault(entry: Entry, *, system: bool) -> tuple[FaultKind, str] | None:
    first = entry.user if system else entry.command.split()[0]
    if is_field(first):
        return (
            "six fields",
            f"it has six fields: cron takes five, and `{first}` for the {'user' if system else 'command'}",
        )
    if entry.schedule.startswith("@"):
        known = entry.schedule.startswith("@every") or is_readable(entry.schedule.lower())
        return None if known else ("fields", f"there is no `{entry.schedule}`")
    if wrong := _out_of_range(entry.schedule):
        return "range", f"`{wrong}` cannot stand where it does in the schedule `{entry.schedule}`"
    if not is_readable(entry.schedule):
        return "foreign", f"Debian's cron cannot read the schedule `{entry.schedule}`"
    if system and not entry.command:
        return "user", f"there is no command behind the user `{entry.user}`" if not is_command(first) else _no_user(
            first
        )
    return ("user", _no_user(first)) if system and is_command(first) else None


def _no_user(first: str) -> str:
    return f"in this format a user stands before the command, and here `{first[:40]}` is taken for one"


def _out_of_range(schedule: str) -> str:
    for field, (low, high), names in zip(schedule.split(), _RANGES, _NAMES, strict=True):
        for number in re.finditer(r"(?<![\d/#~])\d+", field):
            if not low <= int(number[0]) <= high:
                return number[0]
        for name in re.finditer(r"[A-Za-z]{2,}", field):
            if name[0][:3].lower() not in names and name[0] != "LW":
                return name[0]
    return ""
