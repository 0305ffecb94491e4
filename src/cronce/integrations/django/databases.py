"""A store beside a project's own data: the URL for what DATABASES says of an alias."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from cronce.errors import BadInput
from cronce.stores import scheme_of, url_of

OWN: Final[Mapping[str, frozenset[str]]] = {
    "postgresql": frozenset(("assume_role", "isolation_level", "pool", "server_side_binding")),
    "mysql": frozenset((
        "autocommit", "charset", "collation", "connect_timeout", "conv", "init_command", "isolation_level", "sql_mode",
        "use_unicode",
    )),
}  # fmt: skip
"""OPTIONS that only concern Django's own connection. The others are about reaching or verifying the server: they become
options of the URL, and a store that does not know one refuses it."""


URL_READERS: Final = {
    "sqlite": "cronce.stores.sqlite:locate",
    **dict.fromkeys(("postgresql", "postgres"), "cronce.stores.postgres.server:locate"),
    **dict.fromkeys(("mysql", "mariadb"), "cronce.stores.mysql.server:locate"),
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), "cronce.stores.redis.url:read_url"),
    **dict.fromkeys(("etcd", "etcds"), "cronce.stores.etcd.api:read_url"),
}
"""Functions that read the URL of a store, and open nothing. That of Kubernetes would read files of this machine."""


def check_url(url: str) -> None:
    """Refuse what the store would refuse when it is opened."""
    module, _, name = URL_READERS.get(scheme_of(url), "").partition(":")
    if module:
        getattr(import_module(module), name)(url)


def store_beside(vendor: str, database: Mapping[str, Any], options: str = "") -> str:
    """`options` are the store's own, as they stand in a URL: `schema=cronce`."""
    if vendor == "sqlite":
        return _with(_file(str(database["NAME"])), options)
    if vendor not in OWN:
        raise BadInput(f"no store is kept in {vendor}; set CRONCE = {{'store': 'postgresql://…'}} or another URL")
    words = dict(_words(vendor, database["OPTIONS"]))
    host = str(database["HOST"])
    if vendor == "mysql" and host.startswith("/"):  # Django means a socket by that
        words["unix_socket"], host = host, ""
    place = f"{_user(database)}{_hosts(host, str(database['PORT']))}/{quote(str(database['NAME']), safe='')}"
    return _with(f"{vendor}://{place}", "&".join(filter(None, [urlencode(words, quote_via=quote), options])))


def _with(url: str, options: str) -> str:
    return f"{url}?{options}" if options else url


def _file(name: str) -> str:
    """A file of its own, next to the project's: SQLite locks a whole file, and neither should wait for the other. For a
    database in memory, as in most tests, the store is in memory too."""
    if not name or name.startswith("file:") or ":memory:" in name:
        return "memory:"
    path = Path(name).absolute()
    return url_of(path.with_name(f"{path.stem}.cronce{path.suffix}"))


def _words(vendor: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping) and name not in OWN[vendor]:  # MySQL's drivers take {"ssl": {"ca": …}}
            yield from ((f"{name}_{key}", _said(one)) for key, one in value.items())
        elif name not in OWN[vendor]:
            yield name, _said(value)


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _user(database: Mapping[str, Any]) -> str:
    user, password = (quote(str(database[name]), safe="") for name in ("USER", "PASSWORD"))
    return f"{user}{f':{password}' if password else ''}@" if user or password else ""


def _hosts(host: str, port: str) -> str:
    """libpq takes several of each; one port is for all."""
    names, ports = host.split(","), port.split(",")
    if len(ports) == 1:
        ports *= len(names)
    pairs = zip(map(_host, names), ports, strict=True)
    return ",".join(f"{name}{f':{port}' if port else ''}" for name, port in pairs)


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else quote(name, safe="")
