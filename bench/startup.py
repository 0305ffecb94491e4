"""What a start costs: cron starts an interpreter every minute, and nothing else is asked of `cronce exec` as often.

*Bare* is an interpreter that imports what any such tool rests on: SQLite, JSON and dates. Each side finds its bytecode
compiled, as an installed package does, whatever PYTHONDONTWRITEBYTECODE says here: the warm-up compiles it.

*exec* is the whole of it: open a store, claim a slot of its own, run `true` under a watchdog, say that it succeeded.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

from bench.harness import AtMost, Benchmark, Sides, Slice
from cronce.model import spell

START = datetime(2026, 3, 29, 1, tzinfo=UTC)

BARE = "import sqlite3, json, datetime"
MODULES = ("cronce.runtime.ledger", "cronce.stores.sqlite", "cronce.schedule")
"""What it takes to claim a slot and to finish it."""


def start(cache: str, arguments: tuple[str, ...]) -> None:
    """Run a fresh interpreter to its end, with its bytecode in `cache`, untouched by the environment of this one."""
    command = [sys.executable, "-I", "-X", f"pycache_prefix={cache}", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def against(*arguments: str) -> Callable[[], AbstractContextManager[Sides]]:
    """An interpreter with these arguments, next to the bare one."""

    @contextmanager
    def sides() -> Iterator[Sides]:
        with TemporaryDirectory() as cache:
            yield Sides(
                ours=Slice(lambda: start(cache, arguments)),
                bare=Slice(lambda: start(cache, ("-c", BARE))),
            )

    return sides


@contextmanager
def whole_exec() -> Iterator[Sides]:
    with TemporaryDirectory() as folder:
        minutes = iter(range(10**6))

        def once() -> None:
            slot = spell(START + next(minutes) * timedelta(minutes=1))
            words = ["exec", "job", "--schedule", "* * * * *", "--slot", slot, "--start-within", "3650d"]
            words += ["--store", f"sqlite:///{folder}/db"]
            start(folder, ("-m", "cronce", *words, "--", "true"))

        yield Sides(ours=Slice(once), bare=Slice(lambda: start(folder, ("-c", BARE))))


BENCHMARKS = [
    Benchmark("exec", whole_exec, AtMost(3), note=f"python -c '{BARE}'"),
    Benchmark("imports", against("-c", f"import {', '.join(MODULES)}"), AtMost(2), note=f"python -c '{BARE}'"),
]

if __name__ == "__main__":
    from bench.__main__ import main

    sys.exit(main(["startup"]))
