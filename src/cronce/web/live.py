"""Telling pages that something changed, as it happens: Server-Sent Events.

*One look for all.* While anybody listens, the store is asked twice a second for its tally, which every write raises; a
listener is only told the number, and asks for its page again if it likes. So a thousand changes are one piece of news,
and whoever reads slowly misses numbers, never the latest one.

*Somebody looks on*, and says so in the store: then schedulers beat every second, and a dead one is soon seen.

*No stream lasts.* A browser comes back by itself, at once; and a server that this is mounted in, which at its end waits
for whoever is still connected, does not wait for long.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cronce.errors import CronceError
from cronce.model import FREE, LOOKED_ON, Mark, Write
from cronce.runtime.flow import Flow, Load, Swap
from cronce.runtime.knowledge import Knowledge
from cronce.stores import mask_all
from cronce.stores.base import Loaded
from cronce.value import NamedTuple
from cronce.web.problems import RETRY_AFTER, Problem

if TYPE_CHECKING:
    from cronce.web.site import Site

EVERY: Final = 0.5
"""Seconds between two looks."""

SAID_EVERY: Final = 5.0
WATCH: Final = timedelta(seconds=10)
"""It is said so often that somebody looks on, and is true for so long."""

UNCOUNTED_EVERY: Final = 2.0
"""A store that does not count its writes may have changed each so many seconds."""

HEARTBEAT: Final = 10.0
LASTS: Final = 25.0
"""Seconds after which a stream ends, and whoever still listens comes back."""

MOST: Final = 100
"""Streams at once."""


class News(NamedTuple):
    """What is told: that something changed, by the number of the store's latest write, or that it does not answer."""

    event: str
    data: str

    def __str__(self) -> str:
        lines = "".join(f"data: {line}\n" for line in self.data.splitlines() or [""])
        return f"event: {self.event}\n{lines}\n"


class Listener:
    """One stream: the latest news that it has not been told yet."""

    def __init__(self) -> None:
        self._news: News | None = None
        self._came = asyncio.Event()
        self.closed = False

    def tell(self, news: News) -> None:
        self._news = news
        self._came.set()

    def close(self) -> None:
        self.closed = True
        self._came.set()

    async def next(self, seconds: float) -> News | None:
        """What is new; None: nothing for so long, or there will be no more."""
        try:
            await asyncio.wait_for(self._came.wait(), seconds)
        except TimeoutError:
            return None
        self._came.clear()
        news, self._news = self._news, None
        return news


class Live:
    """Who listens, and the one who looks for all of them."""

    def __init__(self, site: "Site") -> None:
        self._site = site
        self._listeners: set[Listener] = set()
        self._looking: asyncio.Task[None] | None = None
        self._latest: News | None = None

    def listen(self) -> Listener:
        if len(self._listeners) >= MOST:
            raise Problem(503, f"{MOST} look on already; close a page that nobody needs", {"Retry-After": RETRY_AFTER})
        listener = Listener()
        self._listeners.add(listener)
        if self._looking is None or self._looking.done():
            self._latest = None
            self._looking = asyncio.get_running_loop().create_task(self._look())
        if self._latest is not None:
            listener.tell(self._latest)
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def close(self) -> None:
        """End all streams: the server is about to stop."""
        for listener in self._listeners:
            listener.close()

    async def _look(self) -> None:
        boot = self._site.clock.boot
        said = -SAID_EVERY
        while self._listeners:
            began = boot()
            says = began - said >= SAID_EVERY
            news = await self._seen(says=says)
            said = began if says and news.event == "changed" else said
            if news != self._latest:
                self._latest = news
                for listener in self._listeners:
                    listener.tell(news)
            await asyncio.sleep(max(0.0, began + EVERY - boot()))

    async def _seen(self, *, says: bool) -> News:
        try:
            desk = await self._site.opened()
            tally = await self._site.ask(_tally(desk.ledger.know, says=says))
            if desk.store.traits.tally:
                return News("changed", str(tally))
        except CronceError as error:
            return News("away", mask_all(str(error)))
        return News("changed", str(int(self._site.clock.boot() / UNCOUNTED_EVERY)))


def _tally(know: Knowledge, *, says: bool) -> Flow[int]:
    """How many writes the store has seen; and say that somebody looks on. Another page may have said it just now: that
    is as good. Whoever looks on has watched the store's clock, too, and so knows which leases have passed."""
    timed = yield Load([LOOKED_ON])
    know.learn(timed)
    assert isinstance(timed.reply, Loaded)
    if says:
        yield Swap([Write(LOOKED_ON, FREE, "", Mark.FREE, ttl=WATCH)], timed.reply.epoch.seen)
    return timed.reply.epoch.tally


async def live(request: Request) -> Response:
    found: Live = request.app.state.live
    return StreamingResponse(_stream(found, found.listen(), request), media_type="text/event-stream")


async def _stream(live: Live, listener: Listener, request: Request) -> AsyncIterator[str]:
    boot = request.app.state.site.clock.boot
    ends = boot() + LASTS
    try:
        yield "retry: 1000\n\n"
        while not listener.closed and (left := ends - boot()) > 0:
            news = await listener.next(min(HEARTBEAT, left))
            yield str(news) if news else ": still here\n\n"
    finally:
        live.leave(listener)


ROUTES: Final = (Route("/live", live),)
