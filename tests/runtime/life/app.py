"""An application that says in a plain file of lines what it does. What its body is like, the environment says."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cronce import Cronce, Run
from cronce.clock import SystemClock
from cronce.model import spell

cron = Cronce()
boot = SystemClock().boot
BOOK, RELEASE = os.environ["LIFE_BOOK"], Path(os.environ["LIFE_RELEASE"])
JOBS = int(os.environ.get("LIFE_JOBS", "1"))
POLICIES = json.loads(os.environ.get("LIFE_POLICIES", "{}"))


def say(what: str, run: Run) -> None:
    line = f"{what} {run.job} {spell(run.at)} {run.attempt} {os.getpid()} {boot()} {time.time()}\n"
    book = os.open(BOOK, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(book, line.encode())
    os.close(book)


def long() -> None:
    while not RELEASE.exists():
        time.sleep(0.002)


def stuck() -> None:
    if not RELEASE.exists():
        time.sleep(600)  # a call into C: nothing that is thrown into this thread arrives before it is over


def orphan() -> None:
    """Leave a process behind that nobody waits for, but process 1."""
    subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)


BODIES: dict[str, Callable[[], None]] = {"quick": lambda: None, "long": long, "stuck": stuck, "orphan": orphan}
BODY = BODIES[os.environ.get("LIFE_BODY", "quick")]


def body(run: Run) -> None:
    say("start", run)
    try:
        BODY()
    except BaseException:
        say("cut", run)
        raise
    say("end", run)


for number in range(JOBS):
    cron.job(**({"every": "1s"} | POLICIES), name=f"job{number}")(body)
