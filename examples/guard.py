"""A guarded job, an async one and a lock, on one SQLite file.

    python examples/guard.py

Eight threads call the same job at the same moment, as eight machines would; eight tasks call the async one. One of them
runs, and the others are told who does. The lock lets eight threads through one by one.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TypeVar

from cronce import Cronce, LockHeld, Run, Skipped

T = TypeVar("T")

CALLERS = 8


def at_once(call: Callable[[], T]) -> list[T]:
    """What all callers get."""
    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(lambda _: call(), range(CALLERS)))


def a_job(cron: Cronce, book: Path) -> bool:
    @cron.job("0 9 * * *", tz="Europe/Berlin")
    def daily_report(run: Run) -> str:
        with book.open("a") as file:
            file.write(f"{run.key}\n")
        return "sent"

    answers = at_once(daily_report)
    for answer in answers:
        print("daily_report", f"skipped: {answer.reason}" if isinstance(answer, Skipped) else answer)
    again = daily_report()  # an hour later, after a redeploy, by another trigger: it stays closed
    return answers.count("sent") == 1 and len(book.read_text().splitlines()) == 1 and isinstance(again, Skipped)


async def an_async_job(cron: Cronce) -> bool:
    @cron.job(every="1h", on_lost="rerun")
    async def order_sync(run: Run) -> str:
        await asyncio.sleep(0.1)
        run.check()  # raises if another has taken over meanwhile
        return "synced"

    answers = await asyncio.gather(*(order_sync() for _ in range(CALLERS)))
    print("order_sync", answers.count("synced"), "of", CALLERS)
    return answers.count("synced") == 1


def a_lock(cron: Cronce) -> bool:
    inside = 0

    def reindex() -> int:
        nonlocal inside
        with cron.lock("reindex", at_most="1m", wait="30s"):
            inside += 1
            seen = inside
            Event().wait(0.01)
            inside -= 1
            return seen

    with cron.lock("reindex"):
        try:
            with cron.lock("reindex"):
                return False
        except LockHeld as held:
            print("reindex", held)
    return at_once(reindex) == [1] * CALLERS


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Cronce(f"sqlite:///{folder}/cronce.db") as cron:
        once = a_job(cron, Path(folder, "book")) and asyncio.run(an_async_job(cron)) and a_lock(cron)
    print("each slot ran once, and nobody was in the lock with another" if once else "this is not as it should be")
    return 0 if once else 1


if __name__ == "__main__":
    sys.exit(main())
