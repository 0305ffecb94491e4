"""What a real API server answers to requests for Leases: transcribed from what was seen on a v1.36 (one API server,
RBAC on), and nothing that was not seen. Our own server is held against it, so that it cannot drift.

Each row: what is asked, of a Lease `there` that was read just before, or `absent`; the request; the status and, where
it was noted, the `reason` of the answer. In a body `…` stands for the Lease as it was read, and is changed by the rest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Seen(NamedTuple):
    what: str
    method: str
    status: int
    reason: str = ""
    lease: str = "there"
    """there, absent, changed (by another, since it was read) or deleted (since it was read)."""
    meta: Mapping[str, Any] = MappingProxyType({})
    """What its metadata has instead; None: that it has not."""
    spec: Mapping[str, Any] = MappingProxyType({})
    who: str = "secret"
    """The token; nothing: none."""
    where: str = "jobs"
    """A namespace: jobs, full (its quota is used up) or going (it is being terminated)."""


SEEN = (
    Seen("POST new", "POST", 201, lease="absent"),
    Seen("POST existing", "POST", 409, "AlreadyExists"),
    Seen("PUT current resourceVersion", "PUT", 200),
    Seen("PUT stale resourceVersion", "PUT", 409, "Conflict", lease="changed"),
    Seen("PUT with resourceVersion absent", "PUT", 422, meta={"resourceVersion": None}),
    Seen('PUT with resourceVersion ""', "PUT", 422, meta={"resourceVersion": ""}),
    Seen('PUT with resourceVersion "0"', "PUT", 422, meta={"resourceVersion": "0"}),
    Seen("merge PATCH without resourceVersion: no compare-and-swap, never use", "PATCH", 200, lease="changed"),
    Seen("merge PATCH with a stale one", "PATCH", 409, lease="changed", meta={"resourceVersion": "as read"}),
    Seen("DELETE with a stale precondition", "DELETE", 409, lease="changed"),
    Seen("PUT after delete", "PUT", 409, "Conflict", lease="deleted"),
    Seen('holderIdentity "" with duration 1', "PUT", 200, spec={"holderIdentity": "", "leaseDurationSeconds": 1}),
    Seen("leaseDurationSeconds 0", "PUT", 422, spec={"leaseDurationSeconds": 0}),
    Seen("time without fraction", "PUT", 400, spec={"renewTime": "2026-03-29T12:00:20Z"}),
    Seen("naive time", "PUT", 400, spec={"renewTime": "2026-03-29T12:00:20.123456"}),
    Seen("time …20.123456+00:00", "PUT", 200, spec={"renewTime": "2026-03-29T12:00:20.123456+00:00"}),
    Seen("no rights", "PUT", 403, who="powerless"),
    Seen("no token", "PUT", 403, who=""),
    Seen("bad token", "PUT", 401, who="bad"),
    Seen("quota exceeded", "POST", 403, lease="absent", where="full"),
    Seen("namespace terminating", "POST", 403, lease="absent", where="going"),
)

CREATES_AT_ONCE = 16
PUTS_AT_ONCE = 8
"""Of so many at once, one wins."""
