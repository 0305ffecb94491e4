"""How cells, writes and answers are encoded for `script.lua`; the comment at its top describes the same.

The writes of a batch differ in little. So what they share is sent once, as a *shape*, and what a winner wrote is not
sent back to it.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Any, Final, cast

from cronce.errors import BadInput
from cronce.model import (
    EPOCH,
    MICROSECOND,
    Cell,
    Epoch,
    Fence,
    Instant,
    Mark,
    Origin,
    Refusal,
    Verdict,
    Write,
    from_us,
    to_us,
)
from cronce.stores.base import made, new_cells
from cronce.value import NamedTuple

WRITES_PER_CALL: Final = 3000
"""Writes that one call of the script judges at most: what Lua hands to Redis at once has to fit on its stack."""

INSTANT_BASE: Final = 1 << 50
"""Added to every instant, so that those before 1970 are positive; 0 means none."""

CELL_STRUCT: Final = Struct(">BQQQQQ")
META_STRUCT: Final = Struct(">QBQQQQQBBB")
PACK_HEAD: Final = Struct(">QQQQB").pack
SHAPE: Final = Struct(">BBQQQ").pack
ITEM: Final = Struct(">HBQQII").pack
AT: Final = 1
MARK_BY_NUMBER: Final = {int(mark): mark for mark in Mark}
ORIGINS: Final = {1: Origin.MADE, 2: Origin.FOUND, 3: Origin.RESTORED}
NUMBER_OF_ORIGIN: Final = {origin: number for number, origin in ORIGINS.items()}
MADE, WON = 0, 1
REASONS: Final = {MADE: None, WON: None, 2: Refusal.VERSION, 3: Refusal.EARLY, 4: Refusal.LATE, 5: Refusal.GROUP}
"""The result of a write, by its number."""

ONE_BY_ONE_UP_TO: Final = 4
"""Up to so many cells are read one by one, more of them column by column."""

LONGEST_TTL: Final = timedelta(days=36_525)
"""The longest ttl: a sum with it must fit into a number of Lua."""


# --- there ----------------------------------------------------------------------------------------------------------


def encode_batch(writes: Sequence[Write], seen: tuple[int, int]) -> list[str | bytes]:
    """The arguments of `swap` for a batch."""
    if len(writes) > WRITES_PER_CALL:
        raise BadInput(
            f"a group of {len(writes):,} writes; at most {WRITES_PER_CALL:,} can be written together on Redis"
        )
    shapes: dict[tuple[Any, ...], int] = {}
    keys, values, items, starts = [], [], [], [0]
    earliest = last = None
    end = 0
    for key, version, value, mark, at, grant, ttl, not_before, not_after, group in writes:
        instant = 0 if at is None else (at - EPOCH) // MICROSECOND + INSTANT_BASE
        at_once = not_before is at
        start = instant if at_once else _number(not_before)
        starts.append(start)
        shape = (mark, grant, ttl, AT if at_once and instant else start, not_after)
        number = shapes.get(shape)
        if number is None:
            number = shapes[shape] = 2 * len(shapes)
            if not_after is not None and (earliest is None or not_after < earliest):
                earliest = not_after
        if group is not None and group == last:
            number += 1
        begin = end + 1
        end += len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))  # the sender refuses those
        if version > 0:
            items.append(ITEM(number, 2, version, instant, begin, end))
        else:
            items.append(ITEM(number, -version, 0, instant, begin, end))
        keys.append(key)
        values.append(value)
        last = group
    head = PACK_HEAD(*seen, max(starts), _number(earliest), len(set(keys)) < len(keys))
    return [b"".join([head, *[_shape(*shape) for shape in shapes]]), b"".join(items), "".join(values), *keys]


@contextmanager
def in_range() -> Iterator[None]:
    try:
        yield
    except struct.error:
        raise BadInput(
            "Redis keeps instants from 1935 on, and versions below 2**64; one of these is out of that range"
        ) from None


@lru_cache(maxsize=64)
def _shape(mark: Mark, grant: bool, ttl: timedelta | None, start: int, end: Instant | None) -> bytes:
    if ttl is not None and not timedelta(0) <= ttl <= LONGEST_TTL:
        raise BadInput(f"a ttl of {ttl} is not one that Redis keeps: from 0 to {LONGEST_TTL.days:,} days")
    span = 0 if ttl is None else ttl // MICROSECOND + 1
    return SHAPE(mark, grant, span, start, _number(end))


def _number(instant: Instant | None) -> int:
    return 0 if instant is None else to_us(instant) + INSTANT_BASE


ordered: Final = Struct(">Q").pack
"""A number as bytes that sort as it does."""


# --- and back -------------------------------------------------------------------------------------------------------


class RedisMeta(NamedTuple):
    """What every answer says about the store itself."""

    now: Instant
    epoch: Epoch


def read_meta(raw: bytes) -> RedisMeta:
    now, _schema, birth, tally, base, since, _last, origin, _durable, _replicas = META_STRUCT.unpack_from(raw)
    epoch = Epoch(birth, tally, base, ORIGINS[origin], from_us(since - INSTANT_BASE) if since else None)
    return RedisMeta(EPOCH + (now - INSTANT_BASE) * MICROSECOND, epoch)


def instant_at(raw: bytes) -> Instant | None:
    """Eight bytes, as they are kept; None: none."""
    number = int.from_bytes(raw, "big")
    return from_us(number - INSTANT_BASE) if number else None


def read_cells(keys: Sequence[str], found: Sequence[bytes | None]) -> list[Cell]:
    if len(keys) > ONE_BY_ONE_UP_TO and all(found):
        return list(_cells(keys, cast(Sequence[bytes], found)))
    known: dict[int, Instant | None] = {0: None}
    return [_cell(key, raw, known) for key, raw in zip(keys, found, strict=True)]


def _cells(keys: Sequence[str], found: Sequence[bytes]) -> Iterator[Cell]:
    """Many cells, column by column: one by one takes twice as long."""
    marks, versions, ats, untils, births, numbers = zip(*map(CELL_STRUCT.unpack_from, found), strict=True)
    values = [raw[CELL_STRUCT.size :].decode() for raw in found]
    instants = {us: EPOCH + (us - INSTANT_BASE) * MICROSECOND if us else None for us in {*ats, *untils}}
    fences: Iterable[Fence | None] = made(Fence, births, numbers)
    if 0 in numbers:
        fences = [fence if number else None for fence, number in zip(fences, numbers, strict=True)]
    dates = map(instants.__getitem__, ats), map(instants.__getitem__, untils)
    return made(Cell, keys, versions, values, dates[0], map(MARK_BY_NUMBER.__getitem__, marks), fences, dates[1])


def _cell(key: str, raw: bytes | None, known: dict[int, Instant | None]) -> Cell:
    """`known` are the instants that were read before: the cells of a batch share most of them."""
    return (
        Cell(key)
        if raw is None
        else _with_head(key, raw[CELL_STRUCT.size :].decode(), CELL_STRUCT.unpack_from(raw), known)
    )


def _with_head(key: str, value: str, head: tuple[int, ...], known: dict[int, Instant | None]) -> Cell:
    mark, version, at, until, birth, number = head
    if at not in known:
        known[at] = from_us(at - INSTANT_BASE)
    if until not in known:
        known[until] = from_us(until - INSTANT_BASE)
    return Cell(
        key, version, value, known[at], MARK_BY_NUMBER[mark], Fence(birth, number) if number else None, known[until]
    )


def read_verdicts(
    writes: Sequence[Write], told: bytes, others: Sequence[bytes | None], meta: RedisMeta
) -> list[Verdict]:
    """The result of each write. Those that won drew the last numbers of the tally, in their order. `told` is the meta,
    followed by what winners cannot know; `others` are the cells that the losers lost to."""
    heads = META_STRUCT.size + len(writes)
    became = told[META_STRUCT.size : heads]
    version = meta.epoch.tally - became.count(MADE) - became.count(WON) + 1
    if len(writes) > ONE_BY_ONE_UP_TO:
        if len(told) == heads and not others:
            return list(made(Verdict, repeat(None), new_cells(writes, version, meta.epoch.birth, meta.now)))
        if len(others) == len(writes):
            cells = read_cells([write.key for write in writes], others)
            return list(made(Verdict, map(REASONS.__getitem__, became), cells))
    known: dict[int, Instant | None] = {0: None}
    lost = iter(others)
    verdicts = []
    for write, tag in zip(writes, became, strict=True):
        if tag == MADE:
            cell = _fresh(write, version, meta)
        elif tag == WON:
            cell = _with_head(write.key, write.value, CELL_STRUCT.unpack_from(told, heads), known)
            heads += CELL_STRUCT.size
        else:
            cell = _cell(write.key, next(lost), known)
        version += tag <= WON
        verdicts.append(Verdict(REASONS[tag], cell))
    return verdicts


def _fresh(write: Write, version: int, meta: RedisMeta) -> Cell:
    """A cell that its write made."""
    fence = Fence(meta.epoch.birth, version) if write.grant else None
    until = None if write.ttl is None else meta.now + write.ttl
    return Cell(write.key, version, write.value, write.at, write.mark, fence, until)
