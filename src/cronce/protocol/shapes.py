"""A shape is decided once. Pure.

A thousand first claims on the same terms differ only in their slots and nonces, and `decide` looks at those in a few
comparisons: is the job paused, which version fires it, is the slot above the floor and in time. So one of them is
decided, and the others are *stamped*: each passes the same comparisons, and its slot, nonce and turn are put into the
first one's decision. The text of the record is encoded once, with two blanks. The ends of runs are stamped in the same
way.

A claim or an end that does not pass is decided as usual. A stamped result equals the decided one, including its writes:
a test compares the two over generated cases.
"""

from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Final

from cronce.model import ABSENT, FREE, Cell, Fence, Instant, Mark, Write, turn_cell
from cronce.protocol.codec import quoted
from cronce.protocol.commands import Answer, Change, Claim, Decision, Finish, Finished
from cronce.protocol.decide import decide
from cronce.protocol.gates import GATES, asked_before_forgetting, paused, superseded, unasked
from cronce.protocol.lease import FACTS_AGE
from cronce.protocol.record import FREED, Record, Turn, encode, encode_turn
from cronce.protocol.terms import Wants
from cronce.protocol.view import KnownJob, View
from cronce.value import NamedTuple

_COMPARED_GATES: Final = (asked_before_forgetting, paused, superseded, unasked)
"""The gates that the comparisons replace. If another gate is added, nothing is stamped."""

_NONCE_INDEX: Final = Record._fields.index("nonce")
_TURN: Final = Record._fields.index("turn")
_BLANK: Final = "blank"

_write: Final[Callable[[tuple[object, ...]], Write]] = partial(tuple.__new__, Write)
"""Builds a write from a tuple of all its fields, without a function in between: there are four writes for each slot."""


class _Form(NamedTuple):
    """The decision for one of many. The record and its text are split into parts; the varying fields go in between."""

    answer: Answer
    change: Change
    record: tuple[tuple[object, ...], ...]
    texts: tuple[str, ...]

    def recorded(self, nonce: str, turn: str) -> Record:
        before, between, after = self.record
        record = tuple.__new__(Stamped, (*before, nonce, *between, turn, *after))
        record.form = self
        return record

    def text(self, nonce: str, turn: str) -> str:
        if not turn:
            before, after = self.texts
            return f'{before}"nonce":{quoted(nonce)}{after}'
        before, between, after = self.texts
        return f'{before}"nonce":{quoted(nonce)}{between}"turn":{quoted(turn)}{after}'


class Stamped(Record):
    """A stamped record and its form. A changed copy has no form."""

    form: _Form | None = None


def _form(answer: Answer, change: Change) -> _Form:
    """Nothing else in the text looks like the blanks: there is one of each field, and within a text quotes are
    escaped."""
    record = change.record
    text = encode(record._replace(nonce=_BLANK, turn=_BLANK if record.turn else ""))
    before, rest = text.split(f'"nonce":"{_BLANK}"')
    texts = (before, *rest.split(f'"turn":"{_BLANK}"'))
    return _Form(answer, change, alike(record), texts)


def alike(record: Record) -> tuple[tuple[object, ...], ...]:
    """A record without its stamped fields: nonce and turn."""
    return record[:_NONCE_INDEX], record[_NONCE_INDEX + 1 : _TURN], record[_TURN + 1 :]


def kind_of(record: Record) -> Hashable:
    """Records of one kind are alike, and have a turn or have none: those of one form, and those that compare so."""
    form = record.form if type(record) is Stamped else None
    return (bool(record.turn), *alike(record)) if form is None else id(form)


class ClaimShape(NamedTuple):
    """The result of first claims on the same terms, at one moment in one life of the store."""

    form: _Form
    now: Instant
    birth: int
    turns: int

    def stamp(self, want: Wants, known: KnownJob | None, taken: Collection[str], number: int) -> list[Write] | None:
        """The writes that grant it; None: it must be decided. `taken` are turns of other claims in the batch."""
        slot, terms, key, nonce = want.slot, want.terms, want.cell, want.nonce
        if known is None or known.birth != self.birth or known.job is None or slot.request:
            return None
        job, at, digest = known.job, slot.at, terms.digest
        if job.paused or at <= job.floor or (digest and job.firing and job.firing != digest):
            return None
        lands_by, start_by = known.read + FACTS_AGE, terms.start_by(at)
        if start_by is not None:
            if self.now > start_by:
                return None
            lands_by = start_by if start_by < lands_by else lands_by
        (_, mark, ttl, grant), begins = self.form.change, at + terms.delay if terms.delay else at
        if not self.turns:
            return [_write((key, ABSENT, self.form.text(nonce, ""), mark, at, grant, ttl, begins, lands_by, None))]
        turn = turn_cell(slot.job, int(nonce[:8] or "0", 16) % self.turns if self.turns > 1 else 0)
        if turn in taken:
            return None
        return [
            _write((key, ABSENT, self.form.text(nonce, turn), mark, at, grant, ttl, begins, lands_by, number)),
            _write((turn, FREE, encode_turn(Turn(key)), Mark.OPEN, None, False, ttl, None, None, number)),
        ]


def claim_shape(view: View, command: Claim) -> ClaimShape | None:
    """Built from one of the claims; None: such claims are not stamped."""
    if GATES != _COMPARED_GATES or view.halted or view.epoch.forgot or view.record is not None:
        return None
    if view.known is None or view.known.job is None or view.slot is None or view.slot.request:
        return None
    decision = decide(view, command)
    if not isinstance(decision, Decision) or decision.change is None or not decision.change.grant:
        return None
    turns = len(view.turns) if decision.turn else 0
    return ClaimShape(_form(decision.answer, decision.change), view.now, view.epoch.birth, turns)


class EndShape(NamedTuple):
    """The result of ends of runs that were granted alike, at one moment."""

    form: _Form
    base: int

    def stamp(self, fence: Fence, record: Record, cells: tuple[Cell, ...], number: int) -> list[Write] | None:
        """The writes that end the run; None: it must be decided."""
        run, turn = cells[0], cells[1] if len(cells) > 1 else None
        if run.fence != fence or run.version <= self.base or (turn.key if turn else "") != record.turn:
            return None
        (_, mark, ttl, _), text = self.form.change, self.form.text(record.nonce, record.turn)
        if turn is None:
            return [_write((run.key, run.version, text, mark, run.at, False, ttl, None, None, None))]
        seen = FREE if turn.version == ABSENT or turn.mark is Mark.FREE else turn.version
        return [
            _write((run.key, run.version, text, mark, run.at, False, ttl, None, None, number)),
            _write((turn.key, seen, FREED, Mark.FREE, None, False, ttl, None, None, number)),
        ]


def end_shape(view: View, command: Finish) -> EndShape | None:
    """Built from one of the ends; None: such ends are not stamped. A retried run has its last grant in its record."""
    if view.slot is None or view.slot.request or view.record is None or not view.record.is_running:
        return None
    if view.doubt is not None or view.record.keep is not None:  # the store's clock dates it
        return None
    decision = decide(view, command)
    if not isinstance(decision, Decision) or decision.change is None or decision.answer != Finished(command.outcome):
        return None
    return EndShape(_form(decision.answer, decision.change), view.epoch.base)
