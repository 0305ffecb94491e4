"""Loading a program: the application that is named, and a function for a child. What the command line says of
those that cannot be loaded is in tests/runtime/scheduling/test_scheduler_life.py."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.errors import BadInput
from cronce.runtime.app_loading import FunctionLocation, find, load, module_and_object, place_of, plain


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module `loaded_shop` in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "loaded_shop.py"
    sys.modules.pop("loaded_shop", None)


GUARDED = """
from cronce import Cronce
from cronce.stores.memory import MemoryStore
cron = Cronce(store=MemoryStore())

@cron.job("@daily")
def report():
    return "reported"
"""


def test_an_application_is_found_by_its_module_and_its_name(program: Path) -> None:
    program.write_text(GUARDED)
    assert isinstance(load("loaded_shop:cron"), Cronce)
    with pytest.raises(BadInput, match="loaded_shop has no 'app'; there is loaded_shop:cron"):
        load("loaded_shop:app")
    with pytest.raises(BadInput, match="loaded_shop has a function as 'report'"):
        load("loaded_shop:report")


def test_one_that_starts_work_when_it_is_imported_is_refused(program: Path) -> None:
    program.write_text(f"{GUARDED}\nreport()\n")
    with pytest.raises(BadInput, match="loaded_shop calls report when it is imported; put that under"):
        load("loaded_shop:cron")


@pytest.mark.parametrize("named", ["shop", ":cron", "shop:", "shop..api:cron"])
def test_what_names_no_application_is_refused(named: str) -> None:
    with pytest.raises(BadInput, match="write MODULE:OBJECT"):
        module_and_object(named)


def test_a_function_is_found_with_its_guard_and_runs_without_it(program: Path) -> None:
    program.write_text(GUARDED)
    load("loaded_shop:cron")
    guard = sys.modules["loaded_shop"].report
    place = place_of(guard.fn)
    assert place == FunctionLocation("loaded_shop", "report")
    assert find(place) is guard
    assert plain(find(place))() == "reported"


def test_of_a_program_a_child_loads_what_it_defines_before_it_starts_its_work(program: Path) -> None:
    main = sys.modules["__main__"]
    program.write_text(f"{GUARDED}\ncron.run()\ndef late(): ...\n")
    try:
        assert plain(find(FunctionLocation("__main__", "report", str(program))))() == "reported"
        with pytest.raises(BadInput, match=r"late cannot be found in .* before the program starts its work"):
            find(FunctionLocation("__main__", "late", str(program)))
    finally:
        sys.modules["__main__"] = main
        sys.modules.pop("__cronce_child__", None)


def test_what_no_other_process_could_find_is_refused() -> None:
    with pytest.raises(BadInput, match="<lambda> cannot be found that way"):
        place_of(lambda: None)
