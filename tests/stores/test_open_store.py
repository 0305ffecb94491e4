"""A store by its URL, and URLs fit to be shown."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from ssl import SSLContext
from tempfile import NamedTemporaryFile
from typing import Any, Final

import pytest

from cronce.errors import BadInput, StoreReadOnly, StoreUnavailable
from cronce.stores import (
    ENTRY_POINTS,
    OWN_BACKENDS,
    etcd,
    kubernetes,
    mask,
    module_of,
    mysql,
    open_store,
    postgres,
    redis,
    sqlite,
)
from cronce.stores.base import Loaded, life_of
from cronce.stores.etcd.api import read_url as read_etcd
from cronce.stores.kubernetes.api import read_url
from cronce.stores.memory import MemoryStore
from cronce.stores.mysql.server import locate as read_mysql
from cronce.stores.postgres.server import locate as read_postgres
from cronce.stores.redis.url import read_url as read_redis
from cronce.stores.sqlite import SqliteStore
from cronce.stores.sqlite import locate as read_sqlite


def test_a_scheme_names_a_store(tmp_path: Path) -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    assert isinstance(open_store(f"sqlite:///{tmp_path}/store.db"), SqliteStore)


def read_kubernetes(url: str) -> list[Any]:
    """Less where the API server is, which no URL says."""
    with NamedTemporaryFile("w", suffix=".json") as config:
        json.dump({"current-context": "here", "contexts": [{"name": "here", "context": {"cluster": "ours"}}],
                   "clusters": [{"name": "ours", "cluster": {"server": "http://localhost"}}]}, config)  # fmt: skip
        config.flush()
        return list(read_url(url, {"KUBECONFIG": config.name})[2:])


READERS: Final[dict[str, tuple[Callable[[str], Sequence[Any]], str]]] = {
    sqlite.__name__: (read_sqlite, "///store.db"),
    postgres.__name__: (read_postgres, "//ada:secret@host/jobs"),
    mysql.__name__: (read_mysql, "//ada:secret@host/jobs"),
    redis.__name__: (read_redis, "//ada:secret@host/0"),
    etcd.__name__: (read_etcd, "//ada:secret@host"),
    kubernetes.__name__: (read_kubernetes, "//jobs"),
}
"""Of each store: who reads its URL, and what may stand behind the scheme."""


def read(scheme: str, option: str = "") -> list[Any]:
    """What a URL means; how it is shown, and the inside of TLS, left out."""
    reader, rest = READERS[OWN_BACKENDS[scheme.lower()]]
    found = reader(f"{scheme}:{rest}{option}")
    return [type(value) if isinstance(value, SSLContext) else value for value in found if "ada:" not in str(value)]


SERVERS: Final = sorted(OWN_BACKENDS.keys() - {"memory"})


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_scheme_in_capitals_means_the_same(scheme: str) -> None:
    assert read(scheme.upper()) == read(scheme.title()) == read(scheme)


def test_a_store_is_found_by_its_scheme_in_capitals(tmp_path: Path) -> None:
    assert isinstance(open_store("MEMORY:"), MemoryStore)
    store = open_store(f"SQLite:///{tmp_path}/store.db")
    assert isinstance(store, SqliteStore)
    assert store.path == f"{tmp_path}/store.db"
    assert module_of("ETCDS://host") is etcd


@pytest.mark.parametrize("scheme", SERVERS)
@pytest.mark.parametrize("text", ["nan", "inf", "1e12", "3600.1", "-1", "0", "1e-9", "", "abc"])
def test_a_timeout_that_cannot_be_meant_is_refused(scheme: str, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(scheme, f"?timeout={text}")
    url = f"{scheme}:{READERS[OWN_BACKENDS[scheme]][1]}?timeout={text}"
    assert str(caught.value) == (
        f"{mask(url)!r}: timeout={text} is not a number of seconds up to 3600; write it like timeout=2.5"
    )
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_timeout_may_be_short_or_an_hour(scheme: str) -> None:
    assert read(scheme, "?timeout=0.001") != read(scheme, "?timeout=3600") != read(scheme)


class Silent(MemoryStore):
    """Opens, then answers no more."""

    closed = False

    def load(self, keys: Sequence[str]) -> Loaded:
        raise StoreUnavailable("no answer")

    def close(self) -> None:
        self.closed = True


def test_a_store_that_was_opened_for_its_life_only_is_closed_whatever_happens() -> None:
    store = Silent()
    with pytest.raises(StoreUnavailable):
        life_of(store)
    assert store.closed


def test_an_unknown_scheme_is_refused_with_the_known_ones_and_without_its_password() -> None:
    with pytest.raises(
        BadInput, match=r"'carrier://me:\*\*\*@pigeon': no store is called 'carrier'; known: .*memory, .*sqlite"
    ):
        open_store("carrier://me:secret@pigeon")


def test_a_misspelt_scheme_is_told_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"no store is called 'postgresq'; did you mean postgresql://\? known: etcd"):
        open_store("postgresq://localhost/x")


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_url_is_said_to_be_empty(url: str) -> None:
    """It was said to be none, and to write sqlite:/// for it."""
    with pytest.raises(BadInput, match=r"^the URL of the store is empty; write one such as sqlite:///cronce.db, or"):
        open_store(url)


def test_a_directory_that_takes_no_files_is_named_with_the_way_out() -> None:
    """It was told of in general: its folder, its name, or open files."""
    with pytest.raises((StoreUnavailable, StoreReadOnly)) as refused:
        open_store("sqlite:////proc/x.db")
    remedies = "use another path: sqlite:////PATH/cronce.db", "let this user write the file"
    assert str(refused.value).startswith("/proc/x.db cannot be opened")
    assert any(remedy in str(refused.value) for remedy in remedies)


def test_a_path_is_told_how_to_be_a_url() -> None:
    with pytest.raises(BadInput, match=r"for a file write sqlite:///store\.db"):
        open_store("store.db")


def test_a_store_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("toy", "cronce.stores.memory:open_store", ENTRY_POINTS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints([other]))
    assert isinstance(open_store("toy://anywhere"), MemoryStore)


def test_our_own_are_entry_points_too() -> None:
    declared = {
        entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS) if entry.value.startswith("cronce.")
    }
    assert declared == {scheme: f"{module}:open_store" for scheme, module in OWN_BACKENDS.items()}


def test_opening_our_own_reads_no_other_packages_entry_points(tmp_path: Path) -> None:
    code = (
        "import sys; from cronce.stores import open_store; open_store(sys.argv[1]).close();"
        " print([name for name in ('importlib.metadata', 'asyncio', 'ctypes', 'pytest') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/store.db"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:pw@db:5432/jobs", "postgresql://ada:***@db:5432/jobs"),
        ("redis://:pw@cache/0", "redis://:***@cache/0"),
        ("redis://ada@cache/0", "redis://ada@cache/0"),
        ("redis://ada:p@ss:w/rd?@cache/0", "redis://ada:***@cache/0"),
        ("etcd://a:b@one,two/x?token=t0k&user=ada", "etcd://a:***@one,two/x?token=***&user=ada"),
        (
            "mysql://h/db?sslPassword=x&ssl_key=y;api_secret=z",
            "mysql://h/db?sslPassword=***&ssl_key=***;api_secret=***",
        ),
        ("sqlite:////data/a:b@c.db?timeout=3", "sqlite:////data/a:b@c.db?timeout=3"),
        ("memory:", "memory:"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert mask(url) == shown
