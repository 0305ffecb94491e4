"""Locks that are made by hand on Redis, and what is done wrong with them.

In Python a key is followed to what it was given, so that the one that is taken can be compared with the one that is
deleted. A parameter is spelled by its bare name: `acquire(key)` and `release(key)` of one class mean the same key, as
their author does. In other languages two keys are the same where they are written alike.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from cronce_audit.javascript.code import is_packed, wants
from cronce_audit.model import Confidence, Facts, Found, LockAct, LockCall, Place, Severity, Source, reader, rule
from cronce_audit.python.facts import (
    Bound,
    Call,
    Called,
    Class,
    Const,
    Items,
    Joined,
    Member,
    Name,
    Operation,
    Table,
    Typed,
    Value,
    shown,
)
from cronce_audit.python.jobs import jobs, seconds_between
from cronce_audit.python.names import Names, names

_LOCAL: Final = ".<locals>."
_DEEPEST: Final = 12


class Spelling:
    def __init__(self, facts: Facts) -> None:
        self._bound: Final[dict[str, list[Value]]] = defaultdict(list)
        for bound in facts.of(Bound):
            if _LOCAL in bound.name and not isinstance(bound.value, Typed):
                self._bound[bound.name].append(bound.value)

    def of(self, value: Value) -> str:
        """A text that is the same for two values that are; "" for one that cannot be told."""
        return self._spell(value, 0)

    def parts(self, value: Value, depth: int = 0) -> Iterator[Value]:
        """The value and all that it is made of, with what stands behind its locals."""
        followed = self._followed(value)
        yield followed
        for part in _inside(followed) if depth < _DEEPEST else ():
            yield from self.parts(part, depth + 1)

    def _followed(self, value: Value) -> Value:
        given = self._bound.get(value.dotted, []) if isinstance(value, Name) else []
        return given[0] if len(given) == 1 else value

    def _spell(self, value: Value, depth: int) -> str:
        if depth > _DEEPEST:
            return ""
        followed = self._followed(value)
        if followed is not value:
            return self._spell(followed, depth + 1)
        match value:
            case Const(plain):
                return repr(plain)
            case Name(dotted):
                return dotted.rpartition(_LOCAL)[2] if _LOCAL in dotted else dotted
            case Member(of, name):
                return f"{self._spell(of, depth + 1)}.{name}"
            case Called() | Joined() | Operation() | Items():
                parts = [self._spell(part, depth + 1) for part in _inside(value)]
                return f"{type(value).__name__}({', '.join(parts)})" if all(parts) else ""
        return ""


def _inside(value: Value) -> Iterator[Value]:
    match value:
        case Called(function, args, keywords):
            yield from (function, *args, *(each for _, each in keywords))
        case Joined(parts):
            yield from parts
        case Operation(_, values) | Items(values):
            yield from values
        case Table(pairs):
            yield from (each for pair in pairs for each in pair)
        case Member(of) | Typed(of):
            yield of
        case Name(dotted) if _LOCAL in dotted:
            owner, _, local = dotted.rpartition(_LOCAL)
            if "." in local:  # `now.strftime`, of the local `now`
                yield Name(f"{owner}{_LOCAL}{local.partition('.')[0]}")


def spelling(facts: Facts) -> Spelling:
    """For `facts.conclude(spelling)`."""
    return Spelling(facts)


EXPIRY: Final = frozenset({"ex", "px", "exat", "pxat", "ttl", "timeout", "expire", "expires"})
_ENDS: Final = frozenset({"delete", "unlink"})
_RENEWS: Final = frozenset({"expire", "pexpire"})
_LOCKLIKE: Final = re.compile(r"lock|mutex|lease|leader|semaphore", re.IGNORECASE)
_RELEASES: Final = re.compile(r"release|unlock|__a?exit__|remove_lock|free_lock|drop_lock|delete_lock", re.IGNORECASE)


_NO_LOCK: Final = re.compile(r"lockout|locked|account|login|attempt", re.IGNORECASE)
"""Users are locked out by such keys, not processes."""
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
    """For `facts.conclude(locks)`: keys that are set if they are not there, by a client of Redis, as its methods show,
    or in Django's cache."""
    known = facts.conclude(names)
    spell = facts.conclude(spelling)
    uses, busy = _uses(facts, spell), facts.conclude(_busy)
    found = []
    for taken in known.calls("set", "setnx", "add"):
        key = _key(taken)
        if key is None or not _is_nx(taken, known):
            continue
        identity = _identity(facts, taken, key, spell)
        same = [*uses.get(identity, []), *_elsewhere(taken, identity, uses)] if identity else []
        name = f"{taken.scope.function} {spell.of(key)}"
        works = busy[taken.scope.function] if not _LOCKLIKE.search(name) else None
        deletes = tuple(use for use in same if use.method in _ENDS and _is_release(use, taken, works))
        renewals = tuple(use for use in same if use.method in _RENEWS)
        found.append(Lock(taken, key, _expires(taken), deletes, renewals, name))
    return found


def _elsewhere(
    taken: Call, identity: tuple[str, str, str], uses: Mapping[tuple[str, str, str], Sequence[Call]]
) -> Iterator[Call]:
    """In another function of its home the client may have another name; what is called a lock is the same one."""
    home, client, spelled = identity
    for (where, other, key), calls in uses.items() if _LOCKLIKE.search(spelled) else ():
        if (where, key) == (home, spelled) and other != client:
            yield from (call for call in calls if call.scope.function != taken.scope.function)


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


def _is_nx(call: Call, known: Names) -> bool:
    if call.method == "setnx":
        return len(call.called.args) in (0, 2)  # key and value; others have a setnx, too
    if call.method == "add":
        return known.full_name(call.called.function, call.scope.module).startswith("django.core.cache.")
    return call.called.keyword("nx") == Const(value=True)


def _expires(call: Call) -> bool | None:
    """`set(name, value, ex)`; what is added to Django's cache expires unless it is said that it does not."""
    told = [value for name, value in call.called.keywords if name in EXPIRY] or list(call.called.args[2:3])
    if call.called.splat:
        return None
    return any(value != Const(None) for value in told) or (call.method == "add" and not told)


def _is_release(call: Call, taken: Call, works: Sequence[int] | None) -> bool:
    """Not every delete of a key gives a lock back: it may be somebody who clears up by hand, or who takes a mark back
    because the work failed. And where nothing `works` in between, nothing was locked, unless its name says so."""
    function, line = call.scope.function, call.place.line
    if call.scope.part == "except" or _BY_HAND.search(function.rpartition(".")[2]):
        return False
    if _RELEASES.search(function.rpartition(".")[2]):
        return True
    back = any(map(_denies, call.scope.tests))
    behind = line > taken.place.line and (works is None or any(taken.place.line < one < line for one in works))
    return function == taken.scope.function and (
        call.scope.part == "finally" or (behind and not (back and works is not None))
    )


def _denies(test: Value) -> bool:
    """`if not sent and marked`."""
    is_and = isinstance(test, Operation) and test.operator == "and"
    return isinstance(test, Operation) and (test.operator == "not" or (is_and and any(map(_denies, test.values))))


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


_CLIENTS: Final = ("redis.", "valkey.", "aioredis.", "fakeredis.", "coredis.")


_TEXTS: Final[Mapping[LockAct, str]] = {
    "free": "is deleted without a check, in the same step, of its holder: if it expired meanwhile, this deletes another"
    " process's lock, and a third gets in",
    "take for ever": "never expires: after a crash no process gets it again, and the job stops running",
    "take in two steps": "gets its time to live by a second command: a crash in between leaves it for ever",
    "ask and take": "is read here, and set by a second command: two processes that ask at the same time both find it"
    " free, and go on",
    "renew": "is extended without a check, in the same step, of its holder: a process that lost it extends another's"
    " lock, and goes on",
    "end with the run": "is released when the job ends: it keeps two runs apart, but does not make a slot run once; a"
    " process that starts after a short run repeats it",
}


def acts(facts: Facts) -> Sequence[LockCall]:
    """What is done wrong with locks on Redis, in any language."""
    return [*facts.of(LockCall), *_in_python(facts)]


def _in_python(facts: Facts) -> Iterator[LockCall]:
    for lock in _real(facts):
        key = f"taken at {lock.place}"
        for delete in lock.deletes if lock.expires or lock.renewals else ():
            if not is_atomic(facts, delete):
                yield LockCall("free", key, delete.place)
        if lock.expires is False and not lock.renewals:
            yield LockCall("take for ever", "taken here", lock.place, bool(lock.deletes))
        for renewal in lock.renewals:
            here = renewal.scope.function == lock.taken.scope.function
            if lock.expires is False and here and not _in_pipeline(renewal, facts):
                yield LockCall("take in two steps", key, renewal.place)
            if (not here or renewal.scope.loop) and not is_atomic(facts, renewal):
                yield LockCall("renew", key, renewal.place)
    yield from _asked_first(facts)


def _asked_first(facts: Facts) -> Iterator[LockCall]:
    """`if client.get(key): return`, and then `client.set(key, 1)`."""
    spell = facts.conclude(spelling)
    known = facts.conclude(names)
    for taken in known.calls("set", "setex", "psetex"):
        key = _key(taken) if len(taken.called.args) > 1 else None
        named = f"{shown(key)} {spell.of(key)}" if key is not None else ""
        if key is None or not _LOCKLIKE.search(named) or _NO_LOCK.search(named) or _is_nx(taken, known):
            continue
        parts = (part for test in taken.scope.tests for part in spell.parts(test) if isinstance(part, Called))
        asked = next((part for part in parts if _asks_for(part, spell.of(key), spell)), None)
        if asked and not is_atomic(facts, taken):
            yield LockCall("ask and take", f"`{shown(key)}`", asked.place)


def _asks_for(called: Called, key: str, spell: Spelling) -> bool:
    is_read = spell.of(called.function).rpartition(".")[2] in ("get", "exists")
    return is_read and bool(key) and any(spell.of(each) == key for each in called.args[:1])


def told(facts: Facts, word: str) -> Iterator[Found]:
    for call in facts.conclude(acts):
        if call.act.startswith(word):
            sure = None if call.sure else Confidence.MEDIUM
            yield Found(call.place, f"the lock {call.key} {_TEXTS[call.act]}", sure)


@rule(
    "CR301 lock-released-by-anyone",
    Severity.INFO,
    "compare and delete in one step, with a value that only this process has: a script by `eval`, or redis-py's"
    " `client.lock(name, timeout=…)`; or `cron.lock(name)` of cronce, whose release names the fence",
)
def _released(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "free")
    yield from (each._replace(remedy=_RENEW) for each in told(facts, "renew"))


_RENEW: Final = (
    "check that the lock is still yours and renew it, in one step: a script by `eval`, or redis-py's"
    " `lock.reacquire()`; cronce renews under the run's fence, and stops the run when it is lost"
)


@rule(
    "CR302 lock-without-expiry",
    Severity.WARNING,
    "give it a time to live in the same command (`SET key value NX EX seconds`), and renew it while the job works; "
    "cronce's leases are short and renewed",
)
def _for_ever(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "take")
    known = facts.conclude(names)
    for call in known.calls("lock", "Lock"):
        if _is_clients_lock(call, known) and not _has_timeout(call.called):
            yield Found(
                call.place,
                "this lock has no timeout: after a crash no process gets it again, and the job stops running",
                remedy="`client.lock(name, timeout=seconds)`, renewed by `lock.reacquire()` while the job works",
            )


_LOCAL_CACHES: Final = ("LocMemCache", "DummyCache")


def excludes_no_other(facts: Facts) -> Iterator[Found]:
    yield from told(facts, "ask")
    local = facts.conclude(_local_cache)
    for lock in _real(facts) if local else ():
        if lock.taken.called.function == Name("django.core.cache.cache.add"):
            yield Found(
                lock.place,
                f"this lock is kept in Django's default cache, which is in the memory of the process ({local}): each"
                " worker has its own, and gets it",
            )


def _local_cache(facts: Facts) -> Place | None:
    """Where CACHES says that the default one is in memory; None where any of the settings says otherwise."""
    said = [bound for bound in facts.of(Bound) if bound.name.endswith(".CACHES")]
    default = [each.value.get("default") if isinstance(each.value, Table) else None for each in said]
    backends = [each.get("BACKEND") if isinstance(each, Table) else None for each in default]
    local = [isinstance(one, Const) and str(one.value).endswith(_LOCAL_CACHES) for one in backends]
    return said[0].place if local and all(local) else None


@rule(
    "CR306 lock-outlives-the-interval",
    Severity.INFO,
    "let it expire a little before the next run; or better, make it short and renew it while the job works",
)
def _outlives(facts: Facts) -> Iterator[Found]:
    lives = _lives(facts)
    for job in facts.conclude(jobs):
        every = seconds_between(job)
        for place, life in lives.get(job.full_name, ()) if every else ():
            if every and life > every:
                yield Found(
                    place,
                    f"this lock lives for {life:g} s, and its job is due every {every:g} s ({job.place}): after a "
                    f"crash the next {int(life // every)} find it taken, and are lost",
                )


def _lives(facts: Facts) -> Mapping[str, Sequence[tuple[Place, float]]]:
    """For how many seconds the locks in each function live, where that is spelled out."""
    known = facts.conclude(names)
    found: dict[str, list[tuple[Place, float]]] = defaultdict(list)
    timed = [(lock.taken, {"ex": 1.0, "px": 0.001}) for lock in _real(facts)]
    timed += [(call, {"timeout": 1.0}) for call in known.calls("lock") if _is_clients_lock(call, known)]
    for call, units in timed:
        for name, unit in units.items():
            life = known.constant(call.called.keyword(name), call.scope.module)
            if isinstance(life, int | float):
                found[call.scope.function].append((call.place, life * unit))
    return found


def _real(facts: Facts) -> Iterator[Lock]:
    return (lock for lock in facts.conclude(locks) if lock.is_lock)


def _in_pipeline(call: Call, facts: Facts) -> bool:
    """Its commands are sent together, and run as one transaction."""
    made = facts.conclude(names).origin(call.receiver, call.scope.module)
    return isinstance(made, Called) and facts.conclude(spelling).of(made.function).rpartition(".")[2] == "pipeline"


def _is_clients_lock(call: Call, known: Names) -> bool:
    if call.method == "Lock":
        return known.target(call).startswith(_CLIENTS) and call.called.args != ()
    return any(kind.startswith(_CLIENTS) for kind in known.kinds(call.receiver, call.scope.module))


def _has_timeout(called: Called) -> bool:
    """`lock(name, timeout)` of a client, `Lock(client, name, timeout)` of its class."""
    plain = 1 if isinstance(called.function, Name) and called.function.last == "lock" else 2
    given = called.keyword("timeout") or (called.args[plain] if len(called.args) > plain else None)
    return called.splat or given not in (None, Const(None))


# --- in JavaScript, TypeScript, Java and Kotlin, by their text: what a file does to one key by one client


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
    calls = list(_key_calls(plain, by_key=_is_java(PurePosixPath(source.path))))
    for take in calls:
        if _is_lock(take, plain, source):
            for call, act in _text_acts(take, [call for call in calls if call.target == take.target], plain):
                column = call.at - plain.rfind("\n", 0, call.at)
                yield LockCall(act, f"`{take.key}`", source.place(call.line, column))


def _key_calls(plain: str, *, by_key: bool) -> Iterator[_KeyCall]:
    """In Java the client that deletes is another one than what sets a value."""
    for found in _KEY_CALL.finditer(plain):
        key, *options = (one.strip() for one in _COMMA.split(found["told"]))
        target = key if by_key else f"{found['client']} {key}"
        line = plain.count("\n", 0, found.start()) + 1
        yield _KeyCall(found["method"].lower(), target, key, tuple(options[1:]), found.start(), line)


def _text_acts(take: _KeyCall, calls: Sequence[_KeyCall], plain: str) -> Iterator[tuple[_KeyCall, LockAct]]:
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
