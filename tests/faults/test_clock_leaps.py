"""The clock of a store's server, or of an SQLite host, leaps: by an hour, by 400 days, ahead and back. No slot runs
before its instant, none twice, and all of them in the end; the alert is raised and cleared."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cronce import Cronce
from cronce.clock import boot_id
from cronce.model import job_cell, spell
from cronce.monitor.monitor import Monitor
from cronce.protocol.record import decode_job
from cronce.stores import open_store
from cronce.stores.redis import init
from tests.faults.leaping import Leaping, leaping
from tests.faults.notes import Note
from tests.house.wait import wait_until
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.valkey import Valkey

HOUR, DAYS = 3600, 400 * 86400
FULL = "CRONCE_LEAPS" in os.environ
"""`make proof` takes every leap, of three lengths."""

LONG = (3, 20, 60) if FULL else (3,)
PLAYS = [
    ("postgres", (DAYS, -HOUR, HOUR, -DAYS) if FULL else (DAYS, -HOUR)),
    ("valkey", (DAYS, -HOUR, HOUR, -DAYS) if FULL else (HOUR, -DAYS)),
]
MAKE: dict[str, Callable[[], Server]] = {"postgres": Postgres, "valkey": Valkey}


def hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def states(told: list[dict[str, Any]]) -> set[str]:
    return {one["alert"]["state"] for one in told if one["alert"]["kind"] == "clock"}


@pytest.mark.timeout(400 if FULL else 120)
@pytest.mark.parametrize(("name", "leaps"), PLAYS, ids=["postgres", "valkey"])
def test_schedulers_run_each_slot_once_while_the_clock_of_their_server_leaps(
    name: str, leaps: tuple[int, ...], note: Note
) -> None:
    ran: list[tuple[datetime, datetime]] = []
    told: list[dict[str, Any]] = []
    server = MAKE[name]()
    clock = leaping(server)
    with server, Cronce(server.url) as cron:
        if name == "valkey":
            init(server.url)  # else nobody leads for half a minute

        @cron.job(name="tick", every="1s", missed="all", overlap="wait")
        def tick(run: Any) -> None:
            ran.append((run.slot.at, datetime.now(UTC)))

        with Monitor(cron, [told.append]), cron.start():
            wait_until(lambda: len(ran) > 2)
            for long in LONG:
                for leap in leaps:
                    before = len(ran)
                    with clock.by(leap, long):
                        within = len(ran)
                    wait_until(lambda before=before, long=long: len(ran) > before + long)  # type: ignore[misc]
                    assert within <= before + 2  # those that were on their way
            wait_until(lambda: states(told) == {"raised", "cleared"})
        store = open_store(server.url)
        floor = decode_job(store.load([job_cell("tick")]).cells[0].value).floor
        store.close()
    slots = sorted(at for at, _ in ran)
    note({"store": name, "leaps": len(LONG) * len(leaps), "slots": len(slots)})
    assert slots == [slots[0] + number * timedelta(seconds=1) for number in range(len(slots))]
    assert all(began >= at for at, began in ran)
    assert floor < slots[0]


def test_a_command_on_an_sqlite_host_whose_clock_is_ahead_for_a_while_runs_the_slot_that_is_due(tmp_path: Path) -> None:
    """A wrong RTC before NTP: it exited with 0, ran nothing and said nothing, for as long as the leap was."""
    clock, book = Leaping(tmp_path), tmp_path / "book"
    command = [
        sys.executable, "-m", "cronce", "exec", "tick", "--schedule", "every 1h", "--store", f"sqlite:///{tmp_path}/s.db",
        "--", "sh", "-c", f'echo "$CRONCE_SLOT" >> {book}',
    ]  # fmt: skip
    env = {**os.environ, **clock.env}
    before = hour()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, book.read_text().split()) == (0, [spell(before)])
    clock.to(2 * HOUR)
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as late:
        assert late.stderr is not None
        said = late.stderr.readline()
        clock.to(0.0)
        assert late.wait(60) == 0
    assert "the store's clock jumped 2h ahead, so cronce starts no runs until it is right" in said
    assert f"`cronce store clock --store sqlite:///{tmp_path}/s.db`" in said
    ran = book.read_text().split()
    assert set(ran) <= {spell(before), spell(hour())}
    assert len(ran) == len(set(ran))


def test_a_command_that_finds_its_slots_closed_by_a_leap_says_so_until_one_command_mends_it(tmp_path: Path) -> None:
    """Nothing was seen of the clock before the leap, so nobody could tell."""
    clock, url = Leaping(tmp_path), f"sqlite:///{tmp_path}/s.db"
    env = {**os.environ, **clock.env}

    def cronce(*words: str) -> subprocess.CompletedProcess[str]:
        done = [sys.executable, "-m", "cronce", *words]
        return subprocess.run(done, env=env, capture_output=True, text=True, check=False)

    execute = ("exec", "tick", "--schedule", "every 1s", "--store", url, "--", "true")

    def boot() -> None:
        """What this machine saw of the store's clock is known until it is started anew."""
        with closing(open_store(url)) as store:
            store.purge(store.load([f"machine/{boot_id()}"]).cells)

    assert cronce(*execute).returncode == 0
    boot()
    clock.to(DAYS)
    for verb in ("pause", "resume"):  # what fell due meanwhile is passed over, up to then
        assert cronce(verb, "tick", "--by", "ada", "--store", url).returncode == 0
    clock.to(0.0)
    boot()
    blocked = cronce(*execute)
    assert blocked.returncode == 76
    assert "was not run: the store's clock was far ahead at some time, which closed slots up to" in blocked.stderr
    assert f"`cronce store clock --store {url}`" in blocked.stderr
    for words in (("doctor",), ("watch", "--once"), ("why", "tick")):
        assert f"`cronce store clock --store {url}`" in cronce(*words, "--store", url).stdout.replace("\n", " ")
    mended = cronce("store", "clock", url)
    assert "and is confirmed as right; jobs that start again from now on: 1" in mended.stdout
    wait_until(lambda: cronce(*execute, "-v").returncode == 0)
    assert "cronce store clock" not in cronce("watch", "--once", "--store", url).stdout
