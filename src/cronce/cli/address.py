"""Where a process listens: an address as people write it, and a socket that has it."""

import re
import socket
from ipaddress import ip_address
from typing import Final

from cronce.errors import BadInput, CronceError

_ADDRESS: Final = re.compile(r"(?a)(?:(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):)?(?P<port>\d{1,5})")


def read_address(text: str, option: str = "--health") -> tuple[str, int]:
    """`8080` is this machine's own, `0.0.0.0:8080` everybody's."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise BadInput(f"{option} is a port, or HOST:PORT (8080, 0.0.0.0:8080, [::]:8080), and this is {text!r:.60}")
    return found["six"] or found["host"] or "127.0.0.1", int(found["port"])


def listening(host: str, port: int, option: str = "--health") -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, proto)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(128)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise CronceError(f"{option} cannot listen on {host}, port {port}: {error.strerror}") from None
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it, by whichever of its addresses; a name that leads nowhere is not."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
