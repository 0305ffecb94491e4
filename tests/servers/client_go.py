"""A candidate by the rules of client-go's leader election, so that ours meets what runs in every cluster.

What it keeps to, in the order in which it matters:

* Whether another's lease is over is judged by when this candidate *saw* the record change, never by the times in it.
  To see that, records are compared with their times cut to the second.
* A record without a holder is free at once. Taking it raises the transitions by one.
* Who leads renews without reading, on the Lease as it last was, and reads only if that fails.
* Who could not renew for `deadline` seconds leads no more. Who gives it back looks first whether it is its own.
"""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.servers.kubernetes import Kubernetes, Refused

Json = dict[str, Any]


class Elector:
    """`clock` counts seconds. `lease` is how long others wait, `deadline` how long it goes on trying to renew, `retry`
    the pause between two tries."""

    def __init__(
        self, server: Kubernetes, place: tuple[str, str], identity: str, clock: Callable[[], float],
        *, lease: int = 15, deadline: float = 10.0, retry: float = 2.0,
    ) -> None:  # fmt: skip
        self.server, self.identity, self.clock = server, identity, clock
        self.namespace, self.name = place
        self.lease, self.deadline, self.retry = lease, deadline, retry
        self.elected = False
        self._seen: Json = {}
        self._seen_at = 0.0
        self._object: Json = {}
        self._gives_up = 0.0
        self._next = 0.0

    @property
    def leads(self) -> bool:
        """Whether its work goes on: the timer that ends it needs nobody to look."""
        return self.elected and self.clock() <= self._gives_up

    @property
    def term(self) -> int:
        return int(self._seen.get("leaseTransitions") or 0)

    def step(self) -> None:
        """What it does by itself, if it is time for it."""
        now = self.clock()
        self.elected = self.leads
        if now < self._next:
            return
        self._next = now + self.retry
        if self._try():
            self.elected, self._gives_up = True, now + self.retry + self.deadline

    def release(self) -> None:
        self._get()
        if self._is_mine():
            now = self._now()
            free = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
            self._put({**free, "leaseTransitions": self.term})
        self.elected = False

    # --- trying ---

    def _try(self) -> bool:
        now = self._now()
        mine = {"holderIdentity": self.identity, "leaseDurationSeconds": self.lease, "renewTime": now}
        if self._is_mine() and self._is_valid() and self._put({**self._seen, **mine}):
            return True
        if not self._get():
            return self._create({**mine, "acquireTime": now, "leaseTransitions": 0})
        if self._seen.get("holderIdentity") and self._is_valid() and not self._is_mine():
            return False
        if self._is_mine():
            return self._put({**self._seen, **mine})
        return self._put({**mine, "acquireTime": now, "leaseTransitions": self.term + 1})

    def _is_mine(self) -> bool:
        return self._seen.get("holderIdentity") == self.identity

    def _is_valid(self) -> bool:
        return self._seen_at + int(self._seen.get("leaseDurationSeconds") or 0) > self.clock()

    def _get(self) -> bool:
        try:
            _, lease = self.server.answer("GET", self.namespace, self.name, {})
        except Refused as refused:
            return _expected(refused, 404)
        self._object = copy.deepcopy(lease)
        if _record(lease["spec"]) != _record(self._seen):
            self._see(lease["spec"])
        return True

    def _create(self, spec: Json) -> bool:
        return self._say("POST", {"metadata": {"name": self.name}, "spec": spec})

    def _put(self, spec: Json) -> bool:
        return self._say("PUT", {**self._object, "spec": spec})

    def _say(self, method: str, lease: Json) -> bool:
        try:
            _, stored = self.server.answer(method, self.namespace, self.name, lease)
        except Refused as refused:
            return _expected(refused, 409)
        self._object = copy.deepcopy(stored)
        self._see(lease["spec"])
        return True

    def _see(self, spec: Json) -> None:
        self._seen, self._seen_at = dict(spec), self.clock()

    def _now(self) -> str:
        """By a clock that nobody else goes by."""
        return f"{datetime.fromtimestamp(self.clock(), UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def _expected(refused: Refused, code: int) -> bool:
    if refused.code != code:
        raise refused
    return False


def _record(spec: Json) -> list[object]:
    """As it is compared: times to the second."""
    times = [str(spec.get(name) or "")[:19] for name in ("acquireTime", "renewTime")]
    return [spec.get("holderIdentity") or "", spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"), *times]
