"""Listening on each kind of server: connections that break, forks, rights, poolers, and stores of an older cronce."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cronce.errors import StoreUnavailable
from cronce.model import Traits
from cronce.stores import open_store
from cronce.stores.base import Listener, Store, listen
from cronce.stores.memory import MemoryStore
from cronce.stores.postgres.server import locate
from cronce.stores.redis.server import listen as subscribe
from cronce.stores.redis.url import read_url
from cronce.testing.contract import NEWS_WITHIN, NO_NEWS_SECONDS, cell_of, listening, news, note, win
from tests.house.wait import wait_until
from tests.servers.etcd import Etcd
from tests.servers.postgres import Admin, PgBouncer, Postgres
from tests.servers.tls import behind_tls
from tests.servers.valkey import Valkey
from tests.stores.forks import ask
from tests.stores.listening import heard_on
from tests.stores.places import name_of


def hears_each(store: Store, listener: Listener) -> None:
    """Each write, and then nothing more."""
    for _ in range(3):
        win(store, news())
        assert listener.wait(NEWS_WITHIN)
    assert not listener.wait(NO_NEWS_SECONDS)


def breaks_and_is_mended(store: Store, listener: Listener) -> None:
    with pytest.raises(StoreUnavailable):
        listener.wait(NEWS_WITHIN)
    listener.close()
    with closing(listening(store)) as again:
        win(store, news())
        assert again.wait(NEWS_WITHIN)


def test_what_stands_before_a_store_need_not_pass_its_news_on() -> None:
    class Before:
        def __init__(self, store: MemoryStore) -> None:
            self.traits: Traits = store.traits
            self.load, self.swap, self.scan = store.load, store.swap, store.scan
            self.purge, self.close = store.purge, store.close

    assert listen(Before(MemoryStore())) is None


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.fixture
def url(postgres: Postgres, tmp_path: Path) -> str:
    return f"{postgres.url}?schema={name_of(tmp_path)}"


def listeners(admin: Admin, url: str) -> list[int]:
    channel = locate(url).channel
    rows = admin.execute("SELECT pid FROM pg_stat_activity WHERE query = %s", (f"LISTEN {channel}",))
    return [pid for (pid,) in rows]


def test_postgres_a_session_that_is_ended_is_noticed(url: str, admin: Admin) -> None:
    with closing(open_store(url)) as store, closing(listening(store)) as listener:
        (pid,) = listeners(admin, url)
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        breaks_and_is_mended(store, listener)
    wait_until(lambda: not listeners(admin, url))


def test_postgres_a_child_does_not_hang_up_on_its_parent(url: str) -> None:
    with closing(open_store(url)) as store, closing(listening(store)) as listener:
        assert "listen again" in ask(lambda: listener.wait(NEWS_WITHIN))[1]
        assert ask(listener.close) is None
        win(store, news())
        assert listener.wait(NEWS_WITHIN)


def test_postgres_a_schema_of_any_name_has_news(postgres: Postgres) -> None:
    for name in ("o'clock %25%22(s)", "n" * 63):
        with closing(open_store(f"{postgres.url}?schema={name}")) as store, heard_on(store) as listener:
            win(store, news())
            assert listener.wait(NEWS_WITHIN)


def test_postgres_through_a_pooler_nobody_is_woken_but_others_are(
    url: str, postgres: Postgres, pgbouncer: PgBouncer
) -> None:
    with heard_on(open_store(url)) as listener, closing(open_store(url.replace(postgres.url, pgbouncer.url))) as pooled:
        assert not pooled.traits.notifies
        assert listen(pooled) is None
        win(pooled, news())
        assert listener.wait(NEWS_WITHIN)


# --- Redis ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def test_redis_a_connection_that_is_ended_is_noticed(own_valkey: Valkey, tmp_path: Path) -> None:
    with closing(open_store(own_valkey.url)) as store, closing(listening(store)) as listener:
        assert own_valkey.cli("CLIENT", "KILL", "TYPE", "pubsub") == 1
        breaks_and_is_mended(store, listener)
    with (
        behind_tls(own_valkey.port, tmp_path) as (port, certificate),
        heard_on(store := open_store(f"rediss://localhost:{port}/0?ssl_ca_certs={certificate}")) as listener,
    ):
        hears_each(store, listener)


def test_redis_a_user_who_may_not_publish_writes_all_the_same(own_valkey: Valkey) -> None:
    rights = ("on", ">secret", "~{cronce:*", "+@read", "+@write", "+@scripting", "+@connection", "+info", "+time")
    own_valkey.cli("ACL", "SETUSER", "mute", *rights)
    own_valkey.cli("ACL", "SETUSER", "deaf", *rights, "+publish", "&{cronce:*")
    own_valkey.cli("ACL", "SETUSER", "app", *rights, "+publish", "+subscribe", "&{cronce:*")
    urls = {name: own_valkey.url.replace("://", f"://{name}:secret@") for name in ("mute", "deaf", "app")}
    with closing(open_store(urls["mute"])) as mute, heard_on(open_store(urls["app"])) as listener:
        assert not mute.traits.notifies
        (cell, _) = win(mute, news(), note("run/a"))
        assert cell_of(mute, "board/runs") == cell
        assert not listener.wait(NO_NEWS_SECONDS)
        with closing(open_store(urls["deaf"])) as deaf:
            win(deaf, news())
            assert listener.wait(NEWS_WITHIN)
            with pytest.raises(Exception, match="may not do that"):
                listening(deaf)


def test_redis_a_message_that_comes_with_the_answer_is_heard() -> None:
    """What a server says in one breath is one piece on the wire: the answer to SUBSCRIBE, and news."""
    hello = b"$11\r\nrole:master\r\n" * 2 + b"*0\r\n:0\r\n"
    subscribed = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n" + b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                for answer in (hello, subscribed):
                    line.recv(1 << 16)
                    line.sendall(answer)
                line.recv(1 << 16)

        serving = threading.Thread(target=serve)
        serving.start()
        with closing(subscribe(read_url(f"redis://127.0.0.1:{server.getsockname()[1]}"))) as listener:
            assert (listener.wait(NEWS_WITHIN), listener.wait(NO_NEWS_SECONDS)) == (True, False)
        serving.join()


# --- etcd -----------------------------------------------------------------------------------------------------------


def test_etcd_a_server_that_is_gone_is_noticed(tmp_path: Path) -> None:
    with Etcd() as server:
        with closing(open_store(server.url)) as store, closing(listening(store)) as listener:
            server.kill()
            server.start()
            breaks_and_is_mended(store, listener)
        with (
            behind_tls(server.port, tmp_path) as (port, certificate),
            heard_on(store := open_store(f"etcds://localhost:{port}/?ca={certificate}")) as listener,
        ):
            hears_each(store, listener)


def test_etcd_news_that_comes_in_many_pieces_is_heard_once(etcd: Etcd, tmp_path: Path) -> None:
    with heard_on(store := open_store(f"{etcd.url}/?namespace={name_of(tmp_path)}")) as listener:
        for size in (1, 4_000, 200_000):
            win(store, news(value="x" * size))
            assert listener.wait(NEWS_WITHIN)
            assert not listener.wait(NO_NEWS_SECONDS)
