"""How cells, writes and answers travel to and from `redis.lua`, whose head says the same in its words.

A batch is a thousand writes that differ in little. So what they share travels once, as a *shape*, and what a winner
already knows, because it wrote it, does not travel back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise, repeat
from struct import Struct
from typing import Any, Final, TypeVar, cast

from cronce.errors import BadInput
from cronce.model import EPOCH, Cell, Epoch, Fence, Instant, Mark, Origin, Refusal, Verdict, Write, from_us, to_us
from cronce.stores.base import By
from cronce.value import NamedTuple

BATCH: Final = 1000
"""Groups that one call of the script judges at most: while it does, the server does nothing else."""

MOST: Final = 3000
"""Writes in one call at most: what Lua hands to Redis at once has to fit on its stack."""

BASE: Final = 1 << 50
"""On top of every instant, so that those before 1970 are positive, and none of them is 0, which is none."""

CELL: Final = Struct(">BQQQQQ")
META: Final = Struct(">QBQQQQQBBB")
HEAD: Final = Struct(">QQQQB").pack
SHAPE: Final = Struct(">BBQQQ").pack
ITEM: Final = Struct(">HBQQ").pack
AT: Final = 1
MARKS: Final = {int(mark): mark for mark in Mark}
ORIGINS: Final = {1: Origin.MADE, 2: Origin.FOUND, 3: Origin.RESTORED}
NUMBERS: Final = {origin: number for number, origin in ORIGINS.items()}
REASONS: Final = {1: Refusal.VERSION, 2: Refusal.EARLY, 3: Refusal.LATE, 4: Refusal.GROUP}

NOBODY: Final = (0, 0, None)
FEW: Final = 4
"""Up to so many are handled one by one, more of them column by column."""

MICROSECOND: Final = timedelta(microseconds=1)
_T = TypeVar("_T", bound=tuple[Any, ...])


# --- there ----------------------------------------------------------------------------------------------------------


def in_batches(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Parts that the script takes in one call; a group is never divided."""
    numbers = [write.group for write in writes]
    begins = [place for place, (last, group) in enumerate(pairwise(numbers), 1) if group is None or group != last]
    start, count = 0, 0
    for begin, end in pairwise((0, *begins, len(writes))):
        if end - begin > MOST:
            raise BadInput(f"a group of {end - begin:,} writes; at most {MOST:,} can land together on Redis")
        if count == BATCH or end - start > MOST:
            yield writes[start:begin]
            start, count = begin, 0
        count += 1
    yield writes[start:]


def said(writes: Sequence[Write], seen: tuple[int, int]) -> list[str | bytes]:
    """A batch, as `swap` takes it."""
    shapes: dict[tuple[Any, ...], int] = {}
    keys, values, items = [], [], []
    latest = earliest = last = None
    for key, version, value, mark, at, grant, ttl, not_before, not_after, group in writes:
        shape = (mark, grant, ttl, AT if not_before is at is not None else not_before, not_after)
        number = shapes.get(shape)
        if number is None:
            number = shapes[shape] = 2 * len(shapes)
            if not_after is not None and (earliest is None or not_after < earliest):
                earliest = not_after
        if not_before is not None and (latest is None or not_before > latest):
            latest = not_before
        if group is not None and group == last:
            number += 1
        instant = 0 if at is None else (at - EPOCH) // MICROSECOND + BASE
        items.append(ITEM(number, 2, version, instant) if version > 0 else ITEM(number, -version, 0, instant))
        keys.append(key)
        values.append(value)
        last = group
    head = HEAD(*seen, _number(latest), _number(earliest), len(set(keys)) < len(keys))
    return [b"".join([head, *[_shape(*shape) for shape in shapes]]), b"".join(items), *keys, *values]


@lru_cache(maxsize=64)
def _shape(mark: Mark, grant: bool, ttl: timedelta | None, start: Instant | int | None, end: Instant | None) -> bytes:
    span = 0 if ttl is None else ttl // MICROSECOND + 1
    return SHAPE(mark, grant, span, start if isinstance(start, int) else _number(start), _number(end))


def _number(instant: Instant | None) -> int:
    return 0 if instant is None else to_us(instant) + BASE


ordered: Final = Struct(">Q").pack
"""A number as bytes that sort as it does."""


# --- and back -------------------------------------------------------------------------------------------------------


class Meta(NamedTuple):
    """What the store says about itself with every answer."""

    now: Instant
    epoch: Epoch


def read_meta(raw: bytes) -> Meta:
    now, _schema, birth, tally, base, since, _last, origin, _durable, _replicas = META.unpack_from(raw)
    return Meta(
        from_us(now - BASE), Epoch(birth, tally, base, ORIGINS[origin], from_us(since - BASE) if since else None)
    )


def read_cells(keys: Sequence[str], found: Sequence[bytes | None]) -> list[Cell]:
    if len(keys) > FEW and all(found):
        return list(_cells(keys, cast(Sequence[bytes], found)))
    known: dict[int, Instant | None] = {0: None}
    return [_cell(key, raw, known) for key, raw in zip(keys, found, strict=True)]


def _cells(keys: Sequence[str], found: Sequence[bytes]) -> Iterator[Cell]:
    """Many cells, column by column: one by one takes twice as long."""
    marks, versions, ats, untils, births, numbers = zip(*map(CELL.unpack_from, found), strict=True)
    values = [raw[CELL.size :].decode() for raw in found]
    instants = {us: EPOCH + (us - BASE) * MICROSECOND if us else None for us in {*ats, *untils}}
    fences: Iterable[Fence | None] = _made(Fence, births, numbers)
    if 0 in numbers:
        fences = [fence if number else None for fence, number in zip(fences, numbers, strict=True)]
    dates = map(instants.__getitem__, ats), map(instants.__getitem__, untils)
    return _made(Cell, keys, versions, values, dates[0], map(MARKS.__getitem__, marks), fences, dates[1])


def _cell(key: str, raw: bytes | None, known: dict[int, Instant | None], value: str | None = None) -> Cell:
    """`known` are the instants that were read before: those of a batch are much the same. `value`: if only its head
    was told."""
    if raw is None:
        return Cell(key)
    mark, version, at, until, birth, number = CELL.unpack_from(raw)
    if at not in known:
        known[at] = from_us(at - BASE)
    if until not in known:
        known[until] = from_us(until - BASE)
    text = raw[CELL.size :].decode() if value is None else value
    return Cell(key, version, text, known[at], MARKS[mark], Fence(birth, number) if number else None, known[until])


def instant_of(raw: bytes, by: By) -> int | None:
    """What a cell is ordered by, in µs; 0 if that is its key."""
    if by == "key":
        return 0
    _mark, _version, at, until, _birth, _number = CELL.unpack_from(raw)
    us: int = at if by == "at" else until
    return us - BASE if us else None


def read_verdicts(writes: Sequence[Write], told: Sequence[Any], meta: Meta) -> list[Verdict]:
    """What became of each write. Those that won drew the last numbers of the tally, in their order. Told is only what
    they cannot know: place, reason and cell of each that lost, and of each that won over a cell that was there."""
    reasons = [tag & 7 for tag in told[::2]]
    version = meta.epoch.tally - len(writes) + len(reasons) - reasons.count(0) + 1
    if not told and len(writes) > FEW:
        return list(_made(Verdict, repeat(None), _fresh_cells(writes, version, meta)))
    if len(reasons) == len(writes) > FEW and 0 not in reasons:
        cells = read_cells([write.key for write in writes], told[1::2])
        return list(_made(Verdict, map(REASONS.__getitem__, reasons), cells))
    others = zip(told[::2], reasons, told[1::2], strict=True)
    tag, reason, raw = next(others, NOBODY)
    known: dict[int, Instant | None] = {0: None}
    verdicts = []
    for place, write in enumerate(writes, 1):
        if place != tag >> 3:
            verdicts.append(Verdict(None, _fresh(write, version, meta)))
            version += 1
            continue
        verdicts.append(Verdict(REASONS.get(reason), _cell(write.key, raw, known, None if reason else write.value)))
        version += not reason
        tag, reason, raw = next(others, NOBODY)
    return verdicts


def _fresh(write: Write, version: int, meta: Meta) -> Cell:
    """A cell that its write made."""
    fence = Fence(meta.epoch.birth, version) if write.grant else None
    until = None if write.ttl is None else meta.now + write.ttl
    return Cell(write.key, version, write.value, write.at, write.mark, fence, until)


def _fresh_cells(writes: Sequence[Write], version: int, meta: Meta) -> Iterator[Cell]:
    """The same of a whole batch, column by column: one by one takes three times as long."""
    keys, _, values, marks, ats, grants, ttls, *_ = zip(*writes, strict=True)
    versions = range(version, version + len(writes))
    fences: Iterable[Fence | None] = _made(Fence, repeat(meta.epoch.birth), versions)
    if not all(grants):
        fences = (fence if grant else None for fence, grant in zip(fences, grants, strict=True))
    untils = {ttl: None if ttl is None else meta.now + ttl for ttl in set(ttls)}
    return _made(Cell, keys, versions, values, ats, marks, fences, map(untils.__getitem__, ttls))


_new: Final[Callable[..., Any]] = tuple.__new__


def _made(kind: type[_T], *columns: Iterable[Any]) -> Iterator[_T]:
    return map(_new, repeat(kind), zip(*columns, strict=False))
