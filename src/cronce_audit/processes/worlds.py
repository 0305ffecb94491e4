"""Whether what stands under some conditions is done, in a process of one kind.

`if not app.debug or os.environ.get("WERKZEUG_RUN_MAIN") == "true"` holds in production. A gate that is on unless
somebody sets it is on. A condition on anything else may be somebody's guard: that is neither a finding nor fine, and is
told as what cannot be judged.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from cronce_audit.guards import guards, kind_of
from cronce_audit.model import Facts, GuardKind, LockDeclared
from cronce_audit.python.facts import (
    UNKNOWN,
    Call,
    Called,
    Const,
    Function,
    Items,
    Member,
    Name,
    Operation,
    Scope,
    Value,
    last,
    shown,
)
from cronce_audit.python.names import Names, names

_RELOADING: Final = frozenset({"WERKZEUG_RUN_MAIN", "RUN_MAIN"})
_ASKS_ENVIRONMENT: Final = frozenset({Name("os.environ.get"), Name("os.getenv")})
_STATE: Final = frozenset({"running", "_running", "is_running", "started", "_started", "state"})
_OWN_STATE: Final = re.compile(
    r"_*(?:is_|has_|was_|already_|scheduler_|jobs_|_)*(?:running|started|initiali[sz]ed|stopped|shut_?down)"
    r"|_*(?!(?:enable|disable|run|start|use|with|should|embed)\w*_)(?:\w+_)?(?:task|thread|scheduler|timer)"
)
"""Names of what a process remembers of itself, whatever object they are of; `enable_scheduler` is what it is told."""
_OWN: Final = object()
"""What a condition on the scheduler itself is worth, `if scheduler is None`, `if not scheduler.running`: it holds back
a second start in this process, and says nothing of the others."""
_OF_THREADS: Final = ("threading.", "asyncio.")
_OPENS: Final = frozenset({Name("open"), Name("os.open"), Name("io.open"), Name("codecs.open")})
_EXCLUSIVE: Final = re.compile(r"[bt+]*x[bt+]*")
_LOCKLIKE: Final = re.compile(r"(?:^|_)(?:lock|leader|lease|mutex|elected|election)(?:_|$)|(?:Lock|Leader|Lease)$")
"""Words of somebody who may mean a lock. `block`, `unlock` and the `acquire` of a pool do not."""


World = tuple[tuple[str, str], ...]
"""The environment of a process, as far as what deploys it spells it out."""


class _At(NamedTuple):
    """Where a condition stands, and in which world it is asked."""

    near: str
    world: World
    names: Names
    defaults: bool = False
    """What nobody is seen to set is as it is by default."""


def is_done(path: tuple[Scope, ...], world: World, names: Names) -> bool | None:
    """Whether the innermost of these scopes is reached; None where that cannot be told. A gate that is on by default
    is on; of one that is off, nobody can tell who turns it on."""
    tests = [(test, scope.module) for scope in path for test in scope.tests]
    worths = [_worth(test, _At(near, world, names)) for test, near in tests]
    known = _truth(_joined("and", worths))
    if known is None:
        by_default = [
            _worth(test, _At(near, world, names, defaults=True)) if worth is UNKNOWN else worth
            for (test, near), worth in zip(tests, worths, strict=True)
        ]
        return _truth(_joined("and", by_default)) or None
    return known


def by_default(path: tuple[Scope, ...], world: World, names: Names) -> Iterator[str]:
    """The conditions on the way that hold only as long as nobody says otherwise, as they are written."""
    for scope in path:
        for test in scope.tests:
            if _worth(test, _At(scope.module, world, names)) is UNKNOWN:
                yield shown(test)


def doubts(path: tuple[Scope, ...], names: Names, world: World = ()) -> Iterator[tuple[str, str]]:
    """The conditions on the way that cannot be judged, as they are written, and the module they stand in."""
    for scope in path:
        for test in scope.tests:
            if not is_done((Scope(scope.module, tests=(test,)),), world, names):
                yield shown(test), scope.module


class Hold(NamedTuple):
    """What is taken before a start."""

    reach: Literal["all", "host", "unknown"]
    """Who respects it: all machines, the processes of this one, or nobody can tell."""
    text: str


def hold(scope: Scope, calls: Mapping[tuple[str, str], list[Call]], facts: Facts) -> Hold | None:
    """The lock that is taken there; a helper of the tree is followed into its body. `calls` are those of each function,
    by module and name."""
    known, near = facts.conclude(names), scope.module
    declared = {one.name for one in facts.of(LockDeclared)}
    inside = facts.conclude(guards)
    unclear = None
    asked = [*scope.contexts, *(part for test in scope.tests for part in _calls_in(test))]
    for value in (*asked, *(call.called for call in calls.get((near, scope.function), ()))):
        called = value if isinstance(value, Called) else None
        word = last(called.function) if called else ""
        is_helper = word in _helpers(facts) and (value in asked or _LOCKLIKE.search(word))
        guard = inside.get(known.full_name(called.function, near)) if called and is_helper else None
        kind = guard.kind if guard else kind_of(called, near, known, declared) if called else _kind(value, near, known)
        if kind or (called and _is_one(called, near, known)):
            here = kind == "file lock" or (kind is None and word in ("bind", "open"))
            return Hold("host" if here else "all", shown(value))
        if _may_be_lock(value, near, known):
            unclear = Hold("unknown", shown(value))
    return unclear


def _helpers(facts: Facts) -> frozenset[str]:
    return facts.conclude(_guarded_words)


def _guarded_words(facts: Facts) -> frozenset[str]:
    """The last words of functions that take a lock: only calls of such words are followed."""
    return frozenset(name.rpartition(".")[2] for name in facts.conclude(guards))


def _kind(value: Value, near: str, known: Names) -> GuardKind | None:
    """Of `with lock:`, where the lock was made elsewhere."""
    origin = known.origin(value, near)
    return kind_of(origin, near, known) if isinstance(origin, Called) else None


def _calls_in(value: Value) -> Iterator[Called]:
    match value:
        case Called():
            yield value
        case Operation(_, values):
            for each in values:
                yield from _calls_in(each)


def _is_one(called: Called, near: str, known: Names) -> bool:
    """Only one process of a machine binds a socket, or makes a file that must not be there; and one of all sets a key
    of Redis that is not there."""
    if last(called.function) == "bind":
        of = _receiver(called.function)
        return any(known.kind(each, near).startswith("socket.socket") for each in (called, of))
    if last(called.function) in ("set", "setnx"):
        return called.keyword("nx") == Const(value=True) or last(called.function) == "setnx"
    return last(called.function) == "open" and _is_exclusive(called)


def _may_be_lock(value: Value, near: str, known: Names) -> bool:
    """It is called one, is not of this process alone, and is none that we know."""
    function = value.function if isinstance(value, Called) else value
    of = _receiver(function)
    word = last(of) if last(function) == "acquire" else last(function)
    if not _LOCKLIKE.search(word):
        return False
    return not any(known.kind(each, near).startswith(_OF_THREADS) for each in (value, of, function))


def may_be_locked(facts: Facts) -> frozenset[str]:
    """Functions that take what is called a lock, though nobody can tell what it is worth."""
    known = facts.conclude(names)
    taken = {
        call.scope.function
        for call in facts.of(Call)
        if any(_may_be_lock(one, call.scope.module, known) for one in (call.called, *call.scope.contexts))
    }
    return frozenset(taken) | {
        one.name
        for one in facts.of(Function)
        if any(_may_be_lock(mark, one.scope.module, known) for mark in one.decorators)
    }


def _receiver(function: Value) -> Value:
    return (
        Name(function.dotted.rpartition(".")[0])
        if isinstance(function, Name)
        else (function.of if isinstance(function, Member) else function)
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
        case Operation("if", (test, then, otherwise)):
            holds = _truth(_worth(test, at))
            return UNKNOWN if holds is None else _worth(then if holds else otherwise, at)
        case Called():
            return _answer(value, at)
        case Name() | Member():
            return _named(value, at)
    return UNKNOWN


_TESTING: Final = frozenset({"test", "testing", "tests", "pytest"})
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
        case Const(str()), Name("sys.argv"):
            return UNKNOWN if operator == "in" else True
    one, other = _worth(left, at), _worth(right, at)
    if (one is UNKNOWN or other is UNKNOWN) and not _TESTING.isdisjoint((one, other)):
        return operator in ("!=", "is not", "not in")  # what runs jobs for people is no test
    if one is UNKNOWN or other is UNKNOWN or one is _OWN:
        return _OWN if one is _OWN else UNKNOWN
    if isinstance(one, _Setting) and isinstance(other, bool):
        one = bool(one)
    if operator in ("in", "not in"):
        return (one in other) == (operator == "in") if isinstance(other, tuple) else UNKNOWN
    return (one == other) == (operator in ("==", "is"))


def _answer(value: Called, at: _At) -> object:
    """What a call answers, as far as it asks about the environment or about a mode. No reloader runs in production."""
    if last(value.function) == "is_running_from_reloader":
        return False
    match value.args:
        case (Const(str(name)), *default) if value.function in _ASKS_ENVIRONMENT and name in _RELOADING:
            return _worth(default[0], at) if default else None
        case (Const(str(name)), *_) if value.function in _ASKS_ENVIRONMENT and _is_told(name, at):
            return dict(at.world)[name]
        case (Const(str(name)), *_) if last(value.function) in _ASKS and _is_told(name, at):
            return _Setting(dict(at.world)[name])
        case (Const(str(name)), *_) if last(value.function) == "get" and value.function not in _ASKS_ENVIRONMENT:
            mode = _mode(name)
            if mode is not UNKNOWN:
                return mode
    return _made_of(value, at)


def _is_told(name: str, at: _At) -> bool:
    """Whether what deploys it spells the variable out."""
    return "$" not in dict(at.world).get(name, "$")


class _Setting(str):
    """A variable as libraries of settings read it: `false` is false."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.strip().lower() not in ("", "0", "false", "no", "off")


_PLAIN: Final[Mapping[str, Callable[[str], object]]] = {
    "lower": str.lower, "upper": str.upper, "strip": str.strip, "casefold": str.casefold
}  # fmt: skip
_ASKS: Final = frozenset({"get", "getenv", "config", "env", "bool", "Field", "field", "str", "int", "boolean"})


def _made_of(value: Called, at: _At) -> object:
    """What `.lower()`, `int(…)`, `bool(…)` make of what is known; and by default `os.getenv("JOBS", "1")`,
    `config("JOBS", default=True)`, `Field(default=True)`."""
    word = last(value.function)
    of = value.function.of if isinstance(value.function, Member) else None
    if of is not None and word in _PLAIN and not value.args:
        text = _worth(of, at)
        return _PLAIN[word](text) if isinstance(text, str) else UNKNOWN
    if value.function in (Name("bool"), Name("int"), Name("str")) and len(value.args) == 1:
        inner = _worth(value.args[0], at)
        return int(inner) if isinstance(inner, str) and inner.isdigit() and value.function == Name("int") else inner
    if word in _ASKS and at.defaults:
        told = value.keyword("default") or (value.args[0] if word in ("Field", "field") and value.args else None)
        told = told or (value.args[1] if len(value.args) > 1 else None)
        return UNKNOWN if told is None else _worth(told, at)
    return UNKNOWN


def _mode(name: str) -> object:
    """`settings.DEBUG`, `app.config["TESTING"]`: what runs jobs for people is no test."""
    return False if name.lower() in ("debug", "testing") else UNKNOWN


_SETTINGS: Final = re.compile(r"(?i)setting|conf|env")
"""What has a field for each variable, of the same name."""


def _named(value: Name | Member, at: _At) -> object:
    word = last(value)
    mode = _mode(word.rpartition("[")[2].removesuffix("]"))
    if mode is not UNKNOWN:
        return mode
    of = Name(value.dotted.rpartition(".")[0]) if isinstance(value, Name) else value.of
    if _is_told(word.upper(), at) and (word.isupper() or _SETTINGS.search(shown(of))):
        return _Setting(dict(at.world)[word.upper()])
    if _OWN_STATE.fullmatch(word) or _is_scheduler(of if word in _STATE else value, at):
        return _OWN
    origin = at.names.origin(value, at.near)
    if isinstance(origin, Operation | Called):
        return _worth(origin, at)
    if at.defaults:
        told = at.names.default_of(value, at.near)
        return _worth(told, at) if isinstance(told, Const | Operation | Called) else UNKNOWN
    return UNKNOWN


def _is_scheduler(value: Value, at: _At) -> bool:
    return any("scheduler" in kind.lower() for kind in at.names.kinds(value, at.near))
