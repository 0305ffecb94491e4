"""Where a command listens: an address as people write it, a socket that has it; and the processes beside those of
`cronce run` that answer over HTTP.

The foreman has no threads and must stay able to fork, and a member may hang. So the foreman forks one more process for
each server, before the members. It ends with the foreman. If it dies, the foreman, which keeps its socket open, forks
another; clients wait meanwhile.
"""

import os
import re
import signal
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, NoReturn

from cronce.cli import say
from cronce.errors import BadInput, CronceError, tell
from cronce.runtime.log import traceback_of

_ADDRESS: Final = re.compile(r"(?a)(?:(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):)?(?P<port>\d{1,5})")


def read_address(text: str, option: str = "--health") -> tuple[str, int]:
    """`8080` is this machine's own, `0.0.0.0:8080` everybody's."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise BadInput(f"{option} must be a port or HOST:PORT (8080, 0.0.0.0:8080, [::]:8080), not {text!r:.60}")
    return found["six"] or found["host"] or "127.0.0.1", int(found["port"])


def listening(host: str, port: int, option: str = "--health") -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # the address is said already
        raise CronceError(f"{option} cannot listen on {host}, port {port}: {why}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it, by any of its addresses; False for a name without an address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpProcess(ABC):
    """Listens from the beginning, so that an address that is in use is refused before anything is started.

    The rope is a pipe that no process writes to: it closes when the foreman and the last of its members are gone. The
    foreman keeps the other end, too, for the next process if this one dies.
    """

    def __init__(self, listener: socket.socket, offers: str) -> None:
        self._socket = listener
        self.url = url_of(listener)
        self.announcement = f"{self.url}{offers}"
        self._inlet, self._rope = os.pipe()
        self._pid = 0

    @abstractmethod
    def answer(self) -> None:
        """In its process, for as long as that lasts."""

    def open(self, others: Sequence["HttpProcess"], ropes: Iterable[int]) -> int:
        """Fork it, and return its pid. It closes the sockets and ropes of the other processes: otherwise they would not
        notice their end."""
        self._pid = os.fork()
        if not self._pid:
            for number in (signal.SIGTERM, signal.SIGINT):  # it stays to the end, and says that the others are going
                signal.signal(number, signal.SIG_IGN)
            for other in others:
                other.shut()
            for rope in (self._rope, *(other._rope for other in others), *ropes):
                os.close(rope)
            self._serve()
        return self._pid

    def _serve(self) -> NoReturn:
        threading.Thread(target=_end_with_foreman, args=[self._inlet], daemon=True).start()
        try:
            self.answer()
        except CronceError as error:
            say("run", f"no server answers at {self.url}: {error}")
        except BaseException as error:
            tell(traceback_of(error))
        finally:  # also if the message cannot be printed: this process must not return as a second foreman
            os._exit(1)

    def shut(self) -> None:
        """Close the socket in this process."""
        self._socket.close()

    def close(self) -> None:
        self.shut()
        os.close(self._rope)
        os.close(self._inlet)
        if self._pid:
            with suppress(ChildProcessError):  # it is reaped already, if it died
                os.waitpid(self._pid, 0)


def _end_with_foreman(inlet: int) -> None:
    os.read(inlet, 1)
    os._exit(0)
