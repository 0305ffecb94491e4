"""What a function that is to be run once may be."""

import sys
from collections.abc import Callable, Mapping
from inspect import isasyncgen, iscoroutine, iscoroutinefunction, isgenerator, signature
from typing import Any

from cronce.errors import BadInput


class NothingRan(BadInput):
    """What a function returned has yet to be run."""


def is_async(fn: Callable[..., Any]) -> bool:
    return iscoroutinefunction(fn) or iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def on_event_loop() -> bool:
    """Whether this thread runs one just now."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def check_callable(fn: object) -> None:
    if not callable(fn):
        raise BadInput(f"give the function, and not what it returned: {fn!r:.60} cannot be called")


def check_call(fn: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuse a call that cannot be made, before anybody could think that it was."""
    check_callable(fn)
    try:
        bind = signature(fn).bind
    except (TypeError, ValueError):  # of something in C, which does not say
        return
    try:
        bind(*args, **named)
    except TypeError as error:
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        raise BadInput(f"{name} cannot be called like this: {error}") from None


def finished(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function; where it is none to be awaited, one that refuses to return what has not run."""
    return fn if is_async(fn) else lambda *args, **named: has_run(fn(*args, **named), what)


def has_run(result: Any, what: str = "the body") -> Any:
    """A body that returns something still to be run has not run: it would be closed as succeeded, and nothing done."""
    if iscoroutine(result) or isgenerator(result) or isasyncgen(result):
        if not isasyncgen(result):
            result.close()
        raise NothingRan(f"{what} returned {result!r:.80}, of which nothing has run: make it `async def`, or use it up")
    return result
