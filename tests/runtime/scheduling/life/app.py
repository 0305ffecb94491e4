"""An application that says in a plain file of lines what it does. What its body is like, the environment says."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def told(run: Run) -> Iterator[None]:
    say("start", run)
    try:
        yield
    except BaseException:
        say("cut", run)
        raise
    say("end", run)


def body(run: Run) -> None:
    with told(run):
        BODY()


async def body_async(run: Run) -> None:
    with told(run):
        while not RELEASE.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.002)


SCRIPT = """
say() { echo "$1 $CRONCE_JOB $CRONCE_SLOT $CRONCE_ATTEMPT $$ 0 0" >> "$LIFE_BOOK"; }
trap 'say cut; exit 1' TERM
say start
while ! [ -e "$LIFE_RELEASE" ]; do sleep 0.02; done
say end
"""

for number in range(JOBS):
    policies, name = {"every": "1s"} | POLICIES, f"job{number}"
    match os.environ.get("LIFE_KIND", "function"):
        case "function":
            cron.job(**policies, name=name)(body)
        case "isolated":
            cron.job(**policies, name=name, isolate=True)(body)
        case "async":
            cron.job(**policies, name=name)(body_async)
        case _:
            cron.command(name, ["sh", "-c", SCRIPT], **policies)
