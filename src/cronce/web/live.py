"""Telling pages that something changed, as it happens: Server-Sent Events.

*One look for all.* While a page is open, the store is asked twice a second for its tally, which every write raises. A
page gets only the number, and fetches itself again if it likes. So a thousand changes are one piece of news, and a slow
reader misses numbers, never the latest one.

*An open page is noted in the store*: then schedulers send heartbeats every second, and a dead one is soon seen.

*No stream lasts.* A browser reconnects at once by itself. So a server that this is mounted in, which at its end waits
for open connections, does not wait for long.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cronce.errors import CronceError
from cronce.runtime.process_notes import looked_on
from cronce.stores import mask_all
from cronce.value import NamedTuple
from cronce.web.requests import RETRY_AFTER, Problem

if TYPE_CHECKING:
    from cronce.web.site import Site

LIVE_LOOK_EVERY: Final = 0.5
"""Seconds between two looks."""

WATCHED_EVERY: Final = 5.0
"""Seconds between two notes that a page is open."""

UNCOUNTED_EVERY: Final = 2.0
"""A store that does not count its writes may have changed each so many seconds."""

KEEPALIVE_EVERY: Final = 10.0
STREAM_SECONDS: Final = 25.0
"""Seconds after which a stream ends, and the browser reconnects."""

MAX_STREAMS: Final = 100
"""Streams at once."""


class LiveUpdate(NamedTuple):
    """What is told: that something changed, by the number of the store's latest write, or that it does not answer."""

    event: str
    data: str

    def __str__(self) -> str:
        lines = "".join(f"data: {line}\n" for line in self.data.splitlines() or [""])
        return f"event: {self.event}\n{lines}\n"


class LiveUpdates:
    """The open streams, and the one task that asks the store for all of them."""

    def __init__(self, site: "Site") -> None:
        self._site = site
        self._listening = 0
        self._looking: asyncio.Task[None] | None = None
        self._latest: LiveUpdate | None = None
        self._came = asyncio.Event()
        """That there is news; each has an event of its own."""
        self._closed = False

    def listen(self) -> AsyncIterator[str]:
        """A stream of the latest news, for a while."""
        if self._listening >= MAX_STREAMS:
            raise Problem(
                503,
                f"{MAX_STREAMS} pages are already open; close one that you do not need",
                {"Retry-After": RETRY_AFTER},
            )
        self._listening += 1
        if self._looking is None or self._looking.done():
            self._latest, self._came = None, asyncio.Event()
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return self._stream()

    def close(self) -> None:
        """End all streams: the server is about to stop."""
        self._closed = True
        self._came.set()

    async def _stream(self) -> AsyncIterator[str]:
        boot = self._site.clock.boot
        ends = boot() + STREAM_SECONDS
        told: LiveUpdate | None = None
        try:
            yield "retry: 1000\n\n"
            while not self._closed and (left := ends - boot()) > 0:
                if self._latest == told:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._came.wait(), min(KEEPALIVE_EVERY, left))
                yield ": still here\n\n" if self._latest == told else str(self._latest)
                told = self._latest
        finally:
            self._listening -= 1

    async def _look(self) -> None:
        boot = self._site.clock.boot
        said = -WATCHED_EVERY
        while self._listening:
            began = boot()
            says = began - said >= WATCHED_EVERY
            news = await self._seen(says=says)
            said = began if says and news.event == "changed" else said
            if news != self._latest:
                self._latest, came, self._came = news, self._came, asyncio.Event()
                came.set()
            await asyncio.sleep(max(0.0, began + LIVE_LOOK_EVERY - boot()))

    async def _seen(self, *, says: bool) -> LiveUpdate:
        try:
            node = await self._site.opened()
            tally = await self._site.ask(looked_on(node.ledger, says=says))
            if node.store.traits.tally:
                return LiveUpdate("changed", str(tally))
        except CronceError as error:
            return LiveUpdate("away", mask_all(str(error)))
        return LiveUpdate("changed", str(int(self._site.clock.boot() / UNCOUNTED_EVERY)))


async def live(request: Request) -> Response:
    found: LiveUpdates = request.app.state.live
    return StreamingResponse(found.listen(), media_type="text/event-stream")


ROUTES: Final = (Route("/live", live),)
