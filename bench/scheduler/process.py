"""A scheduler as a child: it says JSON lines, hears lines, and ends when there is nothing more to hear."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 60.0
TICKS: Final = os.sysconf("SC_CLK_TCK")


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def given() -> dict[str, Any]:
    """What the parent gave a program of this package."""
    arguments = json.loads(sys.argv[1])
    assert isinstance(arguments, dict)
    return arguments


def sleep_until(instant: float) -> None:
    """Until then by the wall clock, which the slots are by."""
    time.sleep(max(0.0, instant - time.time()))


class Child:
    def __init__(self, program: str, **arguments: object) -> None:
        command = [sys.executable, "-W", "ignore", "-m", f"bench.scheduler.{program}", json.dumps(arguments)]
        self._program = program
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def told(self) -> dict[str, Any]:
        """The next that the child says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench.scheduler.{self._program} ended with {self._process.wait(PATIENCE)}")
        facts = json.loads(line)
        assert isinstance(facts, dict)
        return facts

    def ask(self, word: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self.told()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def cpu(self) -> float:
        """Seconds of a core so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident, in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
