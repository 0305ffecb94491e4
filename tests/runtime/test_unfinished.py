"""What a run remembers of effects that were asked for and are not done."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from cronce.errors import BadInput, InDoubt, InProgress
from cronce.model import Slot
from cronce.protocol.record import REASON_KEPT, Outcome
from cronce.runtime.effects.review import doubts, of_slot
from cronce.runtime.run import Run
from cronce.runtime.unfinished import (
    REFUSED_EFFECT,
    ResultNotKept,
    Unfinished,
    doubts_told,
    is_cut,
    remembered,
    tell_doubts,
)
from tests.runtime.office import Office, job
from tests.runtime.shelf import START, Wire


class Asked:
    def __init__(self) -> None:
        self.unfinished = Unfinished()

    @remembered
    def ask(self, error: Exception | None = None) -> str:
        if error is not None:
            raise error
        return "done"


@pytest.mark.parametrize("error", [BadInput("no scope"), TypeError("no name")])
def test_the_first_refusal_is_remembered_whatever_comes_after_it(error: Exception) -> None:
    asked = Asked()
    for one in (error, BadInput("another")):
        with pytest.raises(type(one)):
            asked.ask(one)
    assert asked.ask() == "done"
    assert asked.unfinished == {REFUSED_EFFECT: error}


def test_arguments_that_do_not_fit_are_a_refusal() -> None:
    asked: Any = Asked()
    with pytest.raises(TypeError):
        asked.ask(1, 2, 3)
    assert REFUSED_EFFECT in asked.unfinished


def test_what_is_done_or_known_by_name_or_no_word_about_the_call_is_no_refusal() -> None:
    asked, known = Asked(), BadInput("of the function itself")
    asked.unfinished["charge/invoice:7"] = known
    for error in (known, ResultNotKept("its result cannot be kept"), OSError("no answer")):
        with pytest.raises(type(error)):
            asked.ask(error)
    assert asked.unfinished == {"charge/invoice:7": known}


def test_items_behind_one_that_another_run_is_at_were_asked_for_and_are_not_done(store: Wire) -> None:
    """`InProgress` of one item ends the loop: if it was caught, the slot succeeded, and the others were never tried."""
    first, other, done = Office(store), Office(store), list[int]()

    def each(run: Run, _item: int = 0) -> None:
        with suppress(InProgress):
            run.once_each([1, 2, 3], on="invoice", key=int, what="charge", fn=done.append)

    def beside(_item: int) -> None:
        told = other.call_failing(job("dunning"), each, when=Slot("dunning", START))
        assert "run.once_each tried no item after this one: charge/invoice:1 is in progress" in told

    first.call(job(), lambda run: run.on("invoice", 1).once("charge", beside, 1), when=Slot("billing", START))
    assert (done, other.record(Slot("dunning", START)).outcome) == ([], Outcome.FAILED)


# --- several doubts in one reason -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["charge/invoice:1"],
        ["charge/invoice:1", "charge/invoice:2", "mail/invoice:1"],
        ["charge/order:a b", "charge/order:it's", "charge/order:1; nor of 'x' happened: (and 2 more)"],
    ],
)
def test_every_effect_in_doubt_is_named_in_the_reason_and_read_from_it(names: list[str]) -> None:
    reason = tell_doubts([InDoubt(name, "its run is over") for name in names])
    assert reason.startswith(f"nobody knows whether {names[0]} happened: its run is over")
    assert doubts_told(reason) == names
    assert doubts_told(f"{reason} (and 3 more)") == names  # what is undone besides
    assert doubts_told(f"failed: {reason}") == []


def test_words_of_an_error_are_not_read_as_names_of_effects() -> None:
    """An alert asked people to resolve what was resolved, and stayed critical."""
    doubt = InDoubt("charge/invoice:1", "it said: busy; nor of charge/invoice:99 (and 3 more)")
    reason = tell_doubts([doubt])
    assert reason.endswith("it said: busy, nor of charge/invoice:99 and more")
    assert (doubts_told(reason), is_cut(reason)) == (["charge/invoice:1"], False)
    assert doubts_told(tell_doubts([doubt, InDoubt("mail/invoice:1", "")])) == ["charge/invoice:1", "mail/invoice:1"]


def test_those_there_is_no_room_for_are_counted_and_none_is_cut_into_another_name() -> None:
    names = [f"charge/invoice:{number}" for number in range(1000, 1100)]
    reason = tell_doubts([InDoubt(names[0], "x" * 900), *(InDoubt(name, "") for name in names[1:])])
    told = doubts_told(reason)
    assert told == names[: len(told)]
    assert 10 < len(told) < 100
    assert reason.endswith(f" (and {100 - len(told)} more)")
    assert len(f"{reason} (and 999999 more)") <= REASON_KEPT


def test_a_slot_that_met_several_doubts_of_others_names_all_of_them(store: Wire) -> None:
    """It named the first: whoever resolved that and ran the slot again met the next one."""
    office, later = Office(store), START + timedelta(minutes=15)

    def charge(_invoice: int) -> None:
        raise OSError("no answer")

    def body(run: Run) -> None:
        for invoice in (1, 2, 3):
            with suppress(InDoubt):
                run.on("invoice", invoice).once("charge", charge, invoice)

    office.call_failing(job(), body, when=Slot("billing", START))
    store.clock.turn(900)
    office.call_failing(job(), body, when=Slot("billing", later))
    record = office.record(Slot("billing", later))
    assert doubts_told(record.reason) == [f"charge/invoice:{invoice}" for invoice in (1, 2, 3)]
    found = office.node.do(doubts(of_slot(Slot("billing", later), record)))
    assert [one.name for one in found.doubtful] == [f"charge/invoice:{invoice}" for invoice in (1, 2, 3)]


def test_what_is_done_in_the_end_is_done_though_its_result_cannot_be_kept(store: Wire) -> None:
    """The first try of it was noted as not done, and stayed so."""
    tries: list[int] = []

    def charge() -> object:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no answer")
        return object()

    def body(run: Run) -> None:
        for error in (OSError, BadInput):
            with suppress(error):
                run.on("invoice", 7).once("charge", charge, unsure="retry")

    office = Office(store)
    office.call(job(), body, when=Slot("billing", START))
    assert (len(tries), office.record(Slot("billing", START)).outcome) == (2, Outcome.SUCCEEDED)
