"""A process with a job function that ends when it is told to, called once for a slot, or run by a scheduler. Run as a
script: URL, on_lost, folder, and the slot; or "scheduler", which asks for a run by hand; or "scheduler again", which
does not. What it does is written to a plain file of lines."""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import cast

from cronce import Cronce, Run
from cronce.errors import StoreError
from cronce.policy import OnLost
from tests.house.wait import wait_until

LEASE = "3s"


def main() -> None:
    url, on_lost, place, when = sys.argv[1:]
    folder = Path(place)
    book = os.open(folder / "book", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    cron = Cronce(url)

    def body(run: Run) -> None:
        os.write(book, f"start {run.key}\n".encode())
        wait_until((folder / "release").exists)
        os.write(book, f"end {run.key}\n".encode())

    lost = cast(OnLost, on_lost)
    if when.startswith("scheduler"):
        cron.job(name="ender", on_lost=lost, lease=LEASE)(body)
        scheduler = cron.start()
        scheduler.wait_ready()
        if when == "scheduler":
            cron.trigger("ender")
        wait_until((folder / "leave").exists)
        return
    guard = cron.job(every="1s", name="ender", missed="all", overlap="allow", on_lost=lost, lease=LEASE)(body)
    try:
        guard.at(datetime.fromisoformat(when))()
    except StoreError as error:
        os.write(book, f"{type(error).__name__}\n".encode())
        wait_until((folder / "leave").exists)


if __name__ == "__main__":
    main()
