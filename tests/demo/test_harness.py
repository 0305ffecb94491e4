"""cronce demo: the real processes, the real signals, and the exact numbers."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest


def test_with_the_guard_every_slot_runs_once_and_without_it_they_do_not(tmp_path: Path) -> None:
    """Eight slots of three processes, the third slot's winner killed, the fifth's paused. Without the guard three
    processes start three slots each, and two of them all the others."""
    command = [sys.executable, "-m", "cronce", "demo", "--json", "--seconds", "8", "--save", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    taken_over = told["guarded"].pop("taken_over")
    assert told == {
        "guarded": {"slots": 8, "runs": 8, "extra": 0, "missed": 0, "lost": 0, "killed": 1, "paused": 1},
        "unguarded": {
            "slots": 8, "runs": 8, "extra": 11, "missed": 0, "lost": 0, "taken_over": 0, "killed": 1, "paused": 1,
        },
    }  # fmt: skip
    assert taken_over >= 2  # a starved machine may lose more leases than those two
    assert {"cronce.db", "guarded.ledger", "unguarded.ledger"} <= {path.name for path in (tmp_path / "kept").iterdir()}


INTERRUPTIBLE = """
import signal, sys
from cronce.cli import main
from cronce.demo.harness import DemoHarness
def stay(demo, _slot):
    print("one is killed", flush=True)
    demo._until(lambda: False)  # all stay while one looks
DemoHarness._pause = stay
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background has it ignored
sys.exit(main(["demo", "--seconds", "8"]))  # the kill comes the sooner, the fewer slots there are
"""


def _living(folder: Path) -> list[str]:
    """Processes that have the folder's name among their words."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = command.read_bytes().decode(errors="replace")
            found += [words] if str(folder) in words else []
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_and_no_file_behind(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE]
    environ = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            lines = iter(process.stdout.readline, "")
            assert "one is killed\n" in lines
            assert len(_living(tmp_path)) == 4
            if number is signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does: everybody gets it
            else:
                process.send_signal(number)
            assert process.wait(timeout=60) == 130
            assert process.stderr.read() == "cronce demo: interrupted\n"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (_living(tmp_path), list(tmp_path.iterdir())) == ([], [])
