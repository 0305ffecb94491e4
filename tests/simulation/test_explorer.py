"""The explorer visits every state, finds no violation, and would find one: each missing safeguard is caught."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from cronce.model import Fence
from cronce.policy import OnLost
from cronce.protocol import decide as protocol
from cronce.protocol import gates, lease, table
from cronce.protocol.commands import Command, Decision, Granted
from cronce.protocol.gates import Need
from cronce.protocol.record import Past, Record
from cronce.protocol.table import Row
from cronce.protocol.view import View
from cronce.testing.explorer import __main__ as command
from cronce.testing.explorer import claimant, store
from cronce.testing.explorer.configs import ALL_CONFIGS, SMALL_CONFIGS, Config, ExploredFaults
from cronce.testing.explorer.parts import EXPLORED_NOW, Promise, bare
from cronce.testing.explorer.space import Space
from cronce.testing.explorer.walk import Explored, ExplorerResult, explore, walk
from cronce.testing.mutants import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "explorer.md"
SKIP: tuple[OnLost, ...] = ("skip", "skip")
RERUN: tuple[OnLost, ...] = ("rerun", "rerun")


# --- nothing is broken, and the docs say how much was looked at ---


def test_no_reachable_state_breaks_a_promise_and_the_docs_count_the_states_exactly() -> None:
    """By the command of the docs. If the counts differ: `make proof PART=explorer` counts them again."""
    words = [sys.executable, "-m", "cronce.testing.explorer", "--small", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["configurations"]
    assert (done.returncode, [one["broken"] for one in found]) == (0, [[]] * len(SMALL_CONFIGS))
    counted = [ExplorerResult(one["states"], one["transitions"], (), one["seconds"]) for one in found]
    page = PAGE.read_text("utf-8").splitlines()
    assert [row for row in command.rows(SMALL_CONFIGS, counted) if row not in page] == []


def test_the_docs_have_one_row_for_every_configuration() -> None:
    table = PAGE.read_text("utf-8").partition("| configuration |")[2].partition("| **all** |")[0]
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [f"| {config.name}" for config in ALL_CONFIGS]


# --- every missing safeguard is caught ---


class Mutant(NamedTuple):
    apply: Callable[[], AbstractContextManager[Any]]
    config: Config
    breaks: Promise


def _trust_from_the_reply(_began: float, *rest: Any) -> float:
    return lease.trust_end(0.0, *rest)


def _unwritten(view: View, _command: Command) -> Decision:
    """Once how it was: a takeover decided on before the clock stepped back would still land."""
    return Decision(Granted(view.stands.grant))


def _rules(row: Row, **rules: Any) -> Callable[[], AbstractContextManager[Any]]:
    """The table with other rules in a row."""
    commands = {kind: rules.get(kind.__name__, rule) for kind, rule in table.TABLE[row].items()}
    return lambda: patch.object(table, "TABLE", {**table.TABLE, row: commands})


def _patch(target: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(target, name, value)


LOST_REPLY = Config("a lost reply", RERUN, ExploredFaults(lost=1))
STEPPED_BACK = Config("clock back", RERUN, ExploredFaults(lost=1, jump=1), jump=-2, keeper=False, prompt=True)
RETRIED = Config("retried", SKIP, ExploredFaults(lost=1), attempts=2, keeper=False)
JUMP = Config("the clock jumps", RERUN, ExploredFaults(jump=1), jump=4)
UNEVEN = Config("an uneven clock", RERUN, skew=1, keeper=False)
MIXED = Config("mixed", ("skip", "rerun"), keeper=False)
EMPTIED = Config("emptied", SKIP, ExploredFaults(empty=1), keeper=False)
PUT_BACK = Config("put back", SKIP, ExploredFaults(copy=1, restore=1), keeper=False)

CAUGHT = {
    "no version check": Mutant(MUTANTS["no version check"], LOST_REPLY, Promise.TRUST_HOLDS),
    "no fence check": Mutant(MUTANTS["no fence check"], LOST_REPLY, Promise.OLD_FENCE),
    "release by name": Mutant(MUTANTS["release by name"], LOST_REPLY, Promise.OLD_FENCE),
    "one nonce for all": Mutant(_patch(claimant, "THEIR_NONCE", claimant.MINE), LOST_REPLY, Promise.ONE_TRUSTS),
    "on_lost of the reader": Mutant(MUTANTS["on_lost of the reader"], MIXED, Promise.SKIP_ONCE),
    "on_lost ignored": Mutant(_rules(Row.LAPSED, Claim=table.grant), RETRIED, Promise.SKIP_ONCE),
    "closed is granted": Mutant(_rules(Row.CLOSED, Claim=table.grant), LOST_REPLY, Promise.CLOSED_ONCE),
    "anyone finishes": Mutant(_rules(Row.IDLE, Finish=table.finish), RETRIED, Promise.OLD_FENCE),
    "held is held for ever": Mutant(_patch(table, "lapsed", lambda *_: False), MIXED, Promise.WITHIN_REACH),
    "no margin": Mutant(MUTANTS["no margin"], UNEVEN, Promise.TRUST_HOLDS),
    "trust from the reply": Mutant(
        _patch(claimant, "trust_end", _trust_from_the_reply), LOST_REPLY, Promise.TRUST_HOLDS
    ),
    "read-back without a write": Mutant(_rules(Row.MINE, Claim=_unwritten), STEPPED_BACK, Promise.ONE_TRUSTS),
    "trust returns after it ended": Mutant(MUTANTS["trust returns after it ended"], LOST_REPLY, Promise.TRUST_ENDS),
    "no watch rule": Mutant(MUTANTS["no watch rule"], JUMP, Promise.TRUST_HOLDS),
    "birth unnoticed by the store": Mutant(MUTANTS["birth unnoticed by the store"], EMPTIED, Promise.FORGOTTEN),
    "no floor after forgetting": Mutant(
        _patch(gates, "after_forgetting", lambda job, *_: job), EMPTIED, Promise.FORGOTTEN
    ),
    "open cells of an earlier life believed": Mutant(
        _rules(Row.FORGOTTEN, Claim=table.grant), PUT_BACK, Promise.FORGOTTEN
    ),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_missing_safeguard_is_caught(name: str) -> None:
    mutant = CAUGHT[name]
    with mutant.apply():
        (violation,) = explore(mutant.config).violations
    assert violation.promise is mutant.breaks


def test_the_counterexample_in_the_docs_is_what_is_printed() -> None:
    with MUTANTS["no watch rule"]():
        printed = "\n".join(command.counterexample(explore(JUMP)))
    assert f"```\n{printed}\n```" in PAGE.read_text("utf-8")


def test_a_clock_that_steps_back_under_a_takeover_leaves_one_run_trusting() -> None:
    assert explore(STEPPED_BACK).violations == ()


# --- what the explorer leaves out of a state does not matter ---


@contextmanager
def _dressed() -> Iterator[list[Command]]:
    """Every decision is made twice: on the bare record of the explorer, and on one from real life."""
    asked: list[Command] = []

    def twice(view: View, command: Command) -> Decision | Need:
        asked.append(command)
        plain, dressed = protocol.decide(view, command), protocol.decide(_later(view), command)
        assert isinstance(plain, Decision)
        assert isinstance(dressed, Decision)
        assert (type(dressed.answer), _undressed(dressed)) == (type(plain.answer), _undressed(plain))
        return plain

    with patch.object(claimant, "decide", twice):
        yield asked


def _lived(record: Record) -> Record:
    past = (Past(Fence(1, 1), "web-7", EXPLORED_NOW, "lapsed"),)
    return record._replace(holder="web-3", grant=9, started=EXPLORED_NOW, reason="because", past=past)


def _later(view: View) -> View:
    later = timedelta(days=9)
    run = view.run._replace(until=view.run.until and view.run.until + later)
    record, sample = view.record and _lived(view.record), view.sample._replace(now=view.now + later)
    return view._replace(run=run, record=record, sample=sample)


def _undressed(decision: Decision) -> object:
    return decision.change and decision.change._replace(record=bare(decision.change.record))


@pytest.mark.parametrize(
    "config", [SMALL_CONFIGS[2], SMALL_CONFIGS[3], EMPTIED, PUT_BACK], ids=lambda config: config.name
)
def test_no_decision_depends_on_what_a_state_leaves_out(config: Config) -> None:
    with _dressed() as asked:
        explore(config)
    assert len(asked) > 100


def _visible(config: Config) -> set[object]:
    """What can be seen of each state from outside: the cell, and what each claimant may do."""
    space = Space(config)
    explored = Explored(space.first())
    walk(space, explored)
    states = (space.parts(state) for state in explored.states)
    return {
        (shelf, tuple(sorted((who.on_lost, who.stage, who.trust, who.grant is not None) for who in people)))
        for shelf, people in states
    }


@pytest.mark.parametrize(
    "config",
    [
        Config("skip", SKIP, keeper=False),
        Config("lost", RERUN, ExploredFaults(lost=1), keeper=False, prompt=True),
        Config("jump", RERUN, ExploredFaults(jump=1), jump=4, keeper=False, prompt=True),
    ],
    ids=lambda config: config.name,
)
def test_trimming_a_state_hides_nothing_that_can_be_seen(config: Config) -> None:
    trimmed = _visible(config)
    with (
        patch.object(claimant.Claimants, "_trimmed_reply", lambda _self, _who, _call, reply: reply),
        patch.object(claimant.Claimants, "_may_bring_trust", lambda *_: True),
        patch.object(store.StoreSteps, "tidied", lambda _self, _shelf, who: who),
    ):
        assert _visible(config) == trimmed


# --- the command ---


def test_the_command_prints_a_line_for_each_and_a_counterexample(capsys: pytest.CaptureFixture[str]) -> None:
    quick = (Config("quick", SKIP, keeper=False, prompt=True),)
    with patch.object(command, "SMALL_CONFIGS", quick):
        assert command.main(["--small"]) == 0
        assert "broken" not in capsys.readouterr().out
        with MUTANTS["no version check"]():
            assert command.main(["--small"]) == 1
    assert "  broken: one run trusts the slot at a time\n     1  a: claims\n" in capsys.readouterr().out


def test_the_command_prints_a_document_and_its_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    quick = (Config("quick", SKIP, keeper=False, prompt=True),)
    with patch.object(command, "SMALL_CONFIGS", quick):
        assert command.main(["--small", "--json"]) == 0
        printed = capsys.readouterr()
        (found,) = json.loads(printed.out)["configurations"]
        assert (found["name"], found["broken"]) == ("quick", [])
        assert f"quick{found['states']:>31,}{found['transitions']:>14,}" in printed.err
        with MUTANTS["no version check"]():
            assert command.main(["--small", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["configurations"]
    assert found["broken"] == ["one run trusts the slot at a time"]
