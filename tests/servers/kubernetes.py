"""An API server of ours for Leases, over real HTTP: it keeps the rules that a real one keeps, and says no as it does.

There is no Kubernetes in a package registry. What stands here was written down from the sources of Kubernetes: what a
Lease may hold, what a replacement without a resourceVersion, with an old one or of a deleted Lease is told, that one
which changes nothing leaves the resourceVersion as it is, and how a list is read in parts. What a real v1.36 was seen
to answer is in `kubernetes_answers`, and this server is held against it. A watch is not among that: how it is told here
is what the documentation of Kubernetes says, and was not held against a real one yet.

It can also do what real ones do now and then: lose a reply after the write, hang, be busy, forbid, no longer know a
token, and have a clock of its own.
"""

import copy
import json
import re
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.servers.process import Service

Json = dict[str, Any]

LEASES = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/([^/]+)/leases(?:/([^/]+))?")
NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
MICRO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)"
ROOM = 256 << 10
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.body = code, {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": details, "code": code,
        }  # fmt: skip


def invalid(name: str, why: str) -> Refused:
    return Refused(422, "Invalid", f'Lease.coordination.k8s.io "{name}" is invalid: {why}')


class Kubernetes(Service):
    """The Leases of all namespaces, and what befalls whoever asks for them."""

    def __init__(self) -> None:
        self.leases: dict[tuple[str, str], Json] = {}
        """None is ever changed: another takes its place."""
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.connections = 0
        self.tokens = {"secret", "powerless"}
        """Those it knows; the second has no rights."""
        self.forbidden: set[str] = set()
        self.quota: int | None = None
        """Leases that a namespace may have."""
        self.terminating: set[str] = set()
        """Namespaces that are being deleted."""
        self.busy = 0
        """How many requests are turned away from here on."""
        self.clock: Callable[[], float] = time.time
        self.losing: Callable[[str, str], bool] = lambda _verb, _name: False
        """Of which writes the reply is lost."""
        self.page = 0
        """Leases in one part of a list at most; 0: as many as asked for."""
        self._revision = 100
        self._lists: dict[str, tuple[list[Json], int]] = {}
        self._changes: list[tuple[int, str, str, str, Json]] = []
        """The revision, what happened, where, to which Lease, and what that is then."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closing = False
        self._open = threading.Event()
        self._open.set()

    def start(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.api = self
        self.server = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self._directory = TemporaryDirectory()
        self.kubeconfig = self.config(Path(self._directory.name) / "kubeconfig")
        return self

    def close(self) -> None:
        self._open.set()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._directory.cleanup()

    def url(self, namespace: str, **options: object) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"kubernetes://{namespace}?kubeconfig={self.kubeconfig}{more}"

    def config(self, file: Path, **user: str) -> Path:
        """A kubeconfig for it."""
        named = {
            "clusters": [{"name": "ours", "cluster": {"server": self.server}}],
            "users": [{"name": "me", "user": user or {"token": "secret"}}],
            "contexts": [{"name": "here", "context": {"cluster": "ours", "user": "me", "namespace": "jobs"}}],
        }
        file.write_text(yaml.safe_dump({"current-context": "here", **named}))
        return file

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody is answered for a while."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    # --- asking it without HTTP, as `kubectl` would ---

    def get(self, namespace: str, name: str) -> Json:
        with self._lock:
            return copy.deepcopy(self.leases[namespace, name])

    def names(self, namespace: str) -> list[str]:
        with self._lock:
            return sorted(name for where, name in self.leases if where == namespace)

    def delete(self, namespace: str, name: str) -> None:
        with self._lock:
            self._gone(namespace, name)

    def edit(self, namespace: str, name: str, change: Callable[[Json], object]) -> Json:
        """Read it, change it, and put it in its place."""
        lease = self.get(namespace, name)
        change(lease)
        return copy.deepcopy(self.answer("PUT", namespace, name, lease)[1])

    # --- what it does ---

    @property
    def now(self) -> float:
        return self.clock()

    def asked(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Json, str, str]:
        """A request from outside: the status, the answer, what was asked for, and of which Lease."""
        self._open.wait()
        url = urlsplit(path)
        match, query = LEASES.fullmatch(url.path), {key: each[0] for key, each in parse_qs(url.query).items()}
        looks = "watch" if query.get("watch") else "list"
        verb = VERBS.get(method) or ("get" if match[2] else looks) if match else "look"
        name = match[2] or "" if match else ""
        with self._lock:
            self.requests[verb] += 1
        try:
            self._let_in(headers, verb)
            if url.path == "/version":
                return 200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}, verb, name
            if match is None:
                raise Refused(404, "NotFound", "the server could not find the requested resource")
            if verb == "watch":
                return 200, {"watch": (match[1], query)}, verb, name
            code, answer = self.answer(method, match[1], name, json.loads(body or b"{}"), query)
        except Refused as refused:
            code, answer = refused.code, refused.body
        return code, answer, verb, name

    def _let_in(self, headers: Any, verb: str) -> None:
        token = headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            raise Refused(401, "Unauthorized", "Unauthorized")
        if verb in self.forbidden or (token in ("", "powerless") and verb != "look"):
            who = 'User "system:serviceaccount:jobs:cronce"' if token else 'User "system:anonymous"'
            resource = f'cannot {verb} resource "leases" in API group "coordination.k8s.io" in the namespace "jobs"'
            raise Refused(403, "Forbidden", f"leases.coordination.k8s.io is forbidden: {who} {resource}")
        with self._lock:
            turned_away, self.busy = self.busy > 0, max(self.busy - 1, 0)
        if turned_away:
            raise Refused(429, "TooManyRequests", "too many requests, please try again later", retryAfterSeconds=1)

    def answer(
        self, method: str, namespace: str, name: str, body: Json, query: dict[str, str] | None = None
    ) -> tuple[int, Json]:
        with self._lock:
            match method:
                case "GET" if name:
                    return 200, self._lease(namespace, name)
                case "GET":
                    return 200, self._list(namespace, query or {})
                case "POST":
                    return 201, self._create(namespace, body)
                case "PUT":
                    return self._replace(namespace, name, body)
                case "PATCH":
                    return self._replace(namespace, name, merged(self._lease(namespace, name), body))
                case "DELETE":
                    return 200, self._delete(namespace, name, body)
        raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _lease(self, namespace: str, name: str) -> Json:
        if (namespace, name) not in self.leases:
            raise Refused(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        return self.leases[namespace, name]

    def _create(self, namespace: str, lease: Json) -> Json:
        name = str(lease.get("metadata", {}).get("name", ""))
        checked(lease, name)
        if lease["metadata"].get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if (namespace, name) in self.leases:
            raise Refused(409, "AlreadyExists", f'leases.coordination.k8s.io "{name}" already exists')
        forbidden = f'leases.coordination.k8s.io "{name}" is forbidden: '
        if namespace in self.terminating:
            because = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise Refused(403, "Forbidden", forbidden + because)
        if self.quota is not None and sum(where == namespace for where, _ in self.leases) >= self.quota:
            count = "count/leases.coordination.k8s.io"
            used = f"requested: {count}=1, used: {count}={self.quota}, limited: {count}={self.quota}"
            raise Refused(403, "Forbidden", f"{forbidden}exceeded quota: leases, {used}")
        return self._made(namespace, name, lease)

    def _made(self, namespace: str, name: str, lease: Json) -> Json:
        born = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now))
        meta = {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": born}
        made = copy.deepcopy(lease)
        made["metadata"] |= meta
        return self._stored(namespace, name, made)

    def _stored(self, namespace: str, name: str, lease: Json) -> Json:
        self._revision += 1
        lease["metadata"]["resourceVersion"] = str(self._revision)
        what = "MODIFIED" if (namespace, name) in self.leases else "ADDED"
        self.leases[namespace, name] = lease
        self._changes.append((self._revision, what, namespace, name, lease))
        self._changed.notify_all()
        return lease

    def _gone(self, namespace: str, name: str) -> None:
        self._revision += 1
        self._changes.append((self._revision, "DELETED", namespace, name, self.leases.pop((namespace, name))))
        self._changed.notify_all()

    def watched(self, namespace: str, query: dict[str, str]) -> Iterator[Json]:
        """What happens to one Lease after a version, as it happens."""
        name, after = query["fieldSelector"].removeprefix("metadata.name="), int(query["resourceVersion"])
        while not self._closing:
            with self._changed:
                while not self._closing and self._revision <= after:
                    self._changed.wait(60)
                found = [one for one in self._changes if one[0] > after and one[2:4] == (namespace, name)]
                after = self._revision
            for _, what, _, _, lease in found:
                yield {"type": what, "object": lease}

    def _replace(self, namespace: str, name: str, lease: Json) -> tuple[int, Json]:
        meta = lease.get("metadata", {})
        if meta.get("name") != name:
            raise Refused(400, "BadRequest", "the name of the object does not match the name on the URL")
        checked(lease, name)
        old = self.leases.get((namespace, name))
        conflict = f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": '
        if meta.get("uid") and (old is None or old["metadata"]["uid"] != meta["uid"]):
            raise Refused(409, "Conflict", f"{conflict}StorageError: invalid object: Precondition failed: UID")
        if old is None:  # a PUT may make a Lease: their strategy allows it
            return 201, self._made(namespace, name, lease)
        if meta.get("resourceVersion") in (None, "", "0"):
            raise invalid(name, "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
        if meta["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise Refused(
                409, "Conflict", f"{conflict}the object has been modified; please apply your changes to the latest"
            )
        new = copy.deepcopy(lease)
        new["metadata"] |= {key: old["metadata"][key] for key in ("namespace", "uid", "creationTimestamp")}
        return 200, old if new == old else self._stored(namespace, name, new)

    def _delete(self, namespace: str, name: str, options: Json) -> Json:
        meta = self._lease(namespace, name)["metadata"]
        for key, wanted in (options.get("preconditions") or {}).items():
            if meta[key] != wanted:
                raise Refused(
                    409, "Conflict", f"Precondition failed: {key} in precondition: {wanted}, in object: {meta[key]}"
                )
        self._gone(namespace, name)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _list(self, namespace: str, query: dict[str, str]) -> Json:
        """In parts, all of them as they stood at the first."""
        if query.get("continue"):
            found, revision = self._lists.pop(query["continue"])
        else:
            wanted = dict(part.split("=") for part in filter(None, query.get("labelSelector", "").split(",")))
            found, revision = [
                self.leases[key]
                for key in sorted(self.leases)
                if key[0] == namespace
                and wanted.items() <= (self.leases[key]["metadata"].get("labels") or {}).items()
            ], self._revision  # fmt: skip
        size = min(filter(None, (int(query.get("limit", 0)), self.page)), default=0) or len(found)
        meta: Json = {"resourceVersion": str(revision)}
        if found[size:]:
            meta["continue"] = uuid.uuid4().hex
            self._lists[meta["continue"]] = (found[size:], revision)
        return {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "items": found[:size]}


def merged(old: Json, patch: Json) -> Json:
    """A merge patch: without a resourceVersion of its own it is one on whatever is there."""
    return {
        key: merged(old.get(key) or {}, patch[key])
        if isinstance(patch.get(key), dict)
        else patch.get(key, old.get(key))
        for key in {**old, **patch}
        if patch.get(key, 0) is not None
    }


def checked(lease: Json, name: str) -> None:
    """What every Lease is, whoever writes it."""
    spec, meta = lease.get("spec") or {}, lease.get("metadata") or {}
    _parse(spec)
    if not re.fullmatch(NAME, name) or len(name) > 253:
        raise invalid(name, f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of…')
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        raise invalid(name, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0")
    if (spec.get("leaseTransitions") or 0) < 0:
        raise invalid(name, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0")
    for text in (meta.get("labels") or {}).values():
        if len(text) > 63 or not re.fullmatch(LABEL, text):
            raise invalid(name, f'metadata.labels: Invalid value: "{text}": a valid label must be…')
    size = sum(len(key.encode()) + len(text.encode()) for key, text in (meta.get("annotations") or {}).items())
    if size > ROOM:
        raise invalid(name, f"metadata.annotations: Too long: may not be more than {ROOM} bytes")


def _parse(spec: Json) -> None:
    """What cannot even be read as a Lease is another kind of error."""
    cannot = 'Lease in version "v1" cannot be handled as a Lease: '
    for key in ("acquireTime", "renewTime"):
        text = spec.get(key)
        if text is not None and not re.fullmatch(MICRO, str(text)):
            why = f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{text}"'
            raise Refused(400, "BadRequest", cannot + why)
    for key, kind in (("leaseDurationSeconds", int), ("leaseTransitions", int), ("holderIdentity", str)):
        if spec.get(key) is not None and type(spec[key]) is not kind:
            raise Refused(400, "BadRequest", f"{cannot}{key}: {spec[key]!r}")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    api: Kubernetes

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed hangs up: that is nothing to print."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def setup(self) -> None:
        super().setup()
        self.server.api.connections += 1

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        api = self.server.api
        code, answer, verb, name = api.asked(self.command, self.path, self.headers, body)
        api.statuses[code] += 1
        if api.losing(verb, name):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if verb == "watch" and code == 200:
            self._tell(*answer["watch"])
            return
        data = json.dumps(answer).encode()
        head = [f"HTTP/1.1 {code} {answer.get('reason', 'OK')}", "Content-Type: application/json"]
        head += [f"Date: {formatdate(api.now, usegmt=True)}", f"Content-Length: {len(data)}"]
        if code == 429:
            head.append("Retry-After: 1")
        self.wfile.write("\r\n".join([*head, "", ""]).encode() + data)

    def _tell(self, namespace: str, query: dict[str, str]) -> None:
        head = [
            "HTTP/1.1 200 OK",
            "Content-Type: application/json",
            f"Date: {formatdate(self.server.api.now, usegmt=True)}",
        ]
        self.wfile.write("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
        for event in self.server.api.watched(namespace, query):
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
