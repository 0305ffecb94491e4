"""What is read from Python: values, symbolically, and where names are bound, called and defined.

A value says what stands there, not what it is worth: `Name("app.jobs.scheduler")` may be bound in another file.
`names.Names` follows it, once every file is read.
"""

from dataclasses import dataclass
from typing import NamedTuple, Union

from cronce_audit.model import Place


@dataclass(frozen=True, slots=True)
class Const:
    """A number, a string, True, False or None; sums and products of them are worked out."""

    value: str | bytes | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Name:
    """A dotted name in full. Imports are resolved: `apscheduler.triggers.cron.CronTrigger`. What a module binds is
    `app.jobs.scheduler`, what a function binds `app.jobs.main.<locals>.scheduler`, what a class or `self` binds
    `app.jobs.Worker.scheduler`. An item with a constant key is part of it: `os.environ[TZ]`."""

    dotted: str

    @property
    def last(self) -> str:
        return self.dotted.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Member:
    """An attribute of something that has no name: `make().start`."""

    of: "Value"
    name: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call, or an instance: what a class returns when it is called."""

    function: "Value"
    args: tuple["Value", ...]
    keywords: tuple[tuple[str, "Value"], ...]
    splat: bool
    """`*args` or `**kwargs` are passed: any argument may be given that does not stand there."""
    place: Place

    def keyword(self, name: str) -> Union["Value", None]:
        return next((value for key, value in self.keywords if key == name), None)


@dataclass(frozen=True, slots=True)
class Items:
    """A list, tuple or set."""

    values: tuple["Value", ...]
    splat: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A dict."""

    pairs: tuple[tuple["Value", "Value"], ...]
    splat: bool = False
    """`**others` are in it: it may have any other key."""

    def get(self, key: str) -> Union["Value", None]:
        """The last one wins, as in Python."""
        return next((value for name, value in reversed(self.pairs) if name == Const(key)), None)


@dataclass(frozen=True, slots=True)
class Joined:
    """An f-string."""

    parts: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """`and`, `or`, `not`, `==`, `in`, `+`, ...; `if` is a conditional expression: test, then, else."""

    operator: str
    values: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Typed:
    """Something of which only the class is known, from an annotation."""

    type: "Value"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Cannot be told, or not worth telling."""


Value = Const | Name | Member | Called | Items | Table | Joined | Operation | Typed | Unknown

UNKNOWN = Unknown()


def last(value: Value) -> str:
    """The last word of a name: `start` of `app.jobs.scheduler.start`."""
    match value:
        case Name() as name:
            return name.last
        case Member(_, name):
            return name
    return ""


def shown(value: Value) -> str:
    """As people would write it, names without their modules; "…" for what is not worth telling."""
    match value:
        case Const(plain):
            return repr(plain)
        case Name(dotted):
            inside = dotted.rpartition(".<locals>.")[2] if ".<locals>." in dotted else dotted
            return inside if inside.startswith("os.") else ".".join(inside.split(".")[-2:])
        case Member(of, name):
            return f"{shown(of)}.{name}"
        case Called(function, args, keywords):
            given = [*map(shown, args), *(f"{key}={shown(each)}" for key, each in keywords)]
            return f"{shown(function)}({', '.join(given)})"
        case Operation("not", (inner,)):
            return f"not {shown(inner)}"
        case Operation("[]", (of, key)):
            return f"{shown(of)}[{shown(key)}]"
        case Operation(operator, values) if len(values) > 1 and operator not in ("if", "format", "compare"):
            return f" {operator} ".join(map(shown, values))
        case Items(values):
            return f"({', '.join(map(shown, values))})"
        case Table(pairs):
            return f"{{{', '.join(f'{shown(key)}: {shown(each)}' for key, each in pairs)}}}"
    return "…"


class Scope(NamedTuple):
    """Where something is done."""

    module: str
    function: str = ""
    """The qualified name of the innermost function; "" is done when the module is imported."""
    main: bool = False
    """Below `if __name__ == "__main__"`."""
    loop: bool = False
    contexts: tuple[Value, ...] = ()
    """Of the `with` statements around it in the function, the outermost first."""
    tests: tuple[Value, ...] = ()
    """What is true of `if` and `while` around it, and of guards before it: after `if not x: return`, x."""
    caught: tuple[Value, ...] = ()
    """Exceptions that are caught around it."""


class Module(NamedTuple):
    name: str
    """Dotted, from the root of the tree: of `src/app/jobs.py` it is `src.app.jobs`."""
    place: Place
    stars: tuple[str, ...]
    """Modules of which everything is imported."""


class Package(NamedTuple):
    """A folder with an `__init__.py`."""

    name: str


class Bound(NamedTuple):
    """A name that is given a value: by assignment, import, `with ... as`, or an annotation (then it is Typed)."""

    name: str
    value: Value
    place: Place
    scope: Scope


class Call(NamedTuple):
    """A call that is made. Calls among the arguments of others are told too, before those."""

    called: Called
    scope: Scope

    @property
    def place(self) -> Place:
        return self.called.place

    @property
    def method(self) -> str:
        """The last word of what is called: `add_job`."""
        match self.called.function:
            case Name() as name:
                return name.last
            case Member(_, name):
                return name
        return ""

    @property
    def receiver(self) -> Value:
        """What the method is called on; of a plain function Unknown."""
        match self.called.function:
            case Name(dotted) if "." in dotted:
                return Name(dotted.rpartition(".")[0])
            case Member(of, _):
                return of
        return UNKNOWN


class Parameter(NamedTuple):
    name: str
    """As the function's code sees it: `app.jobs.main.<locals>.scheduler`."""
    annotation: Value
    default: Value | None

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


class Function(NamedTuple):
    """A function, method or lambda."""

    name: str
    place: Place
    decorators: tuple[Value, ...] = ()
    is_async: bool = False
    parameters: tuple[Parameter, ...] = ()
    returns: tuple[Value, ...] = ()
    """What its return statements return."""
    annotation: Value = UNKNOWN
    """Of what it returns."""
    yields: tuple[Value, ...] = ()
    scope: Scope = Scope("")
    """Where it is defined."""
    is_method: bool = False


class Class(NamedTuple):
    name: str
    bases: tuple[Value, ...]
    decorators: tuple[Value, ...]
    place: Place
    scope: Scope
