"""Debian's cron as three hosts have it: each with a crontab and a wall clock of its own."""

import os
import sys
from pathlib import Path

from tests.faults.neighbours.book import VARIABLE
from tests.faults.neighbours.stage import Stage
from tests.house.needs import tool
from tests.integrations.machines import machine, preload

SKEWS = ("-0.4", "0", "0.4")


def start(stage: Stage) -> int:
    cron = tool("cron", "apt-get install cron")
    library = preload(stage.folder)
    daemons = []
    for skew in SKEWS:
        wrong = {"LD_PRELOAD": str(library), "SKEW_SECONDS": skew}
        host = stage.enter_context(machine())
        host.run("crontab", "-", given=_crontab({**wrong, "CRONCE_URL": stage.env["CRONCE_URL"]}, stage.book))
        if stage.guarded:
            host.cronce("wrap", "--yes", env={"XDG_STATE_HOME": str(stage.folder)})
        daemons.append(host.start(cron, "-f", env={**os.environ, **wrong}))
        stage.callback(daemons[-1].wait)
        stage.callback(daemons[-1].kill)
    return daemons[1].pid


def _crontab(env: dict[str, str], book: Path) -> str:
    lines = [f"{name}={value}" for name, value in (env | {VARIABLE: str(book)}).items()]
    body = f"cd {Path.cwd()} && {sys.executable} -m tests.faults.neighbours.book"
    return "\n".join([*lines, f"* * * * * {body}\n"])
