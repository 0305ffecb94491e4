"""Calls that are only observed: they run as before, and what came too often is counted.

`@cron.observe` needs no schedule: calls within a window of each other are one. The window slides. 10:00:09.9 and
10:00:10.1 are 0.2 s apart wherever a grid of windows would have its edge: a call is one too many when another came no
longer than a window before it, for the same key. So of n calls in a bunch n - 1 are. Calls are put in order by the
store's clock before they are compared, so that one that is written down late is found, too.

What is on record is bounded: the last calls, the last that were too many, and two counts. Where more calls than are
kept come within one window, the second count is a lower bound.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import wraps
from inspect import signature
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from cronce.errors import BadInput
from cronce.events import Event, What
from cronce.model import Boot, Cell, Instant, Mark, Write, check_key, check_name, observed_cell
from cronce.protocol.codec import MICROSECOND, readable
from cronce.protocol.notices import Beaten, Doubled, Observed, decode_observed, encode_notice
from cronce.runtime.attempt import describe
from cronce.runtime.background import Background, Note, NoteWrite
from cronce.runtime.declare import Duration
from cronce.runtime.flow import Flow
from cronce.runtime.guard import is_async
from cronce.runtime.machine import REMEMBERED
from cronce.runtime.queries import load, read_all
from cronce.schedule import format_duration, parse_duration
from cronce.stores.base import Scan
from cronce.value import NamedTuple

CALLS: Final = 50
"""How many calls are kept, to compare others with."""

RECENT: Final = 20
"""How many of those that were too many are kept, for people."""

P = ParamSpec("P")
R = TypeVar("R")


class Observing(Protocol):
    """Keeps the signature."""

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]: ...


class Refusal(NamedTuple):
    """Why a call was one too many for its slot."""

    slot: str
    why: str


class Observation(Note):
    """One call. Without a window it is told apart by its slot, and `refusal` says whether it was one too many."""

    def __init__(
        self, name: str, boot: Boot, window: timedelta | None, *, key: str = "", refusal: Refusal | None = None
    ) -> None:
        super().__init__(observed_cell(name), boot)
        self._window, self._key, self._refusal = window, key, refusal
        self._call: Beaten | None = None

    def add(self, cell: Cell, beside: Sequence[Note], holder: str) -> NoteWrite:
        known = _known(cell)
        calls = [one.call(known.calls, beside, holder) for one in beside if isinstance(one, Observation)]
        fresh = [call for call in calls if call not in known.calls]  # the others landed, and no answer came
        if not fresh:
            return NoteWrite(None)
        if self._window is None:
            given = {one._call: one._refusal for one in beside if isinstance(one, Observation) and one._refusal}
            doubled = [Doubled(given[call].slot, call.at, call.by, given[call].why) for call in fresh if call in given]
        else:
            doubled = doubles(known.calls, fresh, self._window)
        kept = sorted((*known.calls, *fresh))[-CALLS:]
        times, count = known.times + len(fresh), known.doubled + len(doubled)
        recent = (*known.recent, *doubled)[-RECENT:]
        value = encode_notice(Observed(self._window, tuple(kept), times, count, recent))
        events = [_event(one, cell.key, holder, count, times) for one in doubled]
        return NoteWrite(Write(cell.key, cell.version, value, Mark.FREE, ttl=REMEMBERED), events)

    def call(self, known: Iterable[Beaten], beside: Iterable[Note], holder: str) -> Beaten:
        """As it is on record. Two threads may call at one moment, and are two."""
        if self._call is None:
            assert self.at is not None
            taken = {*known, *(one._call for one in beside if isinstance(one, Observation))}
            self._call = Beaten(self.at, holder, self._key)
            while self._call in taken:
                self._call = self._call._replace(at=self._call.at + MICROSECOND)
        return self._call


def doubles(known: Sequence[Beaten], fresh: Sequence[Beaten], window: timedelta) -> list[Doubled]:
    """Which calls are too many now, and were not before. A call from before those that are kept is compared to none."""
    oldest = known[0].at if len(known) == CALLS else None
    together = sorted((*known, *(call for call in fresh if oldest is None or call.at >= oldest)))
    before, after = _firsts(known, window), _firsts(together, window)
    return [_doubled(call, first) for call, first in after.items() if call not in before]


def _firsts(calls: Sequence[Beaten], window: timedelta) -> dict[Beaten, Beaten]:
    """For each call that is one too many, the first that it is too many after. They are in order."""
    found = {}
    for place, call in enumerate(calls):
        earlier = (one for one in calls[:place] if one.key == call.key and call.at - one.at <= window)
        if first := next(earlier, None):
            found[call] = first
    return found


def _doubled(call: Beaten, first: Beaten) -> Doubled:
    gap = format_duration(call.at - first.at)
    return Doubled(_fine(first.at), call.at, call.by, f"{gap} after a call by {first.by}")


def _fine(instant: Instant) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(one: Doubled, cell: str, holder: str, count: int, times: int) -> Event:
    detail = f"{one.by} ran it, {one.why}; too many so far: {count} of {times} calls"
    return Event(What.DOUBLED, cell, holder, one.at, detail=detail)


def _known(cell: Cell) -> Observed:
    return readable(cell, decode_observed) or Observed(None, (), 0, 0, ())


# --- any function ---------------------------------------------------------------------------------------------------


class Observer:
    """What notes the calls of one function, and has no say in them."""

    def __init__(
        self,
        name: str,
        window: Duration,
        key: Callable[..., object] | None,
        background: Callable[[], Background],
        boot: Callable[[], Boot],
    ) -> None:
        if not isinstance(name, str):
            raise BadInput("write @cron.observe('order_sync', window='10s'), with a name for what is observed")
        if key is not None and not callable(key):
            raise BadInput("key is a function of the call's arguments, such as key=lambda order: order.id")
        self._name, self._window = check_name(name), parse_duration(window)
        if self._window <= timedelta(0):
            raise BadInput("window is within what time two calls are one: more than nothing, such as '10s'")
        self._key, self._background, self._boot = key, background, boot

    def guard(self, fn: Callable[..., Any]) -> Any:
        """A call is noted as its body begins, and written down beside it."""

        def begin(_when: None, args: tuple[Any, ...], named: Mapping[str, Any]) -> Block:
            self._note(args, named)
            return _UNWATCHED

        guard, _ = observed(fn, begin)
        return guard

    def _note(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Whatever cannot be noted is no reason not to run."""
        boot = self._boot()
        try:
            key = "" if self._key is None else _digest(self._key(*args, **named))
        except Exception as error:
            why = f"the key of a call of {self._name} is unknown, and it is not written down: {describe(error)}"
            self._background().warn(self._name, why)
            return
        self._background().add(Observation(self._name, boot, self._window, key=key))


Block = AbstractContextManager[Callable[[Any], None]]
"""What the body of a call runs in; it is told what the body returned."""

_UNWATCHED: Final[Block] = nullcontext(lambda _result: None)


def observed(fn: Callable[..., Any], begin: Callable[..., Block], *, pops_slot: bool = False) -> tuple[Any, Any]:
    """The function as it was, each call in the block that `begin` makes of its slot and its arguments; and the same as
    a function that takes the slot first. A call that its signature refuses begins nothing."""
    try:
        bind = signature(fn, follow_wrapped=False).bind  # what it takes itself, whatever it wraps
    except ValueError:  # it is built in, and does not say
        bind = None

    def begun(when: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Block:
        try:
            if bind is not None:
                bind(*args, **named)
        except TypeError:
            return _UNWATCHED
        return begin(when, args, named)

    if is_async(fn):

        async def at_async(when: Any, /, *args: Any, **named: Any) -> Any:
            with begun(when, args, named) as ended:
                result = await fn(*args, **named)
                ended(result)
            return result

        @wraps(fn)
        async def observed_async(*args: Any, **named: Any) -> Any:
            return await at_async(named.pop("slot", None) if pops_slot else None, *args, **named)

        return observed_async, at_async

    def at(when: Any, /, *args: Any, **named: Any) -> Any:
        with begun(when, args, named) as ended:
            result = fn(*args, **named)
            ended(result)
        return result

    @wraps(fn)
    def observed_sync(*args: Any, **named: Any) -> Any:
        return at(named.pop("slot", None) if pops_slot else None, *args, **named)

    return observed_sync, at


def _digest(key: object) -> str:
    """A key may be long, and nobody's business."""
    from hashlib import sha256  # noqa: PLC0415

    return sha256(check_key(key).encode()).hexdigest()[:16]


# --- looking --------------------------------------------------------------------------------------------------------


class ObservedSeen(NamedTuple):
    """What is on record of a name; None: it cannot be read."""

    name: str
    observed: Observed | None


def observations(name: str | None = None) -> Flow[tuple[Instant, list[ObservedSeen]]]:
    """The store's now, and what was observed: of all, or of one."""
    if name is not None:
        loaded = yield from load([observed_cell(check_name(name))])
        return loaded.now, [_seen(cell) for cell in loaded.cells if cell.version]
    now, cells = yield from read_all(Scan("observed/"))
    return now, [_seen(cell) for cell in cells]


def _seen(cell: Cell) -> ObservedSeen:
    return ObservedSeen(cell.key.partition("/")[2], readable(cell, decode_observed))
