"""Asking the API server: one request at a time, over plain HTTP.

A request that was sent is never sent again, unless the server said that it does not know who asks: whether another one
landed, nobody knows. A write that is refused since somebody else was faster is an answer, and no error.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from cronce.clock import Clock
from cronce.errors import BadInput, StoreError, StoreFull, StoreUnavailable, StoreUnusable
from cronce.model import Boot
from cronce.stores.dates import Reading, second_of
from cronce.stores.kubernetes.access import Address, Json
from cronce.value import NamedTuple

try:
    import httpx
except ImportError:
    raise BadInput("kubernetes:// needs httpx: pip install 'cronce[kubernetes]'") from None

GROUP: Final = "coordination.k8s.io"
PAGE: Final = 500
"""Leases in one part of a list."""

REREAD: Final = 60.0
"""Seconds after which a token is read again: the kubelet rewrites it long before it expires."""

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Question(NamedTuple):
    method: Method
    path: str
    body: Json | None = None
    query: dict[str, str] | None = None


class Answer(NamedTuple):
    """What the server answered, and what that says about its clock."""

    status: int
    body: Json
    reading: Reading


class Api:
    """The Leases of one namespace, for all threads of a process."""

    def __init__(self, address: Address, clock: Clock) -> None:
        self.address: Final = address
        self.boot: Final = clock.boot
        self._leases = f"/apis/{GROUP}/v1/namespaces/{address.namespace}/leases"
        self._token, self._read_at = "", -REREAD
        self._begin()

    def _begin(self) -> None:
        """A forked child has connections of its own: of one that two read from, each would have half of the answer."""
        address = self.address
        self._process, self._closed = os.getpid(), False
        self._client = httpx.Client(
            base_url=address.access.server, verify=address.access.tls, timeout=address.timeout, trust_env=False
        )

    def deadline(self) -> Boot:
        """When a call that begins now has taken long enough."""
        return self.boot() + self.address.timeout

    def close(self) -> None:
        self._closed = True
        if self._process == os.getpid():
            self._client.close()

    # --- Leases ---

    def get(self, name: str, deadline: Boot) -> Answer:
        """A Lease as it stands now: without a resourceVersion in the question, a majority of etcd was asked. 404: there
        is none."""
        return self._ask(Question("GET", f"{self._leases}/{name}"), deadline, but=404)

    def create(self, lease: Json, deadline: Boot) -> Answer:
        """409: it is there already."""
        return self._ask(Question("POST", self._leases, lease), deadline, but=409)

    def replace(self, lease: Json, deadline: Boot) -> Answer:
        """If it still has the resourceVersion that it was read with; 409: it has another, or it is gone. Without its
        uid, one that was deleted would be made anew by this, with all that was in it."""
        assert lease["metadata"]["uid"]
        assert lease["metadata"]["resourceVersion"]
        return self._ask(Question("PUT", f"{self._leases}/{lease['metadata']['name']}", lease), deadline, but=409)

    def delete(self, lease: Json, deadline: Boot) -> Answer:
        """If it is still the very one that was read; 409, 404: it is not."""
        meta = lease["metadata"]
        body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        return self._ask(Question("DELETE", f"{self._leases}/{meta['name']}", body), deadline, but=409)

    def list(self, selector: str, deadline: Boot) -> Iterator[Answer]:
        """All Leases with these labels, as they stood at one moment."""
        query = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            answer = self._ask(Question("GET", self._leases, query=query), deadline)
            yield answer
            query["continue"] = str(answer.body.get("metadata", {}).get("continue") or "")
            if not query["continue"]:
                return

    def version(self, deadline: Boot) -> str:
        return str(self._ask(Question("GET", "/version"), deadline).body.get("gitVersion", "unknown"))

    # --- one request ---

    def _ask(self, question: Question, deadline: Boot, *, but: int = 0) -> Answer:
        """`but`: this status is an answer, too; so is 404 to whoever changes what was there."""
        answer = self._send(question, self._bearer(), deadline)
        if answer.status == 401:
            answer = self._send(question, self._bearer(again=True), deadline)
        missing = answer.status == 404 and question.method in ("PUT", "DELETE")
        if answer.status >= 400 and answer.status != but and not missing:
            raise self._refused(answer.status, answer.body)
        return answer

    def _bearer(self, *, again: bool = False) -> dict[str, str]:
        if again or self.boot() - self._read_at >= REREAD:
            self._token, self._read_at = self.address.access.token(), self.boot()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _send(self, question: Question, headers: dict[str, str], deadline: Boot) -> Answer:
        began = self.boot()
        if began >= deadline:
            raise StoreUnavailable(f"{self._shown}: not done within {self.address.timeout:g} s; too much goes on")
        content = None if question.body is None else json.dumps(question.body, separators=(",", ":")).encode()
        try:
            with self._connected().stream(
                question.method, question.path, content=content, params=question.query, timeout=deadline - began,
                headers={"Content-Type": "application/json", **headers},
            ) as response:  # fmt: skip
                text = self._whole(response, deadline)
        except httpx.HTTPError as error:
            raise self._unanswered(error) from error
        status, date = response.status_code, response.headers.get("Date")
        if date is None and _is_busy(status):  # a proxy before it, which has no clock of interest
            raise self._refused(status, self._parsed(status, text))
        reading = Reading("", second_of(date, self._shown), began, self.boot())
        return Answer(status, self._parsed(status, text), reading)

    def _whole(self, response: httpx.Response, deadline: Boot) -> bytes:
        """The client's own limit is from one piece to the next."""
        pieces = []
        for piece in response.iter_bytes():
            pieces.append(piece)
            if self.boot() >= deadline:
                raise httpx.ReadTimeout("it goes on for too long")
        return b"".join(pieces)

    def _connected(self) -> httpx.Client:
        if self._closed:
            raise StoreUnavailable("this store was closed by this process; open it again")
        if self._process != os.getpid():
            _PARENTS.append(self._client)
            self._begin()
        return self._client

    @property
    def _shown(self) -> str:
        return self.address.shown

    def _parsed(self, status: int, text: bytes) -> Json:
        try:
            body: Any = json.loads(text)
        except ValueError:
            body = {"message": text.decode(errors="replace").strip()[:200]}
        if isinstance(body, dict) and (status >= 400 or body.keys() & {"metadata", "gitVersion"}):
            return body
        raise StoreUnusable(f"{self._shown}: what answers at {self.address.access.server} is no Kubernetes")

    # --- what it refuses ---

    def _unanswered(self, error: httpx.HTTPError) -> StoreError:
        where = self.address.access.server
        if isinstance(error, httpx.TimeoutException):
            late = f"no answer within {self.address.timeout:g} s; a write may have landed"
            return StoreUnavailable(f"{self._shown}: {late}")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return StoreUnusable(f"{self._shown}: {where} is not signed by who the kubeconfig says: {error}")
        if isinstance(error, httpx.ConnectError):
            return StoreUnavailable(f"{self._shown}: no connection to {where} ({error}); is the API server there?")
        why = str(error) or type(error).__name__
        return StoreUnavailable(f"{self._shown}: no answer ({why}); a write may have landed")

    def _refused(self, status: int, body: Json) -> StoreError:
        """What the server said no to, in words, and what to do about it."""
        said = str(body.get("message") or body.get("reason") or "no reason given")
        for refused, kind, remedy in _REFUSALS:
            if status == refused:
                return kind(f"{self._shown}: {said}; {remedy}")
        if _is_busy(status):
            after = (body.get("details") or {}).get("retryAfterSeconds")
            wait = f", and asks to wait for {after} s" if after else ""
            return StoreUnavailable(f"{self._shown}: the API server answers {status}{wait}: {said}")
        if status == 422 and "Too long" in said:
            return StoreFull(f"{self._shown}: {said}; a Lease has room for 256 KiB, and what is open stays in it")
        return StoreUnusable(f"{self._shown}: the API server answers {status}: {said}")


def _is_busy(status: int) -> bool:
    return status == 429 or status >= 500


_REFUSALS: Final[Sequence[tuple[int, type[StoreError], str]]] = (
    (401, StoreUnusable, "the API server does not know who asks: the token is wrong, or too old"),
    (403, StoreUnusable, "bind a role with that right to the service account: `cronce k8s rbac` prints it"),
    (404, StoreUnusable, "is there such a namespace, and is this the API server of a Kubernetes?"),
    (410, StoreUnavailable, "the list was too long for the time that it took; ask again"),
    (413, StoreFull, "a Lease has room for 256 KiB, and what is open stays in it"),
)

_PARENTS: Final[list[object]] = []
"""Connections of another process. They are kept, so that no destructor hangs up on it."""
