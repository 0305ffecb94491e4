"""Where a scheduler runs job functions: threads, made as they are needed, and one event loop for coroutines.

A job function may do to its thread, to the loop and to this process whatever Python allows. That must harm its own run
at most: each attempt ends once and is reported once, and its thread goes on with the next.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cronce.runtime.attempt import Attempt
from cronce.runtime.flow import driven
from cronce.runtime.interrupt import here
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node
from cronce.runtime.steps import sleep, take_async, taken

if TYPE_CHECKING:
    import asyncio

Done = Callable[[Attempt], None]
"""Called with an attempt that has ended."""

MOST_AT_ONCE: Final = 32
"""Threads that are made in one go: each takes a tenth of a millisecond."""

QUEUE_NOTICED: Final = 0.001
"""Seconds until it is noticed that a queue does not empty."""

GIVE_BACK_AFTER: Final = 60.0
"""Seconds without progress in the queue after which everything in it is given back: no thread can be started."""

BROKEN_LOOP_REST: Final = 0.1
"""Seconds between a failure of the event loop and its restart: it may fail again at once."""


class _ThreadState(threading.local):
    pool: "WorkerPool | None" = None
    """The pool that this thread works for."""


_THREAD_STATE: Final = _ThreadState()


class WorkerPool:
    """The threads are daemons: a process that ends has waited for its runs, or could not stop them."""

    def __init__(self, node: Node, done: Done) -> None:
        self._node, self._done = node, done
        self._step = partial(taken, node=node, sleep=sleep)
        self._queue: deque[Attempt] = deque()
        self._queued = 0  # how many were ever put into the queue
        self._threads = 0
        self._idle = 0  # of them, how many wait for something to do
        self._starting = False
        self._lock = threading.Lock()
        self._work_to_do = threading.Condition(self._lock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[Any] = set()
        self._closed = threading.Event()

    @property
    def is_here(self) -> bool:
        """Whether the caller is a job function: it must not wait for its own end."""
        return _THREAD_STATE.pool is self

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Begin each at once, on a thread of its own or on the loop. What cannot begin is given back."""
        functions = [attempt for attempt in attempts if not attempt.is_async]
        coroutines = [attempt for attempt in attempts if attempt.is_async]
        try:
            if functions:
                self._on_threads(functions)
        except Exception as error:
            for attempt in functions:
                self._give_back(attempt, error)
        for attempt in coroutines:
            try:
                self._on_loop(attempt)
            except Exception as error:
                self._give_back(attempt, error)

    def close(self) -> None:
        """The threads end when their current runs end."""
        self._closed.set()
        with self._lock:
            self._work_to_do.notify_all()
        if self._loop is not None:
            with suppress(RuntimeError):  # it has seen that it is closed
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _give_back(self, attempt: Attempt, error: Exception) -> None:
        LOGGER.error("%s could not be started; it was released for another process", attempt.lease.name, exc_info=error)
        attempt.broken(error)
        self._done(attempt)

    def _over(self, attempt: Attempt) -> None:
        if not attempt.lease.mine:  # a child process that the job function forked, and that returned from it
            os._exit(_exit_code(attempt.end.error))
        self._done(attempt)

    # --- functions ---

    def _on_threads(self, attempts: Sequence[Attempt]) -> None:
        """One thread begins at once. While the queue does not move, more are started, twice as many each millisecond. A
        few threads are faster with a thousand short job functions than many that wait for each other; and no long one
        keeps others waiting for more than some milliseconds."""
        with self._lock:
            none_free = self._threads > 0 and not self._idle
            if not self._threads:
                self._make_thread()
            if (none_free or len(self._queue) + len(attempts) > 1) and not self._starting:
                with nullcontext() if none_free else suppress(RuntimeError):  # the free thread runs them all
                    threading.Thread(target=self._start_more, name="cronce-starter", daemon=True).start()
                    self._starting = True
            self._queue.extend(attempts)  # now that nothing can fail any more: what is given back must not begin
            self._queued += len(attempts)
            if self._idle:
                self._work_to_do.notify()

    def _start_more(self) -> None:
        number, before, boot = 1, 0, self._node.clock.boot
        moved, waiting = boot(), list[Attempt]()
        while True:
            threading.Event().wait(QUEUE_NOTICED)
            with self._lock:
                begun = self._queued - len(self._queue)
                moved = moved if begun == before else boot()
                if boot() - moved > GIVE_BACK_AFTER:
                    waiting = list(iter(self._pop, None))
                if not self._queue:
                    self._starting = False
                    break
                stuck, before = begun - before < self._threads - self._idle, begun
                if stuck:
                    self._add_threads(min(number, len(self._queue)))
            number = min(2 * number, MOST_AT_ONCE) if stuck else 1
        for attempt in waiting:
            self._give_back(attempt, RuntimeError("no thread could be had"))

    def _add_threads(self, wanted: int) -> None:
        self._work_to_do.notify(wanted)
        for _ in range(wanted - self._idle):
            with suppress(RuntimeError):  # no more threads: the existing ones run all
                self._make_thread()

    def _make_thread(self) -> None:
        threading.Thread(target=self._work, name="cronce-worker", daemon=True).start()
        self._threads += 1

    def _pop(self) -> Attempt | None:
        """Without the lock: a deque gives each to one thread only."""
        try:
            return self._queue.popleft()
        except IndexError:
            return None

    def _next(self) -> Attempt | None:
        """The next in the queue; None: there is nothing more to do, ever."""
        while (attempt := self._pop()) is None and not self._closed.is_set():
            with self._lock:
                self._idle += 1
                while not self._queue and not self._closed.is_set():
                    self._work_to_do.wait()
                self._idle -= 1
        return attempt

    def _work(self) -> None:
        """Nothing but a job function can be interrupted here."""
        _THREAD_STATE.pool = self
        here().shield()
        try:
            while (attempt := self._next()) is not None:
                self._take(attempt)
                self._over(attempt)
        finally:
            with self._lock:
                self._threads -= 1

    def _take(self, attempt: Attempt) -> None:
        try:
            copy_context().run(driven, attempt.steps(), self._step)
        except BaseException as error:
            attempt.broken(error)

    # --- coroutines ---

    def _on_loop(self, attempt: Attempt) -> None:
        if self._loop is None:
            self._loop = self._started()
        self._loop.call_soon_threadsafe(self._begin, self._loop, attempt)

    def _started(self) -> "asyncio.AbstractEventLoop":
        import asyncio  # noqa: PLC0415  45 ms, and not everybody needs it

        loop = asyncio.new_event_loop()
        try:
            threading.Thread(target=self._run, args=[loop], name="cronce-loop", daemon=True).start()
        except BaseException:
            loop.close()
            raise
        return loop

    def _run(self, loop: "asyncio.AbstractEventLoop") -> None:
        """Until it is closed. A job function may stop the loop, and a SystemExit in a task of its own ends it: then the
        loop goes on where it was."""
        import asyncio  # noqa: PLC0415

        _THREAD_STATE.pool = self
        asyncio.set_event_loop(loop)
        while not self._closed.is_set():
            try:
                loop.run_forever()
            except BaseException:
                LOGGER.exception("a task that a job function started failed outside of it; the event loop goes on")
                self._closed.wait(BROKEN_LOOP_REST)
        loop.close()

    def _begin(self, loop: "asyncio.AbstractEventLoop", attempt: Attempt) -> None:
        steps = take_async(attempt.steps(), self._node)
        try:
            task = loop.create_task(steps)
        except Exception as error:
            steps.close()
            self._give_back(attempt, error)
            return
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(lambda task: self._ended(attempt, task))

    def _ended(self, attempt: Attempt, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        try:
            task.result()
        except BaseException as error:
            attempt.broken(error)
        self._over(attempt)


def _exit_code(error: BaseException | None) -> int:
    """The exit code of a process that ends with this exception, as Python computes it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return int(error is not None)
