"""Where a store is, by its URL (and the kubeconfig that it names), and the same URL by way of a proxy."""

from typing import Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

from cronce.stores.kubernetes.api import read_url
from cronce.value import NamedTuple

PORTS: Final = {
    "postgresql": 5432, "postgres": 5432, "mysql": 3306, "mariadb": 3306,
    "redis": 6379, "valkey": 6379, "etcd": 2379,
}  # fmt: skip
SECURE: Final = ("rediss", "valkeys", "etcds")
REDIRECTING_OPTIONS: Final = ("host", "hostaddr", "service", "unix_socket", "sentinel", "cluster")
"""Options that send a driver to another place than the URL's host."""

LOCALHOST: Final = "127.0.0.1"


class HostPort(NamedTuple):
    host: str
    port: int


def address(url: str) -> HostPort | str:
    """The one TCP address behind a URL; or why nothing can stand between it and a process."""
    parts = urlsplit(url)
    options = parse_qs(parts.query, keep_blank_values=True)
    if "via" in options:
        return "the option via bypasses a proxy"
    if parts.scheme in SECURE or "ssl_ca" in options or "verify" in "".join(options.get("sslmode", ())):
        return "the connection is encrypted, and checks the identity of the server"
    if parts.scheme == "kubernetes":
        return HostPort(*read_url(url).endpoint)
    if parts.scheme not in PORTS:
        return f"a {parts.scheme}: store is not reached by TCP"
    if elsewhere := [name for name in REDIRECTING_OPTIONS if name in options]:
        return f"the option {elsewhere[0]} bypasses a proxy"
    if "," in parts.netloc:
        return "the URL names several hosts"
    if not parts.hostname:
        return "the URL names no host"
    return HostPort(parts.hostname, parts.port or PORTS[parts.scheme])


def through(url: str, port: int) -> str:
    """The same store, by way of a port of this machine."""
    parts = urlsplit(url)
    if parts.scheme == "kubernetes":
        return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, f"via={LOCALHOST}:{port}")))))
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{LOCALHOST}:{port}"))
