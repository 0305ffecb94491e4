"""What says something of itself where there is no room for it: a log on a disk that is full costs no run."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cronce import Cronce
from cronce.runtime.log import LOGGER
from cronce.testing import manual
from tests.house.wait import wait_until
from tests.runtime.scheduling.life.town import Town, children

FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path)
    yield town
    town.close()


@pytest.mark.parametrize("options", [(), ("--log-json", "-v"), ("-n", "2"), ("--health", "0")])
def test_schedulers_whose_words_nobody_takes_go_on_and_end_well(town: Town, options: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        process = town.run(*options, stdout=full, stderr=full)
    wait_until(lambda: len(town.lines("end")) > 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert set(town.starts().values()) == {1}


def test_the_foreman_replaces_one_that_died_although_it_cannot_say_so(town: Town) -> None:
    with FULL.open("w") as full:
        process = town.run("-n", "2", stdout=full, stderr=full)
    town.wait_until_there(2)
    first, second = children(process.pid)
    town.start("kill", "-9", str(first)).wait()
    wait_until(lambda: len(children(process.pid)) == 2 and first not in children(process.pid))
    assert second in children(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--", "touch", "ran"], 0),  # which store it is would be said now: nobody chose one
        (["--verbose", "--", "touch", "ran"], 0),
        (["--observe", "--", "touch", "ran"], 0),
        (["--", "nothing-of-this-name"], 127),
        (["--store", "redis://127.0.0.1:1", "--", "touch", "ran"], 75),
    ],
)
def test_exec_runs_and_says_how_it_went_by_its_code(words: list[str], code: int, tmp_path: Path) -> None:
    call = [sys.executable, "-m", "cronce", "exec", "job", "--schedule", "@monthly", *words]
    with FULL.open("w") as full:
        process = subprocess.run(
            call,
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            stdout=full,
            stderr=full,
            timeout=110,
            check=False,
        )
    assert (process.returncode, (tmp_path / "ran").exists()) == (code, code == 0)


def test_a_log_file_on_a_full_disk_keeps_no_job_from_running(capfd: pytest.CaptureFixture[str]) -> None:
    cron = Cronce("memory:")

    @cron.job(every="1m", name="broken")
    def broken() -> None:
        raise ValueError("no printer")

    handler = logging.FileHandler(FULL)
    LOGGER.addHandler(handler)
    try:
        with manual(cron, "2026-03-01T00:00:30Z") as time:
            assert [one.ok for one in time.advance("3m")] == [False] * 3
    finally:
        LOGGER.removeHandler(handler)
        with suppress(OSError):  # it tries once more
            handler.close()
    assert "No space left on device" in capfd.readouterr().err
