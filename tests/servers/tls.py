"""TLS before a server that has none: what is said to the proxy goes on in plain text."""

import select
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from tests.house.needs import tool


def _openssl(*words: object) -> None:
    program = tool("openssl", "apt-get install openssl")
    subprocess.run([program, *map(str, words)], check=True, capture_output=True)


def self_signed(place: Path) -> tuple[Path, Path, Path]:
    """What to trust, the server's certificate and its key. The first two are the same."""
    certificate, key = place / "certificate.pem", place / "key.pem"
    made = ("req", "-x509", "-nodes", "-days", 2, "-subj", "/CN=localhost", "-newkey", "ec")
    more = ("-pkeyopt", "ec_paramgen_curve:P-256", "-addext", "subjectAltName=DNS:localhost")
    _openssl(*made, *more, "-keyout", key, "-out", certificate)
    return certificate, certificate, key


def without_key_identifier(place: Path, names: str = "DNS:localhost", days: int = 2) -> tuple[Path, Path, Path]:
    """The same for a CA, and a serving certificate that it signed without an Authority Key Identifier."""
    ca, ca_key, asked, certificate, key = (
        place / name for name in ("ca.pem", "ca-key.pem", "asked.pem", "certificate.pem", "key.pem")
    )
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    rights = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
    _openssl("req", "-x509", *curve, *rights, "-days", 2, "-subj", "/CN=the CA", "-keyout", ca_key, "-out", ca)
    _openssl("req", *curve, "-subj", "/CN=server", "-keyout", key, "-out", asked)
    (place / "extensions").write_text(
        f"subjectAltName={names}\nauthorityKeyIdentifier=none\nsubjectKeyIdentifier=hash\n"
        "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
    )
    signed = ("x509", "-req", "-in", asked, "-CA", ca, "-CAkey", ca_key, "-days", days)
    _openssl(*signed, "-extfile", place / "extensions", "-out", certificate)
    return ca, certificate, key


@contextmanager
def behind_tls(
    port: int, place: Path, made: Callable[[Path], tuple[Path, Path, Path]] = self_signed
) -> Iterator[tuple[int, Path]]:
    """A proxy for `localhost`: its port, and the certificate to trust."""
    trusted, certificate, key = made(place)
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
        try:
            yield proxy.server_address[1], trusted
        finally:
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
