"""Flows: each request of theirs is one call of the store, and its answer or its failure comes back to where it was
asked."""

import pytest

from cronce.errors import StoreUnavailable
from cronce.model import EPOCH, FREE, Cell, Mark, Write
from cronce.runtime.flow import Flow, Load, Purge, Swap, drive, perform
from cronce.stores.base import Loaded, Page, Scan, Swapped
from tests.runtime.shelf import HandClock, Wire


def test_each_request_is_one_call_of_the_store(store: Wire) -> None:
    assert isinstance(perform(store, Load(["a"])), Loaded)
    assert isinstance(perform(store, Swap([Write("a", FREE, "", Mark.FREE)], store.load([]).epoch.seen)), Swapped)
    assert isinstance(perform(store, Scan("a")), Page)
    assert perform(store, Purge([])) == 0
    assert store.calls == ["load", "load", "swap"]  # of the others none is counted here


def test_an_answer_comes_with_when_its_call_began_and_ended(store: Wire, clock: HandClock) -> None:
    def flow() -> Flow[tuple[float, float]]:
        timed = yield Load([])
        return timed.began, timed.ended

    clock.turn(7)
    assert drive(flow(), store, clock) == (clock.boot(), clock.boot())


def test_a_call_without_an_answer_is_raised_in_the_flow_which_may_ask_again(store: Wire, clock: HandClock) -> None:
    def flow() -> Flow[str]:
        try:
            yield Load(["a"])
        except StoreUnavailable:
            yield Load(["a"])
            return "asked again"
        return "answered"

    store.lose_next("load", "before", 1)
    assert drive(flow(), store, clock) == "asked again"


def test_what_a_flow_raises_itself_is_its_callers(store: Wire, clock: HandClock) -> None:
    def flow() -> Flow[None]:
        yield Load([])
        raise LookupError(Cell("a", at=EPOCH).key)

    with pytest.raises(LookupError, match="a"):
        drive(flow(), store, clock)
