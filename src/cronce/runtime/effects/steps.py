"""What a body does under its run's lease: steps, which are done once per slot however often the body is run, and the
cursor, which says how far the job has come. Beside them, what a receiver has seen of fences."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

from cronce.errors import BadInput, InDoubt, LeaseLost
from cronce.model import Cell, Fence, Instant, Mark, Write, check_key, cursor_cell, effect_cells, scope_cell
from cronce.protocol.codec import json_text
from cronce.protocol.commands import Finish, Release
from cronce.protocol.notices import Position, decode_position, encode_notice
from cronce.runtime.client import Client
from cronce.runtime.desk import Desk
from cronce.runtime.effects.once import Effect, How, Word, exchange, heard, known, once, performed, returned, say
from cronce.runtime.flow import Flow
from cronce.runtime.keeper import Lease
from cronce.runtime.ledger import Begin, Begun, Grant, Ledger
from cronce.runtime.steps import Body, Do, Steps, take, take_async

AT_ONCE: Final = 100
"""How many steps are begun, and said to be done, in one call of the store."""

UNSAID: Final = 1.0
"""Seconds for which steps may be done without that being on record, where they may be repeated."""


UNSAID_BYTES: Final = 1 << 20
"""Of results that are kept back to be said together: no store need take more in one call."""


class UnderRun:
    """A run's lease, as steps are made under it. Nobody renews a step: it is over with its run."""

    def __init__(
        self,
        key: str,
        lease: Lease,
        desk: Callable[[], Desk],
        doubts: list[str] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._key, self._lease, self._desk = key, lease, desk
        self.doubts = [] if doubts is None else doubts
        self._check = check or lease.check

    @property
    def desk(self) -> Desk:
        return self._desk()

    @property
    def ledger(self) -> Ledger:
        return self.desk.ledger

    @property
    def trusted(self) -> bool:
        return self._lease.trusted

    @property
    def stopped(self) -> str:
        return self._lease.over.why if self._lease.over else ""

    def check(self) -> None:
        self._check()

    def hold(self, _grant: Grant, _body: Body) -> None:
        """It is held with the run."""

    def let_go(self, grant: Grant) -> Grant:
        return grant

    def doubt(self, doubt: InDoubt) -> None:
        self.doubts.append(doubt.brief)

    def begin(self, key: str) -> Begin:
        return Begin(f"{effect_cells(self._key)}{key}", self.ledger.nonce(), under=self._lease.grant)

    def name(self, key: str) -> str:
        """What the step is called, and what the other side knows it by."""
        return f"{self._key}/{key}"

    def once(self, key: object, work: Callable[[], Any], how: How) -> Steps[Any]:
        text = check_key(key)
        return once(Effect(self.name(text), self.begin(text), work), how, self)

    def once_each(
        self, items: Iterable[Any], key: Callable[[Any], object], fn: Callable[[Any], Any], how: How
    ) -> Steps[list[Any]]:
        """Each of many. Where they may be repeated, many are begun and said to be done in one call of the store."""
        keyed = _keyed(items, key)
        if how.unsure == "retry":
            return (yield from _Batches(self, fn, how).steps(keyed))
        results = []
        for text, item in keyed:
            results.append((yield from self.once(text, partial(fn, item), how)))
        return results


def _keyed(items: Iterable[Any], key: Callable[[Any], object]) -> Iterable[tuple[str, Any]]:
    seen: set[str] = set()
    for item in items:
        text = check_key(key(item))
        if text in seen:
            raise BadInput(f"two items have the key {text!r:.80}, so one of them would not be done; each has its own")
        seen.add(text)
        yield text, item


class _Batches:
    """Steps that may be repeated: what is done of one batch is said together with the beginning of the next."""

    def __init__(self, under: UnderRun, fn: Callable[[Any], Any], how: How) -> None:
        self._under, self._fn, self._how = under, fn, how
        self._unsaid: list[Word] = []
        self._said_at = 0.0

    def steps(self, keyed: Iterable[tuple[str, Any]]) -> Steps[list[Any]]:
        results: list[Any] = []
        left = iter(keyed)
        try:
            while batch := list(islice(left, AT_ONCE)):
                self._under.check()
                begun = yield from self._begin([self._under.begin(key) for key, _ in batch])
                results += yield from self._do(batch, begun)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._say()  # whatever went wrong: what is done is done
            raise
        yield from self._say()
        return results

    def _begin(self, begins: Sequence[Begin]) -> Steps[list[Begun]]:
        words, self._unsaid = self._unsaid, []
        said, begun = yield from exchange(words, begins, "retry", self._under)
        self._unsaid = heard("a step", words, said, patient=self._under.trusted)
        self._said_at = self._boot()
        return begun

    def _do(self, batch: Sequence[tuple[str, Any]], begun: Sequence[Begun]) -> Steps[list[Any]]:
        results = []
        for place, ((key, item), one) in enumerate(zip(batch, begun, strict=True)):
            try:
                results.append((yield from self._one(self._under.name(key), item, one)))
            except GeneratorExit:
                raise
            except BaseException:
                self._give_back(begun[place + 1 :])
                raise
            if self._boot() > self._said_at + UNSAID or sum(map(_size, self._unsaid)) > UNSAID_BYTES:
                yield from self._say()
        return results

    def _one(self, name: str, item: Any, begun: Begun) -> Steps[Any]:
        grant = begun.answer
        if not isinstance(grant, Grant):
            return known(name, begun, self._how, self._under)
        word = yield from performed(name, partial(self._fn, item), grant, self._how, self._under)
        if word is None:
            return None
        self._unsaid.append(word)
        return returned(name, word[1])

    def _give_back(self, rest: Sequence[Begun]) -> None:
        """What was not begun after all may be begun by the next run."""
        self._unsaid += [(one.answer, Release(one.answer.fence)) for one in rest if isinstance(one.answer, Grant)]

    def _say(self) -> Steps[None]:
        words, self._unsaid = self._unsaid, []
        if words:
            yield from say("a step", words, self._under)
        self._said_at = self._boot()

    def _boot(self) -> float:
        return self._under.desk.clock.boot()


def _size(word: Word) -> int:
    return len(word[1].result) if isinstance(word[1], Finish) else 0


# --- the cursor -----------------------------------------------------------------------------------------------------

SCOPE_KEPT: Final = timedelta(days=90)
"""For how long a receiver remembers the highest fence of a scope from which nothing higher comes."""


class Cursor:
    """The last position of a job: what its next slot goes on from. It moves only while the run's lease is live, by the
    store's clock: a run that was taken over cannot set it back."""

    def __init__(self, job: str, lease: Lease, under: UnderRun) -> None:
        self._job, self._lease, self._under = job, lease, under

    def get(self, default: Any = None) -> Any:
        """The position as it was last set, by this run or an earlier one."""
        return take(self._got(default), self._under.desk)

    def set(self, position: Any) -> None:
        """Keep the position, which is anything that JSON can say. Raises `LeaseLost` if the run was taken over."""
        take(self._put(position), self._under.desk)

    async def aget(self, default: Any = None) -> Any:
        """`get`, on an event loop."""
        return await take_async(self._got(default), self._under.desk)

    async def aset(self, position: Any) -> None:
        """`set`, on an event loop."""
        await take_async(self._put(position), self._under.desk)

    def _got(self, default: Any) -> Steps[Any]:
        self._under.check()
        loaded, _ = yield Do(self._under.ledger.client.load([cursor_cell(self._job)]))
        (cell,) = loaded.cells
        return json.loads(decode_position(cell.value, cell.key).value) if cell.version else default

    def _put(self, position: Any) -> Steps[None]:
        text = json_text("a cursor", position) or "null"
        self._under.check()
        grant = self._lease.grant
        until, value = grant.cells[0].until, Position(grant.fence, text)
        if not (yield Do(_moved(self._under.ledger.client, cursor_cell(self._job), value, until))):
            name = self._lease.name
            raise LeaseLost(f"{name} was taken over, and does not move the cursor", name=name, fence=grant.fence)


def admitted(client: Client, scope: str, fence: Fence) -> Flow[bool]:
    """Whether no higher fence was seen in the scope; from now on no lower one is admitted."""
    return (yield from _moved(client, scope_cell(scope), Position(fence), ttl=SCOPE_KEPT))


def _moved(
    client: Client, key: str, to: Position, until: Instant | None = None, ttl: timedelta | None = None
) -> Flow[bool]:
    """Whether it stands there now: not if a higher fence was there before, or the time is over."""

    def make(cell: Cell, now: Instant) -> tuple[bool, Write | None]:
        was = decode_position(cell.value, cell.key) if cell.version else None
        if was == to:
            return True, None
        if (was is not None and was.fence > to.fence) or (until is not None and now >= until):
            return False, None
        return True, Write(key, cell.version, encode_notice(to), Mark.OPEN, ttl=ttl, not_after=until)

    return (yield from client.rewrite(key, make))
