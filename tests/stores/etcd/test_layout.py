"""How cells lie in etcd: indexes, what a purge leaves, namespaces, and newer layouts."""

import random
from contextlib import closing
from unittest.mock import Mock

import pytest

from cronce.errors import StoreNewer
from cronce.model import Cell, Mark, Write
from cronce.stores import open_store
from cronce.stores.base import Scan, Store
from cronce.stores.etcd import init, layout
from cronce.stores.etcd.layout import data64, entries, mirror, read_cell, text64
from cronce.testing.contract import CONTRACT_LEASE, DAY, HOUR, cell_of, change, claim, put, win
from tests.servers.etcd import Etcd
from tests.stores.etcd.opening import Count, checked, revision

# --- round trips, counted by the server -----------------------------------------------------------------------------


def test_the_newest_few_of_many_are_two_round_trips(etcd: Etcd, store: Store) -> None:
    win(store, *(put(f"run/{number:03}", at=DAY + number * HOUR) for number in range(300)))
    count = Count(etcd)
    page = store.scan(Scan("run/", by="at", limit=3, newest_first=True))
    assert [cell.key for cell in page.cells] == ["run/299", "run/298", "run/297"]
    assert count() == 2


def test_a_page_reads_no_more_than_it_shows(etcd: Etcd, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one or two cells, which show that there are more."""
    win(store, *(put(f"run/{number:04}") for number in range(1600)))
    read = Mock(wraps=read_cell)
    monkeypatch.setattr(layout, "read_cell", read)
    count = Count(etcd)
    page = store.scan(Scan("run/", newest_first=True))
    assert (len(page.cells), page.cells[-1].key) == (1000, "run/0600")
    assert (count(), read.call_count) == (2, 1002)


# --- what lies in etcd ----------------------------------------------------------------------------------------------


def test_the_indexes_are_those_of_the_cells_whatever_was_written(etcd: Etcd, store: Store, namespace: str) -> None:
    dice = random.Random(11)
    for _ in range(60):
        cells = store.load([f"run/{number}" for number in range(8)]).cells
        for cell in dice.sample(cells, 3):
            at = dice.choice([None, DAY, DAY + dice.randrange(3) * HOUR])
            ttl = dice.choice([None, CONTRACT_LEASE, HOUR])
            win(store, Write(cell.key, cell.version, "", dice.choice(list(Mark)), at, ttl=ttl))
        if dice.random() < 0.3:
            store.purge(dice.sample(store.scan(Scan("run/")).cells, 2))
    cells = store.scan(Scan("")).cells
    expected = {entry for cell in cells for entry in entries(cell)} | {f"cell/{cell.key}".encode() for cell in cells}
    assert _keys(etcd, namespace) == sorted({b"meta", b"purged", b"tally"} | expected)


def test_what_is_purged_leaves_nothing_of_its_own_behind(etcd: Etcd, store: Store, namespace: str) -> None:
    store.purge(win(store, *(put(f"run/{mark.name}", mark, at=DAY, ttl=CONTRACT_LEASE) for mark in Mark)))
    assert _keys(etcd, namespace) == [b"meta", b"purged", b"tally"]


def _keys(etcd: Etcd, namespace: str) -> list[bytes]:
    below = {"key": text64(f"{namespace}/".encode()), "range_end": text64(f"{namespace}0".encode()), "keys_only": True}
    found = etcd.ask("/v3/kv/range", below)["kvs"]
    return [data64(kv["key"]).partition(b"/")[2] for kv in found]


@pytest.mark.parametrize(
    ("less", "more"), [(b"a", b"b"), (b"a", b"ab"), (b"", b"a"), (b"1/z", b"2/a"), (b"~", b"\xf4")]
)
def test_a_mirror_turns_the_order_round(less: bytes, more: bytes) -> None:
    assert mirror(less) > mirror(more)


def test_compacting_and_defragmenting_disturb_nothing(own: Etcd) -> None:
    with closing(open_store(own.url)) as store:
        cells = [win(store, claim(f"run/{number}", at=DAY))[0] for number in range(30)]
        epoch = store.load([]).epoch
        own.ctl("compaction", str(revision(own)))
        own.ctl("defrag")
        assert list(store.load([cell.key for cell in cells]).cells) == cells
        assert store.load([]).epoch == epoch
        assert win(store, change(cells[0]))[0].version > epoch.tally
        assert "old revisions are removed" in [check.says for check in checked(store)]


def test_namespaces_know_nothing_of_each_other(etcd: Etcd, store: Store) -> None:
    win(store, claim("a"))
    with closing(open_store(f"{etcd.url}?namespace=elsewhere")) as elsewhere:
        assert cell_of(elsewhere, "a") == Cell("a")
        assert list(elsewhere.scan(Scan("")).cells) == []


def test_a_newer_store_is_refused(etcd: Etcd, store: Store, namespace: str, url: str) -> None:
    meta = text64(f"{namespace}/meta".encode())
    (kv,) = etcd.ask("/v3/kv/range", {"key": meta})["kvs"]
    newer = data64(kv["value"]).replace(b'"schema": 1', b'"schema": 2')
    etcd.ask("/v3/kv/put", {"key": meta, "value": text64(newer)})
    with pytest.raises(StoreNewer, match="upgrade"):
        store.load([])
    with pytest.raises(StoreNewer):
        open_store(url)


def test_beginning_on_purpose_changes_nothing_that_is_there(store: Store, url: str) -> None:
    win(store, claim("a"))
    assert init(url) == store.load([]).epoch
