"""Bodies of every kind that go on until they are stopped. Each says in a folder that it has begun, and how it ended."""

import asyncio
import os
import sys
import time
from pathlib import Path

from cronce import Cronce, Run

FOLDER = "POLICIES_FOLDER"


def say(what: str, job: str) -> None:
    (Path(os.environ[FOLDER]) / f"{job}.{what}").write_text(f"{os.getpid()}")


def in_thread(run: Run) -> None:
    say("begun", run.job)
    try:
        while True:
            time.sleep(0.01)
    finally:
        say("ended", run.job)


async def on_loop(run: Run) -> None:
    say("begun", run.job)
    try:
        await asyncio.sleep(1e6)
    finally:
        say("ended", run.job)


def in_child(run: Run) -> None:
    """A call into C, from which nothing but a signal brings it back."""
    say("begun", run.job)
    try:
        time.sleep(1e6)
    finally:
        say("ended", run.job)


COMMAND = """
import os, signal, sys, time
def say(what):
    with open(f"{os.environ['POLICIES_FOLDER']}/{os.environ['CRONCE_JOB']}.{what}", "w") as file:
        file.write(f"{os.getpid()}")
def term(*_):
    say("ended")
    sys.exit(3)
signal.signal(signal.SIGTERM, term)
say("begun")
time.sleep(1e6)
"""

KINDS = ("thread", "loop", "child", "command")


def declare(cron: Cronce, kind: str, **policies: str) -> None:
    """A job of that kind that nobody but a person starts."""
    name = f"{kind}-timeout" if "timeout" in policies else f"{kind}-cancel"
    if kind == "command":
        cron.command(name, [sys.executable, "-S", "-c", COMMAND], **policies)  # type: ignore[arg-type]
        return
    body = {"thread": in_thread, "loop": on_loop, "child": in_child}[kind]
    cron.job(name=name, isolate=kind == "child", **policies)(body)  # type: ignore[arg-type]
