"""A proxy that fails on purpose: what is held back arrives late, a dropped reply is one to a request that landed."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from queue import Empty, Queue

import pytest

from cronce.torture import proxy as module
from cronce.torture.proxy import Link, Proxy
from cronce.torture.route import LOCALHOST, HostPort
from tests.house.wait import PATIENCE


class Echo(socketserver.ThreadingTCPServer):
    """Answers each line with itself, and remembers it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((LOCALHOST, 0), Handler)
        self.heard: Queue[bytes] = Queue()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        for line in self.rfile:
            self.server.heard.put(line)
            self.wfile.write(line)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    made = Proxy(HostPort(LOCALHOST, echo.server_address[1]))
    yield made
    made.close()


@pytest.fixture
def link(proxy: Proxy) -> Link:
    return proxy.link()


def connected(link: Link) -> socket.socket:
    client = socket.create_connection((LOCALHOST, link.port), timeout=PATIENCE)
    client.sendall(b"hello\n")
    assert client.recv(100) == b"hello\n"
    return client


def silent(client: socket.socket) -> bool:
    client.settimeout(0.3)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE)
    return False


def test_bytes_pass_both_ways(link: Link, echo: Echo) -> None:
    with closing(connected(link)):
        assert echo.heard.get(timeout=PATIENCE) == b"hello\n"


def test_a_partition_holds_bytes_back_and_delivers_them_when_it_is_over(link: Link, echo: Echo) -> None:
    with closing(connected(link)) as client:
        echo.heard.get(timeout=PATIENCE)
        link.cut()
        client.sendall(b"late\n")
        assert silent(client)
        assert echo.heard.empty()
        link.heal()
        assert client.recv(100) == b"late\n"


def test_what_was_sent_lands_even_if_the_sender_has_gone(link: Link, echo: Echo) -> None:
    client = connected(link)
    echo.heard.get(timeout=PATIENCE)
    link.cut()
    client.sendall(b"from the dead\n")
    client.close()
    with pytest.raises(Empty):
        echo.heard.get(timeout=0.3)
    link.heal()
    assert echo.heard.get(timeout=PATIENCE) == b"from the dead\n"


def test_who_connects_during_a_partition_waits(link: Link) -> None:
    link.cut()
    with closing(socket.create_connection((LOCALHOST, link.port), timeout=PATIENCE)) as client:
        client.sendall(b"hello\n")
        assert silent(client)
        link.heal()
        assert client.recv(100) == b"hello\n"


def test_one_is_cut_off_and_the_others_are_not(proxy: Proxy, link: Link) -> None:
    other = proxy.link()
    with closing(connected(link)) as client, closing(connected(other)) as friend:
        link.cut()
        client.sendall(b"x\n")
        friend.sendall(b"y\n")
        assert friend.recv(100) == b"y\n"
        assert silent(client)
        link.heal()


def test_two_partitions_are_over_when_both_are(link: Link) -> None:
    with closing(connected(link)) as client:
        link.cut()
        link.cut()
        link.heal()
        client.sendall(b"x\n")
        assert silent(client)
        link.heal()
        assert client.recv(100) == b"x\n"


def test_a_dropped_reply_is_one_to_a_request_that_landed(
    link: Link, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GREETING_SECONDS", 0.0)
    with closing(connected(link)) as client:
        echo.heard.get(timeout=PATIENCE)
        link.drops = 1
        client.sendall(b"write\n")
        assert client.recv(100) == b""
        assert echo.heard.get(timeout=PATIENCE) == b"write\n"
    assert link.drops == 0
    connected(link).close()


def test_the_greetings_of_a_new_connection_are_not_dropped(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GREETING_SECONDS", 60.0)
    link.drops = 1
    connected(link).close()
    assert link.drops == 1


def test_late_bytes_are_late(link: Link) -> None:
    with closing(connected(link)) as client:
        link.delay = 0.25
        began = time.monotonic()
        client.sendall(b"x\n")
        assert client.recv(100) == b"x\n"
        assert time.monotonic() - began > 0.4  # there and back


def test_a_store_that_is_down_hangs_up(echo: Echo, proxy: Proxy, link: Link) -> None:
    echo.shutdown()
    echo.server_close()
    with closing(socket.create_connection((LOCALHOST, link.port), timeout=PATIENCE)) as client:
        assert client.recv(100) == b""
