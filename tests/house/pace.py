"""What thousands of tests would each pay for: folders that are found by a search, and a heap that is walked again."""

import gc
import itertools
import re
from collections.abc import Generator
from pathlib import Path

import pytest

_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, which lists all folders of the run each time in order to find a number that is free."""
    name = re.sub(r"\W", "_", request.node.name)[:26]
    return tmp_path_factory.mktemp(f"{name}{next(_numbers)}", numbered=False)


@pytest.fixture(scope="module")
def settled_heap() -> None:
    """For modules whose tests have garbage collected many times: what other tests loaded since is walked once more."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded here stays: the collector neither walks it while it grows nor ever again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
