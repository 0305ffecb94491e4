"""Other records in cells: alerts, signs of life of schedulers (cronce's and others), calls that were only observed,
jobs that live in the store, cursors, what a machine saw of the clock, and which claims were refused.

None of it decides which process runs a slot.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from cronce.model import Fence, Instant, read_fence
from cronce.protocol.codec import (
    Decoder,
    count,
    each,
    encoded,
    flag,
    instant,
    maybe,
    of,
    offset,
    seconds,
    span,
    text,
    texts,
)
from cronce.protocol.lease import Sample
from cronce.value import NamedTuple

Notice = Literal["raised", "cleared"]


class Delivery(NamedTuple):
    """The state of an alert's latest notice, for one destination."""

    notice: str
    """Which notice: raised, or cleared."""
    sent: Instant | None
    """When it was sent; None: it is being sent, or sending failed."""
    until: Instant
    """From then on any process may try again, or report the recovery."""
    tries: int = 1
    """0: it was sent together with another alert of the same cause."""


class Handled(NamedTuple):
    """A person's mark on an alert: acknowledged, or snoozed until then."""

    by: str
    at: Instant
    reason: str = ""
    until: Instant | None = None
    """When a snooze ends."""


class Alert(NamedTuple):
    """One problem that a person should know of; it is cleared once the problem is over.

    It has a subject (a job, a holder, a group, a name, or "" for the store), a start, and a message for a person: one
    sentence with the facts, and one with what to do.
    """

    kind: str
    subject: str
    severity: str
    text: str
    since: Instant
    cleared: Instant | None = None
    times: int = 1
    """How often it was raised."""
    deliveries: Mapping[str, Delivery] = {}
    """By the digest of the destination."""
    remedy: str = ""
    cause: str = ""
    """Alerts with one cause are one incident."""
    slots: tuple[str, ...] = ()
    """The keys of the slots it touched: the first of them."""
    effects: tuple[str, ...] = ()
    """The names of effects for which it is not known whether they happened."""
    handled: Handled | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.subject}"


class LastBeat(NamedTuple):
    """One sign of life, or one call, and which process it came from."""

    at: Instant
    by: str
    key: str = ""
    """If calls are grouped by what they were for: the digest of that."""


class Beats(NamedTuple):
    """The signs of life of another scheduler, not cronce: how often one is expected, and the last of them."""

    every: timedelta
    recent: tuple[LastBeat, ...]
    times: int


class Doubled(NamedTuple):
    """A call that ran, and that the guard would have refused."""

    slot: str
    """The slot; for a window, the instant of its first call."""
    at: Instant
    by: str
    why: str


class Observed(NamedTuple):
    """Calls of a job or a function that were observed and not prevented."""

    window: timedelta | None
    """Calls within this time of each other count as one; None: calls are told apart by their slots."""
    calls: tuple[LastBeat, ...]
    """The last of them."""
    times: int
    """How many there were."""
    doubled: int
    """How many of them were duplicates."""
    recent: tuple[Doubled, ...]


class Stored(NamedTuple):
    """A job that lives in the store: its definition as JSON, or None once it was removed; by whom, and since when. The
    revision rises with each change, also across a removal."""

    revision: int
    definition: str | None
    by: str
    at: Instant


class RecordedPosition(NamedTuple):
    """A recorded position as JSON, and the fence that wrote it: the cursor of a job, or what a receiver has seen."""

    fence: Fence
    value: str = ""


class Machine(NamedTuple):
    """What a machine has seen of the store's clock since its boot. Short-lived processes continue from it."""

    boot_id: str
    samples: tuple[Sample, ...]  # oldest first
    host: str = ""
    tzdata: str = ""  # the version of its time zone database, if a process there needed one


class ForeignScheduler(NamedTuple):
    """Another scheduler, not cronce, in a guarded process: its kind, and what it has to fire."""

    holder: str
    kind: str
    jobs: tuple["ForeignJob", ...]


class ForeignJob(NamedTuple):
    """One of its jobs: its schedule in that scheduler's own words, and its next time, if known."""

    name: str
    schedule: str
    next: Instant | None


class Refused(NamedTuple):
    """A claim that lost: of which slot, when, and why."""

    slot: str
    at: Instant
    why: str


class Refusals(NamedTuple):
    """The refused claims of one job on one machine: how many, and the last of them."""

    times: int
    recent: tuple[Refused, ...]


class Prevented(NamedTuple):
    """How many duplicates of a job's slots were prevented, in all, and on each of the last days (UTC)."""

    total: int
    days: Mapping[str, int]
    writes: tuple[str, ...] = ()
    """The ids of the last writes that counted some."""

    def on(self, day: Instant) -> int:
        return self.days.get(day_of(day), 0)


def day_of(instant: Instant) -> str:
    """Such as 2026-03-29."""
    return instant.date().isoformat()


# --- spelling -------------------------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """A live scheduler. Its jobs are listed in a bundle, which all processes of one deploy share."""

    holder: str
    bundle: str
    role: str
    workers: int
    labels: Mapping[str, str]
    since: Instant
    cronce: str
    draining: bool = False
    gone: bool = False  # it shut down normally
    every: timedelta = timedelta(seconds=10)  # the time until its next beat
    skew: timedelta = timedelta(0)  # its machine's clock is ahead of the store's by this much
    running: int = 0  # job functions running there
    tzdata: str = ""  # the version of the time zone database it reads, if it reads one


class Bundle(NamedTuple):
    """Jobs, the version of each, and where the code of each is."""

    specs: Mapping[str, str]
    code: Mapping[str, str] = {}


def encode_notice(
    notice: "Alert | Beats | Bundle | ForeignScheduler | Holder | Machine | Observed | Prevented | RecordedPosition"
    " | Refusals | Stored",
) -> str:
    return encoded({name: _columns(value) for name, value in notice._asdict().items()}, _NEWER)


_NEWER: Final = ("host", "tzdata", "cause", "slots", "effects", "handled", "code")


def _columns(value: Any) -> Any:
    """A call without a key has two columns."""
    if isinstance(value, LastBeat):
        return value if value.key else value[:2]
    return tuple(map(_columns, value)) if type(value) is tuple else value


# --- reading --------------------------------------------------------------------------------------------------------


def _deliveries(value: object) -> dict[str, Delivery]:
    made = each(Delivery, text, maybe(instant), instant, count)
    rows = of(dict, value)
    return dict(zip(map(text, rows), made(list(rows.values())), strict=True))


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(text, of(list, value)))


def _handled(value: object) -> Handled:
    (row,) = each(Handled, text, instant, text, maybe(instant))([value])
    return row


decode_alert: Final = Decoder(
    Alert,
    kind=text,
    subject=text,
    severity=text,
    text=text,
    since=instant,
    cleared=maybe(instant),
    times=count,
    deliveries=_deliveries,
    remedy=text,
    newer={"cause": text, "slots": _names, "effects": _names, "handled": _handled},
)


def _beaten(value: object) -> tuple[LastBeat, ...]:
    """Those without a key have two columns."""
    rows = [of(list, row) for row in of(list, value)]
    return each(LastBeat, instant, text, text)([row if len(row) == 3 else [*row, ""] for row in rows])


decode_beats: Final = Decoder(Beats, every=span, recent=_beaten, times=count)
decode_observed: Final = Decoder(
    Observed,
    window=maybe(span),
    calls=_beaten,
    times=count,
    doubled=count,
    recent=each(Doubled, text, instant, text, text),
)
decode_stored: Final = Decoder(Stored, revision=count, definition=maybe(text), by=text, at=instant)
decode_position: Final = Decoder(RecordedPosition, fence=read_fence, value=text)
decode_machine: Final = Decoder(
    Machine, boot_id=text, samples=each(Sample, seconds, seconds, instant), newer={"host": text, "tzdata": text}
)
decode_guest: Final = Decoder(
    ForeignScheduler, holder=text, kind=text, jobs=each(ForeignJob, text, text, maybe(instant))
)
decode_prevented: Final = Decoder(
    Prevented,
    total=count,
    days=lambda value: {text(day): count(number) for day, number in of(dict, value).items()},
    writes=lambda value: tuple(map(text, of(list, value))),
)
decode_refusals: Final = Decoder(Refusals, times=count, recent=each(Refused, text, instant, text))
decode_holder: Final = Decoder(
    Holder,
    holder=text,
    bundle=text,
    role=text,
    workers=count,
    labels=texts,
    since=instant,
    cronce=text,
    draining=flag,
    gone=flag,
    every=span,
    skew=offset,
    running=count,
    newer={"tzdata": text},
)
decode_bundle: Final = Decoder(Bundle, specs=texts, newer={"code": texts})
