"""A store and clocks that a test turns by hand, and processes at them: for every test that asks for them."""

import pytest

from tests.runtime.office import Office
from tests.runtime.shelf import HandClock, HandNode, Wire


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> Wire:
    return Wire(clock)


@pytest.fixture
def node(store: Wire) -> HandNode:
    return HandNode(store)


@pytest.fixture
def other(store: Wire) -> HandNode:
    return HandNode(store, "web-2")


@pytest.fixture
def office(store: Wire) -> Office:
    return Office(store)


@pytest.fixture
def patient_farewell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is noted down is all on record after `close`, also where the machine is busy for seconds."""
    monkeypatch.setattr("cronce.runtime.background.WRITER_CLOSE_WAIT", 60.0)
    monkeypatch.setattr("cronce.runtime.keeper.KEEPER_CLOSE_WAIT", 60.0)
