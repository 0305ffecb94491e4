"""What `cronce doctor` is told about a store: one check, one verdict, and what to do about it."""

from collections.abc import Sequence
from typing import Literal

from cronce.value import NamedTuple

CheckVerdict = Literal["ok", "warn", "error"]


class Check(NamedTuple):
    """One thing that was looked at."""

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
    """Whether there are other stores in the same place: a process may name one of them by mistake."""
    if not others:
        return ok("namespaces", "there is no other store beside it")
    named = f"{', '.join(others[:5])}{' and more' * (len(others) > 5)}"
    return warn("namespaces", f"there are other stores beside it: {named}; a job runs once in each of them", remedy)


LOCAL = ("", "localhost", "127.0.0.1", "::1")


def connection(host: str, verified: str, remedy: str, *, encrypted: bool) -> Check:
    """Whether anybody on the way could read along, or answer in the server's place. `verified`: what is known of whom
    the connection is to; nothing if it is not asked."""
    if encrypted and verified:
        return ok("connection", f"encrypted, and verified: {verified}")
    says = (
        "encrypted, but not verified: another server could answer" if encrypted else "not encrypted, and not verified"
    )
    if host.startswith("/") or host in LOCAL:
        return ok("connection", f"within this machine; {says}")
    return warn("connection", f"to {host}: {says}", remedy)
