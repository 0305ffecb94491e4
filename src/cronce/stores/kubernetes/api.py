"""The API server and the login, from a pod's service account or from a kubeconfig; and the requests.

A service account's token is a file that the kubelet rewrites before it expires, so it is read again now and then, and
whenever the server rejects it.

A request is never sent twice, unless the server rejected the token: one without an answer may have been carried out. A
write that is refused because another writer was faster is an answer, and no error.
"""

import base64
import json
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from cronce.clock import Clock
from cronce.errors import BadInput, StoreError, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import Boot
from cronce.stores import mask, options, seconds
from cronce.stores.http_api import HttpServer, Json, JsonRequest, NoAnswer, NoConnection, Reply
from cronce.stores.news import HttpWatch, SocketListener
from cronce.value import NamedTuple

KUBERNETES_TIMEOUT: Final = 5.0
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_NAMESPACE_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"

Token = Callable[[], str]


class ApiServerAccess(NamedTuple):
    """The way to an API server."""

    server: str
    token: Token
    tls: ssl.SSLContext | None = None
    namespace: str = ""
    trusts: str = ""
    """Which CA must have signed the server's certificate, in words."""


class ApiServerAddress(NamedTuple):
    """What a URL says: ``kubernetes://namespace?prefix=cronce&kubeconfig=FILE&context=NAME&via=HOST:PORT&timeout=5``."""

    shown: str
    access: ApiServerAccess
    namespace: str
    prefix: str = "cronce"
    timeout: float = KUBERNETES_TIMEOUT
    via: tuple[str, int] | None = None

    @property
    def endpoint(self) -> tuple[str, int]:
        server = urlsplit(self.access.server)
        return server.hostname or "", server.port or (443 if self.access.tls else 80)


KUBERNETES_OPTIONS: Final = ("prefix", "kubeconfig", "context", "via")


def read_url(url: str, env: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> ApiServerAddress:
    shown, rest = mask(url), url.partition("://")[2]
    place, _, query = rest.partition("?")
    found = options(shown, query, [*KUBERNETES_OPTIONS, "timeout"])
    timeout = seconds(shown, found.get("timeout", str(KUBERNETES_TIMEOUT)))
    prefix, file, context, via = (found.get(name, "") for name in KUBERNETES_OPTIONS)
    access = _access(shown, file, context, env, account)
    namespace = unquote(place.strip("/")) or access.namespace or "default"
    for what, name in (("a namespace", namespace), ("a prefix", prefix or "cronce")):
        if not re.fullmatch(_NAMESPACE_NAME, name):
            raise BadInput(f"{shown!r}: {name!r} cannot be {what}; write it like kubernetes://jobs: a–z, 0–9 and -")
    return ApiServerAddress(shown, access, namespace, prefix or "cronce", timeout, _via(shown, via))


def _via(shown: str, text: str) -> tuple[str, int] | None:
    """Where connections are opened instead: the near end of a tunnel."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise BadInput(f"{shown!r}: via={text} is not an address to connect to; write it like via=127.0.0.1:6443")
    return host.strip("[]"), int(port)


def _access(shown: str, file: str, context: str, env: Mapping[str, str], account: Path) -> ApiServerAccess:
    """A kubeconfig that is named, else this pod's service account, else the kubeconfig of kubectl."""
    host = env.get("KUBERNETES_SERVICE_HOST", "")
    if not file and not context and host and (account / "token").exists():
        return _in_cluster(host, env.get("KUBERNETES_SERVICE_PORT", "443"), account)
    names = file or env.get("KUBECONFIG", "") or str(Path(env.get("HOME", "/")) / ".kube" / "config")
    found = [Path(name) for name in names.split(os.pathsep) if Path(name).is_file()]
    if not found:
        raise BadInput(
            f"{shown!r}: this is not a pod with a service account, and there is no kubeconfig at {names}; name one"
            " with ?kubeconfig=FILE or $KUBECONFIG, or make sure that the pod's automountServiceAccountToken is"
            " true"
        )
    return _Config(shown, found).access(context)


def _in_cluster(host: str, port: str, account: Path) -> ApiServerAccess:
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = (account / "namespace").read_text(encoding="utf-8").strip()
    tls = trusting(str(account / "ca.crt"))
    return ApiServerAccess(server, _from_file(account / "token"), tls, namespace, f"the CA in {account / 'ca.crt'}")


def trusting(ca: str | None) -> ssl.SSLContext:
    """Trusts the CAs in this file, or, without one, those of this system. Not strict: from 3.13 on Python refuses
    certificates without an Authority Key Identifier, which some clusters have, and kubectl accepts."""
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _from_file(path: Path) -> Token:
    def read() -> str:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise StoreUnusable(f"the token of the service account cannot be read: {error}") from None

    return read


class _Config:
    """One kubeconfig, or several that are merged: the first that has an entry counts."""

    def __init__(self, shown: str, files: list[Path]) -> None:
        self._shown, self._files = shown, files
        self._parts = [(file, _parsed(file)) for file in files]

    def access(self, context: str) -> ApiServerAccess:
        name = context or next((part["current-context"] for _, part in self._parts if part.get("current-context")), "")
        _, chosen = self._entry("contexts", "context", name)
        home, cluster = self._entry("clusters", "cluster", str(chosen.get("cluster", "")))
        its, user = self._entry("users", "user", str(chosen.get("user", ""))) if chosen.get("user") else (home, {})
        server = str(cluster.get("server", ""))
        tls = self._tls(home, cluster, its, user) if server.startswith("https:") else None
        named = cluster.get("certificate-authority-data") or cluster.get("certificate-authority")
        trusts = "the kubeconfig's CA" if named else "a CA of this system, since the kubeconfig names none"
        return ApiServerAccess(server, self._token(its, user), tls, str(chosen.get("namespace") or ""), trusts)

    def _entry(self, kind: str, noun: str, name: str) -> tuple[Path, Json]:
        for file, part in self._parts:
            for entry in part.get(kind) or ():
                if entry.get("name") == name:
                    return file.parent, entry.get(noun) or {}
        files = ", ".join(map(str, self._files))
        raise BadInput(f"{self._shown!r}: no {noun} is called {name!r} in {files}; see `kubectl config get-contexts`")

    def _token(self, home: Path, user: Json) -> Token:
        if user.get("exec") or user.get("auth-provider"):
            raise BadInput(
                f"{self._shown!r}: this kubeconfig gets its token from another program, which cronce does not start; "
                "write a token into it: kubectl config set-credentials NAME --token $(kubectl create token ACCOUNT)"
            )
        if user.get("tokenFile"):
            return _from_file(home / str(user["tokenFile"]))
        token = str(user.get("token") or "")
        return lambda: token

    def _tls(self, home: Path, cluster: Json, its: Path, user: Json) -> ssl.SSLContext:
        try:
            authorities = map(trusting, _file(home, cluster, "certificate-authority"))
            context = next(authorities, None) or trusting(None)
            for certificate in _file(its, user, "client-certificate"):
                for key in _file(its, user, "client-key"):
                    context.load_cert_chain(certificate, key)
        except OSError as error:
            raise BadInput(f"{self._shown!r}: a certificate of the kubeconfig cannot be used: {error}") from None
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _file(home: Path, entry: Json, name: str) -> Iterator[str]:
    """The path of a certificate or key, if the entry has one; data in the kubeconfig is put into a temporary file."""
    data = entry.get(f"{name}-data")
    if data:
        with NamedTemporaryFile() as file:  # readable by this user alone, and deleted right after
            file.write(base64.b64decode(data))
            file.flush()
            yield file.name
    elif entry.get(name):
        yield str(home / str(entry[name]))


def _parsed(file: Path) -> Json:
    try:
        import yaml  # noqa: PLC0415  in a cluster nobody needs it
    except ImportError:
        raise BadInput("a kubeconfig is YAML, and reading it needs PyYAML: pip install 'cronce[kubernetes]'") from None
    with suppress(yaml.YAMLError, UnicodeDecodeError):
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    raise BadInput(f"{file} is not a kubeconfig: see `kubectl config view`")


# --- asking ---------------------------------------------------------------------------------------------------------

API_GROUP: Final = "coordination.k8s.io"
LEASES_PER_PAGE: Final = 500
"""Leases in one part of a list."""

WATCH_SECONDS: Final = 1800
"""Seconds after which the server ends a watch; then another is started."""

REREAD: Final = 60.0
"""Seconds after which a token is read again: the kubelet rewrites it long before it expires."""


class KubernetesAnswer(NamedTuple):
    """What the server answered."""

    status: int
    body: Json


class KubernetesApi:
    """The Leases of one namespace, for all threads of a process."""

    def __init__(self, address: ApiServerAddress, clock: Clock) -> None:
        self.address: Final = address
        self.boot: Final = clock.boot
        access = address.access
        self._http = HttpServer(
            address.shown, [address.endpoint], address.timeout, access.tls, clock.boot, via=address.via
        )
        self.clock, self.deadline, self.close = self._http.clock, self._http.deadline, self._http.close
        self._above = urlsplit(access.server).path.rstrip("/")
        self._leases = f"/apis/{API_GROUP}/v1/namespaces/{address.namespace}/leases"
        self._token, self._read_at = "", -REREAD

    # --- Leases ---

    def get(self, name: str, deadline: Boot) -> KubernetesAnswer:
        """The current Lease: without a resourceVersion in the request, it is read from a majority of etcd. 404: there
        is none."""
        return self._ask("GET", f"{self._leases}/{name}", deadline, but=404)

    def create(self, lease: Json, deadline: Boot) -> KubernetesAnswer:
        """409: it exists already."""
        return self._ask("POST", self._leases, deadline, lease, but=409)

    def replace(self, lease: Json, deadline: Boot) -> KubernetesAnswer:
        """If it still has the resourceVersion that it was read with; 409: it has another, or was deleted. Without its
        uid, a deleted one would be created again by this, with its old content."""
        assert lease["metadata"]["uid"]
        assert lease["metadata"]["resourceVersion"]
        return self._ask("PUT", f"{self._leases}/{lease['metadata']['name']}", deadline, lease, but=409)

    def delete(self, lease: Json, deadline: Boot) -> KubernetesAnswer:
        """If it has not changed since it was read; 409, 404: it has."""
        meta = lease["metadata"]
        body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        return self._ask("DELETE", f"{self._leases}/{meta['name']}", deadline, body, but=409)

    def list(self, selector: str, deadline: Boot) -> Iterator[KubernetesAnswer]:
        """All Leases with these labels, as they were at one moment."""
        query = {"labelSelector": selector, "limit": str(LEASES_PER_PAGE)}
        while True:
            answer = self._ask("GET", f"{self._leases}?{urlencode(query)}", deadline)
            yield answer
            query["continue"] = str(answer.body.get("metadata", {}).get("continue") or "")
            if not query["continue"]:
                return

    def listen(
        self, name: str, version: int, deadline: Boot, watch: Callable[[HTTPConnection, HTTPResponse, str], HttpWatch]
    ) -> SocketListener:
        """The server sends every change of a Lease after that version."""
        only = {
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": str(version),
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        path = f"{self._above}{self._leases}?{urlencode({'watch': '1', **only})}"
        question = JsonRequest("GET", path, None, self._bearer())
        try:
            return self._http.listen(
                question, deadline, watch, lambda reply: self._refused(reply.status, self._parsed(reply))
            )
        except NoAnswer as error:
            raise self._unanswered(error) from error

    def version(self, deadline: Boot) -> str:
        return str(self._ask("GET", "/version", deadline).body.get("gitVersion", "unknown"))

    # --- one request ---

    def _ask(
        self, method: str, path: str, deadline: Boot, body: Json | None = None, *, but: int = 0
    ) -> KubernetesAnswer:
        """`but`: this status is an answer and no error; so is 404 to PUT and DELETE."""
        question = JsonRequest(method, f"{self._above}{path}", body, self._bearer())
        answer = self._send(question, deadline)
        if answer.status == 401:
            answer = self._send(question._replace(headers=self._bearer(again=True)), deadline)
        missing = answer.status == 404 and method in ("PUT", "DELETE")
        if answer.status >= 400 and answer.status != but and not missing:
            raise self._refused(answer.status, answer.body)
        return answer

    def _bearer(self, *, again: bool = False) -> dict[str, str]:
        if again or self.boot() - self._read_at >= REREAD:
            self._token, self._read_at = self.address.access.token(), self.boot()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _send(self, question: JsonRequest, deadline: Boot) -> KubernetesAnswer:
        try:
            reply = self._http.send(question, deadline)
        except NoAnswer as error:
            raise self._unanswered(error) from error
        if reply.date is None and _is_busy(reply.status):  # from a proxy in front of it, whose clock does not matter
            raise self._refused(reply.status, self._parsed(reply))
        self._http.hear(reply)
        return KubernetesAnswer(reply.status, self._parsed(reply))

    @property
    def _shown(self) -> str:
        return self.address.shown

    def _parsed(self, reply: Reply) -> Json:
        try:
            body: Any = json.loads(reply.text)
        except ValueError:
            body = {"message": reply.text.strip()[:200]}
        if isinstance(body, dict) and (reply.status >= 400 or body.keys() & {"metadata", "gitVersion"}):
            return body
        raise StoreUnusable(
            f"{self._shown}: what answers at {self.address.access.server} is not a Kubernetes API server"
        )

    # --- what it refuses ---

    def _unanswered(self, error: Exception) -> StoreError:
        where = self.address.access.server
        why = error.last if isinstance(error, NoConnection) else error
        if isinstance(why, TimeoutError):
            late = f"no answer within {self.address.timeout:g} s; a write may have succeeded"
            return StoreUnavailable(f"{self._shown}: {late}")
        if isinstance(why, ssl.SSLCertVerificationError):
            return StoreUnusable(f"{self._shown}: the certificate of {where} is refused: {self._why_refused(why)}")
        if isinstance(error, NoConnection):
            return StoreUnavailable(f"{self._shown}: no connection to {where} ({why}); is the API server there?")
        return StoreUnavailable(
            f"{self._shown}: no answer ({str(why) or type(why).__name__}); a write may have succeeded"
        )

    def _why_refused(self, error: ssl.SSLCertVerificationError) -> str:
        """What OpenSSL found, and what to do about it."""
        remedy = _CERTIFICATES.get(error.verify_code, "see the server's certificate")
        return f"{error.verify_message}; {remedy.format(trusts=self.address.access.trusts)}"

    def _refused(self, status: int, body: Json) -> StoreError:
        """What the server refused, in words, and what to do about it."""
        said = str(body.get("message") or body.get("reason") or "no reason given")
        for refused, says, kind, remedy in _KUBERNETES_REFUSALS:
            if status == refused and re.search(says, said):
                return kind(f"{self._shown}: {said}; {remedy}")
        if _is_busy(status):
            after = (body.get("details") or {}).get("retryAfterSeconds")
            wait = f", and asks to wait for {after} s" if after else ""
            return StoreUnavailable(f"{self._shown}: the API server answers {status}{wait}: {said}")
        if status == 422 and "Too long" in said:
            return StoreFull(f"{self._shown}: {said}; a Lease holds at most 256 KiB, and open runs stay in it")
        return StoreUnusable(f"{self._shown}: the API server answers {status}: {said}")


def is_forbidden(error: StoreUnusable) -> bool:
    """Whether the account has no right to what was requested."""
    return str(error).endswith(_NO_RIGHT)


def _is_busy(status: int) -> bool:
    return status == 429 or status >= 500


_UNSIGNED: Final = "it is not signed by {trusts}: put the cluster's CA into certificate-authority-data"
_CERTIFICATES: Final = {
    **dict.fromkeys((2, 7, 18, 19, 20, 21), _UNSIGNED),
    9: "correct this machine's clock, or the server's",
    10: "let the cluster renew it, or correct this machine's clock",
    **dict.fromkeys((62, 64), "name the server as its certificate does, in the kubeconfig's `server`"),
}
"""By OpenSSL's number of what is wrong with a certificate."""

_NO_RIGHT: Final = "bind a role with that right to the service account: `cronce deploy k8s rbac` prints it"
_KUBERNETES_REFUSALS: Final[Sequence[tuple[int, str, type[StoreError], str]]] = (
    (401, "", StoreUnusable, "the API server rejects the token: it is wrong, or has expired"),
    (403, "(?i)quota", StoreFull, "raise the namespace's ResourceQuota on leases, or delete Leases that are not used"),
    (403, "(?i)terminat", StoreUnusable, "the namespace is being deleted: use another, or create it again"),
    (403, "", StoreUnusable, _NO_RIGHT),
    (404, "", StoreUnusable, "is there such a namespace, and is this the API server of a Kubernetes?"),
    (410, "", StoreUnavailable, "the list expired before all of it was read; try again"),
    (413, "", StoreFull, "a Lease holds at most 256 KiB, and open runs stay in it"),
)
"""By the status and its message: a 403 is not about rights if a quota is used up, or the namespace is being deleted.
The first that fits counts."""
