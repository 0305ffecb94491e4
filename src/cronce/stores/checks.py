"""What `cronce doctor` shows of a store: checks, each with a verdict and what to do."""

from collections.abc import Sequence
from typing import Literal

from cronce.value import NamedTuple

CheckVerdict = Literal["ok", "warn", "error"]


class Check(NamedTuple):
    """One thing that was checked."""

    name: str
    verdict: CheckVerdict
    says: str
    remedy: str = ""


def ok(name: str, says: str) -> Check:
    return Check(name, "ok", says)


def warn(name: str, says: str, remedy: str) -> Check:
    return Check(name, "warn", says, remedy)


def error(name: str, says: str, remedy: str) -> Check:
    return Check(name, "error", says, remedy)


def alone(others: Sequence[str], remedy: str) -> Check:
    """Whether there are other stores on the same server: a process may name one of them by mistake."""
    if not others:
        return ok("namespaces", "there is no other store beside it")
    named = f"{', '.join(others[:5])}{' and more' * (len(others) > 5)}"
    return warn("namespaces", f"there are other stores beside it: {named}; a job runs once in each of them", remedy)


LOCAL = ("", "localhost", "127.0.0.1", "::1")


def connection(host: str, verified: str, remedy: str, *, encrypted: bool) -> Check:
    """Whether the connection is encrypted, and the server verified. `verified`: how it was; nothing if it was not."""
    if encrypted and verified:
        return ok("connection", f"encrypted, and verified: {verified}")
    says = (
        "encrypted, but not verified: another server could answer" if encrypted else "not encrypted, and not verified"
    )
    if host.startswith("/") or host in LOCAL:
        return ok("connection", f"within this machine; {says}")
    return warn("connection", f"to {host}: {says}", remedy)
