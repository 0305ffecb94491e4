"""The comparison with other tools: what it counts, and that the docs say what was measured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.peers import page
from bench.peers.cell import Cell, Counted
from bench.peers.ledger import Line, read
from bench.peers.peers import ENVIRONMENTS, OURS, PEERS, ROOT
from bench.peers.results import cells, load
from bench.peers.scenarios import SCENARIOS, Scenario, nothing

THREE = Scenario("three slots", nothing, period=3, slots=3, works=1.0)


def counted(folder: Path, *lines: str, struck: str = "") -> Counted:
    """What is made of such a ledger, in which a fault struck the first run at 0.1."""
    (folder / "ledger").write_text("".join(f"{line}\n" for line in lines))
    line = Line("begin", 3, struck, 0.0) if struck else None
    cell: Any = SimpleNamespace(
        lines=read(folder),
        _slots=[3, 6, 9],
        scenario=THREE,
        _struck=line,
        _struck_at=0.1,
        began=0.0,
        _respawned=0,
    )
    cell._rerun = lambda found: Cell._rerun(cell, found)
    return Cell._counted(cell)._replace(seconds=0.0)


def test_slots_that_were_completed_twice_and_never_are_counted(tmp_path: Path) -> None:
    lines = ("begin 3 a 0", "end 3 a 1", "begin 3 b 0", "end 3 b 1", "begin 6 a 3", "begin 9 a 6", "end 9 a 7")
    assert counted(tmp_path, *lines, "begin 12 a 9", "end 12 a 10", "end 12 a 10") == Counted(3, 1, 1)


@pytest.mark.parametrize(
    ("again", "rerun"),
    [
        (("begin 3 b 4.1", "end 3 b 5.1"), ("another host", 4.0)),
        (("begin 3 a 2.1", "end 3 a 3.1"), ("the same host", 2.0)),
        ((), ("nobody", None)),
    ],
)
def test_who_ran_an_interrupted_slot_again_is_told(
    tmp_path: Path, again: tuple[str, ...], rerun: tuple[str, float | None]
) -> None:
    rest = ("begin 6 b 3", "end 6 b 4", "begin 9 b 6", "end 9 b 7")
    told = counted(tmp_path, "begin 3 a 0", *again, *rest, struck="a")
    assert told == Counted(3, 0, 0 if again else 1, *rerun)


def test_a_run_that_the_fault_did_not_interrupt_was_not_run_again(tmp_path: Path) -> None:
    lines = ("begin 3 a 0", "end 3 a 1", "end 6 a 4", "end 9 a 7")
    assert counted(tmp_path, *lines, struck="a") == Counted(3)


def test_every_peer_has_an_adapter_an_environment_and_a_cell_of_each_scenario_that_concerns_it() -> None:
    names = cells()
    assert len(names) == len(set(names)) == 243
    assert {scenario for _, scenario, _ in names} == set(SCENARIOS)
    for peer in PEERS.values():
        assert (ROOT / "bench" / "peers" / "adapters" / f"{peer.adapter}.py").is_file()
        assert peer.environment in {OURS, *ENVIRONMENTS}


def test_every_cell_of_ours_is_without_a_duplicate_and_a_miss() -> None:
    ours = [one for name, one in load().items() if PEERS[name[0]].ours]
    assert [one for one in ours if one["duplicated"] or one["missed"] or one.get("trouble")] == []


def test_the_page_says_what_was_measured() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, load()) == text
