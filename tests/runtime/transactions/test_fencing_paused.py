"""A holder that is paused in the middle of its transaction cannot commit once another has raised the fence."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path

import pytest

from cronce.errors import DatabaseUnavailable
from cronce.model import Fence
from cronce.runtime.transactions import Database, read_database
from tests.runtime.transactions.site import Site, next_fence, next_key

ROOT = Path(__file__).parents[3]


class Holder:
    """A process with a transaction, which is stopped before anything else happens."""

    def __init__(self, process: subprocess.Popen[str], key: str, fence: Fence) -> None:
        self.process, self.key, self.fence = process, key, fence

    @property
    def is_stopped(self) -> bool:
        return " T " in Path(f"/proc/{self.process.pid}/stat").read_text()

    def outcome(self) -> str:
        """Wake it, and hear what it says at its end."""
        self.process.send_signal(signal.SIGCONT)
        said, _ = self.process.communicate(timeout=60)
        return said.strip()


@contextmanager
def paused(site: Site, where: str, what: str = "write", step: str = "") -> Iterator[Holder]:
    key, fence = next_key(), next_fence()
    holder = [sys.executable, "-m", "tests.runtime.transactions.holder"]
    command = [*holder, site.kind, site.url, key, str(fence), where, what, step]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield Holder(process, key, fence)
        finally:
            process.kill()


SERVERS = pytest.mark.parametrize("site", ["postgresql", "mariadb"], indirect=True)


@SERVERS
def test_paused_before_its_check_it_keeps_nobody_waiting_and_cannot_commit(site: Site, database: Database) -> None:
    with paused(site, "check") as holder:
        assert database.raise_fence(holder.key, next_fence()) is False
        assert holder.is_stopped
        assert holder.outcome() == "LeaseLost"
    assert site.written(holder.key) == []


def test_paused_behind_its_check_it_is_cut_off_and_cannot_commit(postgres_site: Site, mariadb_site: Site) -> None:
    """Neither after another run has raised the fence, nor after a sweeper has sealed it. (All at once: it is the
    waiting that takes time.)"""
    with ThreadPoolExecutor(4) as pool:
        cases = product((postgres_site, mariadb_site), (_taken_over, _swept))
        list(pool.map(lambda case: case[1](case[0]), cases))


def _taken_over(site: Site) -> None:
    with closing(read_database(site.url)) as database, paused(site, "commit", step="charge") as holder:
        assert database.raise_fence(holder.key, next_fence()) is False
        _refused(site, holder)


def _swept(site: Site) -> None:
    with closing(read_database(site.url)) as database, paused(site, "commit") as holder:
        assert database.seal(holder.key, holder.fence) is False
        _refused(site, holder)
        assert database.raise_fence(holder.key, next_fence()) is False


def _refused(site: Site, holder: Holder) -> None:
    assert holder.is_stopped
    assert holder.outcome() == "LeaseLost"
    assert site.written(holder.key) == []


@SERVERS
def test_a_short_pause_behind_its_check_is_waited_for_and_its_commit_is_seen(site: Site, database: Database) -> None:
    with paused(site, "commit") as holder:
        holder.process.send_signal(signal.SIGCONT)
        assert database.raise_fence(holder.key, next_fence()) is True
        assert holder.outcome() == "committed"
    assert site.written(holder.key) == [holder.key]


def test_on_sqlite_paused_before_it_wrote_it_cannot_commit(sqlite_site: Site) -> None:
    sqlite_site.ask("PRAGMA journal_mode = WAL")
    database = read_database(sqlite_site.url)
    with paused(sqlite_site, "check", "read") as holder:
        assert database.raise_fence(holder.key, next_fence()) is False
        assert holder.is_stopped
        assert holder.outcome() == "LeaseLost"
    database.close()


@pytest.mark.parametrize("where", ["check", "commit"])
def test_on_sqlite_paused_after_it_wrote_nobody_raises_the_fence_and_nothing_runs(
    sqlite_site: Site, where: str
) -> None:
    database = read_database(lambda: sqlite3.connect(sqlite_site.path, timeout=0.1, isolation_level=None))
    with paused(sqlite_site, where) as holder:
        with pytest.raises(DatabaseUnavailable, match="locked"):
            database.raise_fence(holder.key, next_fence())
        with pytest.raises(DatabaseUnavailable, match="locked"):
            database.seal(holder.key, holder.fence)
        assert holder.outcome() == "committed"
    assert sqlite_site.written(holder.key) == [holder.key]
    assert database.raise_fence(holder.key, next_fence()) is True
    database.close()
