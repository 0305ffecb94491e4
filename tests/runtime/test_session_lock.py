"""Session locks as users write them, on a real PostgreSQL: exclusion without a table, while a session lives."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronce import Cronce, LeaseLost, LockHeld, Skipped
from cronce.errors import BadInput, BadPolicy, StoreUnavailable, StoreUnusable
from cronce.runtime.session_lock import SessionHolding
from cronce.stores.memory import MemoryStore
from cronce.stores.postgres.session import key_of
from tests.house.wait import wait_until
from tests.servers.postgres import Admin, PgBouncer, Postgres, backends


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The server is shared by all tests of a worker, so each has a lock of its own."""
    return f"{request.node.name.partition('[')[0]}-{os.getpid()}"


@pytest.fixture
def cron(postgres: Postgres) -> Iterator[Cronce]:
    with Cronce(postgres.url) as cron:
        yield cron


@pytest.fixture
def hasty(postgres: Postgres) -> Iterator[Cronce]:
    """For servers that do not answer: they are not waited for for long, but for long enough for one that is busy."""
    with Cronce(f"{postgres.url}?timeout=2") as cron:
        yield cron


@pytest.fixture
def other(postgres: Postgres) -> Iterator[Cronce]:
    with Cronce(postgres.url) as cron:
        yield cron


# --- exclusion ------------------------------------------------------------------------------------------------------


def test_a_session_lock_is_held_by_one_and_says_by_whom(cron: Cronce, other: Cronce, admin: Admin, name: str) -> None:
    with cron.lock(name, session=True) as lock:
        assert isinstance(lock, SessionHolding)
        assert lock.key == key_of(name)
        assert lock.trusted
        lock.check()
        (process,) = backends(admin, lock.key)
        with pytest.raises(LockHeld) as held:
            other.lock(name, session=True).__enter__()
        me = cron._in_session().holder
        assert str(held.value) == f"the lock {name} is held by {me} (backend {process}, from 127.0.0.1)"
        assert held.value.until is None
        with pytest.raises(BadInput, match="a session lock has no fence"):
            _ = lock.fence
    with other.lock(name, session=True):
        assert backends(admin, key_of(name)) not in ([], [process])


def test_it_is_not_reentrant_although_advisory_locks_are(cron: Cronce, name: str) -> None:
    lock = cron.lock(name, session=True)
    with lock:
        for again in (lock, cron.lock(name, session=True), cron.lock("another", session=key_of(name))):
            with pytest.raises(LockHeld) as held:
                again.__enter__()
            assert held.value.by == cron._in_session().holder
    with lock:
        pass


def test_a_number_of_the_users_own_excludes_whoever_uses_it_with_any_tool(
    cron: Cronce, admin: Admin, name: str
) -> None:
    with cron.lock(name, session=1001):
        assert admin.execute("SELECT pg_try_advisory_lock(1001)").fetchone() == (False,)
    admin.execute("SELECT pg_advisory_lock(1001)")
    with pytest.raises(LockHeld, match=r"is held by a session \(backend [0-9]+, from 127.0.0.1\)"):
        cron.lock(name, session=1001).__enter__()
    admin.execute("SELECT pg_advisory_unlock(1001)")


def test_a_hundred_locks_take_one_connection_which_goes_with_close(cron: Cronce, admin: Admin, name: str) -> None:
    def connections() -> int:
        rows = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (cron._in_session().holder,)
        )
        return int(rows.fetchone()[0])  # type: ignore[index]

    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(cron.lock(f"{name}-{number}", session=True))
        (process,) = backends(admin, key_of(f"{name}-99"))
        held = admin.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", (process,))
        assert held.fetchone() == (100,)
        assert connections() == 1
        cron.close()
        assert connections() == 1, "something is held"
    assert backends(admin, key_of(f"{name}-99")) == []
    cron.close()
    wait_until(lambda: connections() == 0)
    with cron.lock(name, session=True):
        assert connections() == 1


def test_whoever_waits_blocks_no_other_lock_of_the_process(cron: Cronce, other: Cronce, name: str) -> None:
    order: list[object] = []
    with other.lock(name, session=True):
        waiting = threading.Thread(target=lambda: order.append(_waited(cron, name)))
        waiting.start()
        for number in range(5):
            with cron.lock(f"{name}-{number}", session=True):
                order.append(number)
    waiting.join(60)
    assert order == [0, 1, 2, 3, 4, "waited"]


def _waited(cron: Cronce, name: str) -> str:
    with cron.lock(name, session=True, wait="1m"):
        return "waited"


def test_waiting_ends_with_who_has_it(cron: Cronce, other: Cronce, name: str) -> None:
    with other.lock(name, session=True), pytest.raises(LockHeld, match="held by"):
        cron.lock(name, session=True, wait="300ms").__enter__()


def test_many_threads_of_two_processes_are_never_in_the_block_together(cron: Cronce, other: Cronce, name: str) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(one: Cronce) -> None:
        with one.lock(name, session=True, wait="2m"):
            inside.append(1)
            time.sleep(0.001)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work, args=(one,)) for one in (cron, other) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 6


def test_a_users_rollback_and_lost_connection_change_nothing(
    cron: Cronce, other: Cronce, postgres: Postgres, name: str
) -> None:
    with cron.lock(name, session=True) as lock:
        user = psycopg.connect(postgres.url)
        user.execute("SELECT 1")
        user.rollback()
        user.execute("SELECT pg_advisory_unlock_all()")
        user.close()
        lock.check()
        with pytest.raises(LockHeld):
            other.lock(name, session=True).__enter__()


# --- tasks, and single ----------------------------------------------------------------------------------------------


def test_tasks_exclude_each_other(cron: Cronce, name: str) -> None:
    inside: list[int] = []
    most: list[int] = []

    async def work() -> None:
        async with cron.lock(name, session=True, wait="1m"):
            inside.append(1)
            await asyncio.sleep(0.001)
            most.append(len(inside))
            inside.pop()

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(main())
    assert most == [1] * 4


def test_a_task_cancelled_while_it_acquires_leaves_no_lock_behind(cron: Cronce, admin: Admin, name: str) -> None:
    async def hold() -> None:
        async with cron.lock(name, session=True):
            await asyncio.Event().wait()

    async def main() -> None:
        for delay in range(6):
            task = asyncio.ensure_future(hold())
            await asyncio.sleep(delay / 1000)
            task.cancel()
            await asyncio.wait([task])
            assert backends(admin, key_of(name)) == []

    asyncio.run(main())


def test_a_single_function_is_skipped_while_it_runs_elsewhere(cron: Cronce, other: Cronce, name: str) -> None:
    @cron.single(name, session=True)
    def reindex(part: int) -> int:
        return part

    assert reindex(3) == 3
    with other.lock(name, session=True):
        assert isinstance(reindex(3), Skipped)


# --- the end of a session -------------------------------------------------------------------------------------------


def terminated(admin: Admin, process: int) -> None:
    admin.execute("SELECT pg_terminate_backend(%s)", (process,))


def stopped(_admin: Admin, process: int) -> None:
    os.kill(process, signal.SIGSTOP)


def _until_told(cron: Cronce, name: str, end: Callable[[], object]) -> None:
    """The end comes from another thread: who is told in the middle of a question leaves its connection in the lurch."""
    with ThreadPoolExecutor(1) as another, cron.lock(name, session=True):
        another.submit(end)
        while True:
            pass


LOST: dict[Callable[[Admin, int], None], str] = {
    terminated: "terminating connection due to administrator command",
    stopped: "did not answer for 2 s",
}


def test_a_holder_whose_session_is_lost_is_told_and_can_begin_again(cron: Cronce, admin: Admin, name: str) -> None:
    processes = []

    def lose() -> None:
        processes.extend(backends(admin, key_of(name)))
        terminated(admin, processes[0])

    with pytest.raises(LeaseLost, match=f"the lock {name} ended before its block did: .*{LOST[terminated]}"):
        _until_told(cron, name, lose)
    with cron.lock(name, session=True, wait="1m"):
        assert backends(admin, key_of(name)) != processes


def test_a_task_whose_session_is_lost_is_told(cron: Cronce, admin: Admin, name: str) -> None:
    async def main() -> None:
        async with cron.lock(name, session=True):
            terminated(admin, backends(admin, key_of(name))[0])
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="administrator command"):
        asyncio.run(main())


def test_all_holders_are_told_and_none_of_them_keeps_the_others(cron: Cronce, admin: Admin, name: str) -> None:
    started, told = threading.Barrier(4), []

    def hold(number: int) -> None:
        try:
            _until_told(cron, f"{name}-{number}", lambda: started.wait(60))
        except LeaseLost:
            told.append(number)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    started.wait(60)
    (process,) = backends(admin, key_of(f"{name}-0"))
    terminated(admin, process)
    for thread in threads:
        thread.join(60)
    assert sorted(told) == [0, 1, 2]


def test_a_server_that_dies_ends_the_lock_and_nobody_gets_it_before_it_is_back() -> None:
    with Postgres() as server, Cronce(server.url) as cron:
        killing = threading.Thread(target=server.kill)
        with pytest.raises(LeaseLost, match="the lock reindex ended before its block did"):
            _until_told(cron, "reindex", killing.start)
        killing.join(60)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            cron.lock("reindex", session=True).__enter__()
        server.start()
        with cron.lock("reindex", session=True):
            pass


@pytest.mark.parametrize("end", LOST)
def test_a_block_that_does_not_stop_is_kept_apart_from_others_as_far_as_can_be(
    hasty: Cronce, other: Cronce, admin: Admin, name: str, end: Callable[[Admin, int], None]
) -> None:
    """In this process its name stays taken, whatever the server knows of it; and a server that was only silent for a
    while keeps the lock until the block has ended, since nobody hung up."""
    inside, told, let_go = threading.Event(), threading.Event(), threading.Lock()
    ended: list[LeaseLost] = []
    let_go.acquire()

    def deaf() -> None:
        with hasty.lock(name, session=True):
            try:
                inside.set()
                while True:
                    pass
            except BaseException:
                told.set()
                let_go.acquire()  # in C, where nothing that is thrown arrives

    def hold() -> None:
        try:
            deaf()
        except LeaseLost as error:
            ended.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    (process,) = backends(admin, key_of(name))
    end(admin, process)
    assert told.wait(30)  # and not when some timeout of TCP is over
    with pytest.raises(LockHeld):
        hasty.lock(name, session=True).__enter__()
    if end is stopped:
        os.kill(process, signal.SIGCONT)
        with pytest.raises(LockHeld):
            other.lock(name, session=True).__enter__()
    let_go.release()
    thread.join(60)
    (why,) = map(str, ended)
    assert re.fullmatch(f"the lock {name} ended before its block did: .*{LOST[end]}.*", why, re.DOTALL)
    with hasty.lock(name, session=True, wait="1m"):
        assert backends(admin, key_of(name)) != [process]


def test_a_check_after_a_long_silence_asks_the_server(cron: Cronce, admin: Admin, name: str) -> None:
    """As after a suspend: the clock alone cannot say, the session can."""
    with cron.lock(name, session=True) as lock:
        session = cron._in_session()._session
        assert session is not None
        session.proven -= 3600
        assert not lock.trusted
        lock.check()
        assert lock.trusted


def test_a_check_of_a_lost_lock_says_why(cron: Cronce, admin: Admin, name: str) -> None:
    def lost() -> None:
        with ThreadPoolExecutor(1) as another, cron.lock(name, session=True) as lock:  # see _until_told
            another.submit(lambda: terminated(admin, backends(admin, key_of(name))[0]))
            while True:
                try:
                    lock.check()
                except LeaseLost as error:
                    words.append(str(error))
                    raise

    words: list[str] = []
    with pytest.raises(LeaseLost):
        lost()
    assert all("was lost: postgresql://" in word for word in words)


# --- other processes ------------------------------------------------------------------------------------------------

HOLD = """
import os, sys, time
from cronce import Cronce
cron = Cronce(sys.argv[1])
with cron.lock(sys.argv[2], session=True):
    if sys.argv[3] == "fork" and os.fork() == 0:
        os.write(1, b"forked\\n")
        time.sleep(60)
        os._exit(0)
    os.write(1, b"held\\n")
    time.sleep(60)
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_the_server_frees_the_lock_of_a_killed_process_at_once_even_if_its_child_lives(
    cron: Cronce, admin: Admin, postgres: Postgres, name: str, how: str
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, postgres.url, name, how], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert holder.stdout is not None
        said = {holder.stdout.readline() for _ in range(1 if how == "alone" else 2)}
        assert said == ({b"held\n"} if how == "alone" else {b"held\n", b"forked\n"})
        with pytest.raises(LockHeld):
            cron.lock(name, session=True).__enter__()
        os.kill(holder.pid, signal.SIGKILL)
        began = time.monotonic()
        with cron.lock(name, session=True, wait="1m"):
            assert time.monotonic() - began < 20  # sooner than the server gives up whoever went silent
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait(30)
        if holder.stdout is not None:
            holder.stdout.close()


def test_a_forked_child_neither_uses_nor_ends_the_parents_session(
    cron: Cronce, other: Cronce, admin: Admin, postgres: Postgres, name: str
) -> None:
    with pytest.raises(LeaseLost):
        _until_told(other, name, lambda: terminated(admin, backends(admin, key_of(name))[0]))
    closed = Cronce(postgres.url)
    with closed.lock(name, session=True):
        pass
    closed.close()
    with cron.lock(name, session=True) as lock:
        before = backends(admin, key_of(name))
        child = os.fork()
        if child == 0:
            os._exit(_as_a_child(cron, lock, name))
        assert os.waitpid(child, 0)[1] == 0
        lock.check()
        assert backends(admin, key_of(name)) == before


def _as_a_child(cron: Cronce, lock: Any, name: str) -> int:
    """0 if all is as it should be; the lock is not the child's, and what it takes it takes over a line of its own."""
    try:
        if lock.trusted:
            return 1
        try:
            lock.check()
            return 2
        except LeaseLost:
            pass
        try:
            cron.lock(name, session=True).__enter__()
            return 3
        except LockHeld:
            pass
        with cron.lock(f"{name}-child", session=True):
            pass
        cron.close()
        return 0
    except BaseException:
        return 4


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_pooler_is_refused(pgbouncer: PgBouncer, name: str) -> None:
    with pytest.raises(StoreUnusable, match="is a pooler"), Cronce(pgbouncer.url) as cron:
        cron.lock(name, session=True).__enter__()


def test_other_stores_have_no_session_locks(tmp_path: Path) -> None:
    for cron, which in (
        (Cronce(f"sqlite:///{tmp_path}/cronce.db"), "sqlite:///.*cronce.db"),
        (Cronce(store=MemoryStore()), "an object"),
    ):
        with pytest.raises(BadInput, match=f"needs a store named by its postgresql:// URL, and this one is {which}"):
            cron.lock("reindex", session=True).__enter__()
    assert not (tmp_path / "cronce.db").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"session": True, "at_most": "1m"}, "a session lock has no at_most and no at_least"),
        ({"session": True, "at_least": "1m"}, "a session lock has no at_most and no at_least"),
        ({"session": 1 << 63}, "session=9223372036854775808: write session=True, or a number"),
        ({"session": -(1 << 63) - 1}, "or a number of your own that PostgreSQL's bigint holds"),
        ({"session": "reindex"}, "session='reindex': write session=True, or a number"),
        ({"sessions": True}, "did you mean session"),
    ],
)
def test_what_cannot_be_meant_is_refused(cron: Cronce, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadPolicy, match=words):
        cron.lock("reindex", **options)


def test_the_schema_is_part_of_the_name(cron: Cronce, postgres: Postgres, name: str) -> None:
    """Two stores in one database are two stores."""
    with Cronce(f"{postgres.url}?schema=team") as team, cron.lock(name, session=True), team.lock(name, session=True):
        pass


def test_a_missing_driver_is_named() -> None:
    code = "import sys; sys.modules['psycopg'] = None; from cronce import Cronce; Cronce().lock('x', session=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "cronce.errors.BadInput: postgresql:// needs psycopg: pip install 'cronce[postgres]'"
    )
