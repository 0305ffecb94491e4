"""The distribution's own cron on three machines that share a store: lines as people have them, and guarded."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.house.needs import tool
from tests.house.wait import wait_until
from tests.integrations.machines import Machine, machine, preload
from tests.runtime.scheduling.life.town import children

MACHINES = 3
SOON = 4
"""Seconds from when a daemon first asks what time it is to its midnight. What it misses later it makes up for."""
A_WHILE = 45
"""Seconds in which all are through, by the real clock, which the guarded lines go by."""

LINES = r"""
@daily echo one two >> $OUT/echo
@daily {folder}/script.sh "it's" 100\% \\ >> $OUT/script
@daily {folder}/plain.sh a-b +\%F
@daily cat >> $OUT/input%first line%second 'line', 100\%%
SHELL=/bin/bash
0 0 * * * [[ a < b ]] && echo "${{BASH_VERSION:+bash}} $(date +\%z | tail -c 3)" >> $OUT/bash
"""
SCRIPT = '#!/bin/sh\necho "$# $*"\n'
PLAIN = 'echo "$# $*" >> $OUT/plain\n'  # no #! at all: a shell runs it all the same
WRITTEN = {"echo", "script", "plain", "input", "bash"}


def midnight() -> float:
    """The next one, of the clocks that cron fires by."""
    tomorrow = datetime.now().astimezone() + timedelta(days=1)
    return tomorrow.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("script.sh", SCRIPT), ("plain.sh", PLAIN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.timeout(120)
def test_real_cron_on_three_machines_runs_each_guarded_line_once_and_to_the_letter(folder: Path) -> None:
    """What the unguarded lines write is what cron makes of them; the guarded ones must write the same, and once."""
    cron = tool("cron", "apt-get install cron")
    library = preload(folder)
    lines = LINES.format(folder=folder)
    (folder / "before.cron").write_text(f"OUT={folder}/before\n{lines}")
    (folder / "after.cron").write_text(f"OUT={folder}/after\nSHELL=/bin/sh\n{lines}")
    with ExitStack() as stack:
        hosts = [stack.enter_context(machine()) for _ in range(MACHINES)]
        for host in hosts:
            host.run("crontab", "-", given=f"CRONCE_URL=sqlite:///{folder}/cronce.db\n")
            host.cronce("install", str(folder / "after.cron"), "--name", "after", "--wrap")
            host.cronce("install", str(folder / "before.cron"), "--name", "before")
        wait_until(lambda: midnight() - time.time() > A_WHILE)
        daemons = [stack.enter_context(fired(host, [cron, "-f"], library)) for host in hosts]
        # Lines are started from top to bottom: with all of the lower block written, all of the upper is started.
        wait_until(lambda: runs(written(folder / "before")) == dict.fromkeys(WRITTEN, MACHINES))
        wait_until(lambda: not any(map(children, daemons)))
    once = written(folder / "after")
    assert once.keys() == WRITTEN
    assert written(folder / "before") == {name: text * MACHINES for name, text in once.items()}
    assert once["input"] == "first line\nsecond 'line', 100%\n"


@contextmanager
def fired(host: Machine, words: list[str], library: Path) -> Iterator[int]:
    """A daemon that takes midnight to be near; its number."""
    skew = {"LD_PRELOAD": str(library), "SKEW_BEGIN": str(int(midnight()) - SOON)}
    with host.start(*words, env={**os.environ, **skew}) as daemon:
        try:
            yield daemon.pid
        finally:
            daemon.terminate()


def runs(texts: dict[str, str]) -> dict[str, int]:
    return {name: text.count("\n") // (2 if name == "input" else 1) for name, text in texts.items()}


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}
