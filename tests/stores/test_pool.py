"""Lines to a server: one thread each, none twice, none that failed, none across a fork."""

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cronce.errors import StoreUnavailable
from cronce.stores.pool import ConnectionPool
from tests.stores.forks import ask


class Phone:
    """A line to somebody who answers with nothing."""

    def __init__(self, node: "HandNode") -> None:
        if node.down:
            raise ConnectionRefusedError("nobody there")
        self.here, self.there = socket.socketpair()
        node.lines.append(self)

    @property
    def closed(self) -> bool:
        return self.here.fileno() < 0

    def close(self) -> None:
        self.here.close()
        self.there.close()


class HandNode:
    """Whoever is called, and all lines that there ever were."""

    def __init__(self) -> None:
        self.lines: list[Phone] = []
        self.down = False

    def pool(self, most: int = 2, patience: float = 5) -> ConnectionPool[Phone]:
        return ConnectionPool(lambda: Phone(self), lambda line: line.here.fileno(), patience, most)

    @property
    def open(self) -> list[Phone]:
        return [line for line in self.lines if not line.closed]


@pytest.fixture
def node() -> Iterator[HandNode]:
    node = HandNode()
    yield node
    for line in node.lines:
        line.close()


def test_a_line_is_used_again(node: HandNode) -> None:
    pool = node.pool()
    with pool.line() as first:
        pass
    with pool.line() as second:
        assert second is first
    assert len(node.lines) == 1


def test_connections_of_a_pool_that_was_not_closed_are_closed_with_it(node: HandNode) -> None:
    pool = node.pool()
    with pool.line():
        pass
    assert len(node.open) == 1
    del pool
    gc.collect()
    assert node.open == []


def test_a_pool_that_is_collected_in_a_child_leaves_the_parents_connections_open(node: HandNode) -> None:
    """The child may collect it before it begins anew, such as in somebody else's hook of the fork."""
    pool = node.pool()
    with pool.line():
        pass
    pool._pid = -1  # as a child sees what its parent made
    del pool
    gc.collect()
    assert len(node.open) == 1


def test_no_two_threads_have_the_same_line_and_none_has_more_than_there_may_be(node: HandNode) -> None:
    pool, busy, most = node.pool(most=3), set[Phone](), []

    def work(_number: int) -> None:
        with pool.line() as line:
            assert line not in busy
            busy.add(line)
            most.append(len(busy))
            threading.Event().wait(0.001)
            busy.remove(line)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(100)))
    assert (len(node.lines), max(most)) == (3, 3)


def test_whoever_waits_too_long_for_a_line_is_told(node: HandNode) -> None:
    pool = node.pool(most=1, patience=0.05)
    with pool.line(), pytest.raises(StoreUnavailable, match=r"all 1 connections of this process were busy for 0\.05 s"):
        pool.line().__enter__()
    with pool.line():
        pass


def test_a_line_that_failed_takes_the_idle_ones_with_it(node: HandNode) -> None:
    pool = node.pool()
    with pool.line(), pool.line():
        pass
    with pytest.raises(ZeroDivisionError), pool.line():
        raise ZeroDivisionError
    assert (len(node.lines), node.open) == (2, [])
    with pool.line(), pool.line():
        assert len(node.open) == 2


def test_a_line_that_the_server_hung_up_is_not_used(node: HandNode) -> None:
    pool = node.pool(most=1)
    with pool.line() as first:
        pass
    first.there.close()
    with pool.line() as second:
        assert second is not first
    assert first.closed


def test_a_server_that_is_down_costs_no_place(node: HandNode) -> None:
    pool = node.pool(most=1, patience=0.05)
    node.down = True
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            pool.line().__enter__()
    node.down = False
    with pool.line():
        pass


def test_closing_hangs_up_what_is_idle_now_and_what_is_busy_later(node: HandNode) -> None:
    pool = node.pool()
    with pool.line() as busy:
        with pool.line() as idle:
            pass
        pool.close()
        assert (idle.closed, busy.closed) == (True, False)
    assert busy.closed
    with pytest.raises(StoreUnavailable, match="closed by this process"):
        pool.line().__enter__()


def test_closing_wakes_those_who_wait(node: HandNode) -> None:
    pool = node.pool(most=1, patience=30)
    with ThreadPoolExecutor(1) as threads, pool.line():
        waiting = threads.submit(pool.line().__enter__)
        pool.close()
        with pytest.raises(StoreUnavailable, match="closed by this process"):
            waiting.result(timeout=60)


def _in_child(pool: ConnectionPool[Phone], node: HandNode, before: Phone) -> list[bool]:
    with pool.line() as line:
        return [line is before, before.closed, len(node.lines) == 2]


def test_a_child_opens_its_own_and_does_not_hang_up_the_parents(node: HandNode) -> None:
    pool = node.pool()
    with pool.line() as ours:
        pass
    assert ask(lambda: _in_child(pool, node, ours)) == [False, False, True]
    with pool.line() as still:
        assert (still is ours, len(node.lines)) == (True, 1)


@pytest.mark.parametrize("end", [lambda: None, lambda: 1 / 0], ids=["well", "badly"])
def test_a_fork_in_the_middle_of_work_leaves_the_line_to_the_parent(node: HandNode, end: Callable[[], object]) -> None:
    pool = node.pool(most=1, patience=0.05)
    us = os.getpid()

    def fork_within() -> list[bool]:
        """In a child of ours, so that the fork within it may end as it likes."""
        hears, says = os.pipe()
        try:
            with pool.line() as line:
                child = os.fork()
                if child == 0:
                    end()
        except ZeroDivisionError:
            pass
        if child == 0:
            with pool.line() as own:
                os.write(says, b"%d%d" % (own is line, line.closed))
            os._exit(0)
        os.waitpid(child, 0)
        with pool.line() as again:
            return [os.read(hears, 2) == b"00", again is line]

    assert ask(fork_within) == [True, True]
    assert os.getpid() == us


def test_who_waits_for_long_has_a_line_as_long_as_lines_come_back(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 threads that asked at once were told after five seconds that the store was away."""
    pool = node.pool(most=1)
    taken = pool.take()
    waits: list[str] = []

    def others_go_first(_has_room: Callable[[], bool], _patience: float) -> bool:
        """Two others have the line before it is free; each takes longer than anybody is patient."""
        nonlocal taken
        waits.append("in vain")
        pool.give_back(taken, failed=False)
        if len(waits) == 3:
            return True
        taken = pool.take()
        return False

    monkeypatch.setattr(pool._room, "wait_for", others_go_first)
    assert pool.take() is taken
    assert waits == ["in vain"] * 3


def test_every_waiter_has_its_turn(node: HandNode) -> None:
    """Each line that comes back wakes one of them, and none is left asleep."""
    pool, had = node.pool(most=2), list[int]()

    def work(number: int) -> None:
        with pool.line():
            had.append(number)

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(work, range(2000)))
    assert sorted(had) == list(range(2000))
