"""The real flows under a thousand misfortunes: no promise broken, every missing safeguard noticed."""

import gc
import json

import pytest

from cronce.cli import main
from cronce.testing.chaos import FAULT_KINDS, OF_THINGS, play_out, stage
from cronce.testing.effects_table import ZERO, by_way
from cronce.testing.mutants import MUTANTS
from cronce.testing.receivers import EFFECT_COUNTS, EffectGuard
from cronce.testing.simulate import ONCE_FAILED_SEEDS, SEEDS_PER_REPORT, play_seeds, seeds_to_catch, simulate

pytestmark = pytest.mark.usefixtures("settled_heap")

CATCHES = {
    "no version check": 0,
    "free means lapsed too": 0,
    "a group lands in parts": 0,
    "no fence check": 113,
    "release by name": 246,
    "a nonce per process": 3,
    "on_lost of the reader": 95,
    "no margin": 107,
    "trust from the reply": 12,
    "read-back restarts the lease": 105,
    "trust returns after it ended": 0,
    "a clock that stops in suspend": 1293,
    "no watch rule": 5,
    "the turn is freed while the body runs": 26,
    "slots before their instant": 4,
    "a leap is believed": 46,
    "a grant in a leap": 150,
    "a lapse in a leap": 29,
    "a floor raised in a leap": 790,
    "dated by a clock that leapt": 46,
    "birth unnoticed by the store": 31,
    "birth unnoticed by the holders": 3,
    "open cells of an earlier life believed": 15,
    "locks right after forgetting": 79,
    "turns right after forgetting": 379,
    "facts outlive the store's life": 251,
    "no floor": 31,
    "facts never age": 180,
    "purge at once": 840,
    "a finish raises the floor": 24,
    "an edit keeps the floor": 12,
    "superseded versions fire on": 407,
    "a claim that another won takes an end with it": 373,
    "no turn is taken": 1,
    "a step begun by a run that is over is done again": 22,
    "done before it is begun": 12,
    "a step begun after its run's lease": 792,
    "a step that the store forgot is done again": 1535,
    "an exception means that nothing happened": 247,
    "a key for each run": 301,
    "what another still does is done again": 73,
    "a thing for each slot": 16,
    "an effect is known by its thing alone": 36,
    "the next slot ignores the doubt": 56,
    "unknown expires": 12,
    "known from when it was begun": 6,
    "one cursor for all jobs": 29,
    "no fence at the receiver": 20,
    "a fence that is read and not locked": 649,
    "no check before the commit": 718,
    "no raise before the body": 10,
    "no seal": 0,
    "a failed run is not asked for its commit": 153,
    "a lapsed run is not asked for its commit": 0,
    "takeover without a hearing": 5,
    "reading counts as contact": 10,
    "a hearing that never adds up": 1,
    "only the last piece of contact counts": 590,
    "contact without end": 5,
    "a slot is taken over for ever": 10,
    "a renewal that hangs is waited for": 7,
}
"""A seed that catches each mutant. After a change of the world it may be another: the test that fails says which."""

FIRST = range(20)

FENCED = 18
"""A seed in which a lower fence is refused: none of those that are kept has it."""


def test_the_kept_seeds_break_no_promise_and_every_kind_of_fault_happens() -> None:
    played = play_seeds((*ONCE_FAILED_SEEDS, OF_THINGS, FENCED))
    assert played.violations == {}
    assert [kind for kind in FAULT_KINDS if not played.faults[kind]] == []
    effects = by_way(played.effects)
    assert [way for way in EffectGuard if not effects[way]["made"]] == []
    assert [(way, column) for way in EffectGuard for column in ZERO[way] if effects[way][column]] == []
    assert effects[EffectGuard.NOTHING]["repeats"] > 0  # what the others prevent


@pytest.mark.slow
def test_the_seeds_that_catch_mutants_break_no_promise_without_them() -> None:
    """So each of these safeguards would be missed here too, if it went missing; and so would others, by the first few.
    `make proof PART=simulator` plays 20,000."""
    assert play_seeds({*CATCHES.values(), *FIRST} - {*ONCE_FAILED_SEEDS}).violations == {}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_missing_safeguard_is_noticed(mutant: str) -> None:
    assert seeds_to_catch(mutant, CATCHES[mutant]) == CATCHES[mutant] + 1


def test_the_threads_of_a_world_end_from_the_outside_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left of them was closed by the collector, now and then an inner part first: *generator already
    executing*, on standard error."""
    ignored: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda left: ignored.append(left.exc_value))
    play_seeds([2440])
    assert ignored == []


def test_a_heap_that_was_frozen_before_a_seed_is_frozen_after_it() -> None:
    """It was not: every later test walked all that the suite had loaded, each time that garbage was collected."""
    gc.freeze()
    play_seeds([1])
    assert seeds_to_catch("no version check", 0) == 1
    assert gc.get_freeze_count() > 0


def test_a_seed_always_plays_the_same() -> None:
    traces = []
    for _ in range(2):
        scene = stage(7)
        scene.world.tracing = True
        play_out(scene)
        traces.append(scene.world.trace)
    assert traces[0] == traces[1]
    assert traces[0]


@pytest.mark.slow
def test_simulate_counts_seeds_over_processes() -> None:
    seeds = SEEDS_PER_REPORT + 2  # more than one process is given at once
    result = simulate(seeds, mutants=False, workers=2)
    assert (result.played.seeds, result.played.violations, result.mutants) == (seeds, {}, {})


@pytest.mark.slow
def test_the_command_prints_the_documented_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "2", "--no-mutants", "--workers", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seeds"], document["violations"], document["mutants"]) == (2, 0, {})
    effects = document["effects"]
    assert effects == by_way(play_seeds(range(2)).effects)
    assert {way: tuple(columns) for way, columns in effects.items()} == dict.fromkeys(
        map(str, EffectGuard), EFFECT_COUNTS
    )


def test_a_failing_seed_is_replayed_with_its_history(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "2", "--mutant", "no version check"]) == 1
    *history, verdict = capsys.readouterr().out.splitlines()
    assert verdict.startswith("broken: one run trusts a slot at a time")
    assert any("FAULT" in line or "starts run/" in line for line in history)


def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0"]) == 2
    assert main(["simulate", "--seed", "1", "--mutant", "no such"]) == 2
    assert "there is no mutant 'no such'; there are:\n  no version check" in capsys.readouterr().err
