"""The nouns: frozen values that every layer speaks in. No behaviour beyond spelling them.

A *slot* is what happens once. A *cell* is what the store keeps about it. A *write* is what the ledger asks the
store to do to a cell. An *epoch* is one life of a store. A *fence* orders grants for ever, across lives.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Final

from cronce.errors import BadInput, BadName
from cronce.value import NamedTuple

Instant = datetime
"""An aware UTC datetime. The store's clock speaks in these."""

Boot = float
"""Seconds on this machine's clock that goes on in suspend. Means nothing on another machine, or after a reboot."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def to_us(instant: Instant) -> int:
    """An instant as it travels: whole microseconds since 1970."""
    return (instant - EPOCH) // MICROSECOND


def from_us(us: int) -> Instant:
    return EPOCH + us * MICROSECOND


@lru_cache(maxsize=256)  # of a thousand slots that are due at once, all are spelled alike
def spell(instant: Instant) -> str:
    """The frozen spelling of a slot's instant: ``2026-03-29T01:00:00Z``. Bytewise order is order in time."""
    return instant.isoformat()[:19] + "Z"


def unspell(text: str) -> Instant:
    try:
        instant = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        instant = EPOCH
    if spell(instant) != text:
        raise BadInput(f"{text[:60]!r} is not a slot's instant; write it like 2026-03-29T01:00:00Z")
    return instant


# --- names and keys ---------------------------------------------------------------------------------------------

_NAME_PATTERN: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"
_LONGEST_PART: Final = 100
"""Letters of a name that come from a text which is none; a digest follows."""


def check_name(name: str) -> str:
    """A name becomes part of keys, columns and file names, so it is plain: no slash, no space, no surprise."""
    if not isinstance(name, str) or not re.fullmatch(_NAME_PATTERN, name):
        raise BadName(
            f"{str(name)[:60]!r} cannot be a name: use 1 to 128 of A–Z a–z 0–9 _ . : - "
            "and begin with a letter, digit or _"
        )
    return name


def name_from(text: str) -> str:
    """The name of a job from what others call it: the same on every machine, and never one for two. The text itself
    where it can be a name; else what is left of it, and a digest of what it was."""
    words = re.split(r"[^A-Za-z0-9_.:]+", text)
    plain = "-".join(filter(None, words)).strip("-.:")[:_LONGEST_PART]
    if plain and plain == text:
        return check_name(text)
    from hashlib import sha256  # noqa: PLC0415  slow to import, and `exec` does without

    return check_name(f"{plain or 'job'}-{sha256(text.encode()).hexdigest()[:8]}")


class Slot(NamedTuple):
    """One scheduled instant of one job. `request` distinguishes a rerun or backfill by hand from the scheduled run."""

    job: str
    at: Instant
    request: str = ""

    @property
    def key(self) -> str:
        """The idempotency key handed to effects. This format is frozen for ever."""
        return f"{self.job}@{spell(self.at)}" + (f"#{self.request}" if self.request else "")

    @property
    def due(self) -> Instant | None:
        """What its cell is filed and purged by. A run by hand is filed by when it is asked for."""
        return None if self.request else self.at

    @property
    def cell(self) -> str:
        return f"run/{self.job}/{spell(self.at)}" + (f"#{self.request}" if self.request else "")


def slot(job: str, at: Instant, request: str = "") -> Slot:
    """A slot from the outside world, checked once; inside, a Slot that exists is valid."""
    check_name(job)
    if request:
        check_name(request)
    if at.tzinfo is None:
        raise BadInput(f"the slot {at.isoformat()} of {job} has no time zone; give an aware datetime, best in UTC")
    try:
        utc = at.astimezone(UTC)
    except OverflowError:
        raise BadInput(f"the slot {at.isoformat()} of {job} is too far from today") from None
    if utc.microsecond:
        raise BadInput(f"the slot {at.isoformat()} of {job} is not on a whole second")
    return Slot(job, utc, request)


_RERUN_PATTERN: Final = r"(?:(?P<of>.+):)?rerun-[1-9][0-9]*"


def rerun_of(slot: Slot) -> Slot | None:
    """What a rerun runs again: the slot itself, or another request for it. None: it is no rerun."""
    again = re.fullmatch(_RERUN_PATTERN, slot.request)
    return slot._replace(request=again["of"] or "") if again else None


BACKFILL: Final = "backfill"
"""The request of the one run that a backfill makes of a slot."""


def run_again(slot: Slot) -> tuple[Slot, ...]:
    """What this run by hand settles if it succeeds: the slot that it reruns or backfills, after what is between."""
    of = slot._replace(request="") if slot.request == BACKFILL else rerun_of(slot)
    return () if of is None else (of, *run_again(of))


def slot_of_cell(key: str) -> Slot:
    """The slot behind the key of a run cell."""
    job, _, rest = key.removeprefix("run/").partition("/")
    at, _, request = rest.partition("#")
    found = slot(job, unspell(at), request)
    if found.cell != key:
        raise BadInput(f"{key[:60]!r} is not the key of a run")
    return found


def job_cell(job: str) -> str:
    return f"job/{job}"


def turn_cell(job: str, number: int) -> str:
    return f"turn/{job}/{number}"


def lock_cell(name: str) -> str:
    return f"lock/{name}"


def leader_cell(group: str) -> str:
    return f"leader/{group}"


def holder_cell(holder: str) -> str:
    return f"holder/{holder}"


CLOCK: Final = "clock"
"""Who confirmed that the store's clock is right, and when, by that same clock."""

SWITCH: Final = "switch"
"""While this cell holds an act, nothing is granted at all: `pause --all`."""

BOARD_RUNS: Final = "board/runs"
BOARD_JOBS: Final = "board/jobs"
"""Written over, unread, whenever other processes should look: at the runs, or at the jobs that live in the store."""


def bundle_cells(bundle: str) -> str:
    """The prefix of the cells that a bundle is spread over."""
    return f"bundle/{bundle}/"


def drain_cells(holder: str, labels: Mapping[str, str]) -> list[str]:
    """The cells that can order a process to claim nothing more: one for its name, and one for each of its labels."""
    return [drained_holder(holder), *(drained_label(label, value) for label, value in sorted(labels.items()))]


def drained_holder(holder: str) -> str:
    return f"drain/holder:{holder}"


def drained_label(label: str, value: str) -> str:
    return f"drain/label:{label}={value}"


LONGEST_KEY: Final = 500
"""Bytes of an effect's key. MySQL has room for twice as much in the key of a cell."""


def check_key(key: object) -> str:
    """The key of an effect: text, a number or a UUID. Other types are refused, since their spelling may change."""
    if type(key) is int or type(key).__name__ == "UUID":
        key = str(key)
    if not isinstance(key, str) or not key:
        raise BadName(f"{key!r:.60} cannot be the key of an effect: give a text, a number or a UUID, such as the id")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadName(f"{key!r:.60} cannot be the key of an effect: this text cannot be stored") from None
    if size > LONGEST_KEY:
        raise BadName(
            f"{key!r:.60} has {size:,} bytes, and the key of an effect may have {LONGEST_KEY} at most: use an id"
        )
    if not key.isprintable():
        raise BadName(f"{key!r:.60} cannot be the key of an effect: it has characters that cannot be printed")
    return key


def effect_cells(key: str) -> str:
    """The prefix of the effects that go by the key of a slot."""
    job, _, at = key.partition("@")
    return f"effect/{job}/{at}/"


def once_cell(name: str, key: str) -> str:
    return f"once/{name}/{key}"


def cursor_cell(job: str) -> str:
    return f"cursor/{job}"


def scope_cell(scope: str) -> str:
    """Where a receiver keeps the highest fence of a scope."""
    return f"scope/{scope}"


def asked_cell(job: str, request: str) -> str:
    """The cell that records when a run was asked for, so that asking twice with one id asks once."""
    return f"asked/{job}/{request}"


def stored_cell(job: str) -> str:
    return f"stored/{job}"


def machine_cell(boot: str) -> str:
    """Which boot of a machine, not which host: all containers of one share its clock, and have names of their own."""
    return f"machine/{boot}"


def guest_cell(holder: str) -> str:
    return f"{GUESTS}{holder}"


def refusals_cell(job: str, host: str) -> str:
    return f"refusals/{job}/{host}"


GUESTS: Final = "peer/"
"""Before the cells of guests. Between those of keys and of refusals, with which they are read."""


def prevented_cell(job: str, part: int) -> str:
    """Where it is counted how many duplicates of a job's slots were prevented: in parts, so that few processes write to
    one at once."""
    return f"duplicates/{job}/{part:02}"


LOOKED_ON: Final = "looked-on"
"""While it lasts a page is watching, and schedulers beat every second."""

MONITOR: Final = "cronce-monitor"
"""The group whose leader watches, and raises alerts."""


def alert_cell(kind: str, subject: str) -> str:
    return f"alert/{kind}/{subject}"


def beat_cell(name: str) -> str:
    return f"beat/{name}"


def observed_cell(name: str) -> str:
    return f"observed/{name}"


# --- what a store keeps -----------------------------------------------------------------------------------------


class Fence(NamedTuple):
    """The ordered number of a grant: the life of the store it was drawn in, then the store's tally.

    Receivers of effects refuse a lower one within its scope. Its text sorts as it does.
    """

    birth: int
    number: int

    def __str__(self) -> str:
        return f"{self.birth:014x}-{self.number:012x}"


def read_fence(text: str) -> Fence:
    try:
        birth, number = text.split("-")
        fence = Fence(int(birth, 16), int(number, 16))
    except ValueError:
        fence = Fence(0, 0)
    if str(fence) != text:
        raise BadInput(f"{text[:60]!r} is not a fence")
    return fence


class Mark(IntEnum):
    """What a cell is waiting for, so that a scan finds it without reading values."""

    OPEN = 1  # a process works on it, or one should look at it when `until` comes
    FREE = 2  # held by no process: a write that expects FREE may take it unread
    CLOSED = 3  # final
    ATTENTION = 4  # final, and a person should look


class Cell(NamedTuple):
    """One cell as it was read. Version 0 is absent. Versions come from the store's one tally: never twice the same,
    so a cell that was deleted and made again never looks unchanged."""

    key: str
    version: int = 0
    value: str = ""
    at: Instant | None = None
    mark: Mark = Mark.FREE
    fence: Fence | None = None
    until: Instant | None = None


class Origin(StrEnum):
    """How a life of the store began."""

    MADE = "made"  # on purpose, or on a store that cannot forget: nothing came before it
    FOUND = "found"  # empty, on a store that can forget: what came before is unknown
    RESTORED = "restored"  # the store was seen to have lost writes: an old dump, a lagging replica


class Epoch(NamedTuple):
    """One life of a store, as far as it was seen.

    A writer that has seen a later epoch than the store proves that the store forgot: compare (birth, tally).
    """

    birth: int = 0  # the store's now in µs when this life began, above any birth its writer knew
    tally: int = 0  # raised by every write that wins; versions and fences are drawn from it
    base: int = 0  # the tally at birth: a cell of a version at or below it was written in an earlier life
    origin: Origin = Origin.MADE
    since: Instant | None = None  # RESTORED: the last write the store still knew of

    @property
    def seen(self) -> tuple[int, int]:
        return (self.birth, self.tally)

    @property
    def born(self) -> Instant:
        return from_us(self.birth)

    @property
    def forgot(self) -> bool:
        return self.origin is not Origin.MADE


# --- what a store is asked --------------------------------------------------------------------------------------

ABSENT: Final = 0
FREE: Final = -1
"""For `Write.seen`: absent, or marked free. Never merely lapsed: a lapsed lease keeps its holder until decided."""


class Write(NamedTuple):
    """One conditional write. It lands if the cell is as `seen`, in time, in the epoch believed in, with its group."""

    key: str
    seen: int  # the version that was read, ABSENT or FREE
    value: str
    mark: Mark
    at: Instant | None = None  # fixed by the cell's first write
    grant: bool = False  # the store draws a new fence for the cell; other writes keep the one it has
    ttl: timedelta | None = None  # the store computes until = its now + ttl; without one the cell's until stays
    not_before: Instant | None = None  # no slot is granted before its instant, by the store's clock
    not_after: Instant | None = None  # a claim rests on facts, and they age
    group: int | None = None  # writes of one group land together or not at all


class Refusal(StrEnum):
    """Why a write did not land."""

    VERSION = "version"  # the cell is not as seen; the verdict carries the cell that beat it
    EPOCH = "epoch"  # the writer believes in another life of the store
    EARLY = "early"
    LATE = "late"
    GROUP = "group"  # another member of its group was refused


class Verdict(NamedTuple):
    """The result of one write: the cell as it is now, and the refusal, or None when the write won."""

    refused: Refusal | None
    cell: Cell


class Traits(NamedTuple):
    """What a backend can promise. Margins, the skips of the contract and the table in the docs all come from here."""

    name: str
    linearizable: bool = True  # a write that won is seen by every later read
    durable: bool = True  # a write that won survives a crash of the store
    survives_failover: bool = True  # and the loss of its machine
    groups: bool = True  # several cells land together or not at all
    notifies: bool = False  # can wake a waiting process
    shared: bool = True  # a second connection to the same URL sees the same cells
    in_memory: bool = False  # every cell costs memory, so fewer are kept by default
    history: bool = True  # keeps all slots of a job, and effects; else the last slots alone, and no effects
    tally: bool = True  # one counter numbers the writes of all cells, and shows whether some were lost
    one_clock: bool = True  # dates all leases by one clock; else who finds one lapsed has to watch that very cell
    own_clock: bool = False  # its clock is this machine's
    skew: timedelta = timedelta(0)  # two reads of its clock may disagree by this much
    step: timedelta = timedelta(0)  # its clock is only this exact, or may step by this much at any time
