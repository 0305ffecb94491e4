"""The text of a crontab: what its lines fire, a marked block in it, duplicate lines, lines under `cronce exec`.

Pure: text in, text out. Lines that an edit does not change stay as they are, byte for byte; so lines end at `\\n`
alone, and a carriage return belongs to the command, as for cron.

Two things about crontabs surprise people. `%` ends the command: what follows is its input, each further `%` a new line,
unless a backslash stands before it. And a line like `PATH=…` holds for the lines below it, not for the whole file.

Guarded, a line runs the same command by the same schedule, as a job that hosts share. A command is quoted and never
parsed, so that a shell, or cron, reads it as before.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from cronce.errors import BadInput, BadSchedule
from cronce.model import check_name
from cronce.schedule import Cron
from cronce.schedule.expression import NICKNAMES, tidy
from cronce.stores import mask_all

NO_ENVIRONMENT: Final[Mapping[str, str]] = {}

Guard = Literal["cronce", "flock", ""]

MAX_LINE_BYTES: Final = 998
"""Bytes of what follows the schedule. With a longer one Debian's cron refuses the whole crontab."""

_ENTRY: Final = r"[ \t]*(?P<when>@\S+|(?:[^\s#]\S*)(?:[ \t]+\S+){4})[ \t]+(?P<rest>\S.*)"
_SETTING: Final = r"""[ \t]*(["']?)(?P<name>[A-Za-z_]\w*)\1[ \t]*=[ \t]*(?P<value>.*?)[ \t\r]*"""
_BEGIN: Final = r"# BEGIN cronce (?P<name>\S+).*"
_END: Final = r"# END cronce (?P<name>\S+)[ \t]*"
_CRONCE_EXEC: Final = r"(^|[\s/;&|(])cronce['\"]?\s+exec\s+(?P<name>\S+)"
_FLOCK: Final = r"(^|[\s/;&|(])flock\s"
_UPKEEP: Final = (
    r"(?:^|[;&|({]\s*)(?:\S*/)?(?P<what>run-parts\s(?:\S+\s+)*?/etc/cron\.\w+|anacron|logrotate|updatedb|mandb|fstrim|"
    r"certbot|freshclam|apt-get|apt|dnf|yum|unattended-upgrade|debian-sa1|checkarray|e2scrub_all|sessionclean|tmpreaper|"
    r"tmpwatch)(?![\w.-])"
)
"""Commands that maintain their own host: each host has its own packages, logs, disks and certificates."""
_FIELD_VALUE: Final = r"(\d\d?|[A-Za-z]{3})"
_READABLE: Final = rf"(?a)(\*|{_FIELD_VALUE}-{_FIELD_VALUE})(/\d\d?)?|{_FIELD_VALUE}"
"""One item of a field as every cron reads it. Ours reads more: L and #, `5/15`, `007`."""
_CRONTAB_NICKNAMES: Final = frozenset(("@reboot", *NICKNAMES))
_PLAIN_WORDS: Final = r"(?:[\w@+:,./= \t-]|\\%)+"
_PREPARATIONS: Final = frozenset(("cd", "test", "[", "set", "export", ".", "source", "umask", "ulimit", "sleep"))
_SHELLS: Final = frozenset(("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"))


class CrontabEntry(NamedTuple):
    """A line that fires something. `head` is all before the command, `command` all after it, as they stand there."""

    number: int
    schedule: str
    head: str
    user: str
    command: str
    settings: Mapping[str, str]
    """`PATH=…` and the like, as they are in force here."""
    block: str
    """The name of the marked block it is in; "" outside of any."""

    @property
    def job(self) -> str:
        """The job of a line that `cronce exec` guards; "" if it does not."""
        found = re.search(_CRONCE_EXEC, self.command)
        return found["name"] if found else ""

    @property
    def guard(self) -> Guard:
        if self.job:
            return "cronce"
        return "flock" if re.search(_FLOCK, self.command) else ""


def entries(text: str, *, system: bool = False, settings: Mapping[str, str] = NO_ENVIRONMENT) -> list[CrontabEntry]:
    """All that a crontab fires; in the `system` format of /etc/cron.d there is a user before each command. `settings`
    are in force from above, where the text is a part of one."""
    spans = blocks(text)
    found = []
    for number, line in enumerate(lines_of(text), start=1):
        plain = line.removesuffix("\n")
        if setting := re.fullmatch(_SETTING, plain):
            settings = {**settings, setting["name"]: _unquoted(setting["value"])}
        elif entry := re.fullmatch(_ENTRY, plain):
            user, rest = _user(entry["rest"]) if system else ("", entry["rest"])
            block = next((name for name, span in spans.items() if number - 1 in span), "")
            head = plain[: len(plain) - len(rest)]
            found.append(CrontabEntry(number, " ".join(entry["when"].split()), head, user, rest, settings, block))
    return found


def cron_of(entry: CrontabEntry, zone: str) -> Cron | str:
    """When it fires; or why that is unknown."""
    if entry.schedule.lower() == "@reboot":
        return "@reboot is when a machine starts, not a slot that machines share"
    try:
        return Cron(entry.schedule, zone)
    except BadSchedule as error:
        return str(error).splitlines()[-1].strip(" ^")


def check(text: str, *, system: bool) -> None:
    """Refuse what cron would not read: in /etc/cron.d one such line silences the whole file."""
    if "\0" in text:
        raise BadInput("it has a zero byte, at which cron stops reading the line; this is not a crontab")
    known = {entry.number: entry for entry in entries(text, system=system)}
    for number, plain in saying(text):
        shown = f"line {number}, {mask_all(plain)[:60]!r}"
        if system and number in known and not known[number].command:
            only = f"and here is only {known[number].user!r:.60}"
            raise BadInput(f"{shown}: after the schedule come a user and a command, {only}")
        if number not in known or not known[number].command:
            user = ", a user" if system else ""
            raise BadInput(f"{shown}: a crontab line is five fields{user} and a command; '@daily' may stand for five")
        _check_entry(known[number], shown)


def saying(text: str) -> Iterator[tuple[int, str]]:
    """The lines that fire something, with their numbers: not blank, no comment, no setting."""
    for number, line in enumerate(lines_of(text), start=1):
        plain = line.strip()
        if plain and not plain.startswith("#") and not re.fullmatch(_SETTING, line.removesuffix("\n")):
            yield number, plain


def _check_entry(entry: CrontabEntry, shown: str) -> None:
    if not is_readable(entry.schedule):
        raise BadInput(
            f"{shown}: cron itself cannot read the schedule {entry.schedule!r}: it knows no L, W or #, steps only after"
            " * or a range (5-59/15), numbers of two digits at most, and @daily and the like in small letters"
        )
    why = cron_of(entry, "UTC")
    if isinstance(why, str) and entry.schedule != "@reboot":
        raise BadInput(f"{shown}: cannot read the schedule {entry.schedule!r}: {why}")
    if (size := len(bytes_of(entry.command))) > MAX_LINE_BYTES:
        raise BadInput(f"{shown}: the command has {size} bytes, and cron accepts at most {MAX_LINE_BYTES}")


def is_readable(schedule: str) -> bool:
    """Whether every cron can read it."""
    parts = [part for field in schedule.split() for part in field.split(",")]
    return schedule in _CRONTAB_NICKNAMES or all(re.fullmatch(_READABLE, part) for part in parts)


def bytes_of(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _user(rest: str) -> tuple[str, str]:
    user, *command = re.split(r"[ \t]+", rest, maxsplit=1)
    return user, command[0] if command else ""


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# --- a marked block ---------------------------------------------------------------------------------------------------


def blocks(text: str) -> dict[str, range]:
    """The marked blocks by name: their lines, counted from 0, with the marks. A mark without its match is refused: a
    wrong guess where a block ends would delete the lines below it."""
    found: dict[str, range] = {}
    opened: tuple[str, int] | None = None
    for index, line in enumerate(lines_of(text)):
        plain = line.rstrip("\r\n")
        begin, end = re.fullmatch(_BEGIN, plain), re.fullmatch(_END, plain)
        if begin and not opened and begin["name"] not in found:
            opened = begin["name"], index
        elif end and opened and end["name"] == opened[0]:
            found[opened[0]], opened = range(opened[1], index + 1), None
        elif begin or end:
            raise BadInput(f"line {index + 1} of the crontab, {plain[:60]!r}, has no match; fix the marks by hand")
    if opened:
        raise BadInput(f"line {opened[1] + 1} of the crontab begins the block {opened[0]}, but nothing ends it")
    return found


def install(text: str, name: str, body: str) -> str:
    """The crontab with `body` as the block `name`: where it was, or else at the end."""
    plain = body.replace("\r\n", "\n").strip("\n")
    if not plain.strip():
        raise BadInput("there is no line to install; `cronce deploy crontab remove` removes a block")
    if any(re.fullmatch(mark, line) for line in plain.split("\n") for mark in (_BEGIN, _END)):
        raise BadInput("the lines to install contain marks of blocks; remove them")
    begin = f"# BEGIN cronce {name} (written by `cronce deploy crontab install`, which overwrites it)"
    block = f"{begin}\n{plain}\n# END cronce {name}\n"
    span = blocks(text).get(name)
    if span is None:
        end = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{end}{block}"
    lines = lines_of(text)
    return "".join([*lines[: span.start], block, *lines[span.stop :]])


def above(text: str, name: str) -> dict[str, str]:
    """The settings in force where the block is, or would be."""
    span = blocks(text).get(name)
    found = (re.fullmatch(_SETTING, line.removesuffix("\n")) for line in lines_of(text)[: span.start if span else None])
    return {setting["name"]: _unquoted(setting["value"]) for setting in found if setting}


def remove(text: str, name: str) -> str:
    span = blocks(text).get(name, range(0))
    return "".join(line for index, line in enumerate(lines_of(text)) if index not in span)


# --- duplicate lines --------------------------------------------------------------------------------------------------


def dedupe(text: str, *, system: bool = False) -> str:
    """The crontab without duplicate lines. Of equal lines the one in a marked block stays, since the next deploy would
    write it again; else the first."""
    seen: set[tuple[object, ...]] = set()
    gone: set[int] = set()
    for entry in sorted(entries(text, system=system), key=lambda one: not one.block):
        same = _meaning(entry)
        if same in seen and not entry.block:
            gone.add(entry.number)
        seen.add(same)
    return "".join(line for number, line in enumerate(lines_of(text), start=1) if number not in gone)


def _meaning(entry: CrontabEntry) -> tuple[object, ...]:
    """What a line does: under other settings (another zone, another database) the same words do something else."""
    try:
        when = tidy(entry.schedule).upper()
    except BadSchedule:
        when = entry.schedule
    return when, entry.user, entry.command.rstrip(), frozenset(entry.settings.items())


# --- lines under `cronce exec` ----------------------------------------------------------------------------------------


class CronHost(NamedTuple):
    """What the lines of this machine's crontabs depend on."""

    cronce: str
    """The program, by its full path: cron's own PATH is /usr/bin:/bin."""
    zone: str
    """The time zone of cron."""
    user: str
    """Whose crontab it is, where lines do not say so themselves."""
    follows_cron_tz: bool = False
    """Whether its cron is known to follow a line `CRON_TZ=…`."""
    told: bool = False
    """A person named that zone for this crontab, whatever it says."""
    refusal: Callable[[CrontabEntry], str] = lambda _entry: ""
    """Why `cronce exec` would not run a line: its user has no store, or cannot read the program."""


class LineLeftAlone(NamedTuple):
    entry: CrontabEntry
    why: str


def wrap(
    text: str,
    host: CronHost,
    *,
    system: bool = False,
    settings: Mapping[str, str] = NO_ENVIRONMENT,
    beside: Sequence[CrontabEntry] = (),
) -> tuple[str, list[LineLeftAlone]]:
    """The crontab with its lines under `cronce exec`, and those that were left, with why. What is guarded `beside` it,
    where the text is a part of one, keeps its names for itself."""
    lines = lines_of(text)
    found = entries(text, system=system, settings=settings)
    names = _names(found, beside, host)
    left: list[LineLeftAlone] = []
    for entry in found:
        guarded = _guarded(entry, names.get(entry.number, ""), host)
        if isinstance(guarded, LineLeftAlone):
            left.append(guarded)
        else:
            end = "\n" if lines[entry.number - 1].endswith("\n") else ""
            lines[entry.number - 1] = f"{entry.head}{guarded}{end}"
    return "".join(lines), left


def _names(found: Sequence[CrontabEntry], beside: Sequence[CrontabEntry], host: CronHost) -> dict[int, str]:
    """The jobs that lines become, by the lines' numbers. Two that run the same words under other settings (another
    database) do two things, and were they one job, one of the two would never be done again: there, and only there, the
    settings that tell them apart are of the name. Were they always, hosts that differ in PATH would not share a job."""
    new = [entry for entry in found if not isinstance(_cron(entry, host), str)]
    alike: dict[str, list[CrontabEntry]] = {}
    for entry in (*found, *beside):
        if entry.job:
            alike.setdefault(entry.job, []).append(entry)
    for entry in new:
        alike.setdefault(job_name(entry, host), []).append(entry)
    apart = {name: _differing([entry.settings for entry in same]) for name, same in alike.items()}
    return {entry.number: job_name(entry, host, apart[job_name(entry, host)]) for entry in new}


def _differing(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = {name for some in settings for name in some}
    return sorted(name for name in names if len({some.get(name) for some in settings}) > 1)


def job_name(entry: CrontabEntry, host: CronHost, apart: Sequence[str] = ()) -> str:
    """The same on every machine where the same user has the same command: its program, and a digest of both, and of the
    settings that tell it `apart`. The user belongs to it, for `./sync.sh` of two users is two programs; and the rest of
    the command may hold a password."""
    told = "".join(f"\n{name}={entry.settings[name]}" if name in entry.settings else f"\n{name}" for name in apart)
    whole = bytes_of(f"{entry.user or host.user} {entry.command.strip()}{told}")
    label = re.sub(r"[^A-Za-z0-9_.]+", "-", _program(entry.command))[:40].strip("-.")
    return check_name(f"{label or 'job'}-{sha256(whole).hexdigest()[:8]}")


def _program(command: str) -> str:
    """The first program of a command that does not only prepare for another."""
    for part in re.split(r"[;&|]+", command):
        words = [word for word in part.split() if not re.match(r"\w+=", word)]
        if words and words[0] not in _PREPARATIONS:
            return words[0].rpartition("/")[2]
    return ""


def zone_of(entry: CrontabEntry, host: CronHost) -> str | None:
    """The time zone of a line; None if it is unknown."""
    named = entry.settings.get("CRON_TZ")
    if host.told or named in (None, "", host.zone):
        return host.zone
    return named if host.follows_cron_tz else None


def _cron(entry: CrontabEntry, host: CronHost) -> Cron | str:
    """When a line fires that can be guarded; or why it cannot."""
    zone = zone_of(entry, host)
    cron = next(_obstacles(entry, zone), "") or cron_of(entry, zone or "")
    return cron if isinstance(cron, str) else host.refusal(entry) or cron


def _guarded(entry: CrontabEntry, name: str, host: CronHost) -> str | LineLeftAlone:
    cron = _cron(entry, host)
    if isinstance(cron, str):
        return LineLeftAlone(entry, cron)
    command, given = _split(entry.command)
    tz = "" if cron.tz == "UTC" else f" --tz {cron.tz}"
    words = _words(command, entry.settings.get("SHELL") or "/bin/sh")
    line = f"{host.cronce} exec {name} --schedule {shlex.quote(entry.schedule)}{tz} -- {words}{given}"
    if (size := len(bytes_of(line))) > MAX_LINE_BYTES:
        return LineLeftAlone(
            entry, f"with the guard it would have {size} bytes, and cron accepts at most {MAX_LINE_BYTES}"
        )
    return line


def _obstacles(entry: CrontabEntry, zone: str | None) -> Iterator[str]:
    if entry.guard == "cronce":
        yield "it is already guarded"
    if entry.guard == "flock":
        yield "flock guards it, but on this host only; remove flock to guard it across hosts"
    if upkeep := re.search(_UPKEEP, entry.command):
        yield f"{upkeep['what']} maintains one host, so it must run on every host; if not, put `cronce exec` before it"
    if entry.block:
        yield f"it belongs to the block {entry.block}, which the next install overwrites; install that with --wrap"
    if not entry.command:
        yield "it has no command"
    if "\r" in entry.command:
        yield "it ends in a carriage return, which cron passes to the command; fix that first"
    shell = entry.settings.get("SHELL") or "/bin/sh"
    if shell.rpartition("/")[2] not in _SHELLS or "\\" in shell:
        yield f"cronce does not know how SHELL={shell} reads quotes"
    if zone is None:
        yield f"CRON_TZ={entry.settings['CRON_TZ']} is set above it, and only cronie is known to follow that; add --tz"


def _split(command: str) -> tuple[str, str]:
    """The command, and from the first `%` on what cron gives it to read. A backslash guards the letter behind it."""
    found = re.match(r"(?:\\.|[^%\\])*\\?", command)
    place = found.end() if found else 0
    return command[:place], command[place:]


def _words(command: str, shell: str) -> str:
    """The command as words behind two dashes: as it is, if no shell would change it, or quoted for one. The text is
    only quoted, not parsed: cron treats its backslashes as before."""
    if re.fullmatch(_PLAIN_WORDS, command, re.ASCII):
        first = command.split(maxsplit=1)[0]
        if "/" in first and "=" not in first:
            return command
    quoted = command.replace("'", "'\\''")
    return f"{word(shell)} -c '{quoted}'"


def word(text: str) -> str:
    """A word of a command, for the shell and for cron."""
    return shlex.quote(text).replace("%", "\\%")
