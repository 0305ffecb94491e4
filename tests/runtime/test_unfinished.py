"""What a run remembers of effects that were asked for and are not done."""

from contextlib import suppress
from typing import Any

import pytest

from cronce.errors import BadInput, InProgress
from cronce.model import Slot
from cronce.protocol.record import Outcome
from cronce.runtime.run import Run
from cronce.runtime.unfinished import REFUSED, DoneAllTheSame, Unfinished, remembered
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
    assert asked.unfinished == {REFUSED: error}


def test_arguments_that_do_not_fit_are_a_refusal() -> None:
    asked: Any = Asked()
    with pytest.raises(TypeError):
        asked.ask(1, 2, 3)
    assert REFUSED in asked.unfinished


def test_what_is_done_or_known_by_name_or_no_word_about_the_call_is_no_refusal() -> None:
    asked, known = Asked(), BadInput("of the function itself")
    asked.unfinished["charge/invoice:7"] = known
    for error in (known, DoneAllTheSame("its result cannot be kept"), OSError("no answer")):
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
