"""The real flows under a thousand misfortunes: no promise broken, every missing safeguard noticed."""

import json

import pytest

from cronce.cli import main
from cronce.testing.chaos import KINDS, play_out, stage
from cronce.testing.effects_table import ZERO, by_way
from cronce.testing.mutants import MUTANTS
from cronce.testing.receivers import Way
from cronce.testing.simulate import KEPT, play_seeds, seeds_to_catch, simulate

FIRST_LOOK = {
    "purge at once": 100,
    "a finish raises the floor": 29,
    "no fence check": 58,
    "release by name": 156,
    "on_lost of the reader": 21,
    "no margin": 95,
    "trust from the reply": 67,
    "read-back restarts the lease": 191,
    "a clock that stops in suspend": 16,
    "birth unnoticed by the store": 163,
    "birth unnoticed by the holders": 39,
    "open cells of an earlier life believed": 75,
    "locks right after forgetting": 171,
    "turns right after forgetting": 567,
    "facts outlive the store's life": 387,
    "no floor": 75,
    "facts never age": 95,
    "done before it is begun": 12,
    "a step begun after its run's lease": 73,
    "a step that the store forgot is done again": 19119,
    "a key for each run": 13,
    "what another still does is done again": 65,
    "a fence that is read and not locked": 145,
    "no check before the commit": 150,
    "no raise before the body": 9,
    "no fence at the receiver": 74,
    "no seal": 9,
    "a failed run is not asked for its commit": 698,
    "superseded versions fire on": 23,
    "a cursor for everybody": 14,
}
"""Where a mutant was last caught, to save time; when the world changes it is looked for from the start."""


def test_120_histories_break_no_promise_and_every_kind_of_fault_happens() -> None:
    played = play_seeds(range(120))
    assert played.violations == {}
    assert [kind for kind in KINDS if not played.faults[kind]] == []
    effects = by_way(played.effects)
    assert [way for way in Way if not effects[way]["made"]] == []
    assert [(way, column) for way in Way for column in ZERO[way] if effects[way][column]] == []
    assert effects[Way.NOTHING]["repeats"] > 0  # what the others prevent


@pytest.mark.parametrize("first", range(120, 240, 30))
def test_30_more_histories_break_no_promise(first: int) -> None:
    assert play_seeds(range(first, first + 30)).violations == {}


def test_seeds_that_ever_failed_still_pass() -> None:
    assert play_seeds(KEPT).violations == {}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_missing_safeguard_is_noticed(mutant: str) -> None:
    assert seeds_to_catch(mutant, FIRST_LOOK.get(mutant)) is not None


def test_a_seed_always_plays_the_same() -> None:
    traces = []
    for _ in range(2):
        scene = stage(7)
        scene.world.tracing = True
        play_out(scene)
        traces.append(scene.world.trace)
    assert traces[0] == traces[1]
    assert traces[0]


def test_simulate_counts_seeds_over_processes() -> None:
    result = simulate(30, mutants=False, workers=2)
    assert (result.played.seeds, result.played.violations, result.mutants) == (30, {}, {})


def test_the_command_prints_the_documented_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "10", "--no-mutants", "--workers", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seeds"], document["violations"], document["mutants"]) == (10, 0, {})


def test_a_failing_seed_is_replayed_with_its_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "2", "--mutant", "no version check"]) == 1
    *history, verdict = capsys.readouterr().out.splitlines()
    assert verdict.startswith("broken: one run trusts a slot at a time")
    assert any("FAULT" in line or "starts run/" in line for line in history)


def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0"]) == 2
    assert main(["simulate", "--seed", "1", "--mutant", "no such"]) == 2
    assert "there is no mutant 'no such'; there are:\n  no version check" in capsys.readouterr().err
