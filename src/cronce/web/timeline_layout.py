"""What there is to draw of some runs (each grant, how it ended, who took over, which claims were refused), and where
each piece of that stands: lanes, rows within a lane, and shares of the width. No drawing yet.

A picture is bounded whatever there is to show: where more stands in a lane at once than it has rows, pieces lie on one
another.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Final, Literal

from cronce.model import Instant, Slot
from cronce.protocol.notices import Refused
from cronce.protocol.record import LAPSED, NEVER_STARTED, RELEASED, Past, Record
from cronce.runtime.queries import HOST_GONE, RunSeen
from cronce.telling.story import refusal
from cronce.telling.words import fate, fine, safe, short
from cronce.value import NamedTuple

Shape = Literal["bar", "mark", "ghost"]
"""A bar is a run. A mark is a slot that did not run, or not yet. A ghost is a claim that was refused: it was no run."""

REFUSED: Final = "refused"
GIVEN_BACK: Final = "given back"
PIECE_LOOKS: Final = (
    *("failed", "lost", "unknown", "unreadable", HOST_GONE, "lapsed", "retrying", "running", "succeeded"),
    *("waiting", "due", "skipped", "too old", GIVEN_BACK, REFUSED),
)
"""Every look that a piece can have, what a person should see first in front."""


class TimelinePiece(NamedTuple):
    """One thing to draw, and what to say of it."""

    shape: Shape
    look: str
    slot: str
    job: str
    holder: str
    """Empty: no process ran it."""
    start: Instant
    end: Instant
    told: str
    due: Instant | None = None
    """The slot's instant, of the first grant of a scheduled slot: how late it started."""
    until: Instant | None = None
    """Of one that runs: its lease."""


class TimelineFacts(NamedTuple):
    """All that a picture shows. The grants of a slot stand side by side, in their order."""

    start: Instant
    end: Instant
    now: Instant
    pieces: tuple[TimelinePiece, ...] = ()
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
) -> TimelineFacts:
    """What is seen of them from `start` to `end`. A handover needs both of its ends in sight. Who was refused a slot
    that did not run was not refused a duplicate."""
    pieces: list[TimelinePiece] = []
    was_run: dict[str, bool] = {}
    for run in runs:
        grants = _grants(run, now)
        pieces += [piece for piece in grants if piece.start < end and (piece.until or piece.end) >= start]
        was_run[run.slot.key] = any(piece.shape == "bar" for piece in grants)
    for host, one in refused:
        if start <= one.at < end and was_run.get(one.slot, True):
            pieces.append(_ghost(host, one))
    return TimelineFacts(start, end, now, tuple(pieces), gaps)


# --- runs -----------------------------------------------------------------------------------------------------------


def _grants(run: RunSeen, now: Instant) -> list[TimelinePiece]:
    """Every grant of a slot in order; a mark at the end, if no process has the slot then."""
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


def _late(piece: TimelinePiece, due: Instant) -> TimelinePiece:
    late = piece.start - due
    told = f"{piece.told}; started {short(late)} after its slot" if late >= timedelta(milliseconds=1) else piece.told
    return piece._replace(due=due, told=told)


def _latest(run: RunSeen, record: Record, started: Instant, now: Instant) -> TimelinePiece:
    look, until = run.shown, run.cell.until
    if look == LAPSED and until is not None:
        end, said = until, fate(run)
    elif run.gone:
        end, said = max(now - run.gone.unheard, started), fate(run)
    elif record.is_running:
        end, said = max(now, started), f"its lease ends at {fine(until)}" if until else ""
    else:
        end, said = record.finished or started, record.reason
    piece = _bar(run.slot, look, record.holder, started, end)
    return _saying(piece, said)._replace(until=until if record.is_running else None)


def _earlier(slot: Slot, past: Past, started: Instant) -> TimelinePiece:
    look = _ended(past.end)
    piece = _bar(slot, look, past.holder, started, past.ended or started)
    again = f" at {fine(past.retried)}" if past.retried else ""
    return _saying(piece, "" if past.end == look else f"{past.end}{again}")


def _bar(slot: Slot, look: str, holder: str, start: Instant, end: Instant) -> TimelinePiece:
    span = f"from {fine(start)} to {fine(end)} ({short(end - start)})"
    return TimelinePiece(
        "bar", look, slot.key, slot.job, holder, start, end, safe(f"{slot.key}: {look} on {holder}, {span}")
    )


def _saying(piece: TimelinePiece, said: str) -> TimelinePiece:
    return piece._replace(told=f"{piece.told}: {safe(said)}") if said else piece


def _ended(end: str) -> str:
    if end in (RELEASED, NEVER_STARTED):
        return GIVEN_BACK
    return next((look for look in ("failed", "lost", "unknown", LAPSED) if end.startswith(look)), LAPSED)


def _mark(run: RunSeen, at: Instant, holder: str, said: str) -> TimelinePiece:
    told = safe(f"{run.slot.key}: {run.shown}{f' ({said})' if said else ''}")
    return TimelinePiece("mark", run.shown, run.slot.key, run.slot.job, holder, at, at, told)


# --- refusals -------------------------------------------------------------------------------------------------------


def _ghost(host: str, refused: Refused) -> TimelinePiece:
    """Of no length: it did not run."""
    holder, words = refusal(host, refused.why)
    told = safe(f"{refused.slot} at {fine(refused.at)}: {words}")
    job = refused.slot.partition("@")[0]
    return TimelinePiece("ghost", REFUSED, refused.slot, job, holder, refused.at, refused.at, told)


MOST_LANES: Final = 24
MOST_ROWS: Final = 6
GHOST_ROWS: Final = 3
"""Beyond them pieces lie on one another."""

# Heights in pixels. Widths are shares: a picture of TIMELINE_WIDTH pixels is what legibility is judged by.
TIMELINE_WIDTH: Final = 1000.0
HEAD, NAME, GAP = 34.0, 18.0, 8.0
ROW, BAR = 22.0, 16.0
THIN_ROW, THIN_BAR = 16.0, 12.0
"""Of ghosts, which stand below what there was."""
NARROWEST: Final = 14.0
"""How wide a mark or a ghost is at least, in such a picture, or a bar that has its sign within."""

SIGN: Final = 12.0
"""The room for a sign beside a bar."""

SHORT_BAR_SIGNS: Final = {"failed": "×", "lost": "!", "unknown": "?"}
"""What a bar says that is too short to show its pattern."""

OTHERS: Final = "…"
"""The lane of the rest. No process has this name."""


class LaneLine(NamedTuple):
    """A line across the lanes."""

    at: Instant
    label: str


class TimelineScale(NamedTuple):
    """From instants to shares of the width, in percent."""

    start: Instant
    end: Instant

    def __call__(self, at: Instant) -> float:
        share = (at - self.start) / (self.end - self.start)
        return 100 * min(max(share, 0.0), 1.0)

    def pixels(self, at: Instant) -> float:
        return self(at) / 100 * TIMELINE_WIDTH


class PlacedPiece(NamedTuple):
    """A piece in its place: from left to right in percent, and where its bar begins from above, in pixels."""

    piece: TimelinePiece
    left: float
    right: float
    top: float
    due: float | None = None
    until: float | None = None


class Lane(NamedTuple):
    name: str
    top: float
    height: float
    members: int = 1
    """How many holders share it."""
    placed: tuple[PlacedPiece, ...] = ()


class Picture(NamedTuple):
    facts: TimelineFacts
    scale: TimelineScale
    lanes: tuple[Lane, ...]
    arrows: tuple[tuple[PlacedPiece, PlacedPiece], ...]
    """From the end of one piece to the start of the other."""
    lines: tuple[LaneLine, ...]
    height: float

    @property
    def counted(self) -> str:
        """All that there is, in words."""
        told = counted(Counter(piece.look for piece in self.facts.pieces))
        several = len(self.facts.handovers)
        return told + (f", {several:,} taken over" if several else "")


def lay_out(facts: TimelineFacts, only: Collection[str] | None = None) -> Picture:
    """Of all lanes, or of those with these names."""
    scale = TimelineScale(facts.start, facts.end)
    names = lane_names(facts.pieces)
    lanes: list[Lane] = []
    places: dict[int, PlacedPiece] = {}
    top = HEAD
    for name, numbers in _by_lane(facts.pieces, names):
        if only is not None and name not in only:
            continue
        lane, rows = _lane(name, top, {number: facts.pieces[number] for number in numbers}, scale)
        lanes.append(lane._replace(members=len({facts.pieces[number].holder for number in numbers})))
        places |= rows
        top += lane.height
    arrows = tuple((places[one], places[one + 1]) for one in facts.handovers if one in places and one + 1 in places)
    return Picture(facts, scale, tuple(lanes), arrows, tuple(lines(facts.start, facts.end)), top)


def lay_out_small(facts: TimelineFacts, most: float) -> tuple[Picture, int]:
    """A picture of so many pixels in height at most: of whole lanes, at least one. Those come first whose pieces a
    person should see first. And how many lanes did not fit."""
    whole = lay_out(facts)
    kept: set[str] = set()
    height = HEAD
    for lane in sorted(whole.lanes, key=_first_look):
        if not kept or height + lane.height <= most:
            kept.add(lane.name)
            height += lane.height
    left_out = len(whole.lanes) - len(kept)
    return (lay_out(facts, kept), left_out) if left_out else (whole, 0)


def _first_look(lane: Lane) -> int:
    return min(PIECE_LOOKS.index(placed.piece.look) for placed in lane.placed)


# --- lanes ----------------------------------------------------------------------------------------------------------


def lane_names(pieces: Sequence[TimelinePiece]) -> dict[str, str]:
    """Which lane a holder has. Of very many those of one host share a lane, and what is left over shares the last:
    calls from a crontab are a holder each."""
    names = {holder: holder for holder in sorted({piece.holder for piece in pieces})}
    if len(names) > MOST_LANES:
        names = {holder: holder.partition(":")[0] for holder in names}
    often = Counter(names[piece.holder] for piece in pieces)
    if len(often) > MOST_LANES:
        kept = {name for name, _ in often.most_common(MOST_LANES - 1)}
        names = {lane: name if name in kept else OTHERS for lane, name in names.items()}
    return names


def _by_lane(pieces: Sequence[TimelinePiece], names: Mapping[str, str]) -> list[tuple[str, list[int]]]:
    """In order of names; then processes that were only refused, slots that did not run, and the rest."""
    lanes: defaultdict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        lanes[names[piece.holder]].append(number)
    ran = {names[piece.holder] for piece in pieces if piece.shape != "ghost"}
    return sorted(
        lanes.items(), key=lambda lane: (lane[0] == OTHERS, not lane[0], lane[0] not in ran, _natural(lane[0]))
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """web-9 comes before web-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split("([0-9]+)", name)]


def _lane(
    name: str, top: float, pieces: Mapping[int, TimelinePiece], scale: TimelineScale
) -> tuple[Lane, dict[int, PlacedPiece]]:
    """A lane, and which piece is where in it."""
    solid = _rows({number: one for number, one in pieces.items() if one.shape != "ghost"}, scale, MOST_ROWS)
    ghosts = _rows({number: one for number, one in pieces.items() if one.shape == "ghost"}, scale, GHOST_ROWS)
    below = NAME + (_last(solid) + 1) * ROW
    tops = {number: NAME + row * ROW for number, row in solid.items()}
    tops |= {number: below + row * THIN_ROW for number, row in ghosts.items()}
    placed = {number: _placed(piece, top + tops[number], scale) for number, piece in pieces.items()}
    return Lane(name, top, below + (_last(ghosts) + 1) * THIN_ROW + GAP, placed=tuple(placed.values())), placed


def _last(rows: Mapping[int, int]) -> int:
    return max(rows.values(), default=-1)


def _placed(piece: TimelinePiece, top: float, scale: TimelineScale) -> PlacedPiece:
    due = None if piece.due is None else scale(piece.due)
    until = None if piece.until is None else scale(piece.until)
    return PlacedPiece(piece, scale(piece.start), scale(piece.end), top, due, until)


def _rows(pieces: Mapping[int, TimelinePiece], scale: TimelineScale, most: int) -> dict[int, int]:
    """A row for each, the first in which it lies on no other, or else the last."""
    free: list[float] = []
    rows: dict[int, int] = {}
    for left, right, number in sorted((*_extent(piece, scale), number) for number, piece in pieces.items()):
        row = next((row for row, end in enumerate(free) if end <= left), min(len(free), most - 1))
        free[row : row + 1] = [right]
        rows[number] = row
    return rows


def _extent(piece: TimelinePiece, scale: TimelineScale) -> tuple[float, float]:
    """In pixels, from its slot's tick to the end of its lease. Neighbours in time may touch; but not what was taken
    over and what followed, so that there is room for the arrow."""
    left, start = scale.pixels(piece.due or piece.start), scale.pixels(piece.start)
    right = scale.pixels(max(piece.end, piece.until or piece.end))
    if piece.shape != "bar":
        return left, max(right, start + NARROWEST)
    beside = SIGN if piece.look in SHORT_BAR_SIGNS and right - start < NARROWEST else 0
    return left, right + beside + (piece.look == LAPSED)


def counted(counts: Mapping[str, int]) -> str:
    """1,204 succeeded, 3 failed: what there is most of first."""
    often = sorted(counts.items(), key=lambda one: (-one[1], PIECE_LOOKS.index(one[0])))
    return ", ".join(f"{number:,} {look}" for look, number in often)


# --- the time axis: its lines and their labels, in UTC -----------------------------------------

MOST_LINES: Final = 9

_MONDAY: Final = datetime(2001, 1, 1, tzinfo=UTC)
_TIME_STEPS: Final = (
    *(timedelta(seconds=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=count) for count in (1, 2, 3, 6, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 14, 28)),
)


def lines(start: Instant, end: Instant) -> Iterator[LaneLine]:
    """Round times, at most so many."""
    step = next((step for step in _TIME_STEPS if (end - start) / step <= MOST_LINES), _TIME_STEPS[-1])
    at = start + (_MONDAY - start) % step
    while at <= end:
        yield LaneLine(at, _label(at, step))
        at += step


def _label(at: Instant, step: timedelta) -> str:
    if at.time() == time():
        return f"{at:%a %d %b}"
    return f"{at:%H:%M:%S}" if step < timedelta(minutes=1) else f"{at:%H:%M}"
