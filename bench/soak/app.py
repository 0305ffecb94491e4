"""One of the schedulers that stay up: `app.py URL LEDGER NAME`. It runs under this release and under an older one."""

import os
import sys
import threading

from cronce import Cronce, Run

STEADY = 6
"""Jobs that are due every second."""

KEEP = 20
"""Runs of each that are kept."""


def main(url: str, ledger: str, name: str) -> None:
    cron = Cronce(url)
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def body(run: Run) -> None:
        threading.Event().wait(0.05)
        run.check()
        os.write(file, f"{run.slot.job} {run.at.timestamp():.0f} {name}\n".encode())

    for number in range(STEADY):
        cron.job(
            every="1s", name=f"steady-{number}", on_lost="rerun", missed="all", overlap="allow", lease="5s", keep=KEEP
        )(body)
    os.write(file, f"up 0 {name}\n".encode())
    cron.run(workers=STEADY)


if __name__ == "__main__":
    main(*sys.argv[1:])
