"""What `cronce doctor` is told about a store: one check, one verdict, and what to do about it."""

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
