"""The URL of a Redis store: its servers, the login, and options such as the timeout."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from cronce.errors import BadInput
from cronce.stores import mask, options, scheme_of, seconds
from cronce.value import NamedTuple

Address = tuple[str, int] | str
"""A host and a port, or the path of a Unix socket."""

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
REDIS_TIMEOUT: Final = "5"

MOST_REPLICAS: Final = 200

URL_OPTIONS: Final = (
    "cluster", "db", "min_replicas", "namespace", "sentinel", "sentinel_password", "sentinel_username",
    "ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile", "timeout",
)  # fmt: skip


INSTEAD: Final = {
    **dict.fromkeys(("socket_timeout", "socket_connect_timeout"), "timeout=SECONDS is for both"),
    **dict.fromkeys(("username", "password"), "write them before the host: redis://USER:PASSWORD@HOST"),
    **dict.fromkeys(("host", "port", "path", "unix_socket_path"), "write it where a URL has it: redis://HOST:PORT, redis:///PATH"),
    "ssl": "write rediss:// for TLS",
    **dict.fromkeys(
        (
            "ssl_ca_data", "ssl_ca_path", "ssl_check_hostname", "ssl_ciphers", "ssl_exclude_verify_flags",
            "ssl_include_verify_flags", "ssl_min_version", "ssl_password", "ssl_validate_ocsp",
        ),
        "ssl_ca_certs=FILE says whom to trust, ssl_certfile and ssl_keyfile who this client is",
    ),
    **dict.fromkeys(
        (
            "client_name", "decode_responses", "encoding", "encoding_errors", "health_check_interval",
            "legacy_responses", "lib_name", "lib_version", "max_connections", "protocol", "retry_on_error",
            "retry_on_timeout", "socket_keepalive", "socket_read_size", "socket_type", "single_connection_client",
        ),
        "leave it out: cronce takes care of that",
    ),
}  # fmt: skip
"""Options of redis-py that people have in their URLs, and what to write instead."""


class Login(NamedTuple):
    username: str = ""
    password: str = ""


class Tls(NamedTuple):
    ca: str = ""
    cert: str = ""
    key: str = ""
    verify: bool = True


class RedisAddress(NamedTuple):
    """A store as its URL names it. `url` is masked, for people."""

    url: str
    addresses: tuple[Address, ...]
    login: Login
    db: int
    namespace: str
    timeout: float
    min_replicas: int
    sentinel: str
    sentinel_login: Login
    cluster: bool
    tls: Tls | None

    @property
    def fails_over(self) -> bool:
        """Another server may replace this one by itself."""
        return self.cluster or bool(self.sentinel)


def read_url(url: str) -> RedisAddress:
    """``redis://user:password@host:6379/0?namespace=cronce``; several hosts with commas; a Unix socket by its path."""
    shown = mask(url)
    _, _, rest = url.partition("://")
    parts = urlsplit(f"redis://{rest}")
    options = _options(shown, parts.query)
    user, _, hosts = parts.netloc.rpartition("@")
    path = unquote(parts.path)
    username, _, password = user.partition(":")
    socket = path if not hosts and path.strip("/") and not path.strip("/").isdigit() else ""
    return RedisAddress(
        shown,
        (socket,) if socket else _addresses(shown, hosts, SENTINEL_PORT if options.get("sentinel") else REDIS_PORT),
        Login(unquote(username), unquote(password)),
        _db(shown, "" if socket else path.strip("/"), options),
        _namespace(shown, options.get("namespace", "cronce")),
        seconds(shown, options.get("timeout", REDIS_TIMEOUT)),
        _replicas(shown, options.get("min_replicas", "0")),
        options.get("sentinel", ""),
        Login(options.get("sentinel_username", ""), options.get("sentinel_password", "")),
        _flag(shown, options),
        _tls(shown, options) if scheme_of(url) in ("rediss", "valkeys") else None,
    )


def _options(shown: str, query: str) -> dict[str, str]:
    found = options(shown, query, URL_OPTIONS, INSTEAD)
    if found.get("sentinel") and found.get("cluster"):
        raise BadInput(f"{shown!r}: a master under Sentinel, or a Cluster? Give sentinel or cluster, not both")
    return found


def _addresses(shown: str, hosts: str, port: int) -> tuple[Address, ...]:
    return tuple(_address(shown, host, port) for host in (hosts or "localhost").split(","))


def _address(shown: str, text: str, port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        return parts.hostname or "localhost", parts.port or port
    except ValueError:
        raise BadInput(f"{shown!r}: {text!r} is not a host and a port; write it like localhost:6379") from None


def _db(shown: str, path: str, options: Mapping[str, str]) -> int:
    text = options.get("db") or path or "0"
    if not text.isdecimal():
        raise BadInput(f"{shown!r}: {text!r} is not the number of a database; write it like redis://localhost:6379/0")
    if int(text) and options.get("cluster"):
        raise BadInput(f"{shown!r}: a Cluster has only database 0; separate stores with ?namespace=NAME")
    return int(text)


def _namespace(shown: str, name: str) -> str:
    if not name or not name.isprintable() or set(name) & set("{} "):
        raise BadInput(f"{shown!r}: {name!r} cannot be a namespace: it needs letters, and neither braces nor blanks")
    return name


def _replicas(shown: str, text: str) -> int:
    if text not in map(str, range(MOST_REPLICAS + 1)):
        raise BadInput(f"{shown!r}: min_replicas={text} is not a number of replicas; write it like min_replicas=1")
    return int(text)


def _flag(shown: str, options: Mapping[str, str]) -> bool:
    text = options.get("cluster", "false")
    if text not in ("true", "false"):
        raise BadInput(f"{shown!r}: cluster={text}; write cluster=true, or leave it out")
    return text == "true"


def _tls(shown: str, options: Mapping[str, str]) -> Tls:
    reqs = options.get("ssl_cert_reqs", "required")
    if reqs not in ("required", "none"):
        raise BadInput(f"{shown!r}: ssl_cert_reqs={reqs}; write ssl_cert_reqs=none to trust any certificate")
    ca, cert, key = (options.get(name, "") for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    return Tls(ca, cert, key, reqs == "required")
