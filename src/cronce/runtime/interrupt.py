"""Stopping a body from another thread, as far as Python can.

A thread cannot be killed. It can have an exception thrown into it, which is raised when the thread next runs Python: a
call into C that does not return is out of reach. A task of an event loop is cancelled, at its next await. Either
happens at most once, and not after the gate was left.
"""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Interrupt(BaseException):
    """Thrown into a body that must stop. Not an Exception: a body that catches those must not catch this."""


class ThreadGate:
    """Around what this thread may be stopped in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = threading.get_ident()
        self.thrown = False

    def stop(self) -> None:
        with self._lock:
            if self._thread is not None and not self.thrown:
                self.thrown = True
                throw(self._thread, Interrupt)

    def leave(self) -> None:
        """From here on nothing is thrown; what was thrown and has not arrived is taken back."""
        while self._thread is not None:
            try:
                with self._lock:
                    if self.thrown:
                        throw(self._thread, None)
                    self._thread = None
            except Interrupt:  # it arrives right here, once: then leave again
                continue


class TaskGate:
    """Around what a task may be stopped in."""

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self._task: asyncio.Task[object] | None = task
        self._loop = task.get_loop()
        self.thrown = False

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self.thrown:
            self.thrown = True
            self._task.cancel()

    def leave(self) -> None:
        self._task = None


def throw(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception of that kind in the thread when it next runs Python; None takes back one not yet raised."""
    import ctypes  # noqa: PLC0415  8 ms, and hardly ever needed

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None)
