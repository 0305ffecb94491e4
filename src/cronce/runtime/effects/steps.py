"""What a job function does under its run's lease: effects, each once for its slot or once for the thing it is done to,
however often the function runs; and the cursor, which records how far the job has got. Beside them, which fences a
receiver has seen.

*The slot's or the thing's.* An effect of a slot (today's report) has a cell for each slot; an effect on a thing (the
charge of an invoice) has one cell for all slots, jobs and queues that reach the thing. All else is the same for both.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from cronce.errors import BadInput, CronceError, InProgress, LeaseLost
from cronce.model import (
    Cell,
    Fence,
    Instant,
    Mark,
    Write,
    check_key,
    check_name,
    cursor_cell,
    effect_cells,
    once_cell,
    scope_cell,
)
from cronce.protocol.codec import json_text, readable
from cronce.protocol.commands import Finish, Release
from cronce.protocol.notices import RecordedPosition, decode_position, encode_notice
from cronce.protocol.record import decode
from cronce.runtime.client import Client
from cronce.runtime.effects.once import (
    Effect,
    EffectPolicy,
    Word,
    exchange,
    heard,
    known,
    once,
    performed,
    returned,
    say,
)
from cronce.runtime.flow import Flow
from cronce.runtime.keeper import Lease
from cronce.runtime.ledger import Begin, Begun, Grant, Ledger
from cronce.runtime.node import Node
from cronce.runtime.steps import BodyStep, Steps, StoreStep, take, take_async
from cronce.runtime.unfinished import Unfinished, remembered
from cronce.value import NamedTuple

T = TypeVar("T")

STEPS_PER_CALL: Final = 100
"""How many steps are begun, and recorded as done, in one call of the store."""

UNRECORDED_SECONDS: Final = 1.0
"""Seconds for which steps may be done without that being on record, where they may be repeated."""


UNRECORDED_BYTES: Final = 1 << 20
"""Of results that are kept back to be recorded together: no store need take more in one call."""

THING_KEPT: Final = timedelta(days=400)
"""For how long it is known that an effect on a thing is done: more than a year. What is in doubt is known for ever."""


class Target(NamedTuple):
    """Which effect is meant: its cell, what people and the other side call it, and for how long it is known once it is
    done; None: for as long as its slot may run."""

    cell: str
    name: str
    keep: timedelta | None = None


def of_slot(slot: str, key: object) -> Target:
    """An effect of the slot that has this key."""
    text = check_key(key)
    return Target(f"{effect_cells(slot)}{text}", f"{slot}/{text}")


def of_thing(thing: str, what: str) -> Target:
    """What is done to a thing, such as the charge of `invoice:7`."""
    return Target(once_cell(check_name(what), thing), f"{what}/{thing}", THING_KEPT)


def thing_named(kind: str, key: object) -> str:
    """`invoice:7`. A kind has no colon, so that two things never have one name."""
    if ":" in check_name(kind):
        raise BadInput(
            f"{kind!r:.60} cannot be a kind of thing: a colon separates the kind from the id; write on('invoice', 7)"
        )
    return check_key(f"{kind}:{check_key(key)}")


class RunLease:
    """A run's lease, under which effects are made. They are not renewed themselves: they end with their run."""

    def __init__(
        self,
        lease: Lease,
        node: Callable[[], Node],
        unfinished: Unfinished | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._lease, self._node = lease, node
        self._sent: dict[str, str] = {}
        self.unfinished = Unfinished() if unfinished is None else unfinished
        """Effects that were asked for and are not known to be done, each with the error that the job function got."""
        self._check = check or lease.check

    @property
    def node(self) -> Node:
        return self._node()

    @property
    def ledger(self) -> Ledger:
        return self.node.ledger

    @property
    def trusted(self) -> bool:
        return self._lease.trusted

    @property
    def stopped(self) -> str:
        return self._lease.over.why if self._lease.over else ""

    def check(self) -> None:
        self._check()

    def hold(self, grant: Grant, _body: BodyStep) -> None:
        """It is held with the run."""
        self._sent[grant.key] = grant.record.key

    def let_go(self, grant: Grant) -> Grant:
        self._sent.pop(grant.key, None)
        return grant

    def begin(self, target: Target) -> Begin:
        return Begin(target.cell, self.ledger.nonce(), under=self._lease.grant, keep=target.keep)

    def key_of(self, target: Target) -> str:
        """What the other side knows the effect by: its name, unless another key is on record as sent. While the effect
        is being made that is known here; else the store is asked."""
        sent = self._sent.get(target.cell)
        if sent is None:
            sent = take(self._sent_before(target), self.node) if target.keep else ""
        return sent or target.name

    def _sent_before(self, target: Target) -> Steps[str]:
        loaded, _ = yield StoreStep(self.ledger.client.load([target.cell]))
        (cell,) = loaded.cells
        record = readable(cell, decode) if cell.version else None
        return record.key if record else ""

    def once(self, target: Target, work: Callable[[], Any], how: EffectPolicy) -> Steps[Any]:
        return self.unfinished.noted(target.name, self._once(target, work, how))

    def _once(self, target: Target, work: Callable[[], Any], how: EffectPolicy) -> Steps[Any]:
        self.check()  # before it is begun: in a process of its own, a run hears only now that its lease was renewed
        return (yield from once(Effect(target.name, self.begin(target), work), how, self))

    def once_each(
        self, items: Iterable[Any], target: Callable[[Any], Target], fn: Callable[[Any], Any], how: EffectPolicy
    ) -> Steps[list[Any]]:
        """Each of many. Where they may be repeated, many are begun and recorded as done in one call of the store."""
        targets = _targets(items, target)
        try:
            if how.unsure == "retry":
                return (yield from _Batches(self, fn, how).steps(targets))
            results = []
            for one, item in targets:
                results.append((yield from self.once(one, partial(fn, item), how)))
            return results
        except InProgress as error:
            self.unfinished.refuse(CronceError(f"run.once_each tried no item after this one: {error}"))
            raise
        except Exception as error:  # whatever it was: those that come after it were asked for, too
            self.unfinished.refuse(error)
            raise


def _targets(items: Iterable[Any], target: Callable[[Any], Target]) -> Iterable[tuple[Target, Any]]:
    seen: set[str] = set()
    for item in items:
        one = target(item)
        if one.cell in seen:
            raise BadInput(
                f"two items have the key {one.name!r:.80}, so one of them would not be done; give each item its own key"
            )
        seen.add(one.cell)
        yield one, item


class _Batches:
    """Steps that may be repeated: one call of the store records the end of one batch and the beginning of the next."""

    def __init__(self, under: RunLease, fn: Callable[[Any], Any], how: EffectPolicy) -> None:
        self._under, self._fn, self._how = under, fn, how
        self._unrecorded: list[Word] = []
        self._said_at = 0.0

    def steps(self, targets: Iterable[tuple[Target, Any]]) -> Steps[list[Any]]:
        results: list[Any] = []
        left = iter(targets)
        try:
            while batch := list(islice(left, STEPS_PER_CALL)):
                self._under.check()
                begun = yield from self._begin([self._under.begin(target) for target, _ in batch])
                results += yield from self._do(batch, begun)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._say()  # whatever went wrong: what is done is done
            raise
        yield from self._say()
        return results

    def _begin(self, begins: Sequence[Begin]) -> Steps[list[Begun]]:
        words, self._unrecorded = self._unrecorded, []
        said, begun = yield from exchange(words, begins, "retry", self._under)
        self._unrecorded = heard("a step", words, said, patient=self._under.trusted)
        self._said_at = self._boot()
        return begun

    def _do(self, batch: Sequence[tuple[Target, Any]], begun: Sequence[Begun]) -> Steps[list[Any]]:
        results = []
        for place, ((target, item), one) in enumerate(zip(batch, begun, strict=True)):
            try:
                done = self._one(target.name, item, one)
                results.append((yield from self._under.unfinished.noted(target.name, done)))
            except GeneratorExit:
                raise
            except BaseException:
                self._give_back(begun[place + 1 :])
                raise
            is_old = self._boot() > self._said_at + UNRECORDED_SECONDS
            if is_old or sum(map(_size, self._unrecorded)) > UNRECORDED_BYTES:
                yield from self._say()
        return results

    def _one(self, name: str, item: Any, begun: Begun) -> Steps[Any]:
        grant = begun.answer
        if not isinstance(grant, Grant):
            return known(name, begun, self._how, self._under)
        word = yield from performed(name, partial(self._fn, item), grant, self._how, self._under)
        if word is None:
            return None
        self._unrecorded.append(word)
        return returned(name, word[1])

    def _give_back(self, rest: Sequence[Begun]) -> None:
        """Steps that were not called may be begun by the next run."""
        self._unrecorded += [(one.answer, Release(one.answer.fence)) for one in rest if isinstance(one.answer, Grant)]

    def _say(self) -> Steps[None]:
        words, self._unrecorded = self._unrecorded, []
        if words:
            yield from say("a step", words, self._under)
        self._said_at = self._boot()

    def _boot(self) -> float:
        return self._under.node.clock.boot()


def _size(word: Word) -> int:
    return len(word[1].result) if isinstance(word[1], Finish) else 0


# --- the cursor -----------------------------------------------------------------------------------------------------

SCOPE_KEPT: Final = timedelta(days=90)
"""For how long a receiver remembers the highest fence of a scope from which nothing higher comes."""


class Cursor:
    """The last position of a job: what its next slot goes on from. It moves only while the run's lease is live, by the
    store's clock: a run that was taken over cannot set it back. And it moves only past what is done: a run that leaves
    an effect in doubt, or to another run that is doing it, moves it no further."""

    def __init__(self, job: str, lease: Lease, under: RunLease) -> None:
        self._job, self._lease, self._under = job, lease, under
        self.unfinished = under.unfinished

    def get(self, default: Any = None) -> Any:
        """The position as it was last set, by this run or an earlier one."""
        return take(self._got(default), self._under.node)

    def set(self, position: Any) -> None:
        """Keep the position, which is anything that JSON can hold. Raises `LeaseLost` if the run was taken over, and
        what an effect raised before, if that is not done."""
        take(self._put(position), self._under.node)

    @remembered
    def over(self, items: Iterable[T] | AsyncIterable[T], *, at: Callable[[T], Any]) -> "PassedItems[T]":
        """The items one after the other, in a `for` or an `async for`. When the loop comes back for the next, the
        position is that of the last one: `at(item)`, each greater than the one before. A loop that ends by an
        exception leaves the position before the item. One that catches it goes on, and the position stays where it is.
        """
        return PassedItems(self, items, at)

    async def aget(self, default: Any = None) -> Any:
        """`get`, on an event loop."""
        return await take_async(self._got(default), self._under.node)

    async def aset(self, position: Any) -> None:
        """`set`, on an event loop."""
        await take_async(self._put(position), self._under.node)

    def _got(self, default: Any) -> Steps[Any]:
        self._under.check()
        loaded, _ = yield StoreStep(self._under.ledger.client.load([cursor_cell(self._job)]))
        (cell,) = loaded.cells
        return json.loads(decode_position(cell.value, cell.key).value) if cell.version else default

    def _put(self, position: Any) -> Steps[None]:
        text = self._spelled(position)
        self._under.check()
        if self.unfinished:
            raise next(iter(self.unfinished.values()))
        grant = self._lease.grant
        until, value = grant.cells[0].until, RecordedPosition(grant.fence, text)
        if not (yield StoreStep(_moved(self._under.ledger.client, cursor_cell(self._job), value, until))):
            name = self._lease.name
            raise LeaseLost(f"{name} was taken over, so it does not move the cursor", name=name, fence=grant.fence)

    @remembered
    def _spelled(self, position: Any) -> str:
        return json_text("a cursor", position) or "null"


class PassedItems(Generic[T]):
    """Items that a job passes, and its cursor with it."""

    def __init__(self, cursor: Cursor, items: Iterable[T] | AsyncIterable[T], at: Callable[[T], Any]) -> None:
        if not callable(at):
            raise BadInput(f"at={at!r:.60} is not a function of an item, such as at=lambda order: order.id")
        self._cursor, self._items, self._at, self.unfinished = cursor, items, at, cursor.unfinished
        self._last: Any = None

    def __iter__(self) -> Iterator[T]:
        for item in self._at_hand():
            position = self._next(item)
            yield item
            if not self.unfinished:  # all that the run was to do so far is done
                self._cursor.set(position)

    async def __aiter__(self) -> AsyncIterator[T]:
        async for item in _asynchronously(self._items):
            position = self._next(item)
            yield item
            if not self.unfinished:  # all that the run was to do so far is done
                await self._cursor.aset(position)

    @remembered
    def _at_hand(self) -> Iterable[T]:
        if not isinstance(self._items, Iterable):
            raise BadInput("these items are asynchronous: use `async for`, or pass a list")
        return self._items

    @remembered
    def _next(self, item: T) -> Any:
        position, last = self._at(item), self._last
        if last is not None and not position > last:
            raise BadInput(
                f"the cursor was at {last!r:.60}, and the next item is at {position!r:.60}: the next run would"
                " skip items; sort them by position, and give each item its own position"
            )
        self._last = position
        return position


async def _asynchronously(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def admitted(client: Client, scope: str, fence: Fence) -> Flow[bool]:
    """Whether no higher fence was seen in the scope; from now on no lower one is admitted."""
    return (yield from _moved(client, scope_cell(scope), RecordedPosition(fence), ttl=SCOPE_KEPT))


def _moved(
    client: Client, key: str, to: RecordedPosition, until: Instant | None = None, ttl: timedelta | None = None
) -> Flow[bool]:
    """Whether it is recorded there now: not if a higher fence was there before, or the time is over."""

    def make(cell: Cell, now: Instant) -> tuple[bool, Write | None]:
        was = decode_position(cell.value, cell.key) if cell.version else None
        if was == to:
            return True, None
        if (was is not None and was.fence > to.fence) or (until is not None and now >= until):
            return False, None
        return True, Write(key, cell.version, encode_notice(to), Mark.OPEN, ttl=ttl, not_after=until)

    return (yield from client.rewrite(key, make))
