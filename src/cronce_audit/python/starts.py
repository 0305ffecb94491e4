"""Which code runs whenever the program starts: at import, as main, in a start-up hook, or called from there.

A handler of requests does not: what it adds, a user asked for.
"""

from typing import Final

from cronce_audit.model import Facts
from cronce_audit.python.facts import Call, Called, Const, Function, Items, Name, Scope, Typed, Value
from cronce_audit.python.names import Names, names

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


def starts(facts: Facts) -> "Starts":
    """For `facts.conclude(starts)`."""
    return Starts(facts)


class Starts:
    def __init__(self, facts: Facts) -> None:
        self._names: Final[Names] = facts.conclude(names)
        self._hooks: Final = self._handed_over(facts)
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
        if any(map(self._is_hook, function.decorators)) or function.name in self._hooks:
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

    def _is_hook(self, decorator: Value) -> bool:
        """`@app.on_event("startup")`, `@driver.on_startup`."""
        match decorator:
            case Called(Name() as name, args):
                return name.last in _HOOKS or any(each == Const(event) for each in args[:1] for event in _EVENTS)
            case Name():
                return decorator.last in _HOOKS
        return False

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
