"""Readers: one over an empty store, and one over a fleet that many tests share."""

import pytest

from bench.fleet import fill
from tests.monitor.reader import FLEET, Reader


@pytest.fixture
def read() -> Reader:
    return Reader()


@pytest.fixture(scope="module")
def fleet() -> Reader:
    made = Reader()
    assert fill(made.store, FLEET) == 30 * 2 + 300 + 20 + 200 + 30 + 1 + 3
    return made
