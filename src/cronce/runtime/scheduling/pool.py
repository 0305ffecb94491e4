"""Where the bodies of a scheduler run: threads, made as they are needed, and one event loop for coroutines."""

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cronce.runtime.attempt import Attempt, End
from cronce.runtime.desk import Desk
from cronce.runtime.steps import take, take_async

if TYPE_CHECKING:
    import asyncio

Done = Callable[[Attempt, End], None]


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

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Each begins at once, on a thread of its own or on the loop."""
        for attempt in attempts:
            if attempt.is_async:
                self._on_loop(attempt)
                continue
            with self._lock:
                self._busy += 1
                new = self._busy > self._threads
                self._threads += new
            self._queue.put(attempt)
            if new:
                threading.Thread(target=self._work, name="cronce-worker", daemon=True).start()

    def close(self) -> None:
        """The threads go when what they run is over."""
        for _ in range(self._threads):
            self._queue.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        while (attempt := self._queue.get()) is not None:
            end = copy_context().run(take, attempt.steps(), self._desk)
            with self._lock:
                self._busy -= 1
            self._done(attempt, end)

    # --- coroutines ---

    def _on_loop(self, attempt: Attempt) -> None:
        if self._loop is None:
            self._loop = self._started()
        self._loop.call_soon_threadsafe(self._begin, attempt)

    def _started(self) -> "asyncio.AbstractEventLoop":
        import asyncio  # noqa: PLC0415  45 ms, and not everybody needs it

        loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(loop)
            try:
                loop.run_forever()
            finally:
                loop.close()

        threading.Thread(target=run, name="cronce-loop", daemon=True).start()
        return loop

    def _begin(self, attempt: Attempt) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._awaited(attempt))
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(self._tasks.discard)

    async def _awaited(self, attempt: Attempt) -> None:
        self._done(attempt, await take_async(attempt.steps(), self._desk))
