"""Lines of a crontab under `cronce exec`: the same commands, by the same schedules, as jobs that hosts share.

Pure, as `crontab` is. A command is quoted and never read: what a shell, or cron, makes of it is what it was.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from cronce.integrations.deploy.crontab import LONGEST, NOTHING, Entry, bytes_of, cron_of, entries, lines_of, size_of
from cronce.model import check_name
from cronce.schedule import Cron

_WORDS: Final = r"(?:[\w@+:,./= \t-]|\\%)+"
_PREPARATIONS: Final = frozenset(("cd", "test", "[", "set", "export", ".", "source", "umask", "ulimit", "sleep"))
_SHELLS: Final = frozenset(("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"))


class Host(NamedTuple):
    """What the lines of this machine's crontabs depend on."""

    cronce: str
    """The program, by its full path: cron's own PATH is /usr/bin:/bin."""
    zone: str
    """By whose clocks cron fires."""
    user: str
    """Whose crontab it is, where lines do not say so themselves."""
    follows_cron_tz: bool = False
    """Whether its cron is known to follow a line `CRON_TZ=…`."""
    told: bool = False
    """Somebody said that zone for this crontab, whatever else stands there."""
    refusal: Callable[[Entry], str] = lambda _entry: ""
    """Why `cronce exec` would refuse to run a line there: its user has no store, or cannot read the program."""


class Wrapped(NamedTuple):
    """A line that is guarded now, and the job it is."""

    entry: Entry
    name: str


class Left(NamedTuple):
    entry: Entry
    why: str


def wrap(
    text: str,
    host: Host,
    *,
    system: bool = False,
    settings: Mapping[str, str] = NOTHING,
    beside: Sequence[Entry] = (),
) -> tuple[str, list[Wrapped], list[Left]]:
    """The crontab with its lines under `cronce exec`; those that were changed, and those that were left, with why. What
    is guarded `beside` it, where the text is a part of one, keeps its names for itself."""
    lines = lines_of(text)
    found = entries(text, system=system, settings=settings)
    names = _names(found, beside, host)
    done: list[Wrapped] = []
    left: list[Left] = []
    for entry in found:
        guarded = _guarded(entry, names.get(entry.number, ""), host)
        if isinstance(guarded, Left):
            left.append(guarded)
        else:
            end = "\n" if lines[entry.number - 1].endswith("\n") else ""
            lines[entry.number - 1] = f"{entry.head}{guarded}{end}"
            done.append(Wrapped(entry, names[entry.number]))
    return "".join(lines), done, left


def _names(found: Sequence[Entry], beside: Sequence[Entry], host: Host) -> dict[int, str]:
    """The jobs that lines become, by the lines' numbers. Two that run the same words under other settings (another
    database) do two things, and were they one job, one of the two would never be done again: there, and only there, the
    settings that tell them apart are of the name. Were they always, hosts that differ in PATH would not share a job."""
    new = [entry for entry in found if not isinstance(_cron(entry, host), str)]
    alike: dict[str, list[Entry]] = {}
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


def job_name(entry: Entry, host: Host, apart: Sequence[str] = ()) -> str:
    """The same on every machine where the same user has the same command: its program, and a digest of both, and of the
    settings that tell it `apart`. The user belongs to it, for `./sync.sh` of two users is two programs; and the rest of
    the command may hold a password."""
    told = "".join(f"\n{name}={entry.settings[name]}" if name in entry.settings else f"\n{name}" for name in apart)
    whole = bytes_of(f"{entry.user or host.user} {entry.command.strip()}{told}")
    label = re.sub(r"[^A-Za-z0-9_.]+", "-", _program(entry.command))[:40].strip("-.")
    return check_name(f"{label or 'job'}-{sha256(whole).hexdigest()[:8]}")


def _program(command: str) -> str:
    """What a command is about: the first program in it that is no preparation for another."""
    for part in re.split(r"[;&|]+", command):
        words = [word for word in part.split() if not re.match(r"\w+=", word)]
        if words and words[0] not in _PREPARATIONS:
            return words[0].rpartition("/")[2]
    return ""


def zone_of(entry: Entry, host: Host) -> str | None:
    """By whose clocks a line fires; None where nobody can tell."""
    named = entry.settings.get("CRON_TZ")
    if host.told or named in (None, "", host.zone):
        return host.zone
    return named if host.follows_cron_tz else None


def _cron(entry: Entry, host: Host) -> Cron | str:
    """When a line fires that can be guarded; or why it cannot."""
    zone = zone_of(entry, host)
    cron = next(_obstacles(entry, zone), "") or cron_of(entry, zone or "")
    return cron if isinstance(cron, str) else host.refusal(entry) or cron


def _guarded(entry: Entry, name: str, host: Host) -> str | Left:
    cron = _cron(entry, host)
    if isinstance(cron, str):
        return Left(entry, cron)
    command, given = _split(entry.command)
    tz = "" if cron.tz == "UTC" else f" --tz {cron.tz}"
    words = _words(command, entry.settings.get("SHELL") or "/bin/sh")
    line = f"{host.cronce} exec {name} --schedule {shlex.quote(entry.schedule)}{tz} -- {words}{given}"
    if (size := size_of(line)) > LONGEST:
        return Left(entry, f"guarded it would have {size} bytes, and cron takes {LONGEST} at most")
    return line


def _obstacles(entry: Entry, zone: str | None) -> Iterator[str]:
    if entry.guard == "cronce":
        yield "it is guarded"
    if entry.guard == "flock":
        yield "flock guards it, on this host only; take flock out to have it guarded on all"
    if entry.block:
        yield f"it is of the block {entry.block}, which the next install overwrites; install it with --wrap"
    if not entry.command:
        yield "it has no command"
    if "\r" in entry.command:
        yield "it ends in a carriage return, which cron hands to the command; mend that first"
    shell = entry.settings.get("SHELL") or "/bin/sh"
    if shell.rpartition("/")[2] not in _SHELLS or "\\" in shell:
        yield f"SHELL={shell} is none whose quotes are known here"
    if zone is None:
        yield f"CRON_TZ={entry.settings['CRON_TZ']} stands above it, and only cronie is known to follow it; say --tz"


def _split(command: str) -> tuple[str, str]:
    """The command, and from the first `%` on what cron gives it to read. A backslash guards the letter behind it."""
    found = re.match(r"(?:\\.|[^%\\])*\\?", command)
    place = found.end() if found else 0
    return command[:place], command[place:]


def _words(command: str, shell: str) -> str:
    """The command as words behind two dashes: as it stands, where no shell would make anything else of it, or in the
    quotes of one. The text is not read, only quoted: what cron does to its backslashes it does in there, too."""
    if re.fullmatch(_WORDS, command, re.ASCII):
        first = command.split(maxsplit=1)[0]
        if "/" in first and "=" not in first:
            return command
    quoted = command.replace("'", "'\\''")
    return f"{word(shell)} -c '{quoted}'"


def word(text: str) -> str:
    """A word of a command, for the shell and for cron."""
    return shlex.quote(text).replace("%", "\\%")


def twins(done: Sequence[Wrapped]) -> list[tuple[str, list[Entry]]]:
    """Jobs that several lines are, with different schedules: fine, and worth a word."""
    by_name: dict[str, list[Entry]] = {}
    for one in done:
        by_name.setdefault(one.name, []).append(one.entry)
    return [(name, of) for name, of in by_name.items() if len({entry.schedule for entry in of}) > 1]
