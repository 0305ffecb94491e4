"""Stopping a body from another thread, as far as Python can.

A thread cannot be killed. It can have an exception thrown into it, which is raised when the thread next runs Python: a
call into C that does not return is out of reach. A task of an event loop is cancelled, at its next await.

Four things make this subtle:

*Only bodies are stopped.* What a guard does around its body, asking the store above all, is shielded: a stop that comes
meanwhile is delivered when the shield is put down.

*Job functions nest.* A job may call another, or hold a lock. All gates of a thread (or of a task) are one stack. What
was thrown for an inner gate does not reach the outer one, and may be lost on the way out, so when a gate is left or a
shield put down, and a gate around it was stopped, it is thrown again.

*An exception may be lost*: in a `__del__`, in a bare `except`. So a caller that wants a stop repeats it after a while.

*A thread that is being born* carries the number of its parent on Python 3.11, and would get what is meant for that.
And a parent that is stopped before it was born leaves it among those that are being born, for ever. So nothing is
thrown into a thread while it starts another.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio


class Interrupt(BaseException):
    """Thrown into a body that must stop. Not an Exception: a body that catches those must not catch this."""


class _Stack:
    """The gates of one thread, and how often it is shielded. Each change is one step under the lock, begun again if an
    interrupt arrives before it: then it is either done or not done."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.gates: list[ThreadGate] = []
        self.shields = 0
        self._thread = threading.get_ident()

    def shield(self) -> None:
        """From here on nothing arrives."""
        while True:
            try:
                with self.lock:
                    self.take_back()
                    self.shields += 1
                return
            except Interrupt:
                continue

    def unshield(self, *, on_its_way: bool = False) -> None:
        """Put it down again. If an interrupt is on its way out already, another would only break a cleanup."""
        with self.lock:
            self.shields -= 1
            if not on_its_way:
                self.throw_if_stopped()

    def throw_if_stopped(self) -> None:
        if self.gates and not self.shields and self._is_stopped():
            throw(self._thread, Interrupt)

    def take_back(self) -> None:
        if self.gates and self._is_stopped():
            throw(self._thread, None)

    def _is_stopped(self) -> bool:
        for gate in self.gates:  # noqa: SIM110  `any` takes three times as long, and this is done four times for a body
            if gate.stopped:
                return True
        return False


class _ThreadGates(threading.local):
    def __init__(self) -> None:
        self.stack = _Stack()


_THREAD_GATES: Final = _ThreadGates()


def here() -> _Stack:
    """The gates of this thread."""
    return _THREAD_GATES.stack


class ThreadGate:
    """Around what a thread may be stopped in; `shields` is how many shields it puts down while it is open."""

    def __init__(self, shields: int = 0) -> None:
        self.shields = shields
        self.stopped = False
        self._stack = here()

    def enter(self) -> None:
        stack = self._stack
        with stack.lock:
            stack.gates.append(self)
            stack.shields -= self.shields
            stack.throw_if_stopped()

    def stop(self) -> None:
        with self._stack.lock:
            self.stopped = True
            if self in self._stack.gates:
                self._stack.throw_if_stopped()

    def leave(self) -> None:
        """Nothing is thrown for this gate any more, and what was and has not arrived is taken back; calling it again
        does nothing."""
        stack = self._stack
        while self in stack.gates:
            try:
                with stack.lock:
                    stack.take_back()
                    stack.gates.remove(self)
                    stack.shields += self.shields
                    stack.throw_if_stopped()
            except Interrupt:
                if self not in stack.gates:  # it is meant for a gate around this one
                    raise


@contextmanager
def shielded(on_its_way: BaseException | None = None) -> Iterator[None]:
    """What is stopped in this thread is stopped after the block; `on_its_way` is what is being raised already."""
    stack = here()
    stack.shield()
    try:
        yield
    finally:
        stack.unshield(on_its_way=isinstance(on_its_way, Interrupt))


class TaskGate:
    """Around what a task may be stopped in."""

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self._task = task
        self._loop = task.get_loop()
        self._gates = _GATES_OF_TASKS.setdefault(task, [])
        self.stopped = False

    def enter(self) -> None:
        self._gates.append(self)
        if self.stopped:
            self._task.cancel()

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self.stopped = True
        if self in self._gates:
            self._task.cancel()

    def leave(self) -> None:
        """One cancellation may be meant both for this gate and for one around it: the outer gate is cancelled again."""
        if self in self._gates:
            self._gates.remove(self)
            if any(gate.stopped for gate in self._gates):
                self._task.cancel()


_GATES_OF_TASKS: Final[WeakKeyDictionary["asyncio.Task[object]", list[TaskGate]]] = WeakKeyDictionary()


def throw(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception of that kind in the thread when it next runs Python; None takes back one not yet raised."""
    import ctypes  # noqa: PLC0415  8 ms, and hardly ever needed

    number, what = ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None
    if kind is None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, what)
        return
    while True:
        with threading._active_limbo_lock:  # type: ignore[attr-defined]  # no thread gets any further with a start
            if not is_starting_another(thread):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, what)
                if not is_starting_another(thread):
                    return
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, None)  # it began a start meanwhile, and waits
        threading.Event().wait(0.0005)


def is_starting_another(thread: int) -> bool:
    """Whether it is in `Thread.start`, and the other does not run yet. It may go on while this looks, and a frame that
    is left has nothing behind it any more: then this looks again."""
    while True:
        top = frame = sys._current_frames().get(thread)
        while frame and not (frame.f_code.co_name == "start" and frame.f_globals is vars(threading)):
            frame = frame.f_back
        starting = frame is not None and not frame.f_locals["self"]._started.is_set()
        if sys._current_frames().get(thread) is top:
            return starting
