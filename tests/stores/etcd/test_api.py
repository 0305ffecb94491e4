"""etcd's API: URLs, endpoints, proxies, users, TLS, and errors in words."""

import base64
import http.client
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cronce.errors import BadInput, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import Cell, Write
from cronce.stores import open_store
from cronce.stores.base import Store
from cronce.stores.etcd.api import read_url
from cronce.testing.contract import cell_of, claim, put, swap, win
from tests.house.needs import tool
from tests.servers.etcd import Etcd
from tests.stores.etcd.opening import checked, error

# --- URLs -----------------------------------------------------------------------------------------------------------


def test_a_url_says_where_and_how() -> None:
    address = read_url("etcd://us%3Aer:p%40ss@one:1,two,[::1]:3,[::2]/?namespace=jobs&timeout=2.5")
    assert address.endpoints == [("one", 1), ("two", 2379), ("::1", 3), ("::2", 2379)]
    assert address[2:] == ("jobs", 2.5, "us:er", "p@ss", None)
    assert "p%40ss" not in address.shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("etcd://", "host and a port"),
        ("etcd://host:port", "host and a port"),
        ("etcd://host:0", "host and a port"),
        ("etcd://host:70000", "host and a port"),
        ("etcd://host,", "host and a port"),
        ("etcd://host/cronce", r"namespace=cronce"),
        ("etcd://host?database=1", "knows no database; it knows namespace, timeout"),
        ("etcd://host?namespace=a/b", "cannot be a name"),
        ("etcd://host?timeout=soon", "timeout=soon is not a number"),
        ("etcd://host?timeout=0", "timeout=0 is not a number"),
        ("etcd://host?timeout=nan", "timeout=nan is not a number"),
        ("etcd://host?ca=ca.pem", "write etcds://"),
        ("etcds://host?ca=/none/ca.pem", "cannot be used for TLS"),
        ("etcds://host?key=key.pem", "cert=FILE"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        open_store(url)


# --- errors ---------------------------------------------------------------------------------------------------------


def test_nobody_there() -> None:
    caught = error("etcd://me:secret@127.0.0.1:9,127.0.0.1:1")
    assert type(caught) is StoreUnavailable
    assert "127.0.0.1:9: Connection refused; 127.0.0.1:1: Connection refused" in str(caught)
    assert "secret" not in str(caught)


def test_the_next_endpoint_is_tried_if_one_takes_no_connection(etcd: Etcd, url: str) -> None:
    with closing(open_store(url.replace("127.0.0.1", "127.0.0.1:9,127.0.0.1"))) as store:
        win(store, claim("a"))


class Proxy(ThreadingHTTPServer):
    """Hands requests on to etcd, and hangs up after each answer. If so told without a date, or as without a leader."""

    dated = True
    leaderless = False

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(("127.0.0.1", 0), Hands)
        self.etcd = etcd


class Hands(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Proxy)
        if self.server.leaderless:
            self._say(503, b'{"error":"etcdserver: no leader","code":14}', "")
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.etcd.port, timeout=10)) as line:
            line.request("POST", self.path, body)
            answer = line.getresponse()
            text = answer.read()
        self._say(answer.status, text, answer.headers["Date"] if self.server.dated else "")

    def _say(self, status: int, text: bytes, date: str) -> None:
        self.send_response_only(status)
        if date:
            self.send_header("Date", date)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def proxy(etcd: Etcd) -> Iterator[Proxy]:
    with Proxy(etcd) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_behind_a_proxy_that_hangs_up_after_each_answer(proxy: Proxy, namespace: str) -> None:
    with closing(open_store(f"etcd://127.0.0.1:{proxy.server_port}/?namespace={namespace}")) as store:
        (cell,) = win(store, claim("a"))
        assert cell_of(store, "a") == cell


def test_from_a_member_without_a_leader_the_next_call_goes_to_another(proxy: Proxy, etcd: Etcd, namespace: str) -> None:
    endpoints = f"127.0.0.1:{proxy.server_port},127.0.0.1:{etcd.port}"
    with closing(open_store(f"etcd://{endpoints}/?namespace={namespace}")) as store:
        proxy.leaderless = True
        with pytest.raises(StoreUnavailable, match="no leader; a write may have succeeded"):
            store.load([])
        win(store, claim("a"))


def test_behind_a_proxy_that_takes_the_date_away_there_is_no_clock(proxy: Proxy) -> None:
    proxy.dated = False
    caught = error(f"etcd://127.0.0.1:{proxy.server_port}")
    assert type(caught) is StoreUnusable
    assert "clock cannot be read" in str(caught)


def test_a_value_that_is_too_large_is_refused_by_name(store: Store) -> None:
    for size in (1_700_000, 3_000_000):
        with pytest.raises(StoreUnusable, match="max-request-bytes"):
            swap(store, put("a", value="x" * size))
    assert cell_of(store, "a") == Cell("a")


@pytest.mark.parametrize("write", [claim("a\0b"), claim("a\ud800"), claim("a", "\ud800")])
def test_what_is_no_text_is_refused(store: Store, write: Write) -> None:
    with pytest.raises(BadInput):
        swap(store, write)


def test_without_its_gateway() -> None:
    with Etcd("--enable-grpc-gateway=false") as server:
        caught = error(server.url)
    assert type(caught) is StoreUnusable
    assert "--enable-grpc-gateway" in str(caught)


def test_a_full_database() -> None:
    with Etcd("--quota-backend-bytes=6000000") as server, closing(open_store(server.url)) as store:
        with pytest.raises(StoreFull, match="compact and defragment"):
            _fill(store)
        verdicts = {check.name: check.verdict for check in checked(store)}
        assert (verdicts["alarms"], verdicts["members"]) == ("error", "warn")


def _fill(store: Store) -> None:
    """Until it is full: etcd measures its file only now and then."""
    for number in range(200):
        win(store, put(f"a/{number}", value="x" * 1_000_000))


def _guard(server: Etcd) -> str:
    """Let it ask who comes; the URL for one who may use the namespace cronce."""
    cronce = [base64.b64encode(key).decode() for key in (b"cronce/", b"cronce0")]
    may = {"permType": "READWRITE", "key": cronce[0], "range_end": cronce[1]}
    server.ask("/v3/auth/role/add", {"name": "jobs"})
    server.ask("/v3/auth/role/grant", {"name": "jobs", "perm": may})
    for user, role in {"root": "root", "app": "jobs"}.items():
        server.ask("/v3/auth/user/add", {"name": user, "password": "s3cret"})
        server.ask("/v3/auth/user/grant", {"user": user, "role": role})
    server.ask("/v3/auth/enable")
    return server.url.replace("//", "//app:s3cret@")


def test_users_passwords_and_rights(own: Etcd) -> None:
    with closing(open_store(own.url.replace("//", "//app:s3cret@"))) as early:
        url = _guard(own)
        win(early, claim("a"))
        own.kill()
        own.start()  # and knows no token any more
        win(early, claim("b"))
        (found,) = [check for check in checked(early) if check.name == "namespaces"]
        assert found.verdict == "warn"
        assert "not checked: " in found.says
        assert "permission denied" in found.says
    assert "write etcd://USER:PASSWORD@HOST" in str(error(own.url))
    wrong = error(own.url.replace("//", "//app:wr0ng@"))
    assert "user or password is wrong" in str(wrong)
    assert "wr0ng" not in str(wrong)
    assert "readwrite on the prefix" in str(error(f"{url}?namespace=other"))


def test_a_token_from_before_a_change_of_rights_is_renewed(tmp_path: Path) -> None:
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
    _openssl("ec", "-in", str(key), "-pubout", "-out", str(public))
    token = f"--auth-token=jwt,pub-key={public},priv-key={key},sign-method=ES256,ttl=1h"
    with Etcd(token) as server, closing(open_store(_guard(server))) as store:
        server.ctl("--user=root:s3cret", "role", "add", "another")
        win(store, claim("a"))


def _openssl(*words: str) -> None:
    subprocess.run([tool("openssl", "apt-get install openssl"), *words], check=True, capture_output=True)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Etcd]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    _openssl(
        "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-keyout", str(key), "-out", str(cert), "-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1",
    )  # fmt: skip
    with Etcd(f"--cert-file={cert}", f"--key-file={key}", scheme="https") as server:
        yield server


def test_over_tls(secured: Etcd, tmp_path: Path, etcd: Etcd) -> None:
    secure = secured.url.replace("etcd:", "etcds:")
    with closing(open_store(f"{secure}?ca={tmp_path}/cert.pem")) as store:
        win(store, claim("a"))
    unknown, plain, none = error(secure), error(secured.url), error(etcd.url.replace("etcd:", "etcds:"))
    assert [type(unknown), type(plain)] == [StoreUnusable, StoreUnavailable]
    assert "?ca=FILE" in str(unknown)
    assert "write etcds://" in str(plain)
    assert "write etcd://" in str(none)
