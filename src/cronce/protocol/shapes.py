"""A shape is decided once. Pure.

A thousand first claims on the same terms differ in their slots and nonces, and `decide` looks at those by a few
comparisons only. So the first claim of a shape is decided, and the others are *stamped*: each passes the same gates and
stands in the same row of the table, and its slot, nonce and turn are put into what was decided for the first. The text
of the record is encoded once, with two blanks. The ends of runs are stamped in the same way.

A claim or an end that does not pass is decided as always. A stamped decision equals the decided one, writes and all: a
test compares the two for whatever it can think of.
"""

from collections.abc import Hashable
from operator import itemgetter
from typing import Final

from cronce.model import Cell, Instant, Write
from cronce.protocol.codec import quoted
from cronce.protocol.commands import Answer, Change, Claim, Command, Finish, Finished
from cronce.protocol.decide import Decision, decide, not_after, not_before, turn_write, writes_of
from cronce.protocol.gates import GATES, Need, free_turn
from cronce.protocol.record import Record, encode
from cronce.protocol.table import Row, row
from cronce.protocol.view import View
from cronce.value import NamedTuple

_NONCE: Final = Record._fields.index("nonce")
_TURN: Final = Record._fields.index("turn")
_BLANK: Final = "blank"

_STAMPED: Final = {"nonce", "start_by", "overlap", "delay", "digest", "first"}
"""What of a claim is in no record: it is compared, or decides when the write may land."""

_WRITTEN: Final = itemgetter(*[place for place, field in enumerate(Claim._fields) if field not in _STAMPED])

_Lands = tuple[Instant | None, Instant | None]
"""Not before, and not after."""

_ANY_TIME: Final = (None, None)


class _Shape(NamedTuple):
    """What was decided, and the text of its record before, between and after the blanks."""

    answer: Answer
    change: Change
    texts: tuple[str, ...]


class Shapes:
    """The shapes of one batch, by all that a decision rests on but for what is stamped."""

    def __init__(self) -> None:
        self._shapes: dict[Hashable, _Shape] = {}

    def decide(self, view: View, command: Command) -> tuple[Decision | Need, list[Write]]:
        """What `decide` says, and the writes that make the answer true."""
        if isinstance(command, Claim) and _is_granted(view, command):
            turn = free_turn(view, command) if view.turns else None
            if turn is not None or not view.turns:
                return self._claimed(view, command, turn)
        elif isinstance(command, Finish) and _is_own(view, command):
            record = view.stands
            turn = next((turn for turn in view.turns if turn.key == record.turn), None)
            if turn is not None or not record.turn:
                return self._finished(view, command, turn)
        return _decided(view, command)

    def _claimed(self, view: View, command: Claim, turn: Cell | None) -> tuple[Decision | Need, list[Write]]:
        key = (turn is None, view.now, *_WRITTEN(command))
        shape = self._shapes.get(key)
        if shape is None:
            return self._first_of(key, view, command)
        lands = not_before(view, command, shape.change), not_after(view, command, shape.change)
        return _stamped(shape, view, command.nonce, turn, lands)

    def _finished(self, view: View, command: Finish, turn: Cell | None) -> tuple[Decision | Need, list[Write]]:
        record = view.stands
        key = (view.now, record[:_NONCE], record[_NONCE + 1 : _TURN], record[_TURN + 1 :], turn is None, *command[1:])
        shape = self._shapes.get(key)
        if shape is None:
            return self._first_of(key, view, command)
        return _stamped(shape, view, record.nonce, turn, _ANY_TIME)

    def _first_of(self, key: Hashable, view: View, command: Command) -> tuple[Decision | Need, list[Write]]:
        decision, writes = _decided(view, command)
        if isinstance(decision, Decision) and decision.change is not None and not _names_its_fence(decision.answer):
            self._shapes[key] = _Shape(decision.answer, decision.change, _texts(decision.change.record))
        return decision, writes


def _decided(view: View, command: Command) -> tuple[Decision | Need, list[Write]]:
    decision = decide(view, command)
    return decision, [] if isinstance(decision, Need) else writes_of(view, command, decision)


# --- the comparisons --------------------------------------------------------------------------------------------------


def _is_granted(view: View, command: Claim) -> bool:
    """Whether a slot that has no record is granted, but for a turn."""
    if view.slot is None or view.slot.request or view.known is None or view.known.job is None or view.epoch.forgot:
        return False
    if any(gate(view, command) is not None for gate in GATES) or row(view, command) is not Row.NOTHING:
        return False
    return command.start_by is None or view.now <= command.start_by


def _is_own(view: View, command: Finish) -> bool:
    """Whether it is said by the holder of a run that a schedule started, in the life of the store that granted it."""
    run, record, slot = view.run, view.record, view.slot
    if record is None or not record.is_running or slot is None or slot.request or record.keep is not None:
        return False
    return run.fence == command.fence and run.version > view.epoch.base


def _names_its_fence(answer: Answer) -> bool:
    """What is tried again has its last grant in its record."""
    return isinstance(answer, Finished) and answer.retrying


# --- stamping ---------------------------------------------------------------------------------------------------------


def _texts(record: Record) -> tuple[str, ...]:
    """Nothing else in the text looks like this: there is one of each field, and within a text quotes are escaped."""
    text = encode(record._replace(nonce=_BLANK, turn=_BLANK if record.turn else ""))
    before, rest = text.split(f'"nonce":"{_BLANK}"')
    return before, *rest.split(f'"turn":"{_BLANK}"')


def _stamped(shape: _Shape, view: View, nonce: str, turn: Cell | None, lands: _Lands) -> tuple[Decision, list[Write]]:
    (old, mark, ttl, grant), run = shape.change, view.run
    if turn is None:
        before, after = shape.texts
        text = f'{before}"nonce":{quoted(nonce)}{after}'
        write = Write(run.key, run.version, text, mark, run.at, grant, ttl, *lands)
        return Decision(shape.answer, Change(old._replace(nonce=nonce), mark, ttl, grant)), [write]
    before, between, after = shape.texts
    text = f'{before}"nonce":{quoted(nonce)}{between}"turn":{quoted(turn.key)}{after}'
    change = Change(old._replace(nonce=nonce, turn=turn.key), mark, ttl, grant)
    write = Write(run.key, run.version, text, mark, run.at, grant, ttl, *lands, view.number)
    return Decision(shape.answer, change, turn), [write, turn_write(view, turn, change)]
