"""Where the API server is, and who asks: from a pod's service account, or from a kubeconfig.

A service account's token is a file that the kubelet rewrites before it expires, so it is read again now and then, and
whenever the server does not know the one at hand.
"""

import base64
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cronce.errors import BadInput, StoreUnusable
from cronce.stores import mask, seconds
from cronce.value import NamedTuple

TIMEOUT: Final = 5.0
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"

Json = dict[str, Any]
Token = Callable[[], str]


class Access(NamedTuple):
    """The way to an API server."""

    server: str
    token: Token
    tls: ssl.SSLContext | bool = True
    namespace: str = ""


class Address(NamedTuple):
    """What a URL says: ``kubernetes://namespace?prefix=cronce&kubeconfig=FILE&context=NAME&timeout=5``."""

    shown: str
    access: Access
    namespace: str
    prefix: str = "cronce"
    timeout: float = TIMEOUT


def read_url(url: str, env: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Address:
    shown, rest = mask(url), url.partition("://")[2]
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    timeout = seconds(shown, options.pop("timeout", str(TIMEOUT)))
    prefix, file, context = (options.pop(name, "") for name in ("prefix", "kubeconfig", "context"))
    if options:
        known = "prefix, kubeconfig, context and timeout"
        raise BadInput(f"{shown!r}: Kubernetes knows no {', '.join(sorted(options))} here; it knows {known}")
    access = _access(shown, file, context, env, account)
    namespace = unquote(place.strip("/")) or access.namespace or "default"
    for what, name in (("a namespace", namespace), ("a prefix", prefix or "cronce")):
        if not re.fullmatch(_LABEL, name):
            raise BadInput(f"{shown!r}: {name!r} cannot be {what}; write it like kubernetes://jobs: a–z, 0–9 and -")
    return Address(shown, access, namespace, prefix or "cronce", timeout)


def _access(shown: str, file: str, context: str, env: Mapping[str, str], account: Path) -> Access:
    """A file that is named, else the pod that this is, else the file that kubectl takes."""
    host = env.get("KUBERNETES_SERVICE_HOST", "")
    if not file and not context and host and (account / "token").exists():
        return _in_cluster(host, env.get("KUBERNETES_SERVICE_PORT", "443"), account)
    names = file or env.get("KUBECONFIG", "") or str(Path(env.get("HOME", "/")) / ".kube" / "config")
    found = [Path(name) for name in names.split(os.pathsep) if Path(name).is_file()]
    if not found:
        raise BadInput(
            f"{shown!r}: this is no pod with a service account, and there is no kubeconfig at {names}; "
            "name one with ?kubeconfig=FILE or $KUBECONFIG, or see that the pod's automountServiceAccountToken is true"
        )
    return _Config(shown, found).access(context)


def _in_cluster(host: str, port: str, account: Path) -> Access:
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = (account / "namespace").read_text(encoding="utf-8").strip()
    tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
    return Access(server, _from_file(account / "token"), tls, namespace)


def _from_file(path: Path) -> Token:
    def read() -> str:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise StoreUnusable(f"the token of the service account cannot be read: {error}") from None

    return read


class _Config:
    """One kubeconfig, or several that count as one: of two that say something, the first counts."""

    def __init__(self, shown: str, files: list[Path]) -> None:
        self._shown, self._files = shown, files
        self._parts = [(file, _parsed(file)) for file in files]

    def access(self, context: str) -> Access:
        name = context or next((part["current-context"] for _, part in self._parts if part.get("current-context")), "")
        _, chosen = self._entry("contexts", "context", name)
        home, cluster = self._entry("clusters", "cluster", str(chosen.get("cluster", "")))
        its, user = self._entry("users", "user", str(chosen.get("user", ""))) if chosen.get("user") else (home, {})
        server = str(cluster.get("server", ""))
        tls = self._tls(home, cluster, its, user) if server.startswith("https:") else False
        return Access(server, self._token(its, user), tls, str(chosen.get("namespace") or ""))

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
            context = ssl.create_default_context()
            for file in _file(home, cluster, "certificate-authority"):
                context.load_verify_locations(file)
            for certificate in _file(its, user, "client-certificate"):
                for key in _file(its, user, "client-key"):
                    context.load_cert_chain(certificate, key)
        except OSError as error:
            raise BadInput(f"{self._shown!r}: a certificate of the kubeconfig cannot be used: {error}") from None
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _file(home: Path, entry: Json, name: str) -> Iterator[str]:
    """The file that something lies in, if it is there at all; what stands in the kubeconfig is put into one."""
    data = entry.get(f"{name}-data")
    if data:
        with NamedTemporaryFile() as file:  # of this user alone, and gone when it was read
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
    raise BadInput(f"{file} is no kubeconfig: see `kubectl config view`")
