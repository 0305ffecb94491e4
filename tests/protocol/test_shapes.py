"""A shape is decided once, and what is stamped equals what is decided."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronce.model import Cell, Epoch, Fence, Instant, Mark, Origin, Slot, Traits, to_us, turn_cell
from cronce.policy import OnLost, Overlap
from cronce.protocol import shapes
from cronce.protocol.commands import Claim, Decision, Finish
from cronce.protocol.decide import decide, writes_of
from cronce.protocol.gates import GATES, paused
from cronce.protocol.lease import Sample
from cronce.protocol.record import Act, Maker, Outcome, Past, Record, State, Turn, encode_turn
from cronce.protocol.shapes import claim_shape, end_shape, kind_of
from cronce.protocol.store_clock import Doubt
from cronce.protocol.terms import Terms
from cronce.protocol.view import KnownJob, View
from cronce.runtime.ledger import Wanted
from tests.protocol.views import AT, JOB, NOW, SLOT, claimable

SECOND = timedelta(seconds=1)
DOUBT = Doubt("jumped 20s ahead", 20 * SECOND, Sample(0.0, 0.0, NOW))


def known(birth: int = 1, read: Instant = NOW, **fields: Any) -> dict[str, Any]:
    """The job is another than it was, or was read in another life, or earlier."""
    return {"known": KnownJob(Cell("job/billing", 3), JOB._replace(**fields), read, birth)}


def claimed(**fields: Any) -> View:
    """Of a slot that is guessed to have no record."""
    return claimable(**{"guessed": True, **known(), **fields})


BATCH: list[dict[str, Any]] = [
    {"halted": True},
    {"epoch": Epoch(to_us(AT + 2 * SECOND), origin=Origin.FOUND)},
    {"epoch": Epoch(1, base=9)},
    {"sample": Sample(0.0, 0.0, NOW + SECOND)},
    {"doubt": DOUBT},
    {"doubt": DOUBT._replace(off=-20 * SECOND)},
]
"""What may be otherwise for a whole batch."""

REFUSED: list[dict[str, Any]] = [
    {"known": None},
    {"known": KnownJob(Cell("job/billing"), None, NOW, 1)},
    known(birth=2),
    known(floor=AT),
    known(floor=AT + 5 * SECOND),
    known(paused=Act("ada")),
    known(firing="v2"),
    {"slot": SLOT._replace(request="rerun-1")},
]
"""What keeps a slot from being stamped."""

JOBS: list[dict[str, Any]] = [*REFUSED[:-1], known(read=NOW - SECOND), known(firing="")]
"""What may be otherwise with the job of one."""

TERMS: list[dict[str, Any]] = [
    {"start_within": 50 * SECOND},
    {"start_within": 30 * SECOND},
    {"start_within": 40 * SECOND},
    {"digest": ""},
    {"digest": "v2"},
    {"delay": SECOND},
    {"outside": True},
]
"""In what first claims may differ that are stamped alike."""

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
    {"turn": turn_cell("billing", 0)},
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
def terms(draw: st.DrawFn) -> Terms:
    overlap: Overlap = draw(st.sampled_from(["allow", "skip", "wait"]))
    on_lost: OnLost = draw(st.sampled_from(["skip", "rerun"]))
    payload = draw(st.sampled_from(["", '"turn":"blank"']))
    lease = draw(st.sampled_from([20, 30])) * SECOND
    return Terms(
        lease, on_lost, overlap, draw(st.integers(1, 3)), draw(st.integers(1, 2)), digest="v1", payload=payload
    )


@st.composite
def claims(draw: st.DrawFn) -> list[tuple[View, Wanted]]:
    """On terms that are written alike."""
    same = draw(terms())
    holds = draw(changed(claimed(), BATCH))
    asked = []
    for number in range(4):
        slot = draw(st.sampled_from([_slot(number)] * 9 + [_slot(number)._replace(request="rerun-1")]))
        wanted = Wanted(slot, draw(changed(same, TERMS)), nonce=draw(st.sampled_from([f"{number:016x}", "f" * 16])))
        around = draw(changed(holds, JOBS))
        turns = tuple(Cell(turn_cell("billing", turn)) for turn in range(same.limit))
        cell = Cell(slot.cell, at=slot.due)
        asked.append((around._replace(run=cell, slot=slot, turns=turns, guessed=True, number=number), wanted))
    return asked


def _claim(wanted: Wanted) -> Claim:
    """As the ledger makes it."""
    slot, terms, _, nonce = wanted
    first = slot.at if terms.outside else None
    return Claim(
        nonce, "web-1", terms.lease, terms.on_lost, terms.attempts, terms.start_by(slot.at), terms.payload,
        joined=terms.joined, overlap=terms.overlap, delay=terms.delay, digest=terms.digest, first=first,
    )  # fmt: skip


@settings(max_examples=200)
@given(claims(), st.sets(st.sampled_from([turn_cell("billing", number) for number in range(3)])))
def test_a_claim_that_is_stamped_equals_the_one_that_is_decided(
    asked: list[tuple[View, Wanted]], taken: set[str]
) -> None:
    shape = claim_shape(asked[0][0]._replace(reserved=taken), _claim(asked[0][1]))
    for view, wanted in asked if shape else ():
        writes = shape.stamp(wanted, view.known, taken, view.number) if shape else None
        if shape and writes is not None:
            seen, command = view._replace(reserved=taken), _claim(wanted)
            decision = decide(seen, command)
            assert isinstance(decision, Decision)
            assert decision.change is not None
            turn = decision.turn.key if decision.turn else ""
            assert (decision.answer, decision.job, decision.also) == (shape.form.answer, None, ())
            assert decision.change == shape.form.change._replace(record=shape.form.recorded(wanted.nonce, turn))
            assert writes_of(seen, command, decision) == writes


@settings(max_examples=200)
@given(st.data())
def test_an_end_that_is_stamped_equals_the_one_that_is_decided(data: st.DataObject) -> None:
    record = data.draw(changed(_running(0).record, RECORDED))
    ended = data.draw(changed(Finish(Fence(1, 7), Outcome.SUCCEEDED), FINISHED))
    first = data.draw(changed(_holding(_running(0), record), BATCH))
    shape = end_shape(first, ended)
    for number in range(1, 5) if shape else ():
        own = record._replace(nonce=f"{number:016x}", turn=turn_cell("billing", number) if record.turn else "")
        view = _holding(_running(number), own)._replace(epoch=first.epoch, sample=first.sample, number=number)
        view = view._replace(run=view.run._replace(version=data.draw(st.sampled_from([5, 9, 12]))))
        said = ended._replace(fence=data.draw(st.sampled_from([Fence(1, 7 + number), Fence(1, 2)])))
        writes = shape.stamp(said.fence, own, (view.run, *view.turns), number) if shape else None
        if shape and writes is not None:
            decision = decide(view, said)
            assert isinstance(decision, Decision)
            assert decision.change == shape.form.change._replace(record=shape.form.recorded(own.nonce, own.turn))
            assert (decision.answer, decision.also) == (shape.form.answer, ())
            assert writes_of(view, said, decision) == writes


def test_first_claims_on_the_same_terms_are_stamped_by_one_of_them() -> None:
    wanted = [Wanted(_slot(number), Terms(30 * SECOND, digest="v1"), nonce=f"{number:016x}") for number in range(1000)]
    view = claimed(turns=(Cell(turn_cell("billing", 0)),))
    shape = claim_shape(view, _claim(wanted[0]))
    assert shape is not None
    stamped = [shape.stamp(one, view.known, (), number) for number, one in enumerate(wanted)]
    assert [writes[0].key for writes in stamped if writes] == [one.cell for one in wanted]
    assert shape.stamp(wanted[0], view.known, {turn_cell("billing", 0)}, 0) is None


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_what_does_not_pass_the_comparisons_is_decided(change: dict[str, Any]) -> None:
    wanted = Wanted(_slot(0), Terms(30 * SECOND, digest="v1"), nonce="0")
    shape = claim_shape(claimed(), _claim(wanted))
    assert shape is not None
    other = claimed()._replace(**change)
    assert other.slot is not None
    assert shape.stamp(wanted._replace(slot=other.slot), other.known, (), 0) is None


FORGOT = Epoch(to_us(AT - 600 * SECOND), origin=Origin.FOUND)


@pytest.mark.parametrize("around", [{"epoch": FORGOT}, {"halted": True}, {"doubt": DOUBT}], ids=str)
def test_nothing_is_stamped_for_a_store_that_forgot_or_is_doubted_nor_while_all_is_paused(
    around: dict[str, Any],
) -> None:
    claim = _claim(Wanted(_slot(0), Terms(30 * SECOND, digest="v1"), nonce="0"))
    assert claim_shape(claimed(), claim) is not None
    assert claim_shape(claimed(**around), claim) is None


def test_what_holds_for_a_batch_is_in_the_view_of_each_and_the_rest_stays() -> None:
    """All but the run, its turns, and what is said of them."""
    around = View(
        Cell(""), None, Sample(0.0, 0.0, NOW), halted=True, epoch=FORGOT, traits=Traits("other"),
        even=lambda *_: SECOND, heard=lambda *_: SECOND, reserved={"turn"}, beside={"run": True}, doubt=DOUBT,
        ended={"run"},
    )  # fmt: skip
    view = _running(1)._replace(over=(Maker("run/a", Fence(1, 1)),), unheard_in=3)
    within = view.within(around, None, 7)
    same = {name for name in View._fields if getattr(within, name) == getattr(view, name)}
    assert same == {"run", "record", "sample", "slot", "turns", "over", "guessed", "unheard_in"}
    others = {*View._fields} - same - {"known", "number"}
    assert {name for name in others if getattr(within, name) is not getattr(around, name)} == set()
    assert (within.known, within.number) == (None, 7)


def test_a_gate_that_the_comparisons_do_not_stand_for_keeps_all_from_being_stamped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shapes, "GATES", (*GATES, paused))
    wanted = Wanted(_slot(0), Terms(30 * SECOND, digest="v1"), nonce="0")
    assert claim_shape(claimed(), _claim(wanted)) is None


def test_what_is_tried_again_names_its_own_fence_and_is_not_stamped() -> None:
    view = _running(1)
    again = view._replace(record=view.stands._replace(attempts=3))
    assert end_shape(again, Finish(Fence(1, 8), Outcome.FAILED, "no answer")) is None
    assert end_shape(view, Finish(Fence(1, 8), Outcome.FAILED, "no answer")) is not None


def test_runs_are_of_one_kind_while_they_are_as_one_form_stamped_them_and_by_what_they_are_from_then_on() -> None:
    shape = claim_shape(claimed(), _claim(Wanted(SLOT, Terms(timedelta(minutes=5)), nonce="mine")))
    assert shape is not None
    mine, yours = (shape.form.recorded(nonce, turn_cell("billing", 0)) for nonce in ("mine", "yours"))
    assert kind_of(mine) == kind_of(yours)
    further = mine._replace(progress=(1, 2))
    assert kind_of(further) != kind_of(mine)
    assert kind_of(further) == kind_of(Record(*further)) == kind_of(yours._replace(progress=(1, 2)))
    assert kind_of(further) != kind_of(further._replace(turn=""))


def test_the_end_of_a_run_of_an_earlier_life_is_not_stamped() -> None:
    shape = end_shape(_running(1), Finish(Fence(1, 8), Outcome.SUCCEEDED))
    assert shape is not None
    earlier = _running(2).run._replace(version=0)
    assert shape.stamp(Fence(1, 9), _running(2).stands, (earlier,), 0) is None


def _slot(number: int) -> Slot:
    return Slot("billing", AT + number * SECOND)


def _running(number: int) -> View:
    started = Record(State.RUNNING, 1, f"{number:016x}", "web-1", 30 * SECOND, started=NOW)
    slot = _slot(number)
    run = Cell(slot.cell, 9, "", slot.at, Mark.OPEN, Fence(1, 7 + number), NOW + 30 * SECOND)
    return claimable(slot=slot, run=run, record=started)


def _holding(view: View, record: Record) -> View:
    """The run has the turn that its record names."""
    turn = Cell(record.turn, 4, encode_turn(Turn(view.run.key)), mark=Mark.OPEN, until=NOW + SECOND)
    return view._replace(record=record, turns=(turn,) if record.turn else ())
