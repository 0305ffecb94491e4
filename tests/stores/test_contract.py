"""The contract finds out a store that breaks a promise, and passes over one that was never made."""

from collections.abc import Callable, Iterator
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cronce.stores.memory import MemoryStore
from cronce.testing import StoreContract, contract
from tests.stores.mutants import CAUGHT_BY, MutantContract

MODEST = """
from cronce.stores.memory import TRAITS, MemoryStore
from cronce.testing import StoreContract
STORES = {}
class TestModest(StoreContract):
    def open(self, place):
        return STORES.setdefault(place, MemoryStore(traits=TRAITS._replace(name="modest", groups=False)))
"""


@pytest.mark.parametrize("test", CAUGHT_BY)
def test_a_broken_promise_is_found_out(test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "NEWS_WITHIN", 0.1)  # it is waited for in vain
    with pytest.raises(AssertionError):
        _run(MutantContract(CAUGHT_BY[test]), test, tmp_path)


@pytest.mark.parametrize("test", CAUGHT_BY)
def test_a_kept_promise_is_not(test: str, tmp_path: Path) -> None:
    _run(MutantContract(MemoryStore), test, tmp_path)


def _run(held: MutantContract, test: str, place: Path) -> None:
    """What pytest would do, in a thousandth of the time."""
    function = getattr(held, test)
    for number, case in enumerate(_cases(function)):
        store, other = held.open(place / str(number)), held.open(place / str(number))
        fixtures = {"store": store, "grouping": store, "other": other, "tmp_path": place}
        fixtures["listener"] = store.listen()
        function(**{name: fixtures[name] for name in signature(function).parameters if name in fixtures}, **case)


def _cases(function: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """What a test is parametrized with; one empty case if with nothing."""
    marks = [mark.args for mark in getattr(function, "pytestmark", [])]
    for values in product(*(values for _, values in marks)):
        yield dict(zip((name for name, _ in marks), values, strict=True))


def test_a_promise_that_was_not_made_is_skipped_by_the_name_of_its_trait(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MODEST)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs", "-k", "group or turn or outlives or fence")
    assert result.parseoutcomes().keys() == {"passed", "skipped", "deselected"}
    result.stdout.fnmatch_lines(["*modest makes no such promise: its trait groups is False*"])
    result.stdout.fnmatch_lines(["*modest makes no such promise: its trait durable is False*"])


def test_the_contract_needs_a_way_to_open_the_store(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the contract needs a method url or a method open"):
        StoreContract().open(tmp_path)
