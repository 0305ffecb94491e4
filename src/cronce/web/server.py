"""Serving the page by itself: uvicorn on a socket that is listened on already."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from types import FrameType
from typing import Final

import h11
from starlette.applications import Starlette
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from cronce.web.live import LiveUpdates

SHUTDOWN_GRACE: Final = 1
"""Seconds for requests that are under way when it is told to end."""

MAX_REQUESTS: Final = 500
"""Requests and connections at once."""

REQUEST_TIMEOUT: Final = 10.0
"""Seconds in which a request has to arrive, so that slow clients do not use up the connections."""

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(app: Starlette, listener: socket, *, until_told: bool = True) -> None:
    """Until a signal; without `until_told` signals are handled elsewhere, and it never ends."""
    PageServer(app, until_told=until_told).run(sockets=[listener])


class PageServer(Server):
    """At its end it closes the streams that would go on: else it would wait for them."""

    def __init__(self, app: Starlette, *, until_told: bool) -> None:
        config = Config(
            app,
            http=RequestTimeouts,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_REQUESTS,
            timeout_graceful_shutdown=SHUTDOWN_GRACE,
        )
        super().__init__(config)
        self._live: LiveUpdates = app.state.live
        self._until_told = until_told

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        self._live.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn raises them once more when it has ended, which would end the process."""
        if not self._until_told:
            yield
            return
        before = {number: signal.signal(number, _spent) for number in _STOP_SIGNALS}
        try:
            with super().capture_signals():
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class RequestTimeouts(H11Protocol):
    """Closes connections whose request does not arrive in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._have_heard()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_heard()
        super().connection_lost(exc)

    def _have_heard(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _spent(_number: int, _frame: FrameType | None) -> None:
    """The signal was heard already."""
