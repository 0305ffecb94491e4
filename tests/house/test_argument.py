"""Why a slot runs once is argued in eight files, and nothing else in the tree decides."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/cronce"

ARGUMENT = (
    "protocol/record.py",
    "protocol/commands.py",
    "protocol/view.py",
    "protocol/gates.py",
    "protocol/table.py",
    "protocol/decide.py",
    "protocol/lease.py",
    "runtime/loop.py",
)
"""What a newcomer reads."""

BESIDE = {
    "protocol/codec.py": "spells records",
    "protocol/specs.py": "floors and versions of a job",
    "protocol/store_clock.py": "whether the store's clock can be believed",
    "protocol/terms.py": "which terms cannot be meant",
}
"""Of the protocol, what a claim passes through besides."""

TELLS = {
    "monitor/survey.py": "what a finding needs to know of older runs",
    "monitor/watch_runs.py": "findings about slots and runs",
    "runtime/call.py": "the words of a refusal",
    "runtime/effects/liveness.py": "what a person is to check before a retry",
    "runtime/self_test.py": "the doctor's proof that a store works",
    "runtime/why.py": "which sentence `why` has for a slot",
}
"""Modules that look at an outcome to tell people of it, and decide nothing."""

WRITES = {
    "monitor/alerts.py": "alerts",
    "runtime/clock_repair.py": "that a person says the store's clock is right",
    "runtime/background.py": "signs of life of other schedulers",
    "runtime/client.py": "the boards that tell of news",
    "runtime/contact.py": "a cell of no meaning, which shows that the store can be written to",
    "runtime/effects/steps.py": "cursors",
    "runtime/operations.py": "orders: pause all, drain, a run that was asked for",
    "runtime/jobs.py": "jobs: their floor, versions and pauses",
    "runtime/process_notes.py": "what a machine saw of the clock, and was refused; that a guest is there, or looks on",
    "runtime/observe.py": "calls that are only observed",
    "runtime/prevented.py": "how many duplicates were prevented",
    "runtime/scheduling/roster.py": "which schedulers are alive, and what they carry",
    "runtime/stored_jobs.py": "jobs that live in the store",
}
"""Modules that build writes themselves, and of which cells. Runs, turns, locks, leaders and effects are the loop's."""

SPELLED = {"encode", "encode_turn"}
SPELLS = {
    "runtime/processes/isolated.py": "hands its record to the process that runs the function",
    "stores/kubernetes/layout.py": "reads a Lease that another program wrote as a record",
}
"""Modules outside of the protocol that spell a record, and what for."""

FLOORS = {
    "runtime/operations.py": "below it, a run that was asked for may have been purged",
    "runtime/scheduling/candidates.py": "whether the slots that were missed are passed over already",
}
"""Modules that look at a job's floor themselves. Whether a slot is closed by it, the table says."""

DECIDE = ("protocol/", "schedule/", "policy.py")
UNCOUNTED = ("evidence/", "testing/", "torture/", "demo/")
POLICIES = ("on_lost", "overlap", "missed")


def test_the_argument_is_eight_files_and_two_thousand_lines() -> None:
    lines = sum(len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in ARGUMENT)
    assert len(ARGUMENT) == 8
    assert lines <= 2000
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [name for name in ARGUMENT if Path(name).name not in page] == []


def test_no_other_module_decides_by_a_policy_a_state_or_an_outcome() -> None:
    found = {name for name, tree in _modules() if any(map(_decides, ast.walk(tree)))}
    assert sorted(found - {*TELLS}) == [], "ask the record, the terms or `policy`"
    assert sorted({*TELLS} - found) == [], "it decides by none of them any more: take it off the list"


def test_only_the_loop_decides() -> None:
    asks = {name for name, tree in _modules("cronce.protocol.decide") if "cronce.protocol.decide" in _imports(tree)}
    assert asks == {"runtime/loop.py"}


def test_the_table_alone_says_what_is_below_a_floor() -> None:
    looks = {name for name, tree in _modules("floor") if any(map(_compares_floor, ast.walk(tree)))}
    assert looks == {*FLOORS}, "ask `queries` for the row that it stands in"


def _compares_floor(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(
        isinstance(one, ast.Attribute) and one.attr == "floor" for one in ast.walk(node)
    )


def test_runs_and_turns_are_written_by_the_protocol_alone() -> None:
    builds = {name for name, tree in _modules("Write") if any(map(_builds_write, ast.walk(tree)))}
    assert {name for name in builds if not name.startswith("stores/")} == {*WRITES}
    spells = {name for name, tree in _modules("encode") if _imported(tree, "cronce.protocol.record") & SPELLED}
    assert spells == {*SPELLS}


def _builds_write(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Write"


def _imported(tree: ast.Module, module: str) -> set[str]:
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }


def _modules(word: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Those in which the word stands: to parse all of them takes a second."""
    for path in sorted(SOURCE.rglob("*.py")):
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if word in text and not name.startswith((*DECIDE, *UNCOUNTED)):
            yield name, ast.parse(text)


def _imports(tree: ast.Module) -> set[str]:
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def _decides(node: ast.AST) -> bool:
    """A comparison with a state or an outcome, or of a policy with a text; a match on one of them."""
    if isinstance(node, ast.match_case):
        return _names_member(node.pattern)
    if not isinstance(node, ast.Compare):
        return False
    parts = (node.left, *node.comparators)
    return any(map(_names_member, parts)) or (any(map(_is_policy, parts)) and any(map(_is_text, parts)))


def _names_member(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id in ("State", "Outcome")
        for one in ast.walk(node)
    )


def _is_policy(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in POLICIES) or (
        isinstance(node, ast.Name) and node.id in POLICIES
    )


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node))
