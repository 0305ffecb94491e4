"""The parts of the proof, as data: what each runs, how its figures are read, and what they say in one line."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.faults.billing.matrix import told_in_all
from tests.proof.record import Figures

OUTPUT = "output"
REPORT = "report.xml"
"""Files of a part's folder: what it printed, and pytest's report."""

RUNS = os.environ.get("TORTURE_RUNS") or "2"
"""How many minutes of torture each case gets, each with a seed of its own."""
if not RUNS.isdecimal():
    sys.exit(f"TORTURE_RUNS is a whole number of minutes, not {RUNS!r}")


class Part(NamedTuple):
    name: str
    about: str
    words: tuple[str, ...]
    """Arguments for Python. `{folder}` stands for the part's folder."""
    read: Callable[[Path], Figures]
    """The figures, from the part's folder. Raises ValueError if there are none."""
    showed: Callable[[Figures], str]
    settings: Mapping[str, str] = {}
    """Environment variables that set how much is run."""


def read_json(folder: Path) -> Figures:
    """Figures that the command printed as one JSON document."""
    figures: Figures = json.loads((folder / OUTPUT).read_text("utf-8"))
    return figures


def read_report(folder: Path) -> Figures:
    """How many tests passed and were skipped, and what each noted with pytest's `record_property`."""
    cases = sorted(ElementTree.parse(folder / REPORT).iter("testcase"), key=lambda case: case.attrib["name"])
    skipped = [case for case in cases if case.find("skipped") is not None]
    if len(skipped) == len(cases):
        raise ValueError("every test was skipped")
    notes = [note for case in cases for note in case.iter("property")]
    plays = [json.loads(note.attrib["value"]) for note in notes if note.attrib["name"] == "play"]
    return {"passed": len(cases) - len(skipped), "skipped": len(skipped), "plays": plays}


def pytest(
    name: str,
    about: str,
    *tests: str,
    showed: Callable[[Figures], str] = lambda _: "",
    options: Sequence[str] = (),
    **settings: str,
) -> Part:
    """A part that is tests of these files in `tests/`, with these environment variables."""
    report = ("--junitxml", f"{{folder}}/{REPORT}", "-o", "junit_family=xunit1")
    words = ("-m", "pytest", "-q", *report, *options, *(f"tests/{test}" for test in tests))
    return Part(name, about, words, read_report, lambda figures: _tests(figures, showed(figures)), settings)


def _tests(figures: Figures, showed: str) -> str:
    skipped = f"{figures['skipped']} tests were skipped" if figures["skipped"] else ""
    passed = "" if showed else f"{figures['passed']} tests passed"
    return "; ".join(filter(None, (showed, passed, skipped)))


AT_ONCE = ("-n", "3", "--dist", "worksteal")
"""For tests that mostly wait: for leases to lapse, for servers to come back."""


# --- what the figures say, in one line ---


def _skewed(figures: Figures) -> str:
    (play,) = figures["plays"]
    return f"{play['slots']} slots, {play['hosts']} hosts: {play['runs']} runs, none twice"


def _leapt(figures: Figures) -> str:
    leaps, slots = (sum(play[column] for play in figures["plays"]) for column in ("leaps", "slots"))
    return f"{leaps} leaps, {slots:,} slots: each ran once, none before its instant"


def _killed(figures: Figures) -> str:
    plays = figures["plays"]
    slots, kills = (sum(play[column] for play in plays) for column in ("slots", "kills"))
    return f"{slots:,} slots, {kills:,} processes killed: each slot closed once"


def _tortured(figures: Figures) -> str:
    plays = figures["plays"]
    faults = sum((Counter(play["faults"]) for play in plays), Counter[str]())
    total = sum((Counter(play["verdict"]) for play in plays), Counter[str]())
    wrong = total["extra"] + total["overlapping"] + total["stale_accepted"] + total["missed"]
    return f"{len(plays)} minutes, {faults.total():,} faults, {total['slots']:,} slots: {wrong} extra or missed"


def _billed(figures: Figures) -> str:
    once = [play for play in figures["plays"] if play["variant"] != "redis-lock"]
    charges, invoices = (sum(play[column] for play in once) for column in ("charges", "invoices"))
    locked = sorted(play["charges"] for play in figures["plays"] if play["variant"] == "redis-lock")
    ours = f"by key and in a transaction {charges:,} charges for {invoices:,} invoices, in {len(once)} runs"
    return f"{ours}; under a plain lock {locked[0]} to {locked[-1]} for {once[0]['invoices']}"


def _neighbours(figures: Figures) -> str:
    today = sum(setup["today"]["runs"] for setup in figures.values())
    due, runs = (sum(setup["guarded"][column] for setup in figures.values()) for column in ("slots", "runs"))
    return f"{len(figures)} setups, {due} slots: {today} runs without cronce, {runs} with it"


def _faults(figures: Figures) -> str:
    slots, ran, extra, missed = (
        sum(play[name] for play in figures["plays"]) for name in ("slots", "ran", "extra", "missed")
    )
    return f"{len(figures['plays'])} plays, {slots:,} slots, {ran:,} run: {extra} extra, {missed} missed"


def _simulated(figures: Figures) -> str:
    return f"{figures['seeds']:,} histories, {figures['violations']} promises broken"


def _caught(figures: Figures) -> str:
    caught = [needed for needed in figures["mutants"].values() if needed is not None]
    return f"{len(caught)} of {len(figures['mutants'])} mutants caught, each within {max(caught):,} histories"


def _explored(figures: Figures) -> str:
    states = sum(config["states"] for config in figures["configurations"])
    return f"{states:,} states of {len(figures['configurations'])} configurations, no promise broken"


PARTS: tuple[Part, ...] = (
    Part(
        "explorer",
        "every reachable state of the decision table",
        ("-m", "cronce.testing.explorer", "--json"),
        read_json,
        _explored,
    ),
    Part(
        "mutants",
        "every mutant of the simulator, until it is caught",
        ("-m", "cronce", "simulate", "--seeds", "1", "--json"),
        read_json,
        _caught,
    ),
    pytest(
        "killed-sqlite",
        "eight processes on one SQLite file, killed again and again",
        "faults/test_sqlite_kill.py",
        showed=_killed,
        CRONCE_KILLED_SLOTS="500",
    ),
    pytest(
        "field-story",
        "a store that is copied to a second server, and processes that die",
        "faults/test_field_story.py",
        CRONCE_TORTURE_RUNS="1",
    ),
    pytest(
        "election", "leaders on every server, and on busy cores", "faults/test_election.py", CRONCE_TORTURE_RUNS="1"
    ),
    pytest(
        "outage",
        "every server away, for a while and for longer than a lease",
        "faults/test_outage.py",
        "faults/test_hearing.py",
        CRONCE_TORTURE_RUNS="1",
    ),
    pytest(
        "many-jobs",
        "2,000 jobs that are due in the same second, on each kind of store",
        "runtime/scheduling/test_policies.py::test_a_thousand_jobs_of_the_same_second_run_once_each",
        CRONCE_JOBS_AT_ONCE="2000",
    ),
    pytest(
        "skewed-hosts",
        "three hosts whose clocks are ten seconds apart",
        "faults/test_skewed_hosts.py",
        showed=_skewed,
        CRONCE_SKEWED_SLOTS="100",
    ),
    pytest(
        "clock-leaps",
        "the clock of a server leaps by an hour and by 400 days, for up to a minute",
        "faults/test_clock_leaps.py",
        showed=_leapt,
        options=AT_ONCE,
        CRONCE_LEAPS="1",
    ),
    pytest(
        "billing",
        "500 invoices and 50 kills: by key, in a transaction, under a plain lock",
        "faults/test_billing.py",
        showed=_billed,
        options=AT_ONCE,
        CRONCE_BILLING="1",
    ),
    Part(
        "billing-nights",
        "the same unpaid things night after night: every way to charge once and every recipe of the docs, three stores",
        ("-m", "tests.faults.billing", "--json", "--kept", "{folder}/kept"),
        read_json,
        lambda figures: told_in_all(figures["plays"]),
    ),
    pytest(
        "topologies",
        "a Cluster's slot moves, Sentinel and a standby take over, a pooler is killed, users have the least rights",
        "faults/test_topologies.py",
        CRONCE_TOPOLOGY_SLOTS="300",
    ),
    pytest(
        "torture-durable",
        "guarded functions under every fault, on every store that is durable",
        "faults/torture_proof.py::test_a_minute_on_a_file",
        "faults/torture_proof.py::test_a_minute_on_leases",
        "faults/torture_proof.py::test_a_minute_with_a_hard_restart_of_what_is_durable",
        showed=_tortured,
        options=AT_ONCE,
        CRONCE_TORTURE_RUNS=RUNS,
    ),
    pytest(
        "torture-forgetful",
        "the same on stores that forget",
        "faults/torture_proof.py::test_a_minute_on_what_forgets_is_unknown_in_the_gap_and_nowhere_else",
        showed=_tortured,
        options=AT_ONCE,
        CRONCE_TORTURE_RUNS=RUNS,
    ),
    pytest(
        "torture-schedulers",
        "three and eight schedulers under every fault, rolling restarts and deploys",
        "faults/torture_proof.py::test_a_minute_of_schedulers_on_a_file",
        "faults/torture_proof.py::test_a_minute_of_schedulers_on_a_server",
        "faults/torture_proof.py::test_a_minute_of_schedulers_on_what_forgets",
        showed=_tortured,
        options=AT_ONCE,
        CRONCE_TORTURE_RUNS=RUNS,
    ),
    Part(
        "neighbours",
        "other schedulers, before and after one line",
        ("-m", "tests.faults.neighbours", "--slots", "12", "--json"),
        read_json,
        _neighbours,
    ),
    Part(
        "fault-table",
        "each fault of a store or a process, each way to use cronce, three stores: what became of each slot",
        ("-m", "tests.faults.fault_table", "--json"),
        read_json,
        _faults,
    ),
    Part(
        "simulator",
        "20,000 histories of the real code under virtual time",
        ("-m", "cronce", "simulate", "--seeds", "20000", "--no-mutants", "--json"),
        read_json,
        _simulated,
    ),
)
"""The short ones first."""


def command(part: Part, folder: Path) -> list[str]:
    return [sys.executable, *(word.replace("{folder}", str(folder)) for word in part.words)]
