"""What there is to draw of some runs: each grant, how it ended, who took over, and which claims were refused."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Final, Literal

from cronce.model import Instant, Slot
from cronce.protocol.notices import Refused
from cronce.protocol.record import LAPSED, NEVER_STARTED, RELEASED, Past, Record
from cronce.runtime.queries import RunSeen
from cronce.telling.words import fine, safe, short
from cronce.value import NamedTuple

By = Literal["holder", "job"]
Shape = Literal["bar", "mark", "ghost"]
"""A bar lasted. A mark is a slot that nobody ran, or not yet. A ghost is a claim that was refused: it was no run."""

REFUSED: Final = "refused"
GIVEN_BACK: Final = "given back"
LOOKS: Final = (
    *("failed", "lost", "unknown", "unreadable", "lapsed", "retrying", "running", "succeeded"),
    *("waiting", "due", "skipped", "too old", GIVEN_BACK, REFUSED),
)
"""Every look that a piece can have, what a person should see first in front."""


class Piece(NamedTuple):
    """One thing to draw, and what to say of it."""

    shape: Shape
    look: str
    slot: str
    job: str
    holder: str
    """Empty: nobody's."""
    start: Instant
    end: Instant
    told: str
    due: Instant | None = None
    """The slot's instant, of the first grant of a scheduled slot: how late it started."""
    until: Instant | None = None
    """Of one that runs: its lease."""

    def lane(self, by: By) -> str:
        return self.holder if by == "holder" else self.job


class Facts(NamedTuple):
    """All that a picture shows. The grants of a slot stand side by side, in their order."""

    start: Instant
    end: Instant
    now: Instant
    pieces: tuple[Piece, ...] = ()
    gaps: tuple[str, ...] = ()
    """What is not told of, because there is too much: in sentences."""

    @property
    def handovers(self) -> list[int]:
        """The places of the pieces that another followed, because their lease passed."""
        pairs = enumerate(pairwise(self.pieces))
        return [
            place
            for place, (earlier, later) in pairs
            if earlier.slot == later.slot and earlier.look == LAPSED and later.shape == "bar"
        ]


def gather(
    runs: Iterable[RunSeen],
    refused: Iterable[tuple[str, Refused]],
    start: Instant,
    end: Instant,
    now: Instant,
    *,
    gaps: tuple[str, ...] = (),
) -> Facts:
    """What is seen of them from `start` to `end`. A handover needs both of its ends in sight. Who was refused a slot
    that nobody ran was not refused a duplicate."""
    pieces: list[Piece] = []
    lasted: dict[str, timedelta | None] = {}
    for run in runs:
        grants = _grants(run, now)
        pieces += [piece for piece in grants if piece.start < end and (piece.until or piece.end) >= start]
        bars = [piece for piece in grants if piece.shape == "bar"]
        lasted[run.slot.key] = bars[-1].end - bars[-1].start if bars else None
    for host, one in refused:
        span = lasted.get(one.slot, timedelta(0))
        if start <= one.at < end and span is not None:
            pieces.append(_ghost(host, one, span))
    return Facts(start, end, now, tuple(pieces), gaps)


# --- runs -----------------------------------------------------------------------------------------------------------


def _grants(run: RunSeen, now: Instant) -> list[Piece]:
    """Every grant of a slot in its order; a mark where the slot is nobody's at the end of them."""
    record = run.record
    if record is None:
        return [_mark(run, run.slot.at, "", run.trouble)]
    bars = [_earlier(run.slot, past, past.started) for past in record.past if past.started]
    in_past = any(past.fence == run.cell.fence for past in record.past)
    if record.started and run.cell.fence and not in_past:
        bars.append(_latest(run, record, record.started, now))
    elif not record.is_closed or not bars:
        waits = run.cell.until if not record.is_closed else None
        bars.append(_mark(run, max(filter(None, (run.slot.at, waits))), record.holder, record.reason))
    if bars[0].shape == "bar" and not run.slot.request:
        bars[0] = _late(bars[0], run.slot.at)
    return bars


def _late(piece: Piece, due: Instant) -> Piece:
    late = piece.start - due
    told = f"{piece.told}; started {short(late)} after its slot" if late >= timedelta(milliseconds=1) else piece.told
    return piece._replace(due=due, told=told)


def _latest(run: RunSeen, record: Record, started: Instant, now: Instant) -> Piece:
    look, until = run.shown, run.cell.until
    if look == LAPSED and until is not None:
        end, said = until, "its lease passed, and nobody has acted on that yet"
    elif record.is_running:
        end, said = max(now, started), f"its lease is until {fine(until)}" if until else ""
    else:
        end, said = record.finished or started, record.reason
    piece = _bar(run.slot, look, record.holder, started, end)
    return _saying(piece, said)._replace(until=until if record.is_running else None)


def _earlier(slot: Slot, past: Past, started: Instant) -> Piece:
    look = _ended(past.end)
    piece = _bar(slot, look, past.holder, started, past.ended or started)
    again = f" at {fine(past.retried)}" if past.retried else ""
    return _saying(piece, "" if past.end == look else f"{past.end}{again}")


def _bar(slot: Slot, look: str, holder: str, start: Instant, end: Instant) -> Piece:
    span = f"from {fine(start)} to {fine(end)} ({short(end - start)})"
    return Piece("bar", look, slot.key, slot.job, holder, start, end, safe(f"{slot.key}: {look} on {holder}, {span}"))


def _saying(piece: Piece, said: str) -> Piece:
    return piece._replace(told=f"{piece.told}: {safe(said)}") if said else piece


def _ended(end: str) -> str:
    if end in (RELEASED, NEVER_STARTED):
        return GIVEN_BACK
    return next((look for look in ("failed", "lost", "unknown", LAPSED) if end.startswith(look)), LAPSED)


def _mark(run: RunSeen, at: Instant, holder: str, said: str) -> Piece:
    told = safe(f"{run.slot.key}: {run.shown}{f' ({said})' if said else ''}")
    return Piece("mark", run.shown, run.slot.key, run.slot.job, holder, at, at, told)


# --- refusals -------------------------------------------------------------------------------------------------------


def _ghost(host: str, refused: Refused, lasted: timedelta) -> Piece:
    """As long as the run that it would have been a double of. Most say themselves which process of the host it was."""
    holder, colon, why = refused.why.partition(": ")
    if not colon or not holder.startswith(f"{host}:"):
        holder, why = host, refused.why
    told = safe(f"{refused.slot}: refused to {holder} at {fine(refused.at)}: {why}")
    job = refused.slot.partition("@")[0]
    return Piece("ghost", REFUSED, refused.slot, job, holder, refused.at, refused.at + lasted, told)
