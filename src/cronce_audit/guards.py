"""What keeps a function from running twice: cronce, a lock in a database or in Redis, a file lock.

A function is guarded by what it does itself, and by its decorators: those of cronce, and those of the tree that take a
lock around what they decorate.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Final

from cronce_audit.locks import LOCKLIKE, is_nx
from cronce_audit.model import Facts, Guarded, GuardKind, LockDeclared
from cronce_audit.python.facts import Call, Called, Const, Function, Joined, Value, last, shown
from cronce_audit.python.names import Names, names

_CRONCE: Final = frozenset({"job", "single", "lock", "idempotent", "leader", "guard", "once"})
_FILES: Final = frozenset({
    "fcntl.flock", "fcntl.lockf", "filelock.FileLock", "filelock.SoftFileLock", "filelock.UnixFileLock",
    "filelock.AsyncFileLock", "portalocker.Lock", "portalocker.lock", "portalocker.TemporaryFileLock",
    "fasteners.InterProcessLock", "fasteners.interprocess_locked", "zc.lockfile.LockFile", "pid.PidFile",
    "lockfile.LockFile", "lockfile.FileLock", "django.core.files.locks.lock", "msvcrt.locking",
    "tendo.singleton.SingleInstance",
})  # fmt: skip
_SERVERS: Final = (
    "redis.", "valkey.", "aioredis.", "redlock.", "aioredlock.", "redis_lock.", "pottery.", "sherlock.", "kazoo.",
    "etcd3.", "consul.", "python_dynamodb_lock.", "django_pglocks.", "pglock.", "pals.", "sqlalchemy_dlock.",
    "django.core.cache.",
)  # fmt: skip
_TAKES: Final = frozenset({
    "lock", "Lock", "acquire", "Redlock", "RedLock", "RedisLock", "advisory_lock", "advisory", "create_sadlock",
    "Election", "acquire_lock",
})  # fmt: skip
_KEYS: Final = frozenset({"set", "setnx", "add"})
"""They set any key that is not there: its name, or the function's, says that it is a lock."""
_WORDS: Final = _CRONCE | _TAKES | {name.rpartition(".")[2] for name in _FILES}
_QUERIES: Final = ("pg_try_advisory_lock", "pg_advisory_lock", "pg_try_advisory_xact_lock", "pg_advisory_xact_lock")


def guards(facts: Facts) -> Mapping[str, Guarded]:
    """For `facts.conclude(guards)`: by the full names of the functions they guard. Guards on other things than Python
    functions (units, lines of crontabs) are facts of their own, by their units."""
    found = {guarded.unit: guarded for guarded in facts.of(Guarded)}
    found |= {guarded.unit: guarded for guarded in _in_bodies(facts)}
    found |= {guarded.unit: guarded for guarded in _on_functions(facts, found)}
    return found


def _in_bodies(facts: Facts) -> Iterator[Guarded]:
    known = facts.conclude(names)
    declared = {one.name for one in facts.of(LockDeclared)}
    released = facts.conclude(_letting_go)
    for call in facts.of(Call):
        kind = kind_of(call.called, call.scope.module, known, declared) if call.scope.function else None
        if kind and (call.method not in _KEYS or LOCKLIKE.search(f"{call.scope.function} {shown(call.called)}")):
            stays = kind == "redis lock" and call.scope.function not in released
            keeps = kind in ("cronce", "declared lock") or stays
            yield Guarded(kind, call.place, call.scope.function, kind != "file lock", keeps)


def _letting_go(facts: Facts) -> frozenset[str]:
    """Functions that give back what they took: by a call, or at the end of a `with`."""
    known = facts.conclude(names)
    given = {call.scope.function for call in known.calls("release", "unlock", "delete")}
    held = {
        call.scope.function
        for call in facts.of(Call)
        if any("lock" in shown(one).lower() for one in call.scope.contexts)
    }
    return frozenset(given | held)


def kind_of(called: Called, near: str, known: Names, declared: Set[str] = frozenset()) -> GuardKind | None:
    """The lock that a call takes, by what it is: its import, its class, the query it sends. A word is no lock."""
    if _asks(called, _QUERIES):
        return "advisory lock"
    if _asks(called, ("GET_LOCK(", "get_lock(")):
        return "database lock"
    word = last(called.function)
    if declared and known.full_name(called.function, near) in declared:
        return "declared lock"
    if word == "add" and known.full_name(called.function, near).startswith("django.core.cache."):
        return "redis lock"
    if is_nx(called) or (word == "setnx" and len(called.args) == 2):
        return "redis lock"
    if word not in _WORDS:  # to follow every name of a tree would take minutes
        return None
    target = known.full_name(called.function, near)
    if target in _FILES:
        return "file lock"
    if word in _CRONCE and _is_cronce(called, near, known):
        return "cronce"
    return "redis lock" if word in _TAKES and target.startswith(_SERVERS) else None


def _asks(called: Called, words: tuple[str, ...]) -> bool:
    return any(word in text for arg in called.args for text in _texts(arg) for word in words)


def _texts(value: Value) -> Iterator[str]:
    match value:
        case Const(str(text)):
            yield text
        case Joined(parts):
            for part in parts:
                yield from _texts(part)
        case Called(_, args):  # text("SELECT …")
            for arg in args:
                yield from _texts(arg)


def _is_cronce(called: Called, near: str, known: Names) -> bool:
    return known.full_name(called.function, near).startswith(("cronce.Cronce.", "cronce.runtime."))


def _on_functions(facts: Facts, inside: Mapping[str, Guarded]) -> Iterator[Guarded]:
    known = facts.conclude(names)
    for function in facts.of(Function):
        for decorator in function.decorators:
            if guarded := _by_decorator(function, decorator, known, inside):
                yield guarded


def _by_decorator(function: Function, decorator: Value, known: Names, inside: Mapping[str, Guarded]) -> Guarded | None:
    near = function.scope.module
    made = decorator if isinstance(decorator, Called) else None
    if made and _is_cronce(made, near, known):
        return Guarded("cronce", function.place, function.name, across_hosts=True, keeps=True)
    full = known.full_name(made.function if made else decorator, near)
    by = next((each for name, each in inside.items() if full and (name == full or name.startswith(f"{full}."))), None)
    return Guarded(by.kind, by.place, function.name, by.across_hosts, by.keeps) if by else None
