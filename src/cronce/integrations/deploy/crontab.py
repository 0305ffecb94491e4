"""The text of a crontab: what its lines fire, a marked block in it, what stands there twice.

Pure: text in, text out. Lines that an edit is not about stay as they are, byte for byte; so lines end at `\\n` alone,
as cron sees them, and a carriage return belongs to the command, as cron sees that too.

Two things about crontabs surprise people. `%` ends the command: what follows is its input, each further `%` a new line,
unless a backslash stands before it. And a line like `PATH=…` holds for the lines below it, not for the whole file.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from cronce.errors import BadInput, BadSchedule
from cronce.schedule import Cron
from cronce.schedule.expression import tidy
from cronce.stores import mask_all

NOTHING: Final[Mapping[str, str]] = {}

Guard = Literal["cronce", "flock", ""]

LONGEST: Final = 998
"""Bytes of what follows the schedule. With a longer one Debian's cron refuses the whole crontab."""

_ENTRY: Final = r"[ \t]*(?P<when>@\S+|(?:[^\s#]\S*)(?:[ \t]+\S+){4})[ \t]+(?P<rest>\S.*)"
_SETTING: Final = r"""[ \t]*(["']?)(?P<name>[A-Za-z_]\w*)\1[ \t]*=[ \t]*(?P<value>.*?)[ \t\r]*"""
_BEGIN: Final = r"# BEGIN cronce (?P<name>\S+).*"
_END: Final = r"# END cronce (?P<name>\S+)[ \t]*"
_CRONCE: Final = r"(^|[\s/;&|(])cronce['\"]?\s+exec\s+(?P<name>\S+)"
_FLOCK: Final = r"(^|[\s/;&|(])flock\s"
_VALUE: Final = r"(\d\d?|[A-Za-z]{3})"
_READABLE: Final = rf"(?a)(\*|{_VALUE}-{_VALUE})(/\d\d?)?|{_VALUE}"
"""Of a field, between commas, what every cron reads. Ours reads more: L and #, `5/15`, `007`."""
_NICKNAMES: Final = frozenset(
    ("@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)


class Entry(NamedTuple):
    """A line that fires something. `head` is all before the command, `command` all after it, as they stand there."""

    number: int
    schedule: str
    head: str
    user: str
    command: str
    settings: Mapping[str, str]
    """`PATH=…` and the like, as they are in force here."""
    block: str
    """The name of the marked block it stands in; nothing outside of any."""

    @property
    def job(self) -> str:
        """The job that a line is which is guarded by `cronce exec`."""
        found = re.search(_CRONCE, self.command)
        return found["name"] if found else ""

    @property
    def guard(self) -> Guard:
        if self.job:
            return "cronce"
        return "flock" if re.search(_FLOCK, self.command) else ""


def entries(text: str, *, system: bool = False, settings: Mapping[str, str] = NOTHING) -> list[Entry]:
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
            found.append(Entry(number, " ".join(entry["when"].split()), head, user, rest, settings, block))
    return found


def cron_of(entry: Entry, zone: str) -> Cron | str:
    """When it fires; or why that cannot be told."""
    if entry.schedule.lower() == "@reboot":
        return "@reboot is when a machine starts, not a slot that machines share"
    try:
        return Cron(entry.schedule, zone)
    except BadSchedule as error:
        return str(error).splitlines()[-1].strip(" ^")


def check(text: str, *, system: bool) -> None:
    """Refuse what cron would not read: in /etc/cron.d one such line silences the whole file."""
    if "\0" in text:
        raise BadInput("there is a zero byte in it, at which cron would stop reading the line; this is no crontab")
    known = {entry.number: entry for entry in entries(text, system=system)}
    for number, plain in saying(text):
        shown = f"line {number}, {mask_all(plain)[:60]!r}"
        if number not in known or not known[number].command:
            user = ", a user" if system else ""
            raise BadInput(f"{shown}: a crontab line is five fields{user} and a command; '@daily' may stand for five")
        _check_entry(known[number], shown)


def saying(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are to fire something, with their numbers: not blank, no comment, no setting."""
    for number, line in enumerate(lines_of(text), start=1):
        plain = line.strip()
        if plain and not plain.startswith("#") and not re.fullmatch(_SETTING, line.removesuffix("\n")):
            yield number, plain


def _check_entry(entry: Entry, shown: str) -> None:
    if not is_readable(entry.schedule):
        raise BadInput(
            f"{shown}: cron itself cannot read the schedule {entry.schedule!r}: it knows no L, W or #, steps only after"
            " * or a range (5-59/15), numbers of two digits at most, and @daily and the like in small letters"
        )
    why = cron_of(entry, "UTC")
    if isinstance(why, str) and entry.schedule != "@reboot":
        raise BadInput(f"{shown}: cannot read the schedule {entry.schedule!r}: {why}")
    if (size := size_of(entry.command)) > LONGEST:
        raise BadInput(f"{shown}: the command has {size} bytes, and cron takes {LONGEST} at most")


def is_readable(schedule: str) -> bool:
    """Whether every cron can read it."""
    parts = [part for field in schedule.split() for part in field.split(",")]
    return schedule in _NICKNAMES or all(re.fullmatch(_READABLE, part) for part in parts)


def size_of(text: str) -> int:
    return len(bytes_of(text))


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
    """The marked blocks by name: which lines, from 0, with their marks. A mark that has lost its other is refused: to
    guess where a block ends is to delete what somebody wrote below it."""
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
            raise BadInput(f"line {index + 1} of the crontab, {plain[:60]!r}, has no match; mend the marks by hand")
    if opened:
        raise BadInput(f"line {opened[1] + 1} of the crontab begins the block {opened[0]}, and nothing ends it")
    return found


def install(text: str, name: str, body: str) -> str:
    """The crontab with the block `name` holding `body`: where it stood, or else at the end."""
    plain = body.replace("\r\n", "\n").strip("\n")
    if not plain.strip():
        raise BadInput("there is nothing to install; `cronce crontab remove` takes a block away")
    if any(re.fullmatch(mark, line) for line in plain.split("\n") for mark in (_BEGIN, _END)):
        raise BadInput("what is to be installed has marks of blocks in it; leave them out")
    begin = f"# BEGIN cronce {name} (written by `cronce crontab install`, which overwrites it)"
    block = f"{begin}\n{plain}\n# END cronce {name}\n"
    span = blocks(text).get(name)
    if span is None:
        end = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{end}{block}"
    lines = lines_of(text)
    return "".join([*lines[: span.start], block, *lines[span.stop :]])


def above(text: str, name: str) -> dict[str, str]:
    """The settings that hold where the block stands, or would stand."""
    span = blocks(text).get(name)
    found = (re.fullmatch(_SETTING, line.removesuffix("\n")) for line in lines_of(text)[: span.start if span else None])
    return {setting["name"]: _unquoted(setting["value"]) for setting in found if setting}


def remove(text: str, name: str) -> str:
    span = blocks(text).get(name, range(0))
    return "".join(line for index, line in enumerate(lines_of(text)) if index not in span)


# --- what stands there twice ------------------------------------------------------------------------------------------


def dedupe(text: str, *, system: bool = False) -> tuple[str, list[Entry]]:
    """The crontab without what it fires twice, and the lines that go. Of equal ones the one in a marked block stays,
    for the next deploy would write it again; else the first."""
    seen: set[tuple[object, ...]] = set()
    gone = []
    for entry in sorted(entries(text, system=system), key=lambda one: not one.block):
        same = _meaning(entry)
        if same in seen and not entry.block:
            gone.append(entry)
        seen.add(same)
    numbers = {entry.number for entry in gone}
    kept = (line for number, line in enumerate(lines_of(text), start=1) if number not in numbers)
    return "".join(kept), sorted(gone, key=lambda one: one.number)


def _meaning(entry: Entry) -> tuple[object, ...]:
    """What a line does: under other settings (another zone, another database) the same words do something else."""
    try:
        when = tidy(entry.schedule).upper()
    except BadSchedule:
        when = entry.schedule
    return when, entry.user, entry.command.rstrip(), frozenset(entry.settings.items())
