"""Locks made of SET NX, and what is done with their keys elsewhere in the same class, or in the same module."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from cronce_audit.locks.spelled import Spelling, spelling
from cronce_audit.model import Facts, Place
from cronce_audit.python.facts import Call, Called, Class, Const, Operation, Value
from cronce_audit.python.names import names

EXPIRY: Final = frozenset({"ex", "px", "exat", "pxat", "ttl", "timeout", "expire", "expires"})
_ENDS: Final = frozenset({"delete", "unlink"})
_RENEWS: Final = frozenset({"expire", "pexpire"})
_LOCKLIKE: Final = re.compile(r"lock|mutex|lease|leader|semaphore", re.IGNORECASE)
_RELEASES: Final = re.compile(r"release|unlock|__a?exit__|remove_lock|free_lock|drop_lock|delete_lock", re.IGNORECASE)


_BY_HAND: Final = re.compile(r"force|admin|clear|reset|break", re.IGNORECASE)


class Lock(NamedTuple):
    """A key that is set if it is not there."""

    taken: Call
    key: Value
    expires: bool | None
    """Whether it comes free by itself; None where that cannot be told."""
    deletes: tuple[Call, ...]
    """Of its key, where they are meant as a release."""
    renewals: tuple[Call, ...]
    name: str
    """What is known of its name, for telling a lock from a cache."""

    @property
    def place(self) -> Place:
        return self.taken.place

    @property
    def is_lock(self) -> bool:
        """What is given back was taken; and what is called a lock is meant as one."""
        return bool(self.deletes) or _LOCKLIKE.search(self.name) is not None


def locks(facts: Facts) -> list[Lock]:
    """For `facts.conclude(locks)`: keys that are set with NX by a client of Redis, as its methods show."""
    known = facts.conclude(names)
    spell = facts.conclude(spelling)
    uses, busy = _uses(facts, spell), facts.conclude(_busy)
    found = []
    for taken in known.calls("set", "setnx"):
        key = _key(taken)
        if key is None or not _is_nx(taken):
            continue
        identity = _identity(facts, taken, key, spell)
        same = uses.get(identity, []) if identity else []
        name = f"{taken.scope.function} {spell.of(key)}"
        works = busy[taken.scope.function] if not _LOCKLIKE.search(name) else None
        deletes = tuple(use for use in same if use.method in _ENDS and _is_release(use, taken, works))
        renewals = tuple(use for use in same if use.method in _RENEWS)
        found.append(Lock(taken, key, _expires(taken), deletes, renewals, name))
    return found


def _uses(facts: Facts, spell: Spelling) -> dict[tuple[str, str, str], list[Call]]:
    """Calls by whose key they are about: the home, the client and the key, each as it is spelled."""
    found: dict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for call in facts.conclude(names).calls(*_ENDS, *_RENEWS):
        for key in call.called.args if call.method in _ENDS else call.called.args[:1]:
            if identity := _identity(facts, call, key, spell):
                found[identity].append(call)
    return found


def _identity(facts: Facts, call: Call, key: Value, spell: Spelling) -> tuple[str, str, str] | None:
    client, spelled = spell.of(call.receiver), spell.of(key)
    return (_home(facts, call), client, spelled) if client and spelled else None


def _home(facts: Facts, call: Call) -> str:
    """The class that the call is made in, or else the module."""
    owner = call.scope.function.rpartition(".")[0]
    return owner if owner in facts.conclude(_class_names) else call.scope.module


def _busy(facts: Facts) -> dict[str, list[int]]:
    """The lines of each function on which something is called."""
    found: dict[str, list[int]] = defaultdict(list)
    for call in facts.of(Call):
        found[call.scope.function].append(call.place.line)
    return found


def _class_names(facts: Facts) -> frozenset[str]:
    return frozenset(each.name for each in facts.of(Class))


def _key(call: Call) -> Value | None:
    return call.called.args[0] if call.called.args else call.called.keyword("name")


def _is_nx(call: Call) -> bool:
    if call.method == "setnx":
        return len(call.called.args) in (0, 2)  # key and value; others have a setnx, too
    return call.called.keyword("nx") == Const(value=True)


def _expires(call: Call) -> bool | None:
    if call.called.splat:
        return None
    if any(value != Const(None) for name, value in call.called.keywords if name in EXPIRY):
        return True
    return call.method == "set" and len(call.called.args) > 2  # set(name, value, ex)


def _is_release(call: Call, taken: Call, works: Sequence[int] | None) -> bool:
    """Not every delete of a key gives a lock back: it may be somebody who clears up by hand, or who takes a mark back
    because the work failed. And where nothing `works` in between, nothing was locked, unless its name says so."""
    function, line = call.scope.function, call.place.line
    if call.scope.part == "except" or _BY_HAND.search(function.rpartition(".")[2]):
        return False
    if _RELEASES.search(function.rpartition(".")[2]):
        return True
    behind = line > taken.place.line and (works is None or any(taken.place.line < one < line for one in works))
    return function == taken.scope.function and (call.scope.part == "finally" or behind)


def compares_owner(call: Call, spell: Spelling) -> bool:
    """Whether it is done only after the key's value was read and compared: `if client.get(key) == me`."""
    return any(_reads_value(test, spell) for test in call.scope.tests)


def _reads_value(test: Value, spell: Spelling) -> bool:
    compared = (
        part for part in spell.parts(test) if isinstance(part, Operation) and part.operator in ("==", "!=", "is")
    )
    return any(_gets(part, spell) for operation in compared for part in spell.parts(operation))


def _gets(value: Value, spell: Spelling) -> bool:
    return isinstance(value, Called) and spell.of(value.function).rpartition(".")[2] in ("get", "getex")


ATOMIC: Final = frozenset({"watch", "eval", "evalsha", "register_script"})
"""With these, reading and deleting can be one step."""


def is_atomic(facts: Facts, call: Call) -> bool:
    """Whether its function watches the key or runs a script, or its class has registered one."""
    home = _home(facts, call)
    return any(
        (each.scope.module, each.scope.function) == (call.scope.module, call.scope.function)
        or (each.method == "register_script" and _home(facts, each) == home)
        for each in facts.conclude(names).calls(*ATOMIC)
    )
