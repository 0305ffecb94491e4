"""TLS before a server that has none: what is said to the proxy goes on in plain text."""

import select
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from tests.house.needs import tool


@contextmanager
def behind_tls(port: int, place: Path) -> Iterator[tuple[int, Path]]:
    """A proxy for `localhost`: its port, and the certificate to trust."""
    certificate, key = place / "certificate.pem", place / "key.pem"
    command = f"{tool('openssl', 'apt-get install openssl')} req -x509 -nodes -days 2 -subj /CN=localhost -newkey ec"
    more = ("-pkeyopt", "ec_paramgen_curve:P-256", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run(
        [*command.split(), *more, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client did not like the certificate, or hung up
                self.request.settimeout(5)
                with (
                    context.wrap_socket(self.request, server_side=True) as front,
                    socket.create_connection(("127.0.0.1", port)) as back,
                ):
                    _pass_on(front, back)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        Thread(target=proxy.serve_forever, args=(0.01,)).start()
        yield proxy.server_address[1], certificate
        proxy.shutdown()


def _pass_on(front: ssl.SSLSocket, back: socket.socket) -> None:
    while True:
        ready = [front] if front.pending() else select.select([front, back], [], [])[0]
        for one, other in ((front, back), (back, front)):
            if one in ready:
                data = one.recv(65536)
                if not data:
                    return
                other.sendall(data)
