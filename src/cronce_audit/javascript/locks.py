"""Locks made by hand on Redis: `SET key value NX`, and what is done to the same key afterwards.

Only a key that is called a lock, lease, leader or mutex, by itself or by the function it stands in, is one: `SET … NX`
is also the way to fill a cache once. Options that are not spelled out are unknown, and nothing is said about them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cronce_audit.grammars import above, column, line, text, within
from cronce_audit.javascript.code import Code, arguments, entries, is_plain, string
from cronce_audit.javascript.facts import Act, LockCall
from cronce_audit.javascript.guards import enclosing, name_of

if TYPE_CHECKING:
    from tree_sitter import Node

MENTIONS: Final = re.compile(r"""['"]NX['"]|\b(?:NX|nx)\s*:|setnx|setNX""")
_LOCK: Final = re.compile(r"(?<![bcBC])(?:[lL]ock|LOCK)|[lL]ease|LEASE|[lL]eader|LEADER|[mM]utex|MUTEX")
_NO_LOCK: Final = re.compile(r"(?i)lockout|locked|account|login|attempt")
"""Users are locked out by such keys, not processes."""
_EXPIRY: Final = re.compile(r"(?:ex|px)(?:at)?|.*(?:ttl|expir|timeout|second|milli).*")
_METHODS: Final = frozenset({"set", "setnx", "get", "del", "unlink", "expire", "pexpire", "watch"})


class Call(NamedTuple):
    """A method of a client, called with a key."""

    node: "Node"
    method: str
    target: str
    """The client and the key, as written: two calls are about one lock where these are the same."""
    function: "Node | None"

    @property
    def takes(self) -> bool:
        return self.method == "setnx" or (self.method == "set" and "nx" in _options(self.node))

    @property
    def expires(self) -> bool | None:
        """Whether the lock ends by itself; None where that is not spelled out."""
        if all(is_plain(node) or node.type != "object" for node in arguments(self.node)[2:]):
            known = any(map(_EXPIRY.fullmatch, _options(self.node)))
            return known or (None if any(_is_open(node) for node in arguments(self.node)[2:]) else False)
        return None


def lock_calls(code: Code) -> Iterator[LockCall]:
    made = {
        text(node.child_by_field_name("name")): text(node.child_by_field_name("value"))
        for node in within(code.root, "variable_declarator", "public_field_definition")
    }
    by_target: dict[str, list[Call]] = {}
    for call in _calls(code):
        by_target.setdefault(call.target, []).append(call)
    for calls in by_target.values():
        for take in calls:
            if take.takes and _is_lock(take, made):
                yield from _of_lock(code, take, calls)


def _of_lock(code: Code, take: Call, calls: Sequence[Call]) -> Iterator[LockCall]:
    """What is done with one lock. Where it never ends, nobody else can have it, so that it may be freed unasked."""
    beside = {call.method for call in calls if call.function == take.function}
    in_two_steps = take.expires is False and bool(beside & {"expire", "pexpire"})
    if take.expires is False:
        yield _told(code, take, "take in two steps" if in_two_steps else "take for ever")
    if not take.expires:
        return
    for call in calls:
        before = {other.method for other in calls if other.function == call.function and _is_before(other, call)}
        if "watch" in before:
            continue
        if call.method in ("del", "unlink"):
            yield _told(code, call, "free after get" if "get" in before else "free unasked")
        elif call.method in ("expire", "pexpire"):
            yield _told(code, call, "renew after get" if "get" in before else "renew unasked")


def _told(code: Code, call: Call, act: Act) -> LockCall:
    return LockCall(act, text(arguments(call.node)[0]), code.source.place(line(call.node), column(call.node)))


def _is_before(one: Call, other: Call) -> bool:
    return one.node.start_byte < other.node.start_byte


def _calls(code: Code) -> Iterator[Call]:
    for node in within(code.root, "call_expression"):
        function = node.child_by_field_name("function")
        if function is None or function.type != "member_expression":
            continue
        method = text(function.child_by_field_name("property")).lower()
        told = arguments(node)
        if method in _METHODS and told:
            owner = text(function.child_by_field_name("object"))
            yield Call(node, method, f"{owner} {text(told[0])}", enclosing(node))


def _options(call: "Node") -> set[str]:
    """The words and keys behind key and value, in small letters: `nx`, `ex`."""
    told = arguments(call)[2:]
    named = {key.lower() for node in told for key, value in entries(node).items() if text(value) != "false"}
    return named | {(string(node) or "").lower() for node in told}


def _is_open(node: "Node") -> bool:
    """It may hold more options than we see."""
    return node.type in ("spread_element", "identifier", "member_expression", "call_expression")


def _is_lock(take: Call, made: Mapping[str, str]) -> bool:
    """The key says so, or the text it was made of, or a function or class around it."""
    key = text(arguments(take.node)[0])
    around = [name_of(outer) or text(outer.child_by_field_name("left")) for outer in above(take.node)]
    names = " ".join((key, made.get(key.removeprefix("this."), ""), *around))
    return bool(_LOCK.search(names)) and not _NO_LOCK.search(names)
