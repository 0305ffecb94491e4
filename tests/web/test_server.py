"""A server that others reach: whoever asks slowly, or half, keeps nobody else from asking. What it opened it closes."""

import asyncio
import os
import socket
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import pytest

from cronce.stores import open_store
from cronce.web import requests, server
from cronce.web.app import application
from cronce.web.site import Site, _templates
from tests.house.wait import PATIENCE
from tests.web.house import Busy
from tests.web.served import raw, served

ASKS = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_half_a_question_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks in full is given time, however busy this machine is."""
    patient = partial(monkeypatch.setattr, server, "REQUEST_TIMEOUT")
    monkeypatch.setattr(requests, "BODY_TIMEOUT", 0.3)
    monkeypatch.setattr(server, "MAX_REQUESTS", 4)
    with served(Busy().app) as port, ExitStack() as open_ones:
        slow = []
        patient(PATIENCE)
        for _ in range(4):
            line = socket.create_connection(("127.0.0.1", port), PATIENCE)
            slow.append(open_ones.enter_context(closing(line)))
            if len(slow) == 1:  # the first is answered, and then half a second question comes
                line.sendall(ASKS.replace(b"close", b"keep-alive"))
                assert b" 200 " in line.recv(65_536)
                patient(0.3)
        for one, half in zip(slow, (b"GET / HT", b"", b"GET / HT", ASKS[:-20]), strict=True):
            with suppress(OSError):  # on a busy machine it may have been hung up on by now
                one.sendall(half)
        for one in slow:
            with suppress(ConnectionResetError):
                while one.recv(65_536):
                    pass  # until it is hung up on
        patient(PATIENCE)
        assert b" 200 " in raw(port, ASKS)[:20]
        body = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        kind = b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        assert b" 408 " in raw(port, body + kind + b"by=")[:20]


def test_what_it_opened_it_closes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    open_store(url).close()
    app = application(url, private=False)
    site: Site = app.state.site

    async def life() -> None:
        async with app.router.lifespan_context(app):
            await site.opened()
            assert opened(tmp_path)

    asyncio.run(life())
    assert opened(tmp_path) == []


def opened(folder: Path) -> list[str]:
    """Files in there that this process has open."""
    ways = [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]
    return [way for way in ways if way.startswith(f"{folder}/")]


def test_an_upgrade_in_place_changes_no_page_that_is_shown() -> None:
    assert not _templates().auto_reload
