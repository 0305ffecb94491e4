"""A process of the colour blue that is drained, and killed in the midst of two runs: `doomed URL SLOT BOOK`."""

import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from cronce import Cronce, Run

DOOMED = {
    "lost_skip": {"on_lost": "skip", "lease": "5s"},
    "lost_rerun": {"on_lost": "rerun", "lease": "5s"},
}
"""Of each, the one slot is run by the process that is killed."""


def declare(cron: Cronce, slot: datetime, body: Callable[[Run], Any]) -> None:
    for name, policies in DOOMED.items():
        cron.job(at=slot, name=name, **policies)(body)  # type: ignore[arg-type]
    cron.job(every="1s", overlap="allow", start_within="1m", name="drained")(body)


def main(url: str, slot: str, book: str) -> None:
    def body(run: Run) -> None:
        with open(book, "a") as lines:  # noqa: PTH123  appended whole
            lines.write(f"{run.job} {run.at.isoformat()}\n")
        while run.job in DOOMED:
            time.sleep(0.01)

    cron = Cronce(url)
    declare(cron, datetime.fromisoformat(slot), body)
    cron.run(labels={"colour": "blue"})


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
