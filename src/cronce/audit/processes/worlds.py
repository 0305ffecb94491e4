"""Whether what stands under some conditions is done, in a process of one kind.

`if not app.debug or os.environ.get("WERKZEUG_RUN_MAIN") == "true"` holds in production and in the serving child of a
reloader, and not in its parent. A condition on anything else may be somebody's guard: it is not known, and what is not
known is no finding.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from cronce.audit.python.facts import UNKNOWN, Call, Called, Const, Items, Member, Name, Operation, Scope, Value
from cronce.audit.python.names import Names

_RELOADING: Final = frozenset({"WERKZEUG_RUN_MAIN", "RUN_MAIN"})
_ASKS_ENVIRONMENT: Final = frozenset({Name("os.environ.get"), Name("os.getenv")})
_IN_ENVIRONMENT: Final = frozenset(f"os.environ[{name}]" for name in _RELOADING)
_STATE: Final = frozenset({"running", "_running", "is_running", "started", "_started", "state"})
_OWN: Final = object()
"""What a condition on the scheduler itself is worth, `if scheduler is None`, `if not scheduler.running`: it holds back
a second start in this process, and says nothing of the others."""
_OF_THREADS: Final = ("threading.", "asyncio.")
_OPENS: Final = frozenset({Name("open"), Name("os.open"), Name("io.open"), Name("codecs.open")})
_EXCLUSIVE: Final = re.compile(r"[bt+]*x[bt+]*")
_LOCKS: Final = frozenset({
    "flock", "lockf", "acquire", "FileLock", "SoftFileLock", "InterProcessLock", "PidFile", "TemporaryLock",
    "advisory_lock", "try_lock", "acquire_lock", "get_lock", "is_leader", "setnx", "elect", "run_election", "lock"
})  # fmt: skip


class World(NamedTuple):
    """What a process finds when it starts."""

    reloaded: bool = False
    """It is the child of a reloader, which says so in its environment."""
    debug: bool = False
    command: str = ""
    """Of manage.py."""


class _At(NamedTuple):
    """Where a condition stands, and in which world it is asked."""

    near: str
    world: World
    names: Names


PRODUCTION: Final = World()
PARENT: Final = World(debug=True, command="runserver")
CHILD: Final = World(reloaded=True, debug=True, command="runserver")


def is_done(path: tuple[Scope, ...], world: World, names: Names) -> bool | None:
    """Whether the innermost of these scopes is reached; None where that cannot be told."""
    tests = [(test, scope) for scope in path for test in scope.tests]
    return _truth(_joined("and", [_worth(test, _At(scope.module, world, names)) for test, scope in tests]))


def is_locked(scope: Scope, calls: Mapping[tuple[str, str], list[Call]], names: Names) -> bool:
    """Whether a lock is taken there that others than threads respect. `calls` are those of each function, by module and
    name."""
    made = [call.called for call in calls.get((scope.module, scope.function), ())]
    return any(_holds_back(value, scope.module, names) for value in (*scope.contexts, *made))


def _holds_back(value: Value, near: str, names: Names) -> bool:
    """Whether it is a lock, but not `with threading.Lock()` or `acquire` of one. Only one process binds a socket."""
    function = value.function if isinstance(value, Called) else Name("")
    of = Name(function.dotted.rpartition(".")[0]) if isinstance(function, Name) else function
    if last(function) == "bind":
        return any(names.kind(each, near).startswith("socket.socket") for each in (value, of))
    return _is_lock(value) and not any(names.kind(each, near).startswith(_OF_THREADS) for each in (value, of))


def _is_lock(value: Value) -> bool:
    if not isinstance(value, Called):
        return isinstance(value, Name | Member) and "lock" in last(value).lower()
    word = last(value.function)
    texts = [arg.value for arg in value.args if isinstance(arg, Const) and isinstance(arg.value, str)]
    texts += [text for arg in value.args if isinstance(arg, Called) for text in _texts(arg)]
    return (
        word in _LOCKS
        or word.lower().endswith(("lock", "leader", "lease"))
        or (word == "open" and _is_exclusive(value))
        or any("advisory_lock" in text or "get_lock" in text.lower() for text in texts)
    )


def _is_exclusive(opened: Called) -> bool:
    """`os.open(path, O_CREAT | O_EXCL)`, `open(path, "x")`, `path.open("x")`: one process makes the file."""
    told = opened.args[1:] if opened.function in _OPENS else opened.args
    for value in (*told, *(value for _, value in opened.keywords)):
        if isinstance(value, Const) and isinstance(value.value, str) and _EXCLUSIVE.fullmatch(value.value):
            return True
        if any(last(flag) == "O_EXCL" for flag in _flags(value)):
            return True
    return False


def _flags(value: Value) -> Iterator[Value]:
    if isinstance(value, Operation):
        for each in value.values:
            yield from _flags(each)
    else:
        yield value


def _texts(called: Called) -> list[str]:
    return [arg.value for arg in called.args if isinstance(arg, Const) and isinstance(arg.value, str)]


def last(value: Value) -> str:
    """The last word of a name: `start` of `app.jobs.scheduler.start`."""
    match value:
        case Name() as name:
            return name.last
        case Member(_, name):
            return name
    return ""


def _truth(worth: object) -> bool | None:
    return None if worth is UNKNOWN else bool(worth)  # _OWN is true


def _worth(value: Value, at: _At) -> object:
    """What a condition is worth in a world; UNKNOWN is what nobody can say."""
    match value:
        case Const(plain):
            return plain
        case Items(values, False):
            each = tuple(_worth(one, at) for one in values)
            return UNKNOWN if UNKNOWN in each else each
        case Operation("and" | "or" as operator, values):
            return _joined(operator, [_worth(one, at) for one in values])
        case Operation("not", (inner,)):
            return _not(inner, at)
        case Operation(operator, (left, right)) if operator in _COMPARISONS:
            return _compared(operator, left, right, at)
        case Called():
            return _answer(value, at)
        case Name() | Member():
            return _named(value, at)
    return UNKNOWN


_COMPARISONS: Final = frozenset({"==", "!=", "is", "is not", "in", "not in"})


def _joined(operator: str, worths: list[object]) -> object:
    decisive = operator == "or"
    if any(worth is not _OWN and _truth(worth) is decisive for worth in worths):
        return decisive
    return UNKNOWN if UNKNOWN in worths else _OWN if _OWN in worths else not decisive


def _not(inner: Value, at: _At) -> object:
    worth = _worth(inner, at)
    return worth if worth is UNKNOWN or worth is _OWN else not worth


def _compared(operator: str, left: Value, right: Value, at: _At) -> object:
    match left, right:
        case Name("__name__"), Const("__main__"):
            return operator == "=="
        case Const(str(word)), Name("sys.argv"):
            return (word == at.world.command) == (operator == "in")
        case Const(str(word)), Name("os.environ") if word in _RELOADING:
            return at.world.reloaded == (operator == "in")
    one, other = _worth(left, at), _worth(right, at)
    if one is UNKNOWN or other is UNKNOWN or one is _OWN:
        return _OWN if one is _OWN else UNKNOWN
    if operator in ("in", "not in"):
        return (one in other) == (operator == "in") if isinstance(other, tuple) else UNKNOWN
    return (one == other) == (operator in ("==", "is"))


def _answer(value: Called, at: _At) -> object:
    """What a call answers, as far as it asks about the reloader or about a mode."""
    if last(value.function) == "is_running_from_reloader":
        return at.world.reloaded
    match value.args:
        case (Const(str(name)), *default) if value.function in _ASKS_ENVIRONMENT and name in _RELOADING:
            return "true" if at.world.reloaded else _worth(default[0], at) if default else None
        case (Const(str(name)), *_) if last(value.function) == "get" and value.function not in _ASKS_ENVIRONMENT:
            return _mode(name, at)
    return UNKNOWN


def _mode(name: str, at: _At) -> object:
    """`settings.DEBUG`, `app.config["TESTING"]`: what runs jobs for people is no test."""
    if name.lower() == "debug":
        return at.world.debug
    return False if name.lower() == "testing" else UNKNOWN


def _named(value: Name | Member, at: _At) -> object:
    word = last(value)
    mode = _mode(word.rpartition("[")[2].removesuffix("]"), at)
    if mode is not UNKNOWN:
        return mode
    if isinstance(value, Name) and value.dotted in _IN_ENVIRONMENT:
        return "true" if at.world.reloaded else None
    of = Name(value.dotted.rpartition(".")[0]) if isinstance(value, Name) else value.of
    if _is_scheduler(of if word in _STATE else value, at):
        return _OWN
    origin = at.names.origin(value, at.near)
    return _worth(origin, at) if isinstance(origin, Operation | Called) else UNKNOWN


def _is_scheduler(value: Value, at: _At) -> bool:
    return any("scheduler" in kind.lower() for kind in at.names.kinds(value, at.near))
