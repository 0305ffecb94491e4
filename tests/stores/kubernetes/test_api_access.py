"""Where the API server is, and who asks: kubeconfigs, service accounts, tokens that change, and what goes wrong."""

import base64
import os
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_connection
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from cronce.errors import BadInput, StoreUnavailable, StoreUnusable
from cronce.stores import open_store as opened
from cronce.stores.base import Store, closed_on_error
from cronce.stores.kubernetes import KubernetesStore
from cronce.stores.kubernetes.api import read_url
from tests.servers.kubernetes import Kubernetes
from tests.servers.process import free_port
from tests.servers.tls import behind_tls, without_key_identifier


def open_store(url: str) -> Store:
    """A store is asked for the first time when it is used."""
    store = opened(url)
    with closed_on_error(store):
        store.load([])
    return store


def account(place: Path, token: str = "secret", ca: Path | None = None) -> Path:
    """A service account, as the kubelet puts it into a pod."""
    place.mkdir()
    (place / "token").write_text(f"{token}\n")
    (place / "namespace").write_text("night")
    if ca is not None:
        (place / "ca.crt").write_bytes(ca.read_bytes())
    return place


# --- kubeconfigs ----------------------------------------------------------------------------------------------------


def test_the_namespace_is_that_of_the_url_or_of_the_context(own: Kubernetes) -> None:
    config = {"KUBECONFIG": str(own.kubeconfig)}
    assert read_url("kubernetes://prod", config).namespace == "prod"
    assert read_url("kubernetes://", config).namespace == "jobs"
    assert read_url("kubernetes:///?prefix=x", config).prefix == "x"
    assert read_url("KUBERNETES://prod?timeout=2", config).timeout == 2


def test_a_kubeconfig_is_found_where_kubectl_finds_it(own: Kubernetes, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    own.config(tmp_path / ".kube" / "config")
    assert read_url("kubernetes://", {"HOME": str(tmp_path)}).access.server == own.server


def test_of_several_files_the_first_that_says_something_counts(own: Kubernetes, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.write_text(
        yaml.safe_dump(
            {
                "current-context": "other",
                "contexts": [{"name": "other", "context": {"cluster": "ours", "namespace": "night"}}],
            }
        )
    )
    both = os.pathsep.join([str(own.kubeconfig), str(tmp_path / "missing"), str(second)])
    assert read_url("kubernetes://", {"KUBECONFIG": both}).namespace == "jobs"
    address = read_url("kubernetes://?context=other", {"KUBECONFIG": both})
    assert (address.namespace, address.access.server, address.access.token()) == ("night", own.server, "")


@pytest.mark.parametrize(("url", "says"), [
    ("kubernetes://Prod", "'Prod' cannot be a namespace"),
    ("kubernetes://a/b", "'a/b' cannot be a namespace"),
    ("kubernetes://a?prefix=A", "'A' cannot be a prefix"),
    ("kubernetes://a?colour=red", "kubernetes knows no colour; it knows prefix, kubeconfig, context, via, timeout"),
    ("kubernetes://a?timeout=soon", "timeout=soon is not a number of seconds"),
    ("kubernetes://a?context=none", "no context is called 'none'"),
    ("kubernetes://a?kubeconfig=/none", "there is no kubeconfig at /none"),
])  # fmt: skip
def test_a_url_that_cannot_be_meant_is_refused(own: Kubernetes, url: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        read_url(url, {"KUBECONFIG": str(own.kubeconfig)})


@pytest.mark.parametrize(("user", "says"), [
    ({"exec": {"command": "aws"}}, "gets its token from another program"),
    ({"auth-provider": {"name": "gcp"}}, "gets its token from another program"),
])  # fmt: skip
def test_a_kubeconfig_that_wants_a_program_says_what_to_do(
    own: Kubernetes, tmp_path: Path, user: Any, says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        read_url(f"kubernetes://a?kubeconfig={own.config(tmp_path / 'config', **user)}")


@pytest.mark.parametrize("text", ["[]", "a: b: c", "\0"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadInput, match="is not a kubeconfig"):
        read_url(f"kubernetes://a?kubeconfig={tmp_path / 'config'}")


# --- TLS, and pods --------------------------------------------------------------------------------------------------


def test_a_pod_finds_the_server_its_ca_and_its_namespace(own: Kubernetes, tmp_path: Path) -> None:
    port = urlsplit(own.server).port
    assert port is not None
    with behind_tls(port, tmp_path) as (front, ca):
        pod = {"KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(front)}
        address = read_url("kubernetes://", pod, account(tmp_path / "account", ca=ca))
        with closing(KubernetesStore(address)) as store:
            assert store.load([]).epoch.birth > 0
    assert own.names("night") == ["cronce-store"]


def test_a_kubeconfig_names_the_ca_and_who_asks(own: Kubernetes, tmp_path: Path) -> None:
    port = urlsplit(own.server).port
    assert port is not None
    with behind_tls(port, tmp_path) as (front, ca):
        own.server = f"https://localhost:{front}"
        data = [base64.b64encode((tmp_path / name).read_bytes()).decode() for name in ("certificate.pem", "key.pem")]
        user = {"token": "secret", "client-certificate-data": data[0], "client-key-data": data[1]}
        file = own.config(tmp_path / "config", **user)
        with pytest.raises(StoreUnusable, match="is not signed by a CA of this system, since"):
            open_store(f"kubernetes://jobs?kubeconfig={file}")
        for way in ({"certificate-authority-data": data[0]}, {"certificate-authority": ca.name}):
            config = yaml.safe_load(file.read_text())
            config["clusters"][0]["cluster"] = {"server": own.server, **way}
            file.write_text(yaml.safe_dump(config))
            open_store(f"kubernetes://jobs?kubeconfig={file}").close()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from Python 3.13 on: the context that it makes by default is strict."""
    usual = ssl.create_default_context

    def made(*words: Any, **more: Any) -> ssl.SSLContext:
        context = usual(*words, **more)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", made)


def trusting(own: Kubernetes, file: Path, front: int, ca: Path) -> str:
    """The URL of a kubeconfig that names this CA."""
    own.server = f"https://localhost:{front}"
    config = yaml.safe_load(own.config(file).read_text())
    config["clusters"][0]["cluster"]["certificate-authority"] = str(ca)
    file.write_text(yaml.safe_dump(config))
    return f"kubernetes://jobs?kubeconfig={file}"


@pytest.mark.usefixtures("strict")
def test_a_certificate_without_an_authority_key_identifier_is_taken_as_kubectl_takes_it(
    own: Kubernetes, tmp_path: Path
) -> None:
    """Python 3.13 refused those that some clusters have, with the words that their CA was another."""
    port = urlsplit(own.server).port or 0
    with behind_tls(port, tmp_path, without_key_identifier) as (front, ca):
        default = ssl.create_default_context(cafile=str(ca))
        with (
            pytest.raises(ssl.SSLCertVerificationError, match="Missing Authority Key Identifier"),
            create_connection(("localhost", front)) as plain,
        ):
            default.wrap_socket(plain, server_hostname="localhost")
        open_store(trusting(own, tmp_path / "config", front, ca)).close()
        pod = {"KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": str(front)}
        with closing(KubernetesStore(read_url("kubernetes://", pod, account(tmp_path / "account", ca=ca)))) as store:
            store.load([])


def test_of_a_kubeconfig_that_names_a_ca_no_other_is_trusted(
    own: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the system were, beside it."""
    port = urlsplit(own.server).port or 0
    (tmp_path / "other").mkdir()
    other, *_ = without_key_identifier(tmp_path / "other")
    with behind_tls(port, tmp_path, without_key_identifier) as (front, ca):
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))  # the CAs of this system
        with pytest.raises(StoreUnusable, match=r"is refused: .*; it is not signed by the kubeconfig's CA: put"):
            open_store(trusting(own, tmp_path / "config", front, other))
        own.server = f"https://localhost:{front}"
        open_store(f"kubernetes://jobs?kubeconfig={own.config(tmp_path / 'none')}").close()


@pytest.mark.parametrize(("names", "days", "says"), [
    ("DNS:elsewhere", 2, "name the server as its certificate does, in the kubeconfig's `server`"),
    ("DNS:localhost", 0, "certificate has expired; let the cluster renew it, or correct this machine's clock"),
])  # fmt: skip
def test_what_is_wrong_with_a_certificate_is_said(
    own: Kubernetes, tmp_path: Path, names: str, days: int, says: str
) -> None:
    """Whatever it was, it was said to be signed by another CA."""
    made = partial(without_key_identifier, names=names, days=days)
    with behind_tls(urlsplit(own.server).port or 0, tmp_path, made) as (front, ca), pytest.raises(StoreUnusable) as no:
        open_store(trusting(own, tmp_path / "config", front, ca))
    assert str(no.value).endswith(says)


def test_a_tunnel_is_checked_by_the_servers_own_name(own: Kubernetes, tmp_path: Path) -> None:
    made = partial(without_key_identifier, names="DNS:api.example")
    with behind_tls(urlsplit(own.server).port or 0, tmp_path, made) as (front, ca):
        url = trusting(own, tmp_path / "config", front, ca)
        config = yaml.safe_load((tmp_path / "config").read_text())
        config["clusters"][0]["cluster"]["server"] = "https://api.example:6443"
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        open_store(f"{url}&via=localhost:{front}").close()
    with pytest.raises(BadInput, match="via=nowhere is not an address to connect to"):
        open_store(f"{url}&via=nowhere")


def test_without_a_pod_or_a_kubeconfig_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"not a pod with a service account.*automountServiceAccountToken"):
        read_url("kubernetes://jobs", {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_that_was_replaced_on_disk_is_read_again_when_the_old_one_is_refused(
    own: Kubernetes, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with closing(
        open_store(f"kubernetes://a?kubeconfig={own.config(tmp_path / 'config', tokenFile='token')}")
    ) as store:
        own.tokens = {"newer"}
        token.write_text("newer\n")
        own.requests.clear()
        store.load([])
        assert own.requests == {"get": 2}
        own.requests.clear()
        store.load([])
        assert own.requests == {"get": 1}


def test_a_token_that_is_wrong_is_tried_twice_and_then_said_to_be(own: Kubernetes, tmp_path: Path) -> None:
    own.tokens = {"another"}
    with pytest.raises(StoreUnusable, match="the API server rejects the token: it is wrong, or has expired"):
        open_store(own.url("jobs"))
    assert own.requests == {"get": 2}


def test_a_token_that_cannot_be_read_is_said_to_be(own: Kubernetes, tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="the token of the service account cannot be read"):
        open_store(f"kubernetes://a?kubeconfig={own.config(tmp_path / 'config', tokenFile='missing')}")


# --- what is no Kubernetes -------------------------------------------------------------------------------------------


def test_where_nobody_listens_it_says_so(own: Kubernetes, tmp_path: Path) -> None:
    own.server = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match="no connection to"):
        open_store(f"kubernetes://a?kubeconfig={own.config(tmp_path / 'config')}")


@contextmanager
def answering(own: Kubernetes, config: Path, status: int, body: bytes, *, dated: bool = True) -> Iterator[str]:
    """The URL of something that gives this answer, a letter every tenth of a second."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            if dated:
                self.send_header("Date", self.date_time_string())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                for letter in body:
                    self.wfile.write(bytes([letter]))
                    sleep(0.1)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        own.server = f"http://127.0.0.1:{server.server_address[1]}"
        yield f"kubernetes://a?kubeconfig={own.config(config)}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("body", "dated", "says"), [
    (b"<p>", True, "is not a Kubernetes API server"),
    (b"[]", True, "is not a Kubernetes API server"),
    (b"{}", True, "is not a Kubernetes API server"),
    (b"{}", False, "carry no Date"),
])  # fmt: skip
def test_what_answers_otherwise_is_not_taken_for_one(
    own: Kubernetes, tmp_path: Path, body: bytes, dated: bool, says: str
) -> None:
    with (
        answering(own, tmp_path / "config", 200, body, dated=dated) as url,
        pytest.raises(StoreUnusable, match=says),
    ):
        open_store(url)


def test_a_proxy_that_says_that_nobody_is_there_has_no_clock_to_go_by(own: Kubernetes, tmp_path: Path) -> None:
    with (
        answering(own, tmp_path / "config", 503, b"no", dated=False) as url,
        pytest.raises(StoreUnavailable, match="answers 503: no"),
    ):
        open_store(url)


def test_an_answer_that_drips_is_given_up_after_the_timeout(own: Kubernetes, tmp_path: Path) -> None:
    with (
        answering(own, tmp_path / "config", 200, b" " * 100) as url,
        pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s"),
    ):
        open_store(f"{url}&timeout=0.5")
