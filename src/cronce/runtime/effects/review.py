"""Effects as the store has them, for people: which are done, and which are in doubt. These flows only read, and never
all of it. And how a person resolves an effect that is in doubt: it is done, or may be begun again.

The record alone does not show what is *in doubt*. A step is recorded as begun until its run or a person records how it
ended. Once the run is over, the run will not. The same goes for a key whose lease has expired.

Facts, no words: what shows them to people finds the words.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, Literal

from cronce.errors import NOBODY_KNOWS, BadInput, BadRecord, CronceError, NotOnRecord, StoreUnavailable
from cronce.model import Cell, Instant, Mark, Slot, check_key, check_name, effect_cells, once_cell, slot_of_cell, spell
from cronce.protocol.codec import all_readable, json_text, readable
from cronce.protocol.commands import Closed, Held, Queued, Resolve
from cronce.protocol.record import Maker, Record, decode, effects_key
from cronce.protocol.table import Row
from cronce.runtime.client import MAX_ROUNDS
from cronce.runtime.effects import steps
from cronce.runtime.effects.liveness import RetryRefused, refuse_unless_gone, unsure_of, unsure_of_slot
from cronce.runtime.effects.once import whereabouts
from cronce.runtime.effects.steps import Target
from cronce.runtime.flow import Flow
from cronce.runtime.operations import LapsedUnwatched, Operator, Verdict, sure
from cronce.runtime.process_notes import recall_once
from cronce.runtime.queries import load, read_page, row_of, slot_named, sparing
from cronce.runtime.run_lists import not_a_place, read_cursor, spell_cursor
from cronce.runtime.scheduling.roster import chunks
from cronce.runtime.unfinished import doubts_told
from cronce.stores.base import Position, Scan
from cronce.value import NamedTuple

EFFECTS_COUNTED: Final = 1000
"""For a slot or a job, at most this many effects of each kind are counted; the rest counts as "more"."""

CELLS_SEARCHED: Final = 10_000
"""So many cells are looked at for a list, whatever is wanted of them."""

DOUBTS_SHOWN: Final = 20
"""For a slot or a job, at most this many are listed."""

_CELLS_AT_ONCE: Final = 100

# --- names ----------------------------------------------------------------------------------------------------------

_EXAMPLES: Final = "billing@2026-03-29T01:00:00Z/report (of a slot) or charge/invoice:7 (on a thing, or a key)"


def names_effect(what: object) -> bool:
    """Whether it is an effect that is named, and no slot: those have no slash."""
    return isinstance(what, str) and "/" in what


def effect_named(text: str) -> Target:
    """An effect as a person names it: of a slot, or on a thing or of a key."""
    of, slash, key = text.partition("/")
    if not slash or not key:
        raise BadInput(f"{text[:80]!r} is not an effect; an effect is written like {_EXAMPLES}")
    if "@" not in of:
        return Target(once_cell(check_name(of), check_key(key)), text)
    return steps.of_slot(slot_named(of).key, key)


def effect_name(cell: str) -> str:
    """What people call the effect of a cell."""
    kind, _, rest = cell.partition("/")
    return rest if kind == "once" else rest.replace("/", "@", 1)


# --- what is seen ---------------------------------------------------------------------------------------------------

EffectState = Literal["done", "in doubt", "in progress", "not done", "unreadable"]
STATES: Final[tuple[EffectState, ...]] = ("in doubt", "unreadable", "in progress", "not done", "done")
"""What a person should look at comes first."""

_OF_MARK: Final[Mapping[Mark, tuple[EffectState, ...]]] = MappingProxyType(
    {
        Mark.ATTENTION: ("in doubt",),
        Mark.OPEN: ("in doubt", "in progress", "not done"),
        Mark.FREE: ("not done",),
        Mark.CLOSED: ("done",),
    }
)


class EffectSeen(NamedTuple):
    """An effect as the store has it; without a `record` the cell is unreadable. `why` it is not done, if it is not."""

    name: str
    state: EffectState
    cell: Cell
    record: Record | None
    why: str = ""


def look_at(cells: Iterable[Cell], now: Instant) -> Flow[list[EffectSeen]]:
    """What the cells of effects mean. A step that is recorded as begun is read once more, after its run: between the
    two reads it may have been done, and its run have ended."""
    found = {cell.key: _seen(cell, now) for cell in cells}
    begun = [(key, run) for key, one in found.items() if one is not None and (run := _run_of(one))]
    for part in map(dict, chunks(begun, _CELLS_AT_ONCE)):
        loaded = yield from load([*sorted(set(part.values())), *part])
        known = {cell.key: cell for cell in loaded.cells}
        found |= {key: _seen(known[key], loaded.now, known) for key in part}
    return [one for one in found.values() if one is not None]


def _run_of(one: EffectSeen) -> str:
    """The cell of the run that is at a step, as it seems."""
    return one.record.under.run if one.record and one.record.under and one.state == "in progress" else ""


def _seen(cell: Cell, now: Instant, runs: Mapping[str, Cell] = MappingProxyType({})) -> EffectSeen | None:
    """None if there is nothing to see any more."""
    name = effect_name(cell.key)
    try:
        record = decode(cell.value, cell.key) if cell.version else None
    except BadRecord as error:
        return EffectSeen(name, "unreadable", cell, None, str(error))
    if record is None or row_of(cell, record, now) is Row.EXPIRED:
        return None
    state, why = _state(record, _gone(cell, record, now, runs))
    return EffectSeen(name, state, cell, record, why)


def _state(record: Record, gone: str) -> tuple[EffectState, str]:
    if record.is_running:
        return ("in doubt", gone) if gone else ("in progress", "")
    if record.succeeded:
        return "done", record.reason
    if record.in_doubt:
        return "in doubt", record.reason
    return "not done", record.reason or (record.past[-1].end if record.past else "")


def _gone(cell: Cell, record: Record, now: Instant, runs: Mapping[str, Cell]) -> str:
    """Why no process works on it any more, if so."""
    if record.under is None:
        passed = row_of(cell, record, now) is Row.LAPSED
        return f"its lease expired at {spell(cell.until)}" if passed and cell.until else ""
    run = runs.get(record.under.run)
    match whereabouts(run, record.under, now) if run else "at it":
        case "over":
            return "its run is over"
        case "lapsed" if run and run.until:
            return f"the lease of its run expired at {spell(run.until)}"
        case _:
            return ""


# --- reading --------------------------------------------------------------------------------------------------------


class EffectList(NamedTuple):
    """Some effects, and where the list goes on, if it does."""

    effects: tuple[EffectSeen, ...]
    next: str | None = None


class EffectsSurvey(NamedTuple):
    """How many effects are in which state (in those that are `capped` there may be more), and some that are in
    doubt."""

    counts: Mapping[EffectState, int]
    capped: frozenset[EffectState]
    doubtful: tuple[EffectSeen, ...]


EMPTY_SURVEY: Final = EffectsSurvey(MappingProxyType({}), frozenset(), ())


def effect(named: Target) -> Flow[EffectSeen | None]:
    loaded = yield from load([named.cell])
    found = yield from look_at(loaded.cells, loaded.now)
    return found[0] if found else None


class EffectCells(NamedTuple):
    """The cells that are meant: those with this prefix (or `only` the one) and, of what is not done, those on things
    that a run has made whose own cell begins so."""

    prefix: str
    made_by: str = ""
    only: bool = False

    def scanned(self, mark: Mark) -> str:
        """Effects on things have keys of their own, whichever run made them: all of these are read."""
        return _THINGS if self.made_by and mark in _NOT_DONE else self.prefix

    def before(self, mark: Mark) -> str:
        """A list begins behind this key."""
        return self.prefix[:-1] if self.only else self.scanned(mark)

    def has(self, one: EffectSeen) -> bool:
        if self.only:
            return one.cell.key == self.prefix
        maker = one.record.under if one.record else None
        made = self.made_by and maker is not None and maker.run.startswith(self.made_by)
        return bool(made) or one.cell.key.startswith(self.prefix)


_THINGS: Final = "once/"
_NOT_DONE: Final = (Mark.ATTENTION, Mark.OPEN)


def places(what: str | None) -> Flow[list[EffectCells]]:
    """Where the effects are kept: those of a job, of a slot, on things, of an idempotent function, or all."""
    if what is None:
        return [EffectCells("effect/"), EffectCells(_THINGS)]
    if "@" not in what:
        name = check_name(what)
        return [EffectCells(f"effect/{name}/"), EffectCells(f"{_THINGS}{name}/", f"run/{name}/")]
    slot = slot_named(what)
    (run,) = (yield from load([slot.cell])).cells
    return of_slot(slot, readable(run, decode))


def of_slot(slot: Slot, run: Record | None) -> list[EffectCells]:
    """Those of a slot and its reruns, by the key that its effects go by. And those that stopped it, whichever run left
    them in doubt."""
    own = [
        EffectCells(effect_cells(effects_key(run, slot))),
        EffectCells(f"{_THINGS}@/", slot._replace(request="").cell),
    ]
    return [*own, *(EffectCells(doubt.cell, only=True) for doubt in doubts_of(run))]


def doubts_of(run: Record | None) -> list[Target]:
    """The effects that were in doubt, so that the run was closed as unknown. Of very many only the first are known by
    name."""
    found = []
    for name in doubts_told(run.reason) if run else ():
        with suppress(BadInput):
            found.append(effect_named(name))
    return found


def stopped_by(seen: EffectSeen) -> Flow[tuple[Slot, ...]]:
    """Slots that did not succeed because of an effect in doubt: the one that left it so, and those that met it since.
    Each goes on when it is run again. The oldest come first."""
    maker, of = seen.record.under if seen.record else None, seen.name.partition("/")[0]
    made = slot_named(of) if "@" in of else slot_of_cell(maker.run) if maker else None
    found: set[Slot] = set()
    if made is not None:
        (cell,) = (yield from load([made.cell])).cells
        run = readable(cell, decode) if cell.version else None
        found |= {made} if run and run.outcome and run.outcome.is_bad else set()
    scan: Scan | None = Scan("run/", mark=Mark.ATTENTION, limit=EFFECTS_COUNTED)
    looked = 0
    while scan is not None and looked < CELLS_SEARCHED:
        page = yield from read_page(scan)
        looked += len(page.cells)
        for cell, run in all_readable(page.cells, decode):
            if any(doubt.cell == seen.cell.key for doubt in doubts_of(run)):
                found.add(slot_of_cell(cell.key))
        scan = scan._replace(after=page.next) if page.next else None
    return tuple(sorted(found, key=lambda slot: (slot.at, slot.key)))


def of_job(name: str) -> list[EffectCells]:
    return [EffectCells(f"effect/{name}/"), EffectCells(f"{_THINGS}@/", f"run/{name}/")]


def effects(what: str | None, limit: int, *, everything: bool = False, after: str | None = None) -> Flow[EffectList]:
    """Those of what a person names, or of all, that are in doubt or in progress; with `everything`, all that is
    known."""
    if what is not None and names_effect(what):
        one = yield from effect(effect_named(what))
        return EffectList((one,) if one else ())
    wheres = yield from places(what)
    marks = (*_NOT_DONE, *([Mark.FREE, Mark.CLOSED] if everything else []))
    wanted = STATES if everything else ("in doubt", "unreadable", "in progress")
    found: dict[str, EffectSeen] = {}  # by name: one may end during the search, and be found twice
    looked = 0
    for start, where in _ways([(mark, where) for mark in marks for where in wheres], after):
        spot, mark = start, Mark(start.us)
        # of what is open, few may be wanted
        size = EFFECTS_COUNTED if mark is Mark.OPEN else min(limit + 1, EFFECTS_COUNTED)
        scan: Scan | None = Scan(where.scanned(mark), mark=mark, after=Position(0, spot.key), limit=size)
        while scan is not None:
            if looked >= CELLS_SEARCHED:
                return _listed(found, spot)
            page = yield from read_page(scan)
            looked += len(page.cells)
            for one in (yield from look_at(page.cells, page.now)):
                if one.state in wanted and where.has(one):
                    if len(found) == limit and one.name not in found:
                        return _listed(found, spot)
                    found[one.name] = one
                spot = spot._replace(key=one.cell.key)
            if page.cells:  # the last may have expired, and not be seen
                spot = spot._replace(key=page.cells[-1].key)
            scan = scan._replace(after=page.next) if page.next else None
    return _listed(found, None)


def _ways(ways: Sequence[tuple[Mark, EffectCells]], after: str | None) -> list[tuple[Position, EffectCells]]:
    """Where there is to look, one after the other, each behind a position among the cells of a mark; from `after` on,
    which comes from outside: it may be of another list."""
    starts = [(Position(int(mark), where.before(mark)), where) for mark, where in ways]
    if after is None:
        return starts
    spot = read_cursor(after, "")
    for number, (start, where) in enumerate(starts):
        if spot.us == start.us and spot.key.startswith(start.key):
            return [(spot, where), *starts[number + 1 :]]
    raise not_a_place(after)


def _listed(found: Mapping[str, EffectSeen], spot: Position | None) -> EffectList:
    """What a person should look at comes first."""
    ordered = sorted(found.values(), key=lambda one: (STATES.index(one.state), one.name))
    return EffectList(tuple(ordered), spell_cursor(spot) if spot else None)


def survey(slot: Slot, run: Record) -> Flow[EffectsSurvey]:
    """A summary of the effects of a slot: few have so many of their own that one request would not do."""
    wheres = of_slot(slot, run)
    return (yield from sparing(_survey(wheres, _OF_MARK), *(Scan(one.prefix) for one in wheres if not one.made_by)))


def _survey(wheres: Sequence[EffectCells], marks: Iterable[Mark]) -> Flow[EffectsSurvey]:
    found: dict[str, EffectSeen] = {}
    capped: set[EffectState] = set()
    for mark, where in product(marks, wheres):
        page = yield from read_page(Scan(where.scanned(mark), mark=mark, limit=EFFECTS_COUNTED))
        found |= {one.name: one for one in (yield from look_at(page.cells, page.now)) if where.has(one)}
        capped |= set(_OF_MARK[mark]) if page.next else set()
    doubtful = [one for one in found.values() if one.state == "in doubt"]
    counts = Counter(one.state for one in found.values())
    return EffectsSurvey(counts, frozenset(capped), tuple(doubtful[:DOUBTS_SHOWN]))


def doubts(wheres: Sequence[EffectCells]) -> Flow[EffectsSurvey]:
    """The same of a slot or a job, without what is done, of which there may be much."""
    return (yield from _survey(wheres, _NOT_DONE))


# --- resolving what is in doubt -------------------------------------------------------------------------------------
#
# What was begun and never ended is closed as lost first, by the same rule as anywhere: only when the process that held
# it is known to be gone. The store records it when a run is over. That a lease has expired is believed once this
# process has watched the clock for as long as the lease. Until then it is `LapsedUnwatched`.


def refuse_retry(slot: Slot, run: Record) -> Flow[None]:
    """An effect that is in doubt would stop the slot again; and one that is only paused would go on beside it."""
    if run.reason.startswith(NOBODY_KNOWS):
        found = yield from doubts(of_slot(slot, run))
        if found.doubtful:
            raise RetryRefused(_effect_first(slot, found))
    refuse_unless_gone(slot.key, unsure_of_slot(run))


def _effect_first(slot: Slot, found: EffectsSurvey) -> str:
    command = f"cronce resolve {quote(found.doubtful[0].name)}"
    others = f" (`cronce status effects {quote(slot.key)}` lists the others)" if found.counts["in doubt"] > 1 else ""
    return (
        f"{slot.key} is kept in doubt by an effect: resolve the effect first. If it happened, run `{command}"
        f" done`; if it did not, `{command} retry`{others}. Then `cronce rerun {slot.key}` continues the slot"
    )


def resolve_effect(
    operator: Operator, name: str, verdict: Verdict, reason: str = "", result: Any = None, *, force: bool = False
) -> Flow[EffectSeen]:
    """The effect afterwards: done, with this result for every repeat, or free to be begun again. A retry is refused
    while the process that held the effect may be alive, unless a person has checked (`force`)."""
    named, text = effect_named(name), json_text("a result", result)
    if verdict == "retry" and text:
        raise BadInput("--result goes with done: an effect that will be done again has no result yet")
    command = Resolve(verdict, operator.word(verdict, reason), text)
    yield from recall_once(operator.ledger)
    before = (yield from effect(named)) if verdict == "retry" and not force else None
    if before is not None and before.record is not None and (before.state == "in doubt" or before.record.resolved):
        refuse_unless_gone(named.name, (yield from unsure_of(before.record)))
    over: frozenset[Maker] = frozenset()
    for _ in range(MAX_ROUNDS):
        (reply,) = yield from operator.ledger.resolve_effects([named.cell], command, over)
        match sure(reply):
            case Held():
                over = yield from _gone_maker(operator, named)
            case Closed(outcome) if outcome.is_doubt:
                pass  # it is closed as lost now, as it had not been: resolve it once more
            case answer:
                seen = yield from effect(named)
                if seen is None or not (isinstance(answer, Queued) or _is_so(seen, command)):
                    raise _refusal(named, seen)
                return seen
    raise StoreUnavailable(f"could not resolve {named.name}: it changed {MAX_ROUNDS} times meanwhile")


def _gone_maker(operator: Operator, named: Target) -> Flow[frozenset[Maker]]:
    """The run that held it, if that run is gone. A process that holds it now is left alone."""
    seen = yield from effect(named)
    if seen is None or seen.record is None or not seen.record.is_running:
        return frozenset()  # it has changed since
    if seen.state == "in progress":
        since = f" since {spell(seen.record.started)}" if seen.record.started else ""
        raise CronceError(
            f"{named.name} is in progress: {seen.record.holder} has been working on it{since};"
            " there is nothing to resolve yet"
        )
    maker = seen.record.under
    if maker is None:
        raise LapsedUnwatched(named.name, seen.cell, seen.record.lease, operator.ledger.know)
    loaded = yield from load([maker.run])
    (cell,) = loaded.cells
    if whereabouts(cell, maker, loaded.now) == "over" or (
        yield from operator.ledger.gone([maker.run], for_person=True)
    ):
        return frozenset({maker})
    raise LapsedUnwatched(named.name, cell, decode(cell.value, cell.key).lease, operator.ledger.know)


def _is_so(seen: EffectSeen, command: Resolve) -> bool:
    """Whether the effect already is as the command wants it, by this command or by the same one before."""
    if command.verdict == "retry" or seen.record is None:
        return seen.state == "not done"
    return seen.state == "done" and seen.record.resolved and seen.record.result == command.result


def _refusal(named: Target, seen: EffectSeen | None) -> CronceError:
    if seen is None or seen.record is None:
        return NotOnRecord(f"there is no record of {named.name}; `cronce status effects` lists what is in doubt")
    if seen.state == "not done":
        return CronceError(f"{named.name} is not done; the next run will do it: there is nothing to resolve")
    when = f" at {spell(seen.record.finished)}" if seen.record.finished else ""
    if seen.record.resolved:
        when = f", {seen.record.reason},{when}"
    result = f", with the result {seen.record.result[:100]}" if seen.record.result else ""
    return CronceError(f"{named.name} was done{when}{result}: there is nothing to resolve")
