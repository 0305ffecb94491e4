"""A shape is decided once, and what is stamped equals what is decided."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronce.model import Cell, Epoch, Fence, Mark, Origin, Slot, to_us, turn_cell
from cronce.protocol import decide as decide_module
from cronce.protocol import shapes
from cronce.protocol.commands import Claim, Command, Finish, Granted, Paused
from cronce.protocol.decide import Decision, decide, writes_of
from cronce.protocol.gates import GATES, Need
from cronce.protocol.lease import Sample
from cronce.protocol.record import Act, Outcome, Past, Record, State, Turn, encode_turn
from cronce.protocol.shapes import Shapes
from cronce.protocol.view import KnownJob, View
from tests.protocol.views import AT, JOB, NOW, SLOT, claimable

SECOND = timedelta(seconds=1)
GONE = "run/billing/2026-03-29T00:00:00Z"
FREE, OTHER = Cell(turn_cell("billing", 0)), Cell(turn_cell("billing", 1))
BUSY = FREE._replace(version=4, value=encode_turn(Turn(GONE)), mark=Mark.OPEN, until=NOW + SECOND)


def job(**fields: Any) -> dict[str, Any]:
    """The job is another than it was."""
    return {"known": KnownJob(Cell("job/billing", 3), JOB._replace(**fields), NOW)}


AROUND: list[dict[str, Any]] = [
    {"slot": None},
    {"slot": SLOT._replace(request="rerun-1")},
    {"known": None},
    {"known": KnownJob(Cell("job/billing"), None, NOW)},
    {"known": KnownJob(Cell("job/billing", 3), JOB, NOW - SECOND)},
    job(floor=AT),
    job(floor=AT + 5 * SECOND),
    job(paused=Act("ada")),
    job(firing=""),
    job(firing="v2"),
    {"halted": True},
    {"epoch": Epoch(to_us(AT + 2 * SECOND), origin=Origin.FOUND)},
    {"epoch": Epoch(1, base=9)},
    {"epoch": Epoch(1, base=9), **job(floor=AT + 60 * SECOND)},
    {"sample": Sample(0.0, 0.0, NOW + SECOND)},
    {"guessed": False},
    {"turns": (FREE,)},
    {"turns": (BUSY,)},
    {"turns": (FREE, OTHER)},
    {"turns": (FREE, OTHER), "reserved": {OTHER.key}},
    {"turns": (FREE,), "reserved": {FREE.key}},
    {"turns": (BUSY,), "beside": {GONE: True}},
]
"""What may be otherwise with a slot that could be granted, or a run that could be ended."""

CLAIMED: list[dict[str, Any]] = [
    {"nonce": "0000000100000000"},
    {"holder": "blank"},
    {"lease": 20 * SECOND},
    {"on_lost": "rerun"},
    {"attempts": 3},
    {"start_by": NOW - SECOND},
    {"start_by": NOW + SECOND},
    {"payload": '"turn":"blank"'},
    {"joined": True},
    {"overlap": "wait"},
    {"delay": SECOND},
    {"digest": ""},
    {"digest": "v2"},
    {"first": AT},
]
FINISHED: list[dict[str, Any]] = [
    {"fence": Fence(1, 2)},
    {"outcome": Outcome.FAILED},
    {"outcome": Outcome.UNKNOWN},
    {"reason": '"nonce":"blank"'},
    {"backoff": SECOND},
    {"cut_short": True},
    {"output": "Grüße"},
    {"final": True},
]
RECORDED: list[dict[str, Any]] = [
    {"state": State.DUE},
    {"state": State.CLOSED, "outcome": Outcome.SUCCEEDED},
    {"nonce": "0000000100000000"},
    {"holder": "blank"},
    {"on_lost": "rerun"},
    {"attempts": 3},
    {"turn": FREE.key},
    {"turn": OTHER.key},
    {"ask": "ada"},
    {"started": AT},
    {"payload": '"turn":"blank"'},
    {"keep": SECOND},
    {"past": (Past(Fence(1, 1), "web-2", AT, "lapsed", AT),)},
]


@st.composite
def changed(draw: st.DrawFn, one: Any, changes: list[dict[str, Any]]) -> Any:
    """The same, but for a thing or two."""
    for change in draw(st.lists(st.sampled_from(changes), max_size=2)):
        one = one._replace(**change)
    return one


@st.composite
def asked_to_claim(draw: st.DrawFn, number: int) -> tuple[View, Command]:
    view = draw(changed(_view(number)._replace(number=number), AROUND))
    if draw(st.sampled_from([False] * 9 + [True])):
        view = view._replace(run=_running(number).run, record=_running(number).record)
    return view, draw(changed(_claim(number), CLAIMED))


@st.composite
def asked_to_finish(draw: st.DrawFn, number: int) -> tuple[View, Command]:
    view = draw(changed(_running(number)._replace(number=number), AROUND))
    record = draw(changed(view.record, RECORDED))
    return view._replace(record=record), draw(changed(Finish(Fence(1, 7 + number), Outcome.SUCCEEDED), FINISHED))


@st.composite
def questions(draw: st.DrawFn) -> list[tuple[View, Command]]:
    return [draw(draw(st.sampled_from([asked_to_claim, asked_to_finish]))(number)) for number in range(6)]


def _one_by_one(view: View, command: Command) -> tuple[Any, Any]:
    decision = decide(view, command)
    return decision, [] if isinstance(decision, Need) else writes_of(view, command, decision)


@settings(max_examples=400)
@given(questions())
def test_what_is_stamped_equals_what_is_decided(asked: list[tuple[View, Command]]) -> None:
    batch = Shapes()
    for view, command in asked:
        assert batch.decide(view, command) == _one_by_one(view, command)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """The commands that were decided, and not stamped."""
    found: list[Command] = []

    def counted(view: View, command: Command) -> Decision | Need:
        found.append(command)
        return decide(view, command)

    monkeypatch.setattr(shapes, "decide", counted)
    return found


def test_a_thousand_first_claims_are_one_decision(decided: list[Command]) -> None:
    batch = Shapes()
    grants = [batch.decide(_view(number), _claim(number)) for number in range(1000)]
    assert len(decided) == 1
    assert {decision.answer for decision, _ in grants if isinstance(decision, Decision)} == {Granted(1)}
    assert [write.key for _, writes in grants for write in writes] == [_slot(number).cell for number in range(1000)]


def test_a_shape_is_decided_again_for_other_terms_and_at_another_time(decided: list[Command]) -> None:
    batch = Shapes()
    batch.decide(_view(1), _claim(1))
    batch.decide(_view(2), _claim(2)._replace(lease=20 * SECOND))
    batch.decide(_view(3)._replace(sample=Sample(0.0, 0.0, NOW + SECOND)), _claim(3))
    assert len(decided) == 3


def test_what_is_tried_again_names_its_own_fence() -> None:
    batch = Shapes()
    for number in (1, 2):
        view = _running(number)
        again = view._replace(record=view.stands._replace(attempts=3))
        failed = Finish(Fence(1, 7 + number), Outcome.FAILED, "no answer")
        assert batch.decide(again, failed) == _one_by_one(again, failed)


def test_the_end_of_a_run_of_an_earlier_life_is_not_stamped() -> None:
    batch = Shapes()
    earlier = _running(2)._replace(epoch=Epoch(1, base=9), **job(floor=AT + 60 * SECOND))
    for number, view in ((1, _running(1)), (2, earlier)):
        ended = Finish(Fence(1, 7 + number), Outcome.SUCCEEDED)
        assert batch.decide(view, ended) == _one_by_one(view, ended)


def test_a_gate_that_looks_at_the_slot_is_obeyed_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd_seconds(view: View, _command: Command) -> Paused | None:
        return Paused() if view.slot and view.slot.at.second % 2 else None

    for module in (decide_module, shapes):
        monkeypatch.setattr(module, "GATES", (*GATES, odd_seconds))
    batch = Shapes()
    decisions = [batch.decide(_view(number), _claim(number))[0] for number in range(4)]
    assert [one.answer for one in decisions if isinstance(one, Decision)] == [Granted(1), Paused()] * 2


def _slot(number: int) -> Slot:
    return Slot("billing", AT + number * SECOND)


def _view(number: int) -> View:
    slot = _slot(number)
    return claimable(slot=slot, run=Cell(slot.cell, at=slot.at), guessed=True)


def _running(number: int) -> View:
    started = Record(State.RUNNING, 1, f"{number:016x}", "web-1", 30 * SECOND, started=NOW)
    slot = _slot(number)
    run = Cell(slot.cell, 9, "", slot.at, Mark.OPEN, Fence(1, 7 + number), NOW + 30 * SECOND)
    return claimable(slot=slot, run=run, record=started)


def _claim(number: int) -> Claim:
    return Claim(f"{number:016x}", "web-1", 30 * SECOND, "skip", digest="v1")
