"""Which run this is: known to whatever is called by a body, however deep, so that a log line can say it.

It goes with the context: into coroutines and tasks, and into `asyncio.to_thread`, not into threads that a body starts
by itself.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cronce.runtime.run import Run

Around = Callable[["Run"], AbstractContextManager[object]]
"""What a body runs within."""

_CURRENT: Final[ContextVar["Run | None"]] = ContextVar("cronce_run", default=None)

_NOTHING: Final[AbstractContextManager[object]] = nullcontext()


def current_run() -> "Run | None":
    """The run whose body this is called by; None outside of one."""
    return _CURRENT.get()


def around_nothing(_run: "Run") -> AbstractContextManager[object]:
    """Nobody wants to know."""
    return _NOTHING


class Current:
    """For a while, this run is the current one. By hand: a body may take less time than contextlib."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def __enter__(self) -> None:
        self._token: Token[Run | None] = _CURRENT.set(self._run)

    def __exit__(self, *_error: object) -> None:
        _CURRENT.reset(self._token)
