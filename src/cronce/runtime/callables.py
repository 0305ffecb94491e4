"""What a function that is to be run once may be."""

from collections.abc import Callable
from inspect import isasyncgen, iscoroutine, iscoroutinefunction, isgenerator
from typing import Any

from cronce.errors import BadInput


class NothingRan(BadInput):
    """What a function returned has yet to be run."""


def is_async(fn: Callable[..., Any]) -> bool:
    return iscoroutinefunction(fn) or iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def has_run(result: Any) -> Any:
    """A body that returns something still to be run has not run: it would be closed as succeeded, and nothing done."""
    if iscoroutine(result) or isgenerator(result) or isasyncgen(result):
        if not isasyncgen(result):
            result.close()
        raise NothingRan(
            f"the body returned {result!r:.80}, of which nothing has run: make it `async def`, or use it up"
        )
    return result
