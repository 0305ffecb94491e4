"""Guards: a function that any trigger may call, and still the function it was."""

# Paths are plain text here: pathlib is slow to import, and every start comes by.
# ruff: noqa: PTH100, PTH110, PTH113, PTH118

import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, overload

from cronce.errors import BadInput, LockHeld
from cronce.runtime.attempt import Work
from cronce.runtime.declare import When
from cronce.runtime.lock import HeldBlock
from cronce.runtime.node import Node
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Steps, take, take_async

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Guard(Protocol[P, R_co]):
    """A guarded function. Call it as before: it finds its slot, claims it, runs the body or returns `Skipped`."""

    fn: Callable[..., Any]
    """The plain function, without the guard."""

    name: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def at(self, slot: When) -> Callable[P, R_co]:
        """The guard for a slot that the caller knows; the same as calling it with `slot=`."""
        ...


class Decorator(Protocol):
    """Keeps the signature, less a first parameter `run`; the result may be `Skipped`."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]]
    ) -> Guard[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Guard[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[Run, P], R]) -> Guard[P, R | Skipped]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Guard[P, R | Skipped]: ...


class SingleDecorator(Protocol):
    """Keeps the signature; the result may be `Skipped`."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R | Skipped]]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Callable[P, R | Skipped]: ...


class SameSignature(Protocol):
    """A decorator that keeps the signature."""

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]: ...


Function = Callable[..., Any]

OWN_NAMES: Final = ("__main__", "__mp_main__")
"""What a process calls the program that it was started with; the second in a child of multiprocessing."""


class Steppable(Protocol):
    """A call: of a slot, or of what a pod is for."""

    node: Node

    def steps(self, when: When | None = None) -> Steps[Any]: ...


MakeCall = Callable[[Work, bool, When | None], Steppable]
"""A call of some work; whether it may take over older slots; and for which slot, if that is known."""
Isolate = Callable[[tuple[Any, ...], dict[str, Any], bool], Work]
"""The work of one call with these arguments, in a process of its own; whether it is awaited."""


def name_of(fn: Function) -> str:
    """A function's own name is its job's, unless it has none."""
    name: str = getattr(fn, "__qualname__", type(fn).__qualname__).replace(".<locals>", "")
    if "<lambda>" in name:
        raise BadInput("a lambda has no name of its own, and a job is known by its name; give it name='...'")
    return name


def code_of(fn: Function) -> str:
    """Where it is, as `module:name`, the same on every machine."""
    module, name = module_name(getattr(fn, "__module__", None) or ""), getattr(fn, "__qualname__", None)
    return f"{module}:{name}" if module and name else ""


def module_name(module: str) -> str:
    """The name by which other processes import a module. Only the process that was started with it calls it
    `__main__`: its name is the one after `python -m`, or that of its file, behind those of the packages around it.
    Empty where it is no file, but was typed in."""
    if module not in OWN_NAMES:
        return module
    program = sys.modules.get(module)
    spec, file = getattr(program, "__spec__", None), getattr(program, "__file__", None)
    if spec is not None:
        return str(spec.name)
    if not file or not os.path.isfile(file):
        return ""
    folder, name = os.path.split(os.path.abspath(str(file)))
    name = name.removesuffix(".py")
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return name


def line_of(fn: Function) -> str:
    """Where it is, for a person: `module:line`. Nothing where Python does not know, or it was typed in."""
    code, module = getattr(inspect.unwrap(fn), "__code__", None), code_of(fn).partition(":")[0]
    return f"{module}:{code.co_firstlineno}" if code and module else ""


def guarded(
    name: str, fn: Function, slot: Callable[..., When] | None, make_call: MakeCall, isolate: Isolate | None = None
) -> Any:
    """A real function, so that it can be a method, be pickled by name, and be seen to be a coroutine function."""
    refuse_generators(fn)
    with_run, plain = _giving_run(fn)
    takes_slot = "slot" in plain.parameters
    awaited = is_async(fn)
    checked: Function = (lambda result: result) if awaited else has_run

    def work_for(args: tuple[Any, ...], named: dict[str, Any], *, awaits: bool = awaited) -> Work:
        if isolate is not None:
            return isolate(args, named, awaits)
        return Work(lambda run: checked(with_run(run, args, named)), is_async=awaits)

    def steps_of(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Steps[Any], Node]:
        when = None if takes_slot else named.pop("slot", None)
        plain.bind(*args, **named)  # a call that cannot be made is refused before it takes a slot
        if when is None and slot is not None:
            when = slot(*args, **named)
        work = work_for(args, named)
        call = make_call(work, not args and not named, when)
        return _answered(work, call.steps(when)), call.node

    scheduled = None
    if _needs_nothing(plain):
        same = work_for((), {}) if isolate is None else None  # what keeps nothing serves all slots
        scheduled = partial(work_for, (), {}, awaits=False) if same is None else lambda: same
    return dressed(stepping(fn, steps_of), name, fn, plain, scheduled)


def stepping(fn: Function, steps_of: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Steps[Any], Node]]) -> Any:
    """A function like it, whose calls take the steps that are made of their arguments."""
    if is_async(fn):

        @wraps(fn)
        async def call_async(*args: Any, **named: Any) -> Any:
            return await take_async(*steps_of(args, named))

        return call_async

    @wraps(fn)
    def call(*args: Any, **named: Any) -> Any:
        return take(*steps_of(args, named))

    return call


def _answered(work: Work, steps: Steps[Any]) -> Steps[Any]:
    return work.answer((yield from steps))


def call_with_run(fn: Function, run: Run, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The plain function, to its end: in a process that is there for nothing else."""
    with_run, _ = _giving_run(fn)
    if not is_async(fn):
        return has_run(with_run(run, args, named))
    import asyncio  # noqa: PLC0415

    return asyncio.run(with_run(run, args, named))


class CommandGuard:
    """A command that runs once for each slot. Call it: it finds its slot, claims it, runs the command and returns its
    exit code, or `Skipped`."""

    def __init__(self, name: str, work: Callable[[], Work], make_call: MakeCall) -> None:
        self.name, self.work, self._make_call = name, work, make_call

    def __call__(self, *, slot: When | None = None) -> int | Skipped:
        work = self.work()
        call = self._make_call(work, True, slot)  # noqa: FBT003
        answer: int | Skipped = take(_answered(work, call.steps(slot)), call.node)
        return answer

    def at(self, slot: When) -> Callable[[], int | Skipped]:
        """The command for a slot that the caller knows; the same as calling it with `slot=`."""
        return partial(self, slot=slot)


def refuse_generators(fn: Function) -> None:
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise BadInput(
            f"{fn.__name__} is a generator: calling it runs no code. Guard the function that iterates over it"
        )


def _needs_nothing(plain: inspect.Signature) -> bool:
    try:
        plain.bind()
    except TypeError:
        return False
    return True


def dressed(guard: Any, name: str, fn: Function, plain: inspect.Signature, work: Callable[[], Work] | None) -> Any:
    guard.__signature__ = plain
    guard.fn, guard.name, guard.work = fn, name, work
    guard.at = lambda when: partial(guard, slot=when)
    return guard


def _giving_run(fn: Function) -> tuple[Callable[[Run, tuple[Any, ...], dict[str, Any]], Any], inspect.Signature]:
    """How to call it with its run, and its signature as callers see it: they do not give a parameter named `run`."""
    full = inspect.signature(fn)
    names = list(full.parameters)
    if "run" not in names:
        return lambda _run, args, named: fn(*args, **named), full
    place = names.index("run")
    by_place = full.parameters["run"].kind is not inspect.Parameter.KEYWORD_ONLY

    def given(run: Run, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if by_place and len(args) >= place:
            return fn(*args[:place], run, *args[place:], **named)
        return fn(*args, **named, run=run)

    return given, full.replace(parameters=[one for name, one in full.parameters.items() if name != "run"])


def single(lock: HeldBlock, fn: Function) -> Any:
    if inspect.iscoroutinefunction(fn):

        @wraps(fn)
        async def single_async(*args: Any, **named: Any) -> Any:
            async with AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(lock)
                except LockHeld as held:
                    return Skipped("held", str(held))
                return await fn(*args, **named)

        return single_async

    @wraps(fn)
    def single_sync(*args: Any, **named: Any) -> Any:
        with ExitStack() as stack:
            try:
                stack.enter_context(lock)
            except LockHeld as held:
                return Skipped("held", str(held))
            return fn(*args, **named)

    return single_sync


# --- what a function that is to be run once may be --------------------------------------------------------------------


class NothingRan(BadInput):
    """What a function returned has yet to be run."""


def is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def on_event_loop() -> bool:
    """Whether this thread runs one just now."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def check_callable(fn: object) -> None:
    if not callable(fn):
        raise BadInput(f"give the function, not its result: {fn!r:.60} cannot be called")


def check_call(fn: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuse a call that cannot be made, before anybody could think that it was."""
    check_callable(fn)
    try:
        bind = inspect.signature(fn).bind
    except (TypeError, ValueError):  # something in C, without a signature
        return
    try:
        bind(*args, **named)
    except TypeError as error:
        name = getattr(fn, "__qualname__", type(fn).__qualname__)
        raise BadInput(f"{name} cannot be called like this: {error}") from None


def finished(fn: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The function; where it is none to be awaited, one that refuses to return what has not run."""
    return fn if is_async(fn) else lambda *args, **named: has_run(fn(*args, **named), what)


def has_run(result: Any, what: str = "the body") -> Any:
    """A body that returns something still to be run has not run: it would be closed as succeeded, and nothing done."""
    if result is None:
        return None
    if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if not inspect.isasyncgen(result):
            result.close()
        raise NothingRan(
            f"{what} returned {result!r:.80}, and none of it has run: make the function `async def`, or"
            " iterate over it inside"
        )
    return result
