"""Where the bodies of a scheduler run: threads, made as they are needed, and one event loop for coroutines.

A body may do to its thread, to the loop and to this process whatever Python allows. That must cost itself at most:
each attempt is over once and is told once, and whoever ran it goes on with the next.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from cronce.runtime.attempt import Attempt, End
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node
from cronce.runtime.steps import take, take_async

if TYPE_CHECKING:
    import asyncio

Done = Callable[[Attempt, End], None]

MOST_AT_ONCE: Final = 32
"""Threads that are made in one go: each takes a tenth of a millisecond."""

QUEUE_NOTICED: Final = 0.001
"""Seconds until it is noticed that a queue does not empty."""

GIVE_BACK_AFTER: Final = 60.0
"""Seconds for which nothing is taken off the queue, until what waits is given back: no thread can be had."""

BROKEN_LOOP_REST: Final = 0.1
"""Seconds that a loop rests after it broke down: it may do so again at once."""


class _ThreadState(threading.local):
    pool: "WorkerPool | None" = None
    """Whose thread this is."""


_THREAD_STATE: Final = _ThreadState()


class WorkerPool:
    """The threads are daemons: whoever ends the process has seen to it that nothing runs any more, or cannot help."""

    def __init__(self, node: Node, done: Done) -> None:
        self._node, self._done = node, done
        self._queue: deque[Attempt] = deque()
        self._threads = 0
        self._idle = 0  # of them, how many have nothing in hand
        self._starting = False
        self._taken_off = 0
        self._lock = threading.Lock()
        self._work_to_do = threading.Condition(self._lock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[Any] = set()
        self._closed = threading.Event()

    @property
    def is_here(self) -> bool:
        """Whether whoever asks is a body, which nobody may keep waiting for its own end."""
        return _THREAD_STATE.pool is self

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Each begins at once, on a thread of its own or on the loop. What cannot is given back."""
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
        """The threads go when what they run is over."""
        self._closed.set()
        with self._lock:
            self._work_to_do.notify_all()
        if self._loop is not None:
            with suppress(RuntimeError):  # it has seen that it is closed
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _give_back(self, attempt: Attempt, error: Exception) -> None:
        LOGGER.error("%s could not be started; it was released for another process", attempt.lease.name, exc_info=error)
        self._done(attempt, attempt.broken(error))

    def _over(self, attempt: Attempt, end: End) -> None:
        if not attempt.lease.mine:  # a child that the body forked, and that came back from it: nobody waits for it here
            os._exit(_exit_code(end.error))
        self._done(attempt, end)

    # --- functions ---

    def _on_threads(self, attempts: Sequence[Attempt]) -> None:
        """One thread begins at once. More come while the queue does not empty and nobody comes back for more, twice as
        many every millisecond: of a thousand short bodies a few threads make quick work, and more would only be in each
        other's way; of long ones none waits for longer than it takes to notice."""
        with self._lock:
            none_free = self._threads > 0 and not self._idle
            if not self._threads:
                self._make_thread()
            if (none_free or len(self._queue) + len(attempts) > 1) and not self._starting:
                with nullcontext() if none_free else suppress(RuntimeError):  # the thread that is free sees to it
                    threading.Thread(target=self._start_more, name="cronce-starter", daemon=True).start()
                    self._starting = True
            self._queue.extend(attempts)  # now that nothing can fail any more: what is given back must not begin
            self._work_to_do.notify()

    def _start_more(self) -> None:
        number, taken, boot = 1, 0, self._node.clock.boot
        moved = boot()
        while True:
            threading.Event().wait(QUEUE_NOTICED)
            with self._lock:
                moved = moved if self._taken_off == taken else boot()
                waiting = list(self._queue) if boot() - moved > GIVE_BACK_AFTER else []
                if waiting:
                    self._queue.clear()
                if not self._queue:
                    self._starting = False
                    break
                stuck = self._taken_off - taken < self._threads - self._idle
                taken = self._taken_off
                if stuck:
                    self._add_threads(min(number, len(self._queue)))
            number = min(2 * number, MOST_AT_ONCE) if stuck else 1
        for attempt in waiting:
            self._give_back(attempt, RuntimeError("no thread could be had"))

    def _add_threads(self, wanted: int) -> None:
        self._work_to_do.notify(wanted)
        for _ in range(wanted - self._idle):
            with suppress(RuntimeError):  # no more threads: those that there are see to it
                self._make_thread()

    def _make_thread(self) -> None:
        threading.Thread(target=self._work, name="cronce-worker", daemon=True).start()
        self._threads += 1

    def _next(self) -> Attempt | None:
        """The next in the queue; None: there is nothing more to do, ever."""
        with self._lock:
            self._idle += 1
            while not self._queue and not self._closed.is_set():
                self._work_to_do.wait()
            self._idle -= 1
            self._taken_off += 1
            return self._queue.popleft() if self._queue else None

    def _work(self) -> None:
        _THREAD_STATE.pool = self
        try:
            while (attempt := self._next()) is not None:
                self._over(attempt, self._taken(attempt))
        finally:
            with self._lock:
                self._threads -= 1

    def _taken(self, attempt: Attempt) -> End:
        try:
            return copy_context().run(take, attempt.steps(), self._node)
        except BaseException as error:
            return attempt.broken(error)

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
        """Until it is closed. A body may stop it, and a task of a body's that raises SystemExit goes right through it;
        it begins again where it was."""
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

    def _ended(self, attempt: Attempt, task: "asyncio.Task[End]") -> None:
        self._tasks.discard(task)
        try:
            end = task.result()
        except BaseException as error:
            end = attempt.broken(error)
        self._over(attempt, end)


def _exit_code(error: BaseException | None) -> int:
    """Of a process that ends with this, as Python does it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return int(error is not None)
