"""How a batch of writes travels to the functions in schema.sql, and how their answer is read.

What costs is not the network but Python: a thousand claims are a thousand tuples either way. So texts travel joined and
are split by the server, numbers travel as one array's spelling, and a column that repeats itself as its first part.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import count, repeat
from operator import itemgetter
from typing import Any, Final, TypeVar

from cronce.errors import BadInput
from cronce.model import EPOCH, MICROSECOND, Cell, Epoch, Fence, Instant, Refusal, Verdict, Write, from_us
from cronce.stores import sql
from cronce.stores.base import groups, instant, made, new_cells
from cronce.value import NamedTuple

MAX_ONE_BY_ONE: Final = 4
"""Up to so many writes, if they are one group, the server goes through them one by one; more are sets to it."""

NOT_GIVEN: Final = -(1 << 62)
"""Marks an instant or a span that is not given."""

GRANT_FLAG: Final = 16
"""Added to the mark of a write that is a grant."""

_REFUSALS: Final = (None, Refusal.VERSION, Refusal.EARLY, Refusal.LATE, Refusal.GROUP)


_Value = TypeVar("_Value")


ONE_WRITE: Final = "SELECT {schema}.cronce_swap_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
FEW_WRITES: Final = "SELECT {schema}.cronce_swap_few($1, $2, $3)"
IN_TURN: Final = "SELECT * FROM {schema}.cronce_swap_in_turn($1, $2, $3, $4)"
MANY_WRITES: Final = "SELECT * FROM {schema}.cronce_swap_many(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"

Told = tuple[int, int, int]
"""The birth and the tally that the writer has seen, and for how many ms it is patient."""


class SwapCall(NamedTuple):
    """A statement, what it is given, and the writes in the order in which it is given them."""

    statement: str
    given: Sequence[Any]
    writes: Sequence[Write]
    order: Sequence[int]
    instants: "Instants"


class Instants(dict[int | None, Instant | None]):
    """Instants by their microseconds. Those of an answer are mostly those that were asked with."""

    def __missing__(self, us: int | None) -> Instant | None:
        instant = self[us] = None if us is None else EPOCH + us * MICROSECOND
        return instant


def spell_swap(writes: Sequence[Write], told: Told) -> SwapCall:
    if len(writes) <= 1:
        return _one(writes, told) if writes else _few(writes, told, range(0))
    if len({write.key for write in writes}) < len(writes):
        return _in_turn(writes, told)
    sizes = _sizes(writes)
    if len(writes) <= MAX_ONE_BY_ONE and len(sizes) == 1:
        return _few(writes, told, sorted(range(len(writes)), key=lambda place: writes[place].key))
    return _many(writes, told, sizes)


def _sizes(writes: Sequence[Write]) -> Sequence[int]:
    """How many writes each group has. That they are all alike is seen sooner than each is counted."""
    names = [write.group for write in writes]
    size = 1 if names[0] is None else names.count(names[0])
    firsts = names[::size]
    alone = firsts.count(None)
    if alone == len(names) or (
        not alone and len(set(firsts)) == len(firsts) and all(names[i::size] == firsts for i in range(1, size))
    ):
        return [size] * len(firsts)
    return [len(places) for places in groups(writes)]


def _one(writes: Sequence[Write], told: Told) -> SwapCall:
    ((key, seen, value, mark, at, grant, ttl, before, after, _),) = writes
    numbers = (*told, seen, mark + GRANT_FLAG * grant, _us(at), _span(ttl), _us(before), _us(after))
    birth, tally, patience, *others = [None if number == NOT_GIVEN else b"%d" % number for number in numbers]
    given = [birth, tally, patience, key, value, *others]
    return SwapCall(ONE_WRITE, given, writes, range(1), Instants())


def _few(writes: Sequence[Write], told: Told, order: Sequence[int]) -> SwapCall:
    ordered = [writes[place] for place in order]
    return SwapCall(FEW_WRITES, _spelled(ordered, told), ordered, order, Instants())


def _in_turn(writes: Sequence[Write], told: Told) -> SwapCall:
    """A key occurs twice in the batch: its groups are judged one after the other."""
    for places in groups(writes):
        if len({writes[place].key for place in places}) < len(places):
            raise BadInput(f"a group cannot write {writes[places[0]].key!r} or another of its cells twice")
    given = [*_spelled(writes, told), _array(_sizes(writes)).encode()]
    return SwapCall(IN_TURN, given, writes, range(len(writes)), Instants())


def _spelled(writes: Sequence[Write], told: Told) -> list[str | bytes]:
    """What was seen and six numbers for each write; a character that is in no text; all texts with it between them."""
    numbers = [
        number
        for _, seen, _, mark, at, grant, ttl, before, after, _ in writes
        for number in (seen, mark + GRANT_FLAG * grant, _us(at), _span(ttl), _us(before), _us(after))
    ]
    divider, keys, values = _joined(writes)
    return [_array([*told, *numbers]).encode(), divider, f"{keys}{divider}{values}"]


def _many(writes: Sequence[Write], told: Told, sizes: Sequence[int]) -> SwapCall:
    _, seens, _, marks, ats, grants, ttls, befores, afters, _ = zip(*writes, strict=True)
    size = sizes[0] if len(set(sizes)) == 1 else 0
    numbered = "{}" if size else _array(number for number, size in enumerate(sizes) for _ in range(size))
    due = _each(_us, ats)
    columns = (
        _first_part(seens, size),
        _first_part([mark + GRANT_FLAG * grant for mark, grant in zip(marks, grants, strict=True)], size),
        _first_part(due, size),
        _each(_span, _first_part(ttls, size)),
        () if befores == ats else _each(_us, _first_part(befores, size)),
        _each(_us, _first_part(afters, size)),
    )
    given = [*told[:2], str(told[2]), *_joined(writes), size, numbered, *map(_array, columns)]
    return SwapCall(MANY_WRITES, given, writes, range(len(writes)), Instants(zip(due, ats, strict=True)))


def _joined(writes: Sequence[Write]) -> tuple[str, str, str]:
    """A character that is in none of the texts, and all keys and all values with it between them."""
    for divider in map(chr, range(0x1F, 0x110000)):
        keys = divider.join([write.key for write in writes])
        values = divider.join([write.value for write in writes])
        if keys.count(divider) + values.count(divider) == 2 * max(len(writes) - 1, 0):
            return divider, keys, values
    raise BadInput("texts that use every character there is cannot be stored")


def _array(numbers: Iterable[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def _first_part(column: Sequence[_Value], size: int) -> Sequence[_Value]:
    """The column, or its first group, if the others are the same again."""
    return column[:size] if size and column[size:] == column[:-size] else column


def _us(instant: Instant | None) -> int:
    return NOT_GIVEN if instant is None else (instant - EPOCH) // MICROSECOND


def _each(spell: Callable[[_Value], int], column: Sequence[_Value]) -> list[int]:
    """Most of a column are the same."""
    known = {value: spell(value) for value in set(column)}
    return [known[value] for value in column]


def _span(span: timedelta | None) -> int:
    return NOT_GIVEN if span is None else span // MICROSECOND


# --- the answer -----------------------------------------------------------------------------------------------------


class AnswerHead(NamedTuple):
    """What an answer reports about the store. `belief`: 0 as the writer has it, 1 another life, 2 it lost data."""

    now: Instant
    epoch: Epoch
    belief: int = 0
    first: int = 0


def read_rows(call: SwapCall, answer: Sequence[sql.Row]) -> list[sql.Row]:
    """The row about the store, perhaps more than once, then those about the writes."""
    rows = answer if call.statement is MANY_WRITES else _unspelled(answer)
    return sorted(rows, key=itemgetter(0))


def _unspelled(answer: Iterable[sql.Row]) -> Iterator[sql.Row]:
    """The rows of an answer that came spelled, as each group of a few writes has one."""
    places = count(1)
    for (spelled,) in answer:
        digits, _, texts = spelled[1:].partition("}")
        origin, _, values = texts.partition(" ")
        numbers = [None if number == "NULL" else int(number) for number in digits.split(",")]
        belief, tally, now, since, birth, base = numbers[:6]
        yield (0, belief, 0, tally, now, since, birth, base, origin)
        end = 0
        for place in range(6, len(numbers), 8):
            *cell, length = numbers[place : place + 8]
            start, end = end, end + (length or 0)
            yield (next(places), *cell, values[start:end])


def read_head(row: sql.Row) -> AnswerHead:
    _, belief, first, tally, now, since, birth, base, origin = row
    return AnswerHead(from_us(now), read_epoch(birth, tally, base, origin, since), belief, first)


def read_epoch(birth: int, tally: int, base: int, origin: str, since: int | None) -> Epoch:
    return Epoch(birth, tally, base, sql.ORIGIN_BY_WORD[origin], instant(since))


def read_verdicts(call: SwapCall, head: AnswerHead, rows: Sequence[sql.Row]) -> tuple[Sequence[Verdict], int]:
    """What became of each write, in the order they were given, and the highest number in it."""
    if head.first > 0:
        cells = new_cells(call.writes, head.first, head.epoch.birth, head.now)
        return list(made(Verdict, repeat(None), cells)), head.first + len(call.writes) - 1
    if not call.writes:
        return [], 0
    told = rows[-len(call.writes) :]
    if len(told) > MAX_ONE_BY_ONE:
        _, refused, versions, *_ = columns = list(zip(*told, strict=True))
        if 0 not in refused and None not in versions:
            return _all_refused(call, columns), max(versions)
        if not any(refused):
            return _all_won(call, head, columns), max(versions)
    verdicts = [_verdict(write, head, row, call.instants) for write, row in zip(call.writes, told, strict=True)]
    return _in_order(verdicts, call), max([row[2] or 0 for row in told])


def _in_order(verdicts: list[Verdict], call: SwapCall) -> list[Verdict]:
    if isinstance(call.order, range):
        return verdicts
    return [verdict for _, verdict in sorted(zip(call.order, verdicts, strict=True))]


def _all_refused(call: SwapCall, columns: Sequence[Sequence[Any]]) -> list[Verdict]:
    """Every write met a cell that was not as seen, as when another process claimed the same slots."""
    _, refused, versions, *others = columns
    cells = read_cells([[write.key for write in call.writes], versions, *others], call.instants)
    return list(made(Verdict, map(_REFUSALS.__getitem__, refused), cells))


def read_cells(columns: Sequence[Sequence[Any]], instants: Instants) -> Iterator[Cell]:
    """Cells, whose columns are in the order of a row."""
    keys, versions, marks, ats, untils, births, numbers, values = columns
    fences: Iterable[Fence | None] = made(Fence, births, numbers)
    if None in numbers:
        fences = [None if number is None else fence for number, fence in zip(numbers, fences, strict=True)]
    dated, marked = instants.__getitem__, map(sql.MARK_BY_NUMBER.__getitem__, marks)
    return made(Cell, keys, versions, values, map(dated, ats), marked, fences, map(dated, untils))


def _all_won(call: SwapCall, head: AnswerHead, columns: Sequence[Sequence[Any]]) -> list[Verdict]:
    """Every write has landed, on cells that were there or on new ones, which have no mark from before."""
    _, _, versions, old_marks, old_ats, old_untils, births, numbers, _ = columns
    keys, _, values, marks, ats, grants, ttls, *_ = zip(*call.writes, strict=True)
    dated, now, birth = call.instants.__getitem__, head.now, head.epoch.birth
    dues = [at if mark is None else dated(old) for at, mark, old in zip(ats, old_marks, old_ats, strict=True)]
    later = {ttl: now + ttl for ttl in set(ttls) if ttl is not None}
    untils = [dated(old) if ttl is None else later[ttl] for ttl, old in zip(ttls, old_untils, strict=True)]
    fences = [
        Fence(birth, version) if grant else None if number is None else Fence(born, number)
        for grant, version, born, number in zip(grants, versions, births, numbers, strict=True)
    ]
    cells = made(Cell, keys, versions, values, dues, marks, fences, untils)
    return list(made(Verdict, repeat(None), cells))


def _verdict(write: Write, head: AnswerHead, row: sql.Row, instants: Instants) -> Verdict:
    _, refused, version, mark, at, until, birth, number, value = row
    fence = None if number is None else Fence(birth, number)
    if refused:
        cell = (
            Cell(write.key)
            if version is None
            else Cell(write.key, version, value, instants[at], sql.MARK_BY_NUMBER[mark], fence, instants[until])
        )
        return Verdict(_REFUSALS[refused], cell)
    if write.grant:
        fence = Fence(head.epoch.birth, version)
    due = write.at if mark is None else instants[at]
    ends = instants[until] if write.ttl is None else head.now + write.ttl
    return Verdict(None, Cell(write.key, version, write.value, due, write.mark, fence, ends))
