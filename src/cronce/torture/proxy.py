"""A TCP proxy that fails on purpose: one for each process, so that one can be cut off while the others go on.

*A partition holds bytes back, it does not lose them*: so does TCP. What a process had sent is delivered when the
partition is over, even if the process has given up waiting long ago, or is dead. So writes land late.

*A dropped reply* is one to a request that was delivered: the store did what it was asked, the connection is cut, and
the process cannot know. Only connections that have been used for a while are cut so: the first bytes of a new one are
greetings.

*A connection that dies without a word* is one that a firewall has forgotten: nothing arrives any more, either way, and
neither end is told. A new one works.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import closing, suppress
from typing import Any, Final, TypeVar

from cronce.torture.route import LOCALHOST, HostPort

T = TypeVar("T")

GREETING_SECONDS: Final = 0.2
"""Seconds after which the greetings of a connection are over."""

PROXY_BYTES: Final = 1 << 16


class Link:
    """The way of one process to the store."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.port = 0
        self.delay = 0.0
        """Seconds that each chunk of bytes is late."""
        self.drops = 0
        """How many replies are still to be swallowed."""
        self.deaths = 0
        """How often all connections of that moment have died without a word."""
        self.open = asyncio.Event()
        self.open.set()
        self._loop = loop
        self._cuts = 0

    def cut(self) -> None:
        """Hold every byte back, until this was healed as often as it was cut."""
        self._cuts += 1
        self._loop.call_soon_threadsafe(self.open.clear)

    def heal(self) -> None:
        self._cuts -= 1
        if not self._cuts:
            self._loop.call_soon_threadsafe(self.open.set)


class Proxy:
    """Links to one address. An event loop on a thread of its own does the work."""

    def __init__(self, to: HostPort) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cronce-proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._thread.start()

    def link(self) -> Link:
        return self._do(self._listen())

    def close(self) -> None:
        self._do(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> Link:
        link = Link(self._loop)
        server = await asyncio.start_server(lambda *client: self._connected(link, *client), LOCALHOST, 0)
        link.port = server.sockets[0].getsockname()[1]
        self._servers.append(server)
        return link

    async def _shut(self) -> None:
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # let connections that were just accepted begin, so that they are closed, too
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed is closed

    async def _connected(self, link: Link, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError), closing(client):
            await link.open.wait()
            answers, store = await asyncio.open_connection(*self._to)
            with closing(store):
                await asyncio.gather(self._requests(link, reader, store), self._replies(link, answers, client))

    async def _requests(self, link: Link, reader: asyncio.StreamReader, store: asyncio.StreamWriter) -> None:
        """Pass on what was sent before the connection was closed, then close the other side."""
        alive = link.deaths
        while data := await reader.read(PROXY_BYTES):
            if alive == link.deaths:
                await self._pass_on(link, data, store)
        store.close()

    async def _replies(self, link: Link, answers: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        since, alive = self._loop.time(), link.deaths
        while data := await answers.read(PROXY_BYTES):
            if link.drops and self._loop.time() - since > GREETING_SECONDS:
                link.drops -= 1
                break
            if alive == link.deaths:
                await self._pass_on(link, data, client)
        client.close()

    async def _pass_on(self, link: Link, data: bytes, to: asyncio.StreamWriter) -> None:
        if link.delay:
            await asyncio.sleep(link.delay)
        await link.open.wait()
        to.write(data)
        await to.drain()
