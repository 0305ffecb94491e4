"""Where Python code starts something that fires by itself, and on which occasion that happens.

A start is a place in a function; who calls the function decides when. It is followed through calls, threads and tasks
to the occasion: the import of a module, the start-up of a web app, Django's `ready`, a hook of gunicorn, or the program
itself. Where no occasion is seen, nothing is said.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from cronce_audit.model import Facts, Place
from cronce_audit.processes.reach import reach
from cronce_audit.processes.servers import servings
from cronce_audit.processes.worlds import Hold, doubts, hold, is_done
from cronce_audit.python.facts import Call, Called, Const, Function, Member, Name, Operation, Scope, Value, last, shown
from cronce_audit.python.names import Names, is_start_up, names
from cronce_audit.python.names import starts as app_starts
from cronce_audit.python.schedulers import Scheduler, Store, schedulers

Kind = Literal["scheduler", "timer", "loop"]
When = Literal["import", "start-up", "ready", "hook", "program"]


@dataclass(frozen=True, slots=True)
class Start:
    """Something that fires by itself from here on: a scheduler, a repeated function, or a loop that sleeps."""

    kind: Kind
    what: str
    """As people call it: `BackgroundScheduler`, `schedule`, `repeat_every`."""
    place: Place
    scope: Scope
    scheduler: Scheduler | None = None
    """Of APScheduler."""
    every: float = 0
    """Seconds that a loop sleeps; of one that works out the time of its next run, a day."""


class Occasion(NamedTuple):
    """When code is reached, and the scopes on the way to it, the innermost first."""

    when: When
    module: str
    path: tuple[Scope, ...]
    doubts: tuple[tuple[str, str], ...] = ()
    """Conditions and locks on the way that cannot be judged, as they are written, and the module of each."""
    alone: bool = False
    """A lock of this machine is taken first: one process of each machine gets there."""


_ASKED_TO_RUN: Final = (
    "Thread", "Process", "Timer", "create_task", "ensure_future", "run_in_executor", "submit", "to_thread",
    "call_soon", "start_soon", "add_task", "start_new_thread",
)  # fmt: skip
_REPEAT: Final = frozenset(
    Name(f"{library}.repeat_every")
    for library in ("fastapi_utils.tasks", "fastapi_restful.tasks", "fastapi_utils", "fastapi_utilities")
)
_SLEEPS: Final = frozenset({Name("asyncio.sleep"), Name("time.sleep")})
_LONG: Final = 30
"""Seconds. What sleeps less polls, or keeps something alive; such a loop belongs to its process."""
_SHORT_NAMED: Final = 5
"""Seconds. Of a loop that is a job by its name."""
_JOB_LOOPS: Final = re.compile(
    r"(?i)sched|cron|jobs?(?:_|\b)|remind|digest|due|payout|billing|recurr|report|newsletter|expir"
)
_DEEPEST: Final = 6
"""Callers of callers that are asked."""


def starts(facts: Facts) -> Sequence[Start]:
    """All of the tree, in the order of places."""
    known = facts.conclude(names)
    found = [
        *_schedulers(facts, known),
        *_schedule_loops(known),
        *_repeated(facts),
    ]
    told = {start.scope.function for start in found}
    return sorted([*found, *_loops(known, told)], key=lambda start: start.place)


def _schedulers(facts: Facts, known: Names) -> Iterator[Start]:
    """APScheduler, but not one that adds jobs only (`paused`)."""
    all_schedulers = facts.conclude(schedulers)
    for call in known.calls("start") if all_schedulers.all else ():
        scheduler = all_schedulers.of(known.receiver(call))
        paused = call.called.splat or call.called.keyword("paused") not in (None, Const(value=False))
        if scheduler and not paused:
            yield Start("scheduler", scheduler.kind, call.place, call.scope, scheduler)


def store_of(scheduler: Scheduler | None) -> Store | None:
    """The first of its job stores that outlives the process."""
    stores = scheduler.stores if scheduler else ()
    return next((store for _, store in stores if store and store.is_persistent), None)


def _schedule_loops(known: Names) -> Iterator[Start]:
    for call in known.calls("run_pending"):
        if call.scope.loop and call.called.function == Name("schedule.run_pending"):
            yield Start("scheduler", "schedule", call.place, call.scope._replace(tests=()))


def _repeated(facts: Facts) -> Iterator[Start]:
    for function in facts.of(Function):
        for decorator in function.decorators:
            if isinstance(decorator, Called) and decorator.function in _REPEAT:
                yield Start("timer", "repeat_every", decorator.place, Scope(function.scope.module, function.name))


def _loops(known: Names, told: set[str]) -> Iterator[Start]:
    """What others run in a thread or as a task, and what then runs again and again."""
    seen = {"", *told}
    planned = {call.scope.function for call in known.calls("replace") if call.called.keyword("hour") is not None}
    for call, what in (*_sleeping(known), *_beginning_again(known)):
        if call.scope.function not in seen:
            span = known.constant(next(iter(call.called.args), None), call.scope.module)
            by_hour = call.scope.function in planned
            by_setting = not isinstance(span, int | float) and any(map(_is_setting, call.called.args[:1]))
            named = is_job_loop(call.scope.function)
            if by_hour or by_setting or (isinstance(span, int | float) and span >= (_SHORT_NAMED if named else _LONG)):
                seen.add(call.scope.function)
                told_span = "a loop that waits for an hour of the day"
                if not by_hour:
                    told_span = f"{what} {shown(call.called.args[0]) if by_setting else span} s"
                every = _DAY if by_hour or not isinstance(span, int | float) else span
                function = known.function(call.scope.function)
                place = function.place if function else call.place
                yield Start("loop", told_span, place, call.scope._replace(tests=()), every=every)


def _sleeping(known: Names) -> Iterator[tuple[Call, str]]:
    """`while True: …; sleep(3600)`."""
    for call in known.calls("sleep"):
        if call.called.function in _SLEEPS and call.scope.loop and any(map(_is_endless, call.scope.tests)):
            yield call, "a loop that sleeps"


def _beginning_again(known: Names) -> Iterator[tuple[Call, str]]:
    """`threading.Timer(3600, sync)` in `sync` itself."""
    for call in known.calls("Timer"):
        then = call.called.args[1] if len(call.called.args) > 1 else call.called.keyword("function")
        its_own = isinstance(then, Name | Member) and last(then) == call.scope.function.rpartition(".")[2]
        if call.called.function == Name("threading.Timer") and its_own:
            yield call, "a timer that starts itself again after"


def is_job_loop(function: str) -> bool:
    """By its name, or its module's or class's."""
    return bool(_JOB_LOOPS.search(".".join(function.split(".")[-3:])))


_DAY: Final = 86_400
_SPAN_NAMES: Final = re.compile(r"(?i)interval|period|hours|minutes|seconds|every|frequency|schedule")


def _is_setting(value: Value) -> bool:
    """`settings.SYNC_INTERVAL`, `self.interval_hours * 3600`: what people set is the time between two runs."""
    parts = value.values if isinstance(value, Operation) else (value,)
    return any(isinstance(one, Name | Member) and _SPAN_NAMES.search(last(one)) for one in parts)


def _is_endless(test: Value) -> bool:
    """`while True`, and `while self.running`: until somebody stops it."""
    return test == Const(value=True) or (isinstance(test, Name | Member) and bool(_GOES_ON.search(last(test))))


_GOES_ON: Final = re.compile(r"(?i)running|active|alive|enabled")


def occasions(facts: Facts) -> "Occasions":
    """For `facts.conclude(occasions)`."""
    return Occasions(facts)


class Occasions:
    """When the functions of the tree are run."""

    def __init__(self, facts: Facts) -> None:
        self._facts: Final = facts
        self._names: Final = facts.conclude(names)
        self._reach: Final = facts.conclude(reach)
        self._factories: Final = set(_factories(facts))
        self._hold: Final = cache(self._hold_in)
        self._done_in: Final = cache(lambda scope: is_done((scope,), (), self._names))
        self._calls: Final[Mapping[tuple[str, str], list[Call]]] = defaultdict(list)
        for call in facts.of(Call):
            self._calls[call.scope.module, call.scope.function].append(call)
        self._run_by: Final[dict[str, list[Scope]]] = defaultdict(list)
        """Functions that are handed to a thread, a task or an executor, and where."""
        self._start_up: Final = facts.conclude(app_starts).handed
        for call in self._names.calls(*_ASKED_TO_RUN):
            for function in self._functions_in(call):
                self._run_by[function.name].append(call.scope)

    def of(self, scope: Scope) -> Iterator[Occasion]:
        """When a scope is reached, unless a lock of all machines or a condition holds it back; each occasion once for
        each kind of conditions."""
        todo: deque[tuple[Scope, ...]] = deque([(scope,)])
        seen: set[tuple[Scope, bool | None, frozenset[str]]] = set()
        while todo:
            path = todo.popleft()
            done = self._is_done(path)
            at = Scope(path[-1].module, path[-1].function, path[-1].main)
            held = [one for each in path if (one := self._hold(each))]
            kind = (at, done, frozenset(one.reach for one in held))
            if done is not False and "all" not in kind[2] and kind not in seen:
                seen.add(kind)
                yield from (self._judged(end, held, done) for end in self._ends(path))
                todo.extend((*path, outer) for outer in self._around(path))

    def _is_done(self, path: tuple[Scope, ...]) -> bool | None:
        """As `is_done`, with each scope asked once however many ways lead through it."""
        each = {self._done_in(scope) for scope in path}
        return False if False in each else None if None in each else True

    def _judged(self, end: Occasion, held: list[Hold], done: bool | None) -> Occasion:
        unclear = [(one.text, end.path[0].module) for one in held if one.reach == "unknown"]
        if done is None:  # a condition beside a lock asks whether it was got
            unclear += doubts(tuple(scope for scope in end.path if not self._hold(scope)), self._names)
        return end._replace(doubts=tuple(unclear), alone=any(one.reach == "host" for one in held))

    def _ends(self, path: tuple[Scope, ...]) -> Iterator[Occasion]:
        """The occasions on which the outermost scope is reached without a call that is seen."""
        scope = path[-1]
        function = self._names.function(scope.function) if scope.function else None
        if not scope.function:
            yield Occasion("program" if scope.main else "import", scope.module, path)
        elif function is not None:
            if function.name in self._factories:
                yield Occasion("import", function.scope.module, path)
            when = self._own(function)
            if when:
                yield Occasion(when, function.scope.module, path)

    def _around(self, path: tuple[Scope, ...]) -> Iterator[Scope]:
        """Where the function of the outermost scope is called, or handed to somebody who calls it."""
        function = self._names.function(path[-1].function) if path[-1].function else None
        if function is not None and len(path) <= _DEEPEST:
            yield from self._run_by.get(function.name, ())
            yield from (call.scope for call in self._names.callers(function))

    def _hold_in(self, scope: Scope) -> Hold | None:
        """A lock that is taken there, or cronce in that file."""
        if self._reach.imports(scope.module, "cronce"):
            return Hold("all", "cronce")
        return hold(scope, self._calls, self._facts)

    def _own(self, function: Function) -> When | None:
        """What calls a function without a call in the tree."""
        owner, _, word = function.name.rpartition(".")
        if function.name in self._start_up or any(map(is_start_up, function.decorators)):
            return "start-up"
        klass = self._names.klass(owner)
        if word == "ready" and klass and any(last(base) == "AppConfig" for base in klass.bases):
            return "ready"
        return "hook" if word in HOOKS and owner == function.scope.module else None

    def _functions_in(self, call: Call) -> Iterator[Function]:
        for value in (*call.called.args, *(value for _, value in call.called.keywords)):
            function = self._function(value, call.scope.module)
            if function is not None:
                yield function

    def _function(self, value: Value, near: str) -> Function | None:
        """The function that a name is, and not what is behind a variable: that would cost too much for every call."""
        return self._names.function(self._reach.full(value.dotted, near)) if isinstance(value, Name) else None


def _factories(facts: Facts) -> Iterator[str]:
    """Functions that a server calls to get the app: `gunicorn "app:create_app()"`, `flask --app app run`."""
    known = facts.conclude(reach)
    for serving in facts.conclude(servings):
        module = known.served(serving)
        words = serving.app.partition(":")[2].partition("(")[0]
        for word in [words] if words or serving.server != "flask run" else ["create_app", "make_app"]:
            yield f"{module}.{word}"


HOOKS: Final[Mapping[str, bool]] = {
    "on_starting": False, "when_ready": False, "post_fork": True, "post_worker_init": True, "child_exit": False
}  # fmt: skip
"""Of gunicorn's settings; True are those that each worker calls."""
