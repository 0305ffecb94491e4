"""Under cron every run of a job starts an interpreter, so what a start imports is a promise too."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.startup import MODULES

SLOW = {
    "argparse",
    "asyncio",
    "calendar",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "hashlib",
    "importlib.metadata",
    "inspect",
    "locale",
    "logging",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "tempfile",
    "tomllib",
    "urllib.parse",
    "uuid",
    "zoneinfo",
}
"""Each takes a millisecond or more. Import it in the one function that needs it, or do without."""


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after running `code`."""
    told = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_what_exec_needs_imports_nothing_slow() -> None:
    assert loaded(f"import {', '.join(MODULES)}") & SLOW == set()


def test_opening_a_store_and_claiming_imports_nothing_slow_either(tmp_path: Path) -> None:
    """What a function imports when it is called is no saving where it is always called."""
    assert loaded(CLAIM.format(url=f"sqlite:///{tmp_path}/cronce.db")) & SLOW == set()


def test_exec_imports_no_logging_before_there_is_a_line_to_write() -> None:
    modules = loaded("import cronce.integrations.command")
    assert "cronce.runtime.log" in modules
    assert modules & {"logging", "cronce.protocol.shapes"} == set()


def test_a_whole_exec_imports_nothing_slow_but_what_reads_its_arguments(tmp_path: Path) -> None:
    """What finds the journal of this machine brought `hashlib` and `urllib.parse` along: a tenth of the start."""
    words = ["exec", "job", "--schedule", "* * * * *", "--slot", "2026-03-29T01:00:00Z", "--start-within", "3650d"]
    command = [sys.executable, "-I", "-X", "importtime", "-m", "cronce", *words, "--store", f"sqlite:///{tmp_path}/db"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run([*command, "--", "true"], capture_output=True, text=True, check=True, env=environment)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "cronce.runtime.journal" in imported
    assert imported & SLOW == {"argparse", "locale"}


def test_importing_cronce_loads_none_of_its_modules() -> None:
    assert {name for name in loaded("import cronce") if name.startswith("cronce.")} == set()


def test_what_is_slow_is_seen_here() -> None:
    assert loaded("import logging.handlers") & SLOW >= {"logging", "socket"}


CLAIM = """
from datetime import UTC, datetime, timedelta

from cronce.clock import SystemClock
from cronce.model import slot
from cronce.protocol.record import Outcome
from cronce.runtime.flow import drive
from cronce.protocol.terms import Terms
from cronce.runtime.ledger import Grant, Ledger, Wanted
from cronce.schedule import parse_schedule, slot_of
from cronce.stores import open_store

store, clock = open_store("{url}"), SystemClock()
ledger = Ledger(store.traits, clock, "house:1")
at = slot_of(parse_schedule("*/5 * * * *"), datetime(2026, 3, 29, 1, tzinfo=UTC))
wanted = Wanted(slot("billing", at), Terms(timedelta(minutes=5), outside=True))
(grant,) = drive(ledger.claim([wanted]), store, clock)
assert isinstance(grant, Grant), grant
drive(ledger.finish(grant, Outcome.SUCCEEDED), store, clock)
store.close()
"""
