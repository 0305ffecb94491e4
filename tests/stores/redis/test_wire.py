"""How cells and writes travel to a Redis: batches, text, instants, and what cannot be kept."""

from datetime import timedelta

import pytest

from cronce.errors import (
    BadInput,
)
from cronce.model import EPOCH, Mark, Refusal, Write
from cronce.stores.base import Scan
from cronce.stores.redis import RedisStore
from cronce.testing.contract import (
    DAY,
    cell_of,
    claim,
    put,
    refusals,
    swap,
    win,
)
from tests.servers.valkey import Valkey
from tests.stores.redis.opening import calls, opened


def test_more_than_one_call_takes_is_divided_but_no_group_is(server: Valkey) -> None:
    with opened(server.url) as store:
        calls(server)
        batch = [claim(f"{kind}/{number:04}", group=number) for number in range(2500) for kind in ("run", "turn", "x")]
        win(store, *batch)
        assert calls(server) == {"evalsha": 1 + 3}
        assert refusals(swap(store, claim("run/0001"), *batch)) == [Refusal.VERSION] * 7501
        assert store.load([]).epoch.tally == 7500


def test_a_group_that_no_call_could_take_is_refused(store: RedisStore) -> None:
    batch = [put(f"{number:04}", at=DAY, group=1) for number in range(3001)]
    with pytest.raises(BadInput, match="a group of 3,001 writes"):
        swap(store, *batch)
    assert len(win(store, *batch[:3000])) == 3000
    assert (
        len(
            win(store, *(put(f"x/{number}/{part}", at=DAY, group=number) for number in range(4) for part in range(999)))
        )
        == 3996
    )


def test_text_that_cannot_be_stored_is_refused(store: RedisStore) -> None:
    for write in (claim("a\ud800"), claim("a", "\ud800")):
        with pytest.raises(BadInput, match="not text that can be stored"):
            swap(store, write)
    win(store, claim("NUL \0 in a key", "and \0 in a value"))
    assert cell_of(store, "NUL \0 in a key").value == "and \0 in a value"


def test_instants_before_1970_stand_before_those_after(store: RedisStore) -> None:
    instants = [EPOCH + timedelta(days=days) for days in (-5000, -1, 0, 1, 50_000)]
    win(store, *(put(f"run/{number}", at=at) for number, at in enumerate(instants)))
    assert [cell.at for cell in store.scan(Scan("run/", by="at")).cells] == instants


@pytest.mark.parametrize(
    "write",
    [
        put("a", at=EPOCH.replace(year=1900)),
        put("a", at=EPOCH.replace(year=1)),
        Write("a", 0, "", Mark.OPEN, not_before=EPOCH.replace(year=1900)),
        Write("a", 0, "", Mark.OPEN, not_after=EPOCH.replace(year=1)),
        put("a", ttl=timedelta(microseconds=-1)),
        put("a", ttl=timedelta(days=-1)),
        put("a", ttl=timedelta.max),
        Write("a", 1 << 64, "", Mark.OPEN),
    ],
    ids=["at 1900", "at 1", "not before 1900", "not after 1", "ttl -1 us", "ttl -1 day", "ttl for ever", "version"],
)
def test_what_cannot_be_kept_is_refused(store: RedisStore, write: Write) -> None:
    with pytest.raises(BadInput, match="Redis keeps"):
        swap(store, write)
    assert store.load([]).epoch.tally == 0


def test_what_cannot_be_asked_for_is_refused(store: RedisStore) -> None:
    with pytest.raises(BadInput, match="Redis keeps"):
        store.swap([claim("a")], (1 << 64, 0))
    for by in ("at", "until"):
        with pytest.raises(BadInput, match="Redis keeps instants from 1935"):
            store.scan(Scan("", by=by, upto=EPOCH.replace(year=1900)))
    (cell,) = win(store, claim("a"))
    assert store.purge([cell._replace(version=1 << 64)]) == 0
