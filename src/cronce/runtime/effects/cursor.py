"""How far a job has come, kept in the store under the fence; and what a receiver has seen of fences."""

import json
from datetime import timedelta
from typing import Any, Final

from cronce.errors import LeaseLost
from cronce.model import Cell, Fence, Instant, Mark, Write, cursor_cell, scope_cell
from cronce.protocol.record import Position, decode_position, encode_position
from cronce.runtime.carrier import Carrier
from cronce.runtime.effects.under_run import UnderRun
from cronce.runtime.flow import Flow
from cronce.runtime.keeper import Lease
from cronce.runtime.kept_json import json_text
from cronce.runtime.steps import Do, Steps, take, take_async

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
        loaded, _ = yield Do(self._under.ledger.carrier.load([cursor_cell(self._job)]))
        (cell,) = loaded.cells
        return json.loads(decode_position(cell.value, cell.key).value) if cell.version else default

    def _put(self, position: Any) -> Steps[None]:
        text = json_text("a cursor", position) or "null"
        self._under.check()
        grant = self._lease.grant
        until, value = grant.cells[0].until, Position(grant.fence, text)
        if not (yield Do(_moved(self._under.ledger.carrier, cursor_cell(self._job), value, until))):
            name = self._lease.name
            raise LeaseLost(f"{name} was taken over, and does not move the cursor", name=name, fence=grant.fence)


def admitted(carrier: Carrier, scope: str, fence: Fence) -> Flow[bool]:
    """Whether no higher fence was seen in the scope; from now on no lower one is admitted."""
    return (yield from _moved(carrier, scope_cell(scope), Position(fence), ttl=SCOPE_KEPT))


def _moved(
    carrier: Carrier, key: str, to: Position, until: Instant | None = None, ttl: timedelta | None = None
) -> Flow[bool]:
    """Whether it stands there now: not if a higher fence was there before, or the time is over."""

    def make(cell: Cell, now: Instant) -> tuple[bool, Write | None]:
        was = decode_position(cell.value, cell.key) if cell.version else None
        if was == to:
            return True, None
        if (was is not None and was.fence > to.fence) or (until is not None and now >= until):
            return False, None
        return True, Write(key, cell.version, encode_position(to), Mark.OPEN, ttl=ttl, not_after=until)

    return (yield from carrier.rewrite(key, make))
