"""What a name stands for, in another file, behind a factory, a class or a parameter. Asked when all files are read.

Honest: a name that is bound to two different things is Unknown, unless both are of one kind.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

from cronce_audit.model import Facts
from cronce_audit.python.facts import (
    UNKNOWN,
    Bound,
    Call,
    Called,
    Class,
    Const,
    Function,
    Items,
    Member,
    Module,
    Name,
    Operation,
    Package,
    Parameter,
    Scope,
    Table,
    Typed,
    Unknown,
    Value,
    last,
)

_PROPERTIES: Final = frozenset({"property", "functools.cached_property", "django.utils.functional.cached_property"})
_EMPTY: Final = (Const(None), Const(value=False), Name("typing.Any"), Name("object"))
_ITSELF: Final = Member(UNKNOWN, "itself")
"""Of `x = x or make()`: what x was before does not matter."""
_EFFORT: Final = 5_000
"""Names that are followed for the sake of one: a hundred times what real code takes."""
_DEEPEST: Final = 50
"""Names that stand for names that stand for names: beyond this nobody could follow it either."""


def names(facts: Facts) -> "Names":
    """For `facts.conclude(names)`."""
    return Names(facts)


class Names:
    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._modules: Final = {module.name: module for module in facts.of(Module)}
        self._places: Final = Places(self._modules, {package.name for package in facts.of(Package)})
        self._classes: Final = {each.name: each for each in facts.of(Class)}
        self._functions: Final = {each.name: each for each in facts.of(Function)}
        self._parameters: Final = {
            parameter.name: (function, number)
            for function in self._functions.values()
            for number, parameter in enumerate(function.parameters)
        }
        self._bound: Final[dict[str, list[Bound]]] = defaultdict(list)
        for bound in facts.of(Bound):
            self._bound[bound.name].append(bound)
        self._known: Final[dict[tuple[str, str], Value]] = {}
        self._asked: Final[set[tuple[str, str]]] = set()
        self._circles = 0
        self._left = 0

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = defaultdict(list)
        for call in self._facts.of(Call):
            found[call.method].append(call)
        return found

    @cached_property
    def _changed(self) -> set[str]:
        """Dicts that are added to after they are made: what stands in them is not all."""
        items = {name.rpartition("[")[0] for name in self._bound if name.endswith("]")}
        updated = (call.receiver for call in self.calls("update", "setdefault"))
        return items | {receiver.dotted for receiver in updated if isinstance(receiver, Name)}

    # What rules ask

    def calls(self, *methods: str) -> Iterator[Call]:
        """All calls whose last word is one of these: `names.calls("add_job")`."""
        for method in methods:
            yield from self._calls.get(method, ())

    def receiver(self, call: Call) -> Value:
        """What the method of a call is called on, followed to its origin."""
        return self.origin(call.receiver, call.scope.module)

    def target(self, call: Call) -> str:
        """The full name of the function or class that is called: of the library or of the tree; "" if unknown.
        A method is named with its class: `apscheduler.schedulers.background.BackgroundScheduler.start`."""
        return self.full_name(call.called.function, call.scope.module)

    def full_name(self, value: Value, near: str = "") -> str:
        match self.origin(value, near):
            case Name(dotted):
                return dotted
            case Member(of, name) if kind := self.kind(of, near):
                return f"{kind}.{name}"
        return ""

    def kind(self, value: Value, near: str = "") -> str:
        """The class, or library function, that made a value; "" if unknown."""
        match self.origin(value, near):
            case Called(function) | Typed(function):
                return self.full_name(function, near)
        return ""

    def kinds(self, value: Value, near: str = "") -> list[str]:
        """Its class and, as far as they are seen, the classes above it."""
        first = self.kind(value, near)
        found = [first] if first else []
        for name in found:
            if name in self._classes:
                each = self._classes[name]
                above = (self.full_name(base, _module_of(each)) for base in each.bases)
                found += [one for one in above if one and one not in found]
        return found

    def function(self, value: Value | str, near: str = "") -> Function | None:
        """The function of the tree that a value, or a full name, is."""
        return self._functions.get(value if isinstance(value, str) else self.full_name(value, near))

    def klass(self, name: str) -> Class | None:
        return self._classes.get(name)

    def constant(self, value: Value | None, near: str = "") -> object:
        """Its plain value, tuples for lists; UNKNOWN where it is not a constant all through."""
        if value is None:
            return UNKNOWN
        match self.origin(value, near):
            case Const(plain):
                return plain
            case Items(values, False):
                plain_values = tuple(self.constant(each, near) for each in values)
                return UNKNOWN if UNKNOWN in plain_values else plain_values
        return UNKNOWN

    def default_of(self, value: Value, near: str = "") -> Value:
        """What it is as long as nobody says otherwise: a parameter's default, or what is bound to a name once."""
        if not isinstance(value, Name):
            return self.origin(value, near)
        full = self._places.find(value.dotted, near)
        if full in self._parameters:
            function, number = self._parameters[full]
            return function.parameters[number].default or UNKNOWN
        bound = self._bound.get(full, ())
        if len({each.value for each in bound}) > 1:
            return UNKNOWN
        return self.origin(value, near)

    def callers(self, function: Function) -> list[Call]:
        """The calls of a function of the tree; of a constructor, those of its class."""
        word = function.name.rpartition(".")[2]
        owner = function.name.rpartition(".")[0]
        called = {function.name} if word != "__init__" else {function.name, owner}
        words = {name.rpartition(".")[2] for name in called}
        return [call for call in self.calls(*sorted(words)) if self.target(call) in called]

    # How names are followed

    def origin(self, value: Value, near: str = "") -> Value:
        """What a value comes from: a constant, a call of a library's class, a name of a library, ... `near` is the
        module it stands in (`scope.module`): it decides which of two modules of one name is meant."""
        match value:
            case Name(dotted):
                return self._follow(dotted, near)
            case Member(of, name):
                return self._attribute(self.origin(of, near), name)
            case Operation("or", values) | Operation("if", (_, *values)):
                return self._agreed([self.origin(each, near) for each in values])
            case Operation("and", values):
                return self.origin(values[-1], near)
            case Operation("[]", (of, Const(str(key)))):
                return self._item(self.origin(of, near), key, near)
            case Called(function):
                return self._result(value, self.origin(function, near))
            case Typed(kind):
                found = self.origin(kind, near)
                return UNKNOWN if isinstance(found, Unknown) else Typed(found)
        return value

    def _follow(self, dotted: str, near: str) -> Value:
        return self._once((dotted, near), lambda: self._look_up(self._places.find(dotted, near), near))

    def _once(self, asked: tuple[str, str], answer: Callable[[], Value]) -> Value:
        """Each question is answered once, and one that leads back to itself ends there."""
        if asked in self._known:
            return self._known[asked]
        if asked in self._asked or len(self._asked) > _DEEPEST:
            self._circles += 1
            return _ITSELF if asked in self._asked else UNKNOWN
        if not self._asked:
            self._left = _EFFORT
        self._left -= 1
        circles = self._circles
        self._asked.add(asked)
        found = answer() if self._left > 0 else UNKNOWN
        self._asked.discard(asked)
        if circles == self._circles or not self._asked or self._left <= 0:
            # What was cut short inside a circle may be more when it is asked from outside; but circles within circles
            # would be gone round for ever, so what is not known when the effort is spent stays unknown.
            self._known[asked] = found
        return found

    def _look_up(self, name: str, near: str) -> Value:
        if name in self._parameters:
            given = self._argument(*self._parameters[name])
            if not isinstance(given, Unknown) or name not in self._bound:
                return given
        if name in self._bound:
            others = [each for each in self._bound[name] if each.value != Name(name)]
            found = self._agreed(self.origin(each.value, each.scope.module) for each in others)
            return replace(found, splat=True) if isinstance(found, Table) and name in self._changed else found
        function = self._functions.get(name)
        if function is not None and any(self.full_name(each) in _PROPERTIES for each in function.decorators):
            return self._returned(function)
        if function is not None or name in self._classes or name in self._modules:
            return Name(name)
        if name.endswith("]"):
            of, _, item = name[:-1].rpartition("[")
            return self._item(self._follow(of, near), item, near)
        of, _, last = name.rpartition(".")
        return self._attribute(self._follow(of, near), last) if of else Name(name)

    def _item(self, of: Value, key: str, near: str) -> Value:
        match of:
            case Table() if (found := of.get(key)) is not None:
                return self.origin(found, near)
            case Name(dotted):
                return Name(f"{dotted}[{key}]")
        return UNKNOWN

    def _attribute(self, of: Value, name: str) -> Value:
        match of:
            case Name(dotted) if dotted in self._modules:
                return self._of_module(self._modules[dotted], name)
            case Name(dotted) if dotted in self._classes:
                return self._of_class(dotted, name) or Name(f"{dotted}.{name}")
            case Name(dotted):
                return Name(f"{dotted}.{name}")
            case Called(Name(dotted)) | Typed(Name(dotted)) if dotted in self._classes:
                return self._of_class(dotted, name) or Member(of, name)
            case Unknown():
                return UNKNOWN
        return Member(of, name)

    def _of_module(self, module: Module, name: str) -> Value:
        inside = f"{module.name}.{name}"
        if inside in self._modules:
            return Name(inside)
        for star in module.stars:
            place = self._places.find(f"{star}.{name}", module.name)
            if place in self._bound or place in self._functions or place in self._classes:
                return self._follow(place, module.name)
        return Name(inside)

    def _of_class(self, dotted: str, name: str) -> Value | None:
        for kind in self.kinds(Typed(Name(dotted))):
            inside = f"{kind}.{name}"
            if inside in self._bound or inside in self._functions or inside in self._classes:
                return self._follow(inside, "")
        return None

    def _result(self, called: Called, function: Value) -> Value:
        if isinstance(function, Name) and function.dotted in self._functions:
            return self._returned(self._functions[function.dotted])
        if isinstance(function, Unknown):
            return UNKNOWN
        if function == Name("dict") and not called.args:
            return Table(tuple((Const(key), value) for key, value in called.keywords), called.splat)
        return replace(called, function=function)

    def _returned(self, function: Function) -> Value:
        return self._once((f"{function.name}()", ""), lambda: self._result_of(function, _module_of(function)))

    def _result_of(self, function: Function, near: str) -> Value:
        if any(self.full_name(each, near).endswith("contextmanager") for each in function.decorators):
            return self._agreed(self.origin(each, near) for each in function.yields)
        if function.yields:
            return UNKNOWN
        found = self._agreed(self.origin(each, near) for each in function.returns)
        return self.origin(function.annotation, near) if isinstance(found, Unknown) else found

    def _argument(self, function: Function, number: int) -> Value:
        """What a parameter is given, where all calls of the function give it the same."""
        parameter = function.parameters[number]
        if any(not isinstance(each.value, Typed) for each in self._bound.get(parameter.name, ())):
            return UNKNOWN
        default = UNKNOWN if parameter.default is None else self.origin(parameter.default, _module_of(function))
        given = []
        for call in self.callers(function):
            value = _given(call.called, parameter, number - function.is_method)
            given.append(default if value is None else self.origin(value, call.scope.module))
        return self._agreed(given)

    def _agreed(self, values: Iterable[Value]) -> Value:
        """The one that they all are."""
        found = [each for each in dict.fromkeys(values) if each != _ITSELF]
        told = [each for each in found if each not in _EMPTY] or found
        made = [each for each in told if not isinstance(each, Typed)] or told
        if not made or any(isinstance(each, Unknown) for each in made):
            return UNKNOWN
        if len(made) == 1:
            return made[0]
        kinds = {self._made_by(each) for each in made}
        return Typed(kinds.pop() or UNKNOWN) if len(kinds) == 1 and None not in kinds else UNKNOWN

    def _made_by(self, value: Value) -> Value | None:
        match value:
            case Called(Name() as function) | Typed(Name() as function):
                return function
        return None


def _given(called: Called, parameter: Parameter, number: int) -> Value | None:
    """What a call gives to a parameter; None where it leaves it at its default."""
    named = called.keyword(parameter.short)
    if named is not None:
        return named
    if 0 <= number < len(called.args):
        return called.args[number]
    return UNKNOWN if called.splat else None


def _module_of(definition: Function | Class) -> str:
    return definition.scope.module


class Places:
    """Where in the tree the modules are that are imported by their names: `app.jobs` may be `src.app.jobs`."""

    def __init__(self, modules: Iterable[str], packages: set[str]) -> None:
        self._modules: Final = set(modules) | packages
        self._ends: Final[dict[str, list[str]]] = defaultdict(list)
        for name in sorted(self._modules):
            parts = name.split(".")
            for start in range(len(parts)):
                if start and ".".join(parts[:start]) in packages:
                    break
                self._ends[".".join(parts[start:])].append(name)

    def find(self, dotted: str, near: str) -> str:
        """The name from the root of the tree on, of what is imported in the module `near`."""
        end = len(dotted)
        while end > 0:
            head = dotted[:end]
            if head in self._modules:
                return dotted
            if head in self._ends:
                found = self._ends[head]
                nearest = max(found, key=lambda name: _common(name, near)) if len(found) > 1 else found[0]
                return f"{nearest}{dotted[end:]}"
            end = dotted.rfind(".", 0, end)
        return self._beside(dotted, near) or dotted

    def _beside(self, dotted: str, near: str) -> str:
        """A module of a folder that lies beside the module which imports it, though both are in a package: a program
        that is started there sees it so. A module beside it, alone, may be a library of that name."""
        folder = near.rpartition(".")[0]
        inner = ".".join(dotted.split(".")[:2])
        is_there = "." in inner and folder in self._modules and f"{folder}.{inner}" in self._modules
        return f"{folder}.{dotted}" if is_there else ""


def _common(one: str, other: str) -> int:
    """How many folders they share."""
    count = 0
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if left != right:
            break
        count += 1
    return count


_HOOKS: Final = frozenset({
    "on_startup", "before_first_request", "before_serving", "before_server_start", "after_server_start",
    "main_process_start",
})  # fmt: skip
"""Decorators, by their last word: `@driver.on_startup`. A command is none: somebody gives it."""
_EVENTS: Final = frozenset({"startup", "before_server_start", "after_server_start", "main_process_start"})
_FUNCTIONS: Final = frozenset({
    "main", "create_app", "make_app", "on_starting", "when_ready", "post_fork", "post_worker_init", "worker_ready",
    "setup_hook",
})  # fmt: skip
"""Called by a server, a loader or an entry point that is not Python."""
_METHODS: Final = {
    "ready": "django.apps.AppConfig",
    "handle": "django.core.management.base.BaseCommand",
    "setup_hook": "discord.ext.commands.Bot",
}
_KEYWORDS: Final = ("lifespan", "on_startup")


def is_start_up(decorator: Value) -> bool:
    """`@app.on_event("startup")`, `@driver.on_startup`, `@app.listener("before_server_start")`."""
    told = decorator.args[:1] if isinstance(decorator, Called) else ()
    word = last(decorator.function if isinstance(decorator, Called) else decorator)
    return word in _HOOKS or any(one == Const(event) for one in told for event in _EVENTS)


def starts(facts: Facts) -> "Starts":
    """For `facts.conclude(starts)`."""
    return Starts(facts)


class Starts:
    def __init__(self, facts: Facts) -> None:
        self._names: Final[Names] = facts.conclude(names)
        self.handed: Final = self._handed_over(facts)
        """Functions that a web app is given to run when it starts."""
        self._known: Final[dict[str, str]] = {}

    def why(self, scope: Scope) -> str:
        """Why what is done there is done at each start, as the end of a sentence: "when app.py is run"; "" if it is
        not, or cannot be told."""
        if scope.main:
            return "when the program starts"
        if not scope.function:
            return "when its module is imported"
        if scope.function not in self._known:
            self._known[scope.function] = ""  # against circles
            function = self._names.function(scope.function)
            self._known[scope.function] = self._why(function) if function is not None else ""
        return self._known[scope.function]

    def _why(self, function: Function) -> str:
        short = function.name.rpartition(".")[2]
        if any(map(is_start_up, function.decorators)) or function.name in self.handed:
            return f"in the start-up hook {short}"
        if short in _FUNCTIONS and not function.scope.function and not function.is_method:
            return f"in {short}()"
        if function.is_method and short in _METHODS and self._is_method(function, _METHODS[short]):
            return f"in {short}()"
        for call in self._names.callers(function):
            if why := self.why(call.scope):
                return why
        return ""

    def _is_method(self, function: Function, base: str) -> bool:
        owner = function.name.rpartition(".")[0]
        return base in self._names.kinds(Typed(Name(owner)))

    def _handed_over(self, facts: Facts) -> frozenset[str]:
        """`FastAPI(lifespan=run)`, `on_startup=[run]`, `app.add_event_handler("startup", run)`."""
        found: set[str] = set()
        for call in facts.of(Call):
            called, near = call.called, call.scope.module
            handed = [value for key, value in called.keywords if key in _KEYWORDS]
            if call.method == "add_event_handler" and called.args[:1] == (Const("startup"),):
                handed += called.args[1:]
            for value in handed:
                each = value.values if isinstance(value, Items) else (value,)
                found.update(self._names.full_name(one, near) for one in each)
        return frozenset(found - {""})
