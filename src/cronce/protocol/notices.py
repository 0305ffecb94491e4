"""What watchers leave in cells: alerts, the beats of schedulers that are not ours, and calls that were only observed.

None of it decides who runs.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal

from cronce.model import Instant, to_us
from cronce.protocol.codec import (
    MICROSECOND,
    VERSION,
    Reader,
    count,
    dumps,
    each,
    instant,
    maybe,
    of,
    read,
    span,
    text,
    us,
)
from cronce.value import NamedTuple

Notice = Literal["raised", "cleared"]


class Delivery(NamedTuple):
    """What became of the latest notice of an alert, for one destination."""

    notice: str
    """Which: raised, or cleared."""
    sent: Instant | None
    """When it went out; None: it is being sent, or that failed."""
    until: Instant
    """From then on anybody may try again, or after a recovery tell that it is back."""
    tries: int = 1


class Alert(NamedTuple):
    """A finding that somebody should know of, or should have known of: then it is cleared."""

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
    """What to do about it."""


class Beaten(NamedTuple):
    """One sign of life, or one call, and whose it was."""

    at: Instant
    by: str
    key: str = ""
    """Of a call that is one only with others for the same: the digest of what it was for."""


class Beats(NamedTuple):
    """The signs of life of a scheduler that is not ours: how often there should be one, and the last of them."""

    every: timedelta
    recent: tuple[Beaten, ...]
    times: int


class Doubled(NamedTuple):
    """A call that ran, and that the guard would have refused."""

    slot: str
    """The slot, or for a window the instant of the first call in it."""
    at: Instant
    by: str
    why: str


class Observed(NamedTuple):
    """What was observed of a job or a function and not prevented."""

    window: timedelta | None
    """Calls within so long of each other are one; None: they are told apart by their slots."""
    calls: tuple[Beaten, ...]
    """The last of them."""
    times: int
    """How many there were."""
    doubled: int
    """How many of them were too many."""
    recent: tuple[Doubled, ...]


# --- spelling -------------------------------------------------------------------------------------------------------


def encode_alert(alert: Alert) -> str:
    deliveries = {
        to: [one.notice, us(one.sent), to_us(one.until), one.tries] for to, one in sorted(alert.deliveries.items())
    }
    times = {"since": to_us(alert.since), "cleared": us(alert.cleared)}
    return dumps({"v": VERSION, **alert._asdict(), **times, "deliveries": deliveries})


def encode_beats(beats: Beats) -> str:
    return dumps(
        {"v": VERSION, "every": beats.every // MICROSECOND, "recent": _rows(beats.recent), "times": beats.times}
    )


def encode_observed(observed: Observed) -> str:
    window = None if observed.window is None else observed.window // MICROSECOND
    recent = [[one.slot, to_us(one.at), one.by, one.why] for one in observed.recent]
    spelled = {"window": window, "calls": _rows(observed.calls), "recent": recent}
    return dumps({"v": VERSION, **observed._asdict(), **spelled})


def _rows(beaten: tuple[Beaten, ...]) -> list[list[object]]:
    return [[to_us(one.at), one.by, *([one.key] if one.key else [])] for one in beaten]


# --- reading --------------------------------------------------------------------------------------------------------


def _deliveries(value: object) -> dict[str, Delivery]:
    made = each(Delivery, text, maybe(instant), instant, count)
    rows = of(dict, value)
    return dict(zip(map(text, rows), made(list(rows.values())), strict=True))


_ALERT: Final[dict[str, Reader]] = {
    "kind": text,
    "subject": text,
    "severity": text,
    "text": text,
    "since": instant,
    "cleared": maybe(instant),
    "times": count,
    "deliveries": _deliveries,
    "remedy": text,
}


def _beaten(value: object) -> tuple[Beaten, ...]:
    """Those without a key have two columns."""
    rows = [of(list, row) for row in of(list, value)]
    return each(Beaten, instant, text, text)([row if len(row) == 3 else [*row, ""] for row in rows])


_BEATS: Final[dict[str, Reader]] = {"every": span, "recent": _beaten, "times": count}
_OBSERVED: Final[dict[str, Reader]] = {
    "window": maybe(span),
    "calls": _beaten,
    "times": count,
    "doubled": count,
    "recent": each(Doubled, text, instant, text, text),
}


def decode_alert(value: str, key: str = "") -> Alert:
    return read(value, key, Alert, _ALERT)


def decode_beats(value: str, key: str = "") -> Beats:
    return read(value, key, Beats, _BEATS)


def decode_observed(value: str, key: str = "") -> Observed:
    return read(value, key, Observed, _OBSERVED)
