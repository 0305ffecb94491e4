"""A store by its URL, and URLs fit to be shown."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path

import pytest

from cronce.errors import BadInput
from cronce.stores import GROUP, OURS, mask, open_store
from cronce.stores.memory import MemoryStore
from cronce.stores.sqlite import SqliteStore


def test_a_scheme_names_a_store(tmp_path: Path) -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    assert isinstance(open_store(f"sqlite:///{tmp_path}/store.db"), SqliteStore)


def test_an_unknown_scheme_is_refused_with_the_known_ones_and_without_its_password() -> None:
    with pytest.raises(
        BadInput, match=r"'carrier://me:\*\*\*@pigeon': no store is called 'carrier'; known: .*memory, .*sqlite"
    ):
        open_store("carrier://me:secret@pigeon")


def test_a_path_is_told_how_to_be_a_url() -> None:
    with pytest.raises(BadInput, match=r"for a file write sqlite:///store\.db"):
        open_store("store.db")


def test_a_store_of_another_package_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("toy", "cronce.stores.memory:open_store", GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints([other]))
    assert isinstance(open_store("toy://anywhere"), MemoryStore)


def test_our_own_are_entry_points_too() -> None:
    declared = {entry.name: entry.value for entry in entry_points(group=GROUP) if entry.value.startswith("cronce.")}
    assert declared == {scheme: f"{module}:open_store" for scheme, module in OURS.items()}


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
