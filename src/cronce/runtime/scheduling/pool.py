"""Where the bodies of a scheduler run: threads, made as they are needed, and one event loop for coroutines.

A body may do to its thread, to the loop and to this process whatever Python allows. That must cost itself at most:
each attempt is over once and is told once, and whoever ran it goes on with the next.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from cronce.runtime.attempt import Attempt, End
from cronce.runtime.desk import Desk
from cronce.runtime.log import LOGGER
from cronce.runtime.steps import take, take_async

if TYPE_CHECKING:
    import asyncio

Done = Callable[[Attempt, End], None]

MOMENT: Final = 0.1
"""Seconds that a loop rests after it broke down: it may do so again at once."""


class _Here(threading.local):
    pool: "Pool | None" = None
    """Whose thread this is."""


_HERE: Final = _Here()


class Pool:
    """The threads are daemons: whoever ends the process has seen to it that nothing runs any more, or cannot help."""

    def __init__(self, desk: Desk, done: Done) -> None:
        self._desk, self._done = desk, done
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[Any] = set()
        self._closed = threading.Event()

    @property
    def is_here(self) -> bool:
        """Whether whoever asks is a body, which nobody may keep waiting for its own end."""
        return _HERE.pool is self

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Each begins at once, on a thread of its own or on the loop. What cannot is given back."""
        for attempt in attempts:
            try:
                self._on_loop(attempt) if attempt.is_async else self._on_thread(attempt)
            except Exception as error:
                self._give_back(attempt, error)

    def close(self) -> None:
        """The threads go when what they run is over."""
        self._closed.set()
        for _ in range(self._threads):
            self._queue.put(None)
        if self._loop is not None:
            with suppress(RuntimeError):  # it has seen that it is closed
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _give_back(self, attempt: Attempt, error: Exception) -> None:
        LOGGER.error("%s could not be begun, and is given back", attempt.lease.name, exc_info=error)
        self._done(attempt, End(None, error=error))

    def _over(self, attempt: Attempt, end: End) -> None:
        if not attempt.lease.mine:  # a child that the body forked, and that came back from it: nobody waits for it here
            os._exit(_exit_code(end.error))
        self._done(attempt, end)

    # --- functions ---

    def _on_thread(self, attempt: Attempt) -> None:
        with self._lock:
            if self._busy == self._threads:
                threading.Thread(target=self._work, name="cronce-worker", daemon=True).start()
                self._threads += 1
            self._busy += 1
        self._queue.put(attempt)

    def _work(self) -> None:
        _HERE.pool = self
        try:
            while (attempt := self._queue.get()) is not None:
                end = self._taken(attempt)
                with self._lock:
                    self._busy -= 1
                self._over(attempt, end)
        finally:
            with self._lock:
                self._threads -= 1

    def _taken(self, attempt: Attempt) -> End:
        try:
            return copy_context().run(take, attempt.steps(), self._desk)
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

        _HERE.pool = self
        asyncio.set_event_loop(loop)
        while not self._closed.is_set():
            try:
                loop.run_forever()
            except BaseException:
                LOGGER.exception("a task that a body began broke through the event loop, which goes on")
                self._closed.wait(MOMENT)
        loop.close()

    def _begin(self, loop: "asyncio.AbstractEventLoop", attempt: Attempt) -> None:
        steps = take_async(attempt.steps(), self._desk)
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
