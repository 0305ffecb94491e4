"""Effects on a thing, such as an invoice: once for it, whichever slot, job or queue reaches it. And what a call has to
give for that: whether it is once for a thing or once for the slot, and one name for what one function does."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from inspect import unwrap
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from cronce.errors import BadInput
from cronce.model import check_key, check_name
from cronce.policy import WhenUnsure
from cronce.runtime.effects.once import checked_how
from cronce.runtime.effects.steps import Target, of_slot, of_thing, thing_named
from cronce.runtime.unfinished import remembered

if TYPE_CHECKING:
    from cronce.runtime.run import Run
    from cronce.runtime.transactions import Transaction

C = TypeVar("C")
T = TypeVar("T")


class Thing:
    """What is done to it is known by its name, such as "charge": one name for each thing that may happen once. Two
    names are two effects."""

    def __init__(self, run: "Run", kind: str, key: object) -> None:
        self._run, self.name, self.unfinished = run, thing_named(kind, key), run.unfinished

    @overload
    def once(self, what: str, fn: Callable[..., Any], *args: Any, unsure: Literal["skip"], **named: Any) -> Any: ...

    @overload
    def once(
        self,
        what: str,
        fn: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> Awaitable[T]: ...

    @overload
    def once(
        self,
        what: str,
        fn: Callable[..., T],
        *args: Any,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> T: ...

    @remembered
    def once(
        self,
        what: str,
        fn: Callable[..., Any],
        *args: Any,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> Any:
        """Call `fn` once for the thing. A repeat, in whatever slot, returns the recorded result. While another run is
        doing it, `InProgress` is raised. With an `async def` it is awaited; `unsure` and `not_done` are as in
        `run.once`."""
        return self._run.make(of_thing(self.name, what), what, fn, (args, named), checked_how(unsure, not_done))

    @remembered
    def transaction(self, conn: C, what: str) -> "Transaction[C]":
        """What is written in the block commits once for the thing: `with run.on("invoice", 7).transaction(conn,
        "charge") as tx:`. What was committed before, in whatever slot, raises `AlreadyDone`."""
        return self._run.join(conn, self.name, check_name(what))

    @remembered
    def key_of(self, what: str) -> str:
        """What the other side knows the effect by: the same in every attempt, slot and process."""
        return self._run.sent_key(of_thing(self.name, what))

    @remembered
    def headers(self, what: str) -> dict[str, str]:
        """The headers for a request that makes the effect: `Idempotency-Key` and `Cronce-Fence`."""
        return self._run.headers_of(self.key_of(what))


# --- the slot's, or the thing's -------------------------------------------------------------------------------------

_SPELLINGS: Final = {
    "once": ("once('charge', fn, …)", "once({key!r:.40}, fn, …, per='slot')"),
    "key_of": ("key_of('charge')", "key_of({key!r:.40}, per='slot')"),
    "headers": ("headers('charge')", "headers({key!r:.40}, per='slot')"),
    "transaction": ("transaction(conn, 'charge')", "transaction(conn, {key!r:.40}, per='slot')"),
}


def refuse_scope(call: str, key: object, per: object) -> None:
    """The caller must choose once per slot or once per thing: the one would repeat what the other must not."""
    if per == "slot":
        return
    thing, slot = _SPELLINGS[call]
    raise scope_missing(f"run.{call}({key!r:.40}, …)", f"run.on('invoice', 7).{thing}", f"run.{slot.format(key=key)}")


def scope_missing(call: str, thing: str, slot: str) -> BadInput:
    return BadInput(
        f"{call} does not say what must happen only once. Once per thing, such as an invoice, in all slots"
        f" together: {thing}. Once per slot: {slot}"
    )


def target_each(
    run: "Run", key: Callable[[Any], object], fn: Callable[..., Any], *, on: str | None, what: str | None, per: object
) -> Callable[[Any], Target]:
    """Of each of many: which effect is meant."""
    if per == "slot" and on is None and what is None:

        def step(item: Any) -> Target:
            target = of_slot(run.key, key(item))
            run.note_function(target.name, fn)
            return target

        return step
    if per is not None or on is None or what is None:
        thing = "run.once_each(items, on='invoice', key=…, what='charge', fn=…)"
        raise scope_missing("run.once_each('items', …)", thing, "run.once_each(items, key=…, fn=…, per='slot')")
    run.note_function(check_name(what), fn)
    thing_named(on, "id")
    return lambda item: of_thing(thing_named(on, check_key(key(item))), what)


# --- two functions are two effects ----------------------------------------------------------------------------------


def refuse_another(known: dict[str, object], name: str, fn: Callable[..., Any]) -> None:
    """Another function under a name that has one: it would never be called where the first one was."""
    if callable(fn) and known.setdefault(name, _identity(fn)) != _identity(fn):
        raise BadInput(
            f"the name {name!r:.80} is already used for another function{_whose(known[name])}, so {_called(fn)} would"
            " be skipped: use another name"
        )


def _identity(fn: Any) -> object:
    """The same for a function that is made anew in each turn of a loop; another for another function, also where one
    decorator wraps both."""
    while isinstance(fn, partial):
        fn = fn.func
    plain = unwrap(fn)
    plain = getattr(plain, "__func__", plain)
    name = getattr(plain, "__qualname__", None)
    if name is None:
        return type(plain)
    return getattr(plain, "__code__", name) if "<" in name else (getattr(plain, "__module__", ""), name)


def _whose(identity: object) -> str:
    """The name of the function that came first, if it has one."""
    name = identity[1] if isinstance(identity, tuple) else getattr(identity, "co_qualname", "")
    return f" ({name})" if name and not name.endswith("<lambda>") else ""


def _called(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)[:60]
