"""Waiting for another who is at it: what the guards of queues and of tools share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cronce.errors import InProgress
from cronce.runtime.steps import Nap, sleep

PAUSE: Final = 0.1
"""Seconds between two looks at what another is at. Whoever is gone is known to be when its lease has lapsed."""


def stand_by(once: Callable[[Callable[[], Any]], Any], body: Callable[[], Any]) -> Any:
    """What `once` returns for the body; while another is at the same, it is asked again."""
    made: list[bool] = []

    def noted() -> Any:
        made.append(True)
        return body()

    while True:
        try:
            return once(noted)
        except InProgress:
            if made:  # the body's own words: what it asked for is in progress, and not it
                raise
        sleep(Nap(PAUSE))


async def stand_by_async(
    once: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]], body: Callable[[], Awaitable[Any]]
) -> Any:
    """The same on an event loop."""
    made: list[bool] = []

    async def noted() -> Any:
        made.append(True)
        return await body()

    while True:
        try:
            return await once(noted)
        except InProgress:
            if made:
                raise
        await asyncio.sleep(PAUSE)
