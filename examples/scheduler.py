"""Three schedulers, one of them stopped on the way, on one SQLite file.

    python examples/scheduler.py

Each process runs the same jobs. Every slot of every second runs in one of them, the work is shared, and when one is
told to stop, the others take its share: no slot is missed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cronce import Cronce, Run

JOBS, PROCESSES, SLOTS = 4, 3, 5

cron = Cronce()  # $CRONCE_URL


def body(run: Run) -> None:
    with Path(os.environ["BOOK"]).open("a") as book:
        book.write(f"{run.key} {os.getpid()}\n")


for number in range(JOBS):
    cron.job(every="1s", name=f"job-{number}")(body)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder, "book")
        env = {**os.environ, "CRONCE_URL": f"sqlite:///{folder}/cronce.db", "BOOK": str(book)}
        book.touch()
        crew = [subprocess.Popen([sys.executable, __file__, "member"], env=env) for _ in range(PROCESSES)]  # noqa: S603
        wait_for(book, JOBS * 2)
        crew[0].terminate()  # it finishes what it runs, and leaves
        wait_for(book, JOBS * SLOTS)
        for process in crew[1:]:
            process.terminate()
        ended_well = all(process.wait(60) == 0 for process in crew)
        return verdict([line.split() for line in book.read_text().splitlines()], ended_well)


def wait_for(book: Path, lines: int) -> None:
    while len(book.read_text().splitlines()) < lines:
        time.sleep(0.05)


def verdict(lines: list[list[str]], ended_well: bool) -> int:
    for process, number in sorted(Counter(process for _, process in lines).items()):
        print(f"process {process} ran {number}")
    once = ended_well and len({key for key, _ in lines}) == len(lines)
    print("each slot ran once, in whichever process" if once else "this is not as it should be")
    return 0 if once else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["member"]:
        sys.exit(0 if cron.run() else 1)
    sys.exit(main())
