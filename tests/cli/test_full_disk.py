"""What says something of itself where there is no room for it: a log on a disk that is full costs no run."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

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


def test_schedulers_whose_words_nobody_takes_go_on_and_end_well(tmp_path: Path) -> None:
    """Each alone in its town, all at the same time: most of it is waiting for slots."""
    ways = [(), ("--log-json", "-v"), ("-n", "2"), ("--health", "0")]
    with ExitStack() as stack, FULL.open("w") as full:
        towns = [Town(tmp_path / str(number)) for number, _ in enumerate(ways)]
        for town in towns:
            town.folder.mkdir()
            stack.callback(town.close)
        processes = [town.run(*options, stdout=full, stderr=full) for town, options in zip(towns, ways, strict=True)]
        for town in towns:
            town.wait_for("end", 3)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert {options: process.wait(60) for options, process in zip(ways, processes, strict=True)} == dict.fromkeys(
            ways, 0
        )
        assert [set(town.starts().values()) for town in towns] == [{1}] * len(ways)


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
            env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
            stdout=full,
            stderr=full,
            timeout=110,
            check=False,
        )
    assert (process.returncode, (tmp_path / "ran").exists()) == (code, code == 0)


Stream = IO[str] | int | None


def in_vain(
    words: list[str], where: Path, stdout: Stream = None, stderr: Stream = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Python with a home of its own, at work where there may be no room for what it says."""
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "PYTHONPATH": str(where), **more}
    call = [sys.executable, *words]
    return subprocess.run(call, cwd=where, env=env, stdout=stdout, stderr=stderr, text=True, timeout=110, check=False)


NO_STORE_CHOSEN = """
import sys
from cronce import Cronce

if sys.argv[1:]:
    sys.stderr = None
with Cronce().lock("ledger"):
    print("ran")
"""


@pytest.mark.parametrize("closed", [(), ("closed",)])
def test_a_function_runs_although_it_cannot_say_in_which_store(closed: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(NO_STORE_CHOSEN)
    with FULL.open("w") as full:
        process = in_vain(["app.py", *closed], tmp_path, stdout=subprocess.PIPE, stderr=full)
    assert process.stdout == "ran\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--bogus"], 2),
        (["nosuchverb"], 2),
        (["run", "broken:cron"], 2),
        (["run", "nosuchmodule:cron"], 2),
        (["jobs", "--bogus"], 2),
        (["exec"], 2),
        (["exec", "--bogus"], 2),
        (["store", "nosuchaction"], 2),
    ],
)
@pytest.mark.parametrize("buffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_what_makes_no_sense_is_told_by_its_code(
    words: list[str], code: int, buffered: dict[str, str], tmp_path: Path
) -> None:
    """Whatever PYTHONUNBUFFERED says: without it, the interpreter's own last flush made 120 of them."""
    (tmp_path / "broken.py").write_text("1 / 0")
    with FULL.open("w") as full:
        done = in_vain(["-m", "cronce", *words], tmp_path, stdout=subprocess.DEVNULL, stderr=full, **buffered)
    assert done.returncode == code


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["jobs", "--help"], ["store", "init", "--help"], ["exec", "--help"]]
)
@pytest.mark.parametrize("buffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_a_help_text_for_which_there_is_no_room_ends_in_one_line(
    words: list[str], buffered: dict[str, str], tmp_path: Path
) -> None:
    with FULL.open("w") as full:
        done = in_vain(["-m", "cronce", *words], tmp_path, stdout=full, stderr=subprocess.PIPE, **buffered)
    verb = "" if words[0].startswith("-") else f" {words[0]}"
    assert (done.returncode, done.stderr) == (1, f"cronce{verb}: No space left on device\n")


def test_a_scheduler_runs_its_jobs_although_it_cannot_say_in_which_store(tmp_path: Path) -> None:
    job = "@cron.job(every='1s')\ndef tick():\n    open('ran', 'a').close()\n    cron.stop()"
    (tmp_path / "app.py").write_text(f"from cronce import Cronce\ncron = Cronce()\n{job}\n")
    with FULL.open("w") as full:
        assert in_vain(["-m", "cronce", "run", "app:cron"], tmp_path, stderr=full).returncode == 0
    assert (tmp_path / "ran").exists()


def test_a_list_for_which_there_is_no_room_ends_in_one_line(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        process = in_vain(["-m", "cronce", "next", "@daily"], tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert (process.returncode, process.stderr) == (1, "cronce next: No space left on device\n")


def test_a_list_for_a_standard_output_that_is_closed_ends_in_one_line(tmp_path: Path) -> None:
    """`cronce jobs >&-` printed nothing and exited with 0."""
    words = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "cronce", "next", "@daily"]
    done = subprocess.run(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=110, check=False)
    told = "cronce next: standard output is closed, so the answer cannot be printed\n"
    assert (done.returncode, done.stderr) == (1, told)


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
