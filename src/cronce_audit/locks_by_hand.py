"""Locks that are made by hand on Redis, in JavaScript, TypeScript, Java and Kotlin, by their text.

A key is set if it is not there; what its file does to the same key by the same client is about that lock.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.javascript.code import is_packed, wants
from cronce_audit.model import LockAct, LockCall, Source, reader

_KEY_CALL: Final = re.compile(
    r"(?P<client>[\w$.]+(?:\(\))?)\.(?P<method>(?i:p?set(?:ex)?|setnx|setifabsent|get|exists|del(?:ete)?|unlink|p?expire))"
    r"\((?P<told>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
)
_COMMA: Final = re.compile(r",(?![^{(\[]*[)}\]])")
_NX: Final = re.compile(r"(?i)['\"]nx['\"]|\bnx\s*:(?!\s*false)")
_MENTIONS: Final = re.compile(_NX.pattern + r"|\.setnx\(|\.setifabsent\(|\.p?set(?:ex)?\([^,\n]*lock")
_EXPIRES: Final = re.compile(
    r"(?i)['\"](?:ex|px)(?:at)?['\"]|\b(?:ex|px)(?:at)?\s*:|\w*(?:ttl|expir|timeout|second|milli)\w*\s*:"
)
_OPEN: Final = re.compile(r"\.\.\.|^[\w$.]+(?:\(.*\))?$")
"""It may hold more options than we see."""
_ON_SERVER: Final = re.compile(r"(?i)redis|valkey")
_LOCK: Final = re.compile(r"(?<![bcBC])(?:[lL]ock|LOCK)|[lL]ease|LEASE|[lL]eader|LEADER|[mM]utex|MUTEX")
_NO_LOCK: Final = re.compile(r"(?i)lockout|locked|account|login|attempt")
"""Users are locked out by such keys, not processes."""
_ONE_STEP: Final = re.compile(r"\.(?:watch|execute)\(")
_NEAR_ABOVE: Final = 8
"""Lines above a call in which the name of its function stands, or a question that comes before it."""


class _KeyCall(NamedTuple):
    """A method of a client, called with a key."""

    method: str
    target: str
    """The client and the key, as written: two calls are about one lock where these are the same."""
    key: str
    options: tuple[str, ...]
    at: int
    line: int

    @property
    def takes(self) -> bool:
        return self.method in ("setnx", "setifabsent") or (
            self.method == "set" and bool(_NX.search(", ".join(self.options)))
        )

    @property
    def expires(self) -> bool | None:
        """Whether the lock ends by itself; None where that is not spelled out."""
        known = bool(_EXPIRES.search(", ".join(self.options))) or (self.method == "setifabsent" and self.options != ())
        return known or (None if any(map(_OPEN.search, self.options)) else False)


def _is_java(path: PurePosixPath) -> bool:
    return path.suffix in (".java", ".kt")


@reader("locks by hand", lambda path: _is_java(path) or wants(path))
def read(source: Source) -> Iterator[LockCall]:
    if not _MENTIONS.search(source.text) or is_packed(source):
        return
    plain = source.bare
    calls = list(_calls(plain, by_key=_is_java(PurePosixPath(source.path))))
    for take in calls:
        if _is_lock(take, plain, source):
            for call, act in _acts(take, [call for call in calls if call.target == take.target], plain):
                yield LockCall(act, f"`{take.key}`", source.place(call.line))


def _calls(plain: str, *, by_key: bool) -> Iterator[_KeyCall]:
    """In Java the client that deletes is another one than what sets a value."""
    for found in _KEY_CALL.finditer(plain):
        key, *options = (one.strip() for one in _COMMA.split(found["told"]))
        target = key if by_key else f"{found['client']} {key}"
        line = plain.count("\n", 0, found.start()) + 1
        yield _KeyCall(found["method"].lower(), target, key, tuple(options[1:]), found.start(), line)


def _acts(take: _KeyCall, calls: Sequence[_KeyCall], plain: str) -> Iterator[tuple[_KeyCall, LockAct]]:
    """What is done wrong with one lock. Where it never ends, nobody else can have it, so it may be freed unasked."""
    freed = [call for call in calls if call.method in ("del", "delete", "unlink")]
    renewed = [call for call in calls if call.method in ("expire", "pexpire")]
    if not take.takes:
        asked = [call for call in calls if call.method in ("get", "exists") and take.at - call.at > 0]
        near = [call for call in asked[-1:] if take.line - call.line <= _NEAR_ABOVE]
        on_server = bool(_ON_SERVER.search(take.target) or take.expires)
        is_set = take.method in ("setex", "psetex") or (take.method == "set" and on_server)
        yield from ((call, "ask and take") for call in near if is_set)
    elif take.expires is False and (freed or take.method != "setifabsent"):
        yield take, "take in two steps" if renewed else "take for ever"
    elif take.expires:
        if any(re.search(r"\bfinally\b", plain[take.at : call.at]) for call in freed):
            yield take, "end with the run"
        yield from ((call, "free") for call in freed)
        yield from ((call, "renew") for call in renewed)


def _is_lock(take: _KeyCall, plain: str, source: Source) -> bool:
    """The key says so, or the text it was made of, or its file, or the lines above it; and nothing makes one step of
    two."""
    made = re.search(rf"\b{re.escape(take.key.removeprefix('this.'))}\s*=(?!=)(.*)", plain)
    above = plain[: take.at].split("\n")[-_NEAR_ABOVE:]
    owner = source.name if _is_java(PurePosixPath(source.path)) else ""
    names = " ".join((take.key, made[1] if made else "", owner, *above))
    return bool(_LOCK.search(names)) and not _NO_LOCK.search(names) and not _ONE_STEP.search(plain)
