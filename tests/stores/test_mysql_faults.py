"""The MySQL store while its server is killed, stopped, closed for writing, told not to flush, or another's."""

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cronce.errors import BadInput, StoreReadOnly, StoreUnavailable, StoreUnusable
from cronce.model import Cell, Origin, Refusal
from cronce.stores.base import Scan
from cronce.stores.mysql import MysqlStore, init, open_store
from cronce.stores.mysql.server import locate
from cronce.testing.contract import cell_of, claim, keys_of, load, refusals, swap, win
from tests.house.needs import tool
from tests.house.wait import PATIENCE
from tests.servers.mariadb import MariaDb
from tests.servers.patience import unanswered_within, until_it_answers
from tests.stores.test_mysql_contract import administrator, database

pytestmark = pytest.mark.xdist_group("mysql faults")  # one server is killed again and again

NEW = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate for localhost by it, and another authority that knows nothing of it."""
    openssl = tool("openssl", "apt-get install openssl")
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("ca", "other"):
        made = f"req -x509 {NEW} -subj /CN={name} -keyout {name}.key -out {name}.pem"
        subprocess.run([openssl, *made.split()], cwd=directory, capture_output=True, check=True)
    (directory / "names").write_text("subjectAltName=DNS:localhost")
    asked = f"req {NEW} -subj /CN=server -keyout server.key -out server.csr"
    signed = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.pem"
    for command in (asked, signed):
        subprocess.run([openssl, *command.split()], cwd=directory, capture_output=True, check=True)
    return directory


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[MariaDb]:
    """A server for tests that are not kind to it."""
    files = {"ssl-ca": "ca.pem", "ssl-cert": "server.pem", "ssl-key": "server.key"}
    with MariaDb(**{name: str(certificates / file) for name, file in files.items()}) as server:
        yield server


@pytest.fixture
def url(server: MariaDb, tmp_path: Path) -> str:
    return database(server.url, tmp_path) + "?timeout=5"


@pytest.fixture
def store(url: str) -> Iterator[MysqlStore]:
    store = open_store(url)
    yield store
    store.close()


@contextmanager
def set_to(server: MariaDb, name: str, value: str) -> Iterator[None]:
    with administrator(server.url) as sql:
        sql.execute(f"SELECT @@GLOBAL.{name}")
        ((before,),) = sql.fetchall()
        sql.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            sql.execute(f"SET GLOBAL {name} = {'NULL' if before is None else before}")


# --- killed and stopped -----------------------------------------------------------------------------------------------


def test_a_server_killed_in_mid_traffic_loses_no_win_and_begins_no_new_life(server: MariaDb, store: MysqlStore) -> None:
    """Losers and readers are in the traffic too: what they were told must not be taken back either."""
    birth = store.load([]).epoch.birth
    for turn in range(2):
        traffic = Traffic(store, f"run/{turn}")
        traffic.wait_for(100)
        server.kill()
        traffic.wait_for_trouble()
        server.start()
        assert load(store, *(cell.key for cell in traffic.won)) == traffic.won
        assert refusals(store.swap([claim(f"after/{turn}")], traffic.most_seen)) == [None]
    epoch = store.load([]).epoch
    assert (epoch.birth, epoch.origin) == (birth, Origin.MADE)


class Traffic:
    """Three threads that claim the same cells one after the other, and a reader, until the first trouble."""

    def __init__(self, store: MysqlStore, prefix: str) -> None:
        self.store, self.prefix = store, prefix
        self.won: list[Cell] = []
        self.most_seen = store.load([]).epoch.seen
        self.lock = threading.Lock()
        self.enough, self.target = threading.Event(), 0
        self.threads = [threading.Thread(target=work) for work in (self.claim, self.claim, self.claim, self.read)]
        for thread in self.threads:
            thread.start()

    def claim(self) -> None:
        seen = self.most_seen
        with suppress(StoreUnavailable):
            for number in range(1_000_000):
                swapped = self.store.swap([claim(f"{self.prefix}/{number}")], seen)
                self.note(swapped.epoch.seen, [cell for refused, cell in swapped.verdicts if refused is None])

    def read(self) -> None:
        with suppress(StoreUnavailable):
            while True:
                self.note(self.store.load([]).epoch.seen, [])

    def note(self, seen: tuple[int, int], won: list[Cell]) -> None:
        with self.lock:
            self.won += won
            self.most_seen = max(self.most_seen, seen)
            if self.target and len(self.won) >= self.target:
                self.enough.set()

    def wait_for(self, wins: int) -> None:
        self.target = wins
        assert self.enough.wait(PATIENCE)

    def wait_for_trouble(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_crash_before_the_disk_has_it_takes_back_nothing_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """InnoDB shows a commit to others before it is on disk. On a slow disk everyone else hears of it too early."""
    monkeypatch.setenv("LD_PRELOAD", str(slow_disk(tmp_path)))
    with MariaDb(**{"innodb-flush-method": "fsync"}) as server, closing(open_store(server.url)) as store:
        traffic = Traffic(store, "run")
        traffic.wait_for(20)
        (tmp_path / "slow").touch()
        time.sleep(0.3)  # so that all are in the middle of something, whatever it is
        server.kill()
        traffic.wait_for_trouble()
        (tmp_path / "slow").unlink()
        server.start()
        assert load(store, *(cell.key for cell in traffic.won)) == traffic.won
        assert refusals(store.swap([claim("after")], traffic.most_seen)) == [None]


def slow_disk(directory: Path) -> Path:
    """A library under which every flush takes a second, while there is a file `slow`."""
    (directory / "slow.c").write_text(f"""
        #include <sys/syscall.h>
        #include <unistd.h>
        static void wait(void) {{ if (access("{directory}/slow", F_OK) == 0) sleep(1); }}
        int fsync(int file) {{ wait(); return syscall(SYS_fsync, file); }}
        int fdatasync(int file) {{ wait(); return syscall(SYS_fdatasync, file); }}
    """)
    library = directory / "slow.so"
    gcc = tool("gcc", "apt-get install gcc")
    subprocess.run([gcc, "-shared", "-fPIC", "-o", library, directory / "slow.c"], capture_output=True, check=True)
    return library


def test_a_server_that_gives_no_answer_is_given_up_in_time(server: MariaDb, url: str) -> None:
    with closing(open_store(url)) as store:
        (cell,) = win(store, claim("a"))
    with closing(until_it_answers(lambda: open_store(url.replace("timeout=5", "timeout=1")))) as store:
        seen = until_it_answers(lambda: store.load([])).epoch.seen
        server.pause()
        try:
            calls: list[Callable[[], object]] = [
                lambda: store.swap([claim("b")], seen),
                lambda: store.load(["a"]),  # by a new connection
            ]
            for call in calls:
                assert unanswered_within(4, call)
        finally:
            server.resume()
    with closing(open_store(url)) as store:
        assert cell_of(store, "a") == cell
        swap(store, claim("b"))
        assert keys_of(store.scan(Scan("")).cells) == ["a", "b"]


def test_a_handle_goes_on_after_a_restart(server: MariaDb, store: MysqlStore) -> None:
    (cell,) = win(store, claim("a"))
    server.stop()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        store.load(["a"])
    server.start()
    assert cell_of(store, "a") == cell


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", ["0", "2"])
def test_a_server_that_does_not_flush_can_forget(server: MariaDb, url: str, flush: str) -> None:
    with set_to(server, "innodb_flush_log_at_trx_commit", flush):
        with closing(open_store(url)) as store:
            assert store.traits.durable is False
            assert store.load([]).epoch.origin is Origin.FOUND
            assert [check.verdict for check in store.checks() if check.name == "durable"] == ["warn"]
        assert init(url).origin is Origin.FOUND  # it had begun already
    with closing(open_store(url)) as store:
        assert store.traits.durable is True


def test_with_a_binary_log_that_is_not_flushed_it_can_forget_too() -> None:
    with MariaDb(**{"log-bin": "log", "binlog-format": "MIXED"}) as server:
        for flushed_every, durable in (("0", False), ("2", False), ("1", True)):
            with set_to(server, "sync_binlog", flushed_every), closing(open_store(server.url)) as store:
                assert store.traits.durable is durable
                (check,) = (check for check in store.checks() if check.name == "durable")
                assert (check.verdict == "ok", f"sync_binlog={flushed_every}" in check.says) == (durable, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("completion_type", "1"),
        ("completion_type", "2"),
        ("sql_safe_updates", "1"),
        ("sql_select_limit", "1"),
        ("max_join_size", "1"),
    ],
)
def test_defaults_of_the_server_change_nothing(server: MariaDb, url: str, name: str, value: str) -> None:
    with set_to(server, name, value), closing(open_store(url)) as store, closing(open_store(url)) as other:
        cells = win(store, *(claim(f"run/{number}") for number in range(5)))
        assert load(other, *(cell.key for cell in cells)) == cells
        assert refusals(swap(other, claim("run/0"), claim("run/5"))) == [Refusal.VERSION, None]
        assert len(store.scan(Scan("run/")).cells) == 6
        assert store.purge(cells[:3]) == 3
        assert keys_of(other.scan(Scan("run/")).cells) == ["run/3", "run/4", "run/5"]
        epoch = store.load([]).epoch
        after = store.swap([], (epoch.birth, epoch.tally + 7)).epoch
        assert (other.load([]).epoch, after.origin) == (after, Origin.RESTORED)


def test_a_server_that_makes_only_tables_of_another_engine_is_refused(server: MariaDb, url: str) -> None:
    with (
        set_to(server, "enforce_storage_engine", "Aria"),
        pytest.raises(StoreUnusable, match="unset enforce_storage_engine"),
    ):
        open_store(url)
    open_store(url).close()


@pytest.mark.parametrize("table", ["cronce_cells", "cronce_meta"])
def test_tables_without_transactions_are_refused(server: MariaDb, url: str, table: str) -> None:
    open_store(url).close()
    with administrator(url) as sql:
        sql.execute(f"ALTER TABLE {locate(url).database}.{table} ENGINE = Aria")
        with pytest.raises(StoreUnusable, match=f"{table} uses the engine Aria, .*; run ALTER TABLE") as refused:
            open_store(url)
        sql.execute(str(refused.value).partition("; run ")[2])
    open_store(url).close()


def test_a_store_that_can_forget_is_begun_on_purpose(server: MariaDb, url: str) -> None:
    with set_to(server, "innodb_flush_log_at_trx_commit", "0"):
        assert init(url).origin is Origin.MADE


def test_a_server_that_is_closed_for_writing_is_read_only(server: MariaDb, store: MysqlStore, tmp_path: Path) -> None:
    """Even for an administrator, whom the server itself would let write."""
    (cell,) = win(store, claim("a"))
    empty = database(server.url, tmp_path / "empty")
    with administrator(server.url) as sql:
        sql.execute("CREATE USER plain@'%'")
        sql.execute("GRANT CREATE, CREATE VIEW, SELECT, INSERT ON *.* TO plain@'%'")
        sql.nextset()
    with set_to(server, "read_only", "1"):
        for writes in ([claim("b")], [claim("a"), claim("b")]):
            with pytest.raises(StoreReadOnly, match="Use the server that accepts writes"):
                swap(store, *writes)
        assert load(store, "a", "b") == [cell, Cell("b")]
        assert [check.verdict for check in store.checks() if check.name == "writable"] == ["error"]
        with pytest.raises(StoreReadOnly, match="is read-only: a replica, or closed for writing"):
            open_store(empty.replace("root@", "plain@"))
    assert refusals(swap(store, claim("b"))) == [None]


# --- certificates ---------------------------------------------------------------------------------------------------


def test_a_server_is_believed_by_its_certificate(server: MariaDb, url: str, certificates: Path) -> None:
    by_name = url.replace("127.0.0.1", "localhost")
    with closing(open_store(f"{by_name}&ssl_ca={certificates}/ca.pem")) as store:
        (((_, cipher),),) = store._use(lambda line: line.ask("SHOW STATUS LIKE 'Ssl_cipher'"))
        assert cipher
        (check,) = (check for check in store.checks() if check.name == "connection")
        assert check.says == "encrypted, and verified: its certificate is signed by ssl_ca, and names the host"
    for stranger in (f"{by_name}&ssl_ca={certificates}/other.pem", f"{url}&ssl_ca={certificates}/ca.pem"):
        with pytest.raises(StoreUnusable, match="has a certificate that cannot be verified"):
            open_store(stranger)
    open_store(f"{url}&ssl_ca={certificates}/ca.pem&ssl_check_hostname=false").close()
    with pytest.raises(BadInput, match="its certificates cannot be read"):
        open_store(f"{url}&ssl_cert={certificates}/ca.key")


def test_without_an_authority_it_is_encrypted_and_reads_none(
    server: MariaDb, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver read all authorities of the machine for each connection, to believe whoever answers: 10 ms, 1.6 MB."""
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", pytest.fail)
    with closing(open_store(url)) as store:
        (((_, cipher),),) = store._use(lambda line: line.ask("SHOW STATUS LIKE 'Ssl_cipher'"))
        assert cipher


@contextmanager
def closing(store: MysqlStore) -> Iterator[Any]:
    try:
        yield store
    finally:
        store.close()
