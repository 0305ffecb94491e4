"""The SQLite store among processes that start together, fork, and are killed."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import cronce.stores.sqlite as subject
from cronce.model import Mark, Write
from cronce.stores.base import Scan
from cronce.stores.sqlite import SqliteStore, file
from cronce.testing.contract import claim, keys_of, refusals, swap, win
from tests.stores.forks import Child, ask, locked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def is_sound(path: Path) -> bool:
    db = sqlite3.connect(path)
    answer = db.execute("PRAGMA integrity_check").fetchall()
    db.close()
    return bool(answer == [("ok",)])


# --- starting together ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", range(6))
def test_processes_that_make_the_store_together_make_one(path: Path, attempt: int) -> None:
    def start(me: Child) -> Any:
        me.wait()
        store = SqliteStore(path)
        return [store.load([]).epoch.birth, refusals(swap(store, claim("first"))) == [None]]

    children = [Child(start) for _ in range(8)]
    for child in children:
        child.go()
    answers = [child.end()[-1] for child in children]
    (birth,) = {birth for birth, _ in answers}
    assert birth == SqliteStore(path).load([]).epoch.birth
    assert [won for _, won in answers].count(True) == 1


def test_processes_that_come_and_go_leave_nothing_behind(path: Path) -> None:
    """Each is sometimes the last to leave, and deletes the log that the next is about to open.

    Two that leave in the same instant each find the other still there, and leave the log to the next who comes.
    """

    def visit(me: Child) -> int:
        me.wait()
        won = 0
        for number in range(25):
            store = SqliteStore(path)
            won += refusals(swap(store, claim(f"run/{number}"))) == [None]
            store.close()
        return won

    children = [Child(visit) for _ in range(4)]
    for child in children:
        child.go()
    assert sum(child.end()[-1] for child in children) == 25
    SqliteStore(path).close()
    assert sorted(file.name for file in path.parent.iterdir()) == ["store.db"]
    assert is_sound(path)


def test_random_batches_of_four_processes_never_meet_a_locked_file(path: Path) -> None:
    """Counters raised under the version that was read: every raise that won is in the sum, and no other."""

    def work(me: Child) -> int:
        dice, store = random.Random(os.getpid()), SqliteStore(path)
        me.wait()
        return sum(_raise_counters(store, dice) for _ in range(40))

    children = [Child(work) for _ in range(4)]
    for child in children:
        child.go()
    raised = [child.end()[-1] for child in children]
    counters = SqliteStore(path).scan(Scan("counter/")).cells
    assert sum(int(cell.value) for cell in counters) == sum(raised)
    assert SqliteStore(path).load([]).epoch.tally == sum(raised)
    assert all(raised)


def _raise_counters(store: SqliteStore, dice: random.Random) -> int:
    keys = [f"counter/{number}" for number in dice.sample(range(30), dice.randint(1, 20))]
    cells = store.load(keys).cells
    writes = [Write(cell.key, cell.version, str(int(cell.value or 0) + 1), Mark.CLOSED) for cell in cells]
    return refusals(swap(store, *writes)).count(None)


# --- being killed ---------------------------------------------------------------------------------------------------


def test_others_go_on_when_a_writer_is_killed_in_mid_transaction(path: Path) -> None:
    store = SqliteStore(path)
    with locked(path) as writer:
        writer.kill()
        (cell,) = win(store, claim("a"))
    assert cell.version == store.load([]).epoch.tally == 1
    assert is_sound(path)


def test_what_a_killed_process_was_told_it_won_is_there(path: Path) -> None:
    """Every win that it told of stands, and at most one more, whose answer it did not live to hear."""

    def work(me: Child) -> None:
        store = SqliteStore(path)
        for number in range(10_000):
            (cell,) = win(store, claim(f"{os.getpid()}/{number:05}"))
            me.say(cell.key)

    dice = random.Random(11)
    for _ in range(12):
        child = Child(work)
        told = [child.hear() for _ in range(dice.randint(1, 6))]
        time.sleep(dice.random() / 200)  # the moment is the test's dice, nothing is waited for
        child.kill()
        told += child.end()
        there = keys_of(SqliteStore(path).scan(Scan(f"{told[0].split('/')[0]}/", limit=10_000)).cells)
        assert there[: len(told)] == told
        assert len(there) - len(told) in (0, 1)
    assert is_sound(path)


# --- forks ----------------------------------------------------------------------------------------------------------


def test_what_a_child_writes_stays_when_its_parent_hangs_up(path: Path) -> None:
    """With a connection carried through the fork, or opened beside one, the child would go on in a deleted log."""
    store = SqliteStore(path)
    win(store, claim("before"))

    def work(me: Child) -> list[str]:
        win(store, claim("child 1"))
        me.say("written")
        me.wait()
        win(store, claim("child 2"))
        return keys_of(store.scan(Scan("")).cells)

    child = Child(work)
    assert child.hear() == "written"
    win(store, claim("parent"))
    store.close()
    everything = ["before", "child 1", "child 2", "parent"]
    assert child.end() == [everything]
    assert keys_of(SqliteStore(path).scan(Scan("")).cells) == everything


def test_parent_and_child_are_two_claimants(path: Path) -> None:
    store = SqliteStore(path)
    children = [Child(lambda _: sum(_won(store, f"run/{number}") for number in range(50))) for _ in range(3)]
    mine = sum(_won(store, f"run/{number}") for number in range(50))
    assert mine + sum(child.end()[-1] for child in children) == 50


def _won(store: SqliteStore, key: str) -> bool:
    return refusals(swap(store, claim(key))) == [None]


@contextmanager
def forking() -> Iterator[None]:
    """As between the hooks before and after a fork of this thread."""
    subject._before_fork()
    try:
        yield
    finally:
        subject._after_fork()


def test_no_thread_opens_a_store_while_another_forks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child waited for ever for a lock inside of SQLite that such a thread of its parent had held: 2 of 44."""
    opened, connect = threading.Event(), file.connect

    def watched(*given: Any, **named: Any) -> sqlite3.Connection:
        opened.set()
        return connect(*given, **named)

    monkeypatch.setattr(file, "connect", watched)
    with forking():
        thread = threading.Thread(target=SqliteStore, args=[path])
        thread.start()
        assert not opened.wait(0.3)
    thread.join()
    assert opened.is_set()


def test_what_is_dropped_while_another_thread_forks_is_closed_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by waiting for the fork, which may wait for a call that this thread is in."""
    closed: list[str] = []
    close = subject.SqliteConnection.close

    def noted(connection: subject.SqliteConnection) -> None:
        if connection.path == str(path):  # not those of other tests
            closed.append(connection.path)
        close(connection)

    monkeypatch.setattr(subject.SqliteConnection, "close", noted)
    gone: list[SqliteStore] = []
    with forking():
        gone.append(SqliteStore(path))
        thread = threading.Thread(target=gone.clear)
        thread.start()
        thread.join()
        assert closed == []
    assert closed == [str(path)]


def test_a_fork_waits_for_the_threads_at_work_and_disturbs_none(path: Path) -> None:
    store, stop, won = SqliteStore(path), threading.Event(), Counter[str]()

    def work(name: str) -> None:
        while not stop.is_set():
            won[name] += _won(store, f"{name}/{won[name]}")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    answers = [ask(lambda: _won(store, "child/" + str(os.getpid()))) for _ in range(15)]
    stop.set()
    for thread in threads:
        thread.join()
    assert answers == [True] * 15
    assert store.load([]).epoch.tally == won.total() + 15


def test_a_child_leaves_its_parents_connection_alone_at_its_end(path: Path) -> None:
    """Even one that runs the interpreter's whole clean-up."""
    store = SqliteStore(path)
    child = os.fork()
    if child == 0:
        try:
            store.close()
            del store
        finally:
            os._exit(0)
    win(store, claim("a"))
    os.waitpid(child, 0)
    win(store, claim("b"))
    assert keys_of(SqliteStore(path).scan(Scan("")).cells) == ["a", "b"]


UNSEEN: Final = """
import ctypes, os, sys
from pathlib import Path
from cronce.errors import StoreUnusable
from cronce.stores.sqlite import SqliteStore
from cronce.testing.contract import cell_of, put, refusals, swap, win
from cronce.model import FREE

store = SqliteStore(Path(sys.argv[1]))
win(store, put("a"))
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    try:
        store.load([])
    except StoreUnusable as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.waitpid(pid, 0)
assert cell_of(store, "a").version == 1
assert refusals(swap(store, put("b", seen=FREE))) == [None]
"""


def test_a_fork_that_python_does_not_see_is_refused(path: Path) -> None:
    """In a process without threads: in the child of one with some, Python waits for a thread that is not there."""
    told = subprocess.run([sys.executable, "-c", UNSEEN, path], capture_output=True, check=True, timeout=60).stdout
    assert b"was open during a fork that Python did not see" in told
