"""`Run`, which a job function is given, and `Skipped`, which a caller gets when it did not run."""

import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from cronce.errors import BadInput, BodyFailed, InDoubt, InProgress, LeaseLost
from cronce.model import Boot, Fence, Slot
from cronce.policy import WhenUnsure
from cronce.protocol.record import MOST_LAPSED, PAST_KEPT, Record, effects_key
from cronce.protocol.table import NOTHING_RAN
from cronce.runtime.interrupt import shielded
from cronce.runtime.keeper import Lease, LeaseEnd
from cronce.runtime.ledger import Grant
from cronce.runtime.unfinished import REFUSED_EFFECT, Unfinished, remembered, tell_doubts
from cronce.value import Value

if TYPE_CHECKING:
    from cronce.runtime.declare import Declaration
    from cronce.runtime.effects.once import EffectPolicy
    from cronce.runtime.effects.steps import Cursor, RunLease, Target
    from cronce.runtime.effects.things import Thing
    from cronce.runtime.keeper import Keeper
    from cronce.runtime.processes.isolated import IsolatedHost, IsolatedJob
    from cronce.runtime.steps import Steps
    from cronce.runtime.transactions import Transaction

C = TypeVar("C")
T = TypeVar("T")

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call."""

Kind = Literal["held", "closed", "too old", "paused", "superseded"]


class Run:
    """One execution of a slot, handed to a body that has a parameter named `run`."""

    _made: "RunLease | None" = None
    committed = False
    """Its completion is, together with what it wrote."""
    joined = False
    """A transaction was begun for it: it may be committed although no answer came."""
    transactions = 0
    """How many it was asked for."""
    _closed = False

    def __init__(self, lease: Lease, host: "Keeper | IsolatedHost", job: "Declaration | IsolatedJob") -> None:
        """In an isolated child, host and job are the line to those of the parent."""
        self._lease, self._host, self._job = lease, host, job
        self.unfinished = Unfinished()
        """Effects that were asked for and are not known to be done, each with the error that the job function got."""
        self._done_by: dict[str, object] = {}
        self.environment: dict[str, str] = {}
        """More variables for a command that it runs, such as the trace that it is part of."""
        self.unawaited: list[str] = []
        """Effects of coroutine functions that were not awaited yet."""
        self.unentered: list[object] = []
        """Transactions that were not entered yet."""

    @property
    def attempt(self) -> int:
        """1 for the first, more after a takeover or a retry."""
        return times_begun(self.grant.record)

    @property
    def over(self) -> LeaseEnd | None:
        """Why its lease ended, if it did."""
        return self._lease.over

    @property
    def job(self) -> str:
        return self.slot.job

    @property
    def grant(self) -> Grant:
        """The right to run, as it was last renewed."""
        return self._lease.grant

    @property
    def slot(self) -> Slot:
        slot = self._lease.grant.slot
        assert slot is not None
        return slot

    @property
    def at(self) -> datetime:
        """The slot's instant, in UTC: what the run is about, however late it is."""
        return self.slot.at

    @property
    def key(self) -> str:
        """The idempotency key for effects: the same in every attempt of the slot, and in a rerun of it."""
        return effects_key(self.grant.record, self.slot)

    @property
    def payload(self) -> Any:
        """What the run was triggered with, or else what its job gives to each; None if nothing."""
        text = self.grant.record.payload
        return json.loads(text) if text else None

    def progress(self, done: int, total: int) -> None:
        """Report the progress of the job function; `cronce runs` shows it. Call it as often as you like: it is recorded
        at most once a second."""
        if type(done) is not int or type(total) is not int or not 0 <= done <= total:
            raise BadInput(f"progress is a number of a total, such as 30 of 200, not {done!r:.40} of {total!r:.40}")
        with shielded():  # a stop that arrives inside would leave the keeper's lock taken for ever
            self._host.note_progress(self._lease, done, total)

    @property
    def fence(self) -> Fence:
        """Higher in every later grant: a receiver that remembers the highest refuses a run that was taken over."""
        return self.grant.fence

    @property
    def trusted(self) -> bool:
        """Whether the body may still act. Asked of the clock each time: it costs a microsecond."""
        return not self._closed and self._lease.trusted

    def check(self) -> None:
        """Raise `LeaseLost` unless the body may still act."""
        if self._closed:
            raise LeaseLost(f"{self.key} is over: its job function has ended", name=self.key, fence=self.fence)
        self._lease.check()

    def close(self) -> None:
        """The job function has ended: a thread or a task that it left behind may not act for it any more."""
        self._closed = True

    @property
    def deadline(self) -> datetime | None:
        """When its time is up, by the job's timeout; None without one. Its lease is renewed until then."""
        return self._lease.deadline

    # --- effects ---

    @property
    def doubts(self) -> list[str]:
        """Why it is not known of effects whether they happened, where a person has to look, whatever the body does: of
        all of them in one text."""
        doubts = [error for error in self.unfinished.values() if isinstance(error, InDoubt)]
        return [tell_doubts(doubts)] if doubts else []

    @property
    def undone(self) -> list[str]:
        """Effects that were asked for and are not done, by the error that the job function got; not those that another
        run holds."""
        done = self.key if self.committed else None
        left = {name: error for name, error in self.unfinished.items() if name != done}
        undone = {name: _told(one) for name, one in left.items() if not isinstance(one, InDoubt | InProgress)}
        return [why if name == REFUSED_EFFECT else f"{name} is not done: {why}" for name, why in undone.items()]

    @property
    def forgotten(self) -> BadInput | None:
        """What a body has asked for and then left: it would never happen."""
        if self.unawaited:
            return BadInput(f"{self.unawaited[0]} was never awaited, and did nothing: write `await` before it")
        if self.unentered:
            return BadInput(f"{self.unentered[0]} was never entered, and committed nothing: write `with` before it")
        return None

    @remembered
    def on(self, kind: str, key: object) -> "Thing":
        """A thing that effects are made on, such as `run.on("invoice", 7)`: what is done to it is done once, whichever
        slot, job or queue reaches it."""
        from cronce.runtime.effects.things import Thing  # noqa: PLC0415  not every body has effects

        return Thing(self, kind, key)

    @overload
    def once(
        self,
        key: object,
        fn: Callable[..., Any],
        *args: Any,
        per: Literal["slot"] | None = None,
        unsure: Literal["skip"],
        **named: Any,
    ) -> Any: ...

    @overload
    def once(
        self,
        key: object,
        fn: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        per: Literal["slot"] | None = None,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> Awaitable[T]: ...

    @overload
    def once(
        self,
        key: object,
        fn: Callable[..., T],
        *args: Any,
        per: Literal["slot"] | None = None,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> T: ...

    @remembered
    def once(
        self,
        key: object,
        fn: Callable[..., Any],
        *args: Any,
        per: Literal["slot"] | None = None,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
        **named: Any,
    ) -> Any:
        """Call `fn` once per slot: `run.once("report", send_report, per="slot")`. For what may not happen to a thing
        twice, in whatever slot, write `run.on("invoice", 7).once("charge", …)`.

        A repeat returns the recorded result, kept as JSON. With an `async def` it is awaited. If it is unknown whether
        it happened (its run died, or it raised anything but `not_done`), `unsure` decides: "raise" raises `InDoubt`, so
        that a person looks; "retry" is for a receiver that knows its key (`key_of`); or "skip".
        """
        from cronce.runtime.effects.once import checked_how  # noqa: PLC0415  not every body has effects

        target, how = self._of_slot("once", key, per), checked_how(unsure, not_done)
        return self.make(target, target.name, fn, (args, named), how)

    @remembered
    def once_each(
        self,
        items: Iterable[Any],
        *,
        key: Callable[[Any], object],
        fn: Callable[[Any], Any],
        on: str | None = None,
        what: str | None = None,
        per: Literal["slot"] | None = None,
        unsure: WhenUnsure = "raise",
        not_done: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> Any:
        """`once` for each of many, one after the other. Returns the list of results. The key of an item is the id of a
        thing (`on="invoice", what="charge"`), or counts within the slot (`per="slot"`). With unsure="retry" the store
        is asked for a hundred at a time; a run that dies may then repeat some of the last."""
        from cronce.runtime.effects.once import checked_how  # noqa: PLC0415
        from cronce.runtime.effects.things import target_each  # noqa: PLC0415
        from cronce.runtime.guard import check_callable, finished  # noqa: PLC0415

        check_callable(fn)
        check_callable(key)
        target = target_each(self, key, fn, on=on, what=what, per=per)
        steps = self._under.once_each(items, target, finished(fn, "the step"), checked_how(unsure, not_done))
        return self._take(fn, "run.once_each(…)", steps)

    def make(self, target: "Target", what: str, fn: Callable[..., Any], given: "Given", how: "EffectPolicy") -> Any:
        """Make an effect, once. What is done so is done by this function alone."""
        from cronce.runtime.guard import check_call, finished  # noqa: PLC0415

        args, named = given
        check_call(fn, args, named)
        self.note_function(what, fn)
        done = finished(fn, "the step")
        return self._take(fn, target.name, self._under.once(target, lambda: done(*args, **named), how))

    def note_function(self, name: str, fn: Callable[..., Any]) -> None:
        """Another function under the same name would never be called where the first one was."""
        from cronce.runtime.effects.things import refuse_another  # noqa: PLC0415

        refuse_another(self._done_by, name, fn)

    def sent_key(self, target: "Target") -> str:
        """What the other side knows an effect by."""
        return self._under.key_of(target)

    def _of_slot(self, call: str, key: object, per: object) -> "Target":
        from cronce.runtime.effects.steps import of_slot  # noqa: PLC0415
        from cronce.runtime.effects.things import refuse_scope  # noqa: PLC0415

        refuse_scope(call, key, per)
        return of_slot(self.key, key)

    def _take(self, fn: Callable[..., Any], call: str, steps: "Steps[Any]") -> Any:
        """Here, or where the function is a coroutine function, when it is awaited."""
        from cronce.runtime.guard import is_async, on_event_loop  # noqa: PLC0415
        from cronce.runtime.steps import take  # noqa: PLC0415

        if not is_async(fn):
            return take(steps, self._host.node)
        if not on_event_loop():
            raise BadInput(
                f"{call} of a coroutine function must be awaited: make the job function `async def`, and await it there"
            )
        self.unawaited.append(call)
        return self._awaited(call, steps)

    async def _awaited(self, call: str, steps: "Steps[Any]") -> Any:
        from cronce.runtime.steps import take_async  # noqa: PLC0415

        self.unawaited.remove(call)
        return await take_async(steps, self._host.node)

    @remembered
    def transaction(self, conn: C, step: str = "", *, per: Literal["slot"] | None = None) -> "Transaction[C]":
        """What is written in the block commits under this run's fence, together with the run's completion: `with
        run.transaction(conn) as tx:`, or `async with`. A run that was taken over cannot commit.

        One of several is named: `run.on("invoice", 7).transaction(conn, "charge")` commits once for the thing,
        `run.transaction(conn, "totals", per="slot")` once for the slot. One that was committed before raises
        `AlreadyDone`. The job names the database by `transaction=`.
        """
        from cronce.runtime.effects.things import refuse_scope  # noqa: PLC0415

        if step:
            refuse_scope("transaction", step, per)
        return self.join(conn, step)

    def join(self, conn: C, step: str, of: str = "") -> "Transaction[C]":
        """A transaction that puts this step on record: of the slot or, by the name of what is done, the thing."""
        from cronce.runtime.transactions import Transaction  # noqa: PLC0415

        database = self._job.database
        if database is None:
            raise BadInput(
                f"the job {self.job} declares no database for run.transaction; add it: @cron.job(…, transaction=…)"
            )
        self.transactions += 1
        return Transaction(database, self, conn, step, of)

    @remembered
    def key_of(self, key: object, *, per: Literal["slot"] | None = None) -> str:
        """The key of an effect of the slot, for the other side to know it by: the same in every attempt and rerun of
        it. Of an effect on a thing: `run.on("invoice", 7).key_of("charge")`."""
        return self._of_slot("key_of", key, per).name

    @remembered
    def headers(self, key: object, *, per: Literal["slot"] | None = None) -> dict[str, str]:
        """The headers for a request that makes an effect of the slot: `Idempotency-Key` and `Cronce-Fence`. For an
        effect on a thing: `run.on("invoice", 7).headers("charge")`."""
        return self.headers_of(self._of_slot("headers", key, per).name)

    def headers_of(self, key: str) -> dict[str, str]:
        from cronce.headers import headers  # noqa: PLC0415

        return headers(key, self.fence, self.scope)

    @property
    def scope(self) -> str:
        """Within what its fence counts: the job where one run at a time goes on, else the slot."""
        return self.job if self.exclusive else self.key

    @property
    @remembered
    def cursor(self) -> "Cursor":
        """How far the job has come: `run.cursor.get()`, `run.cursor.set(position)`. One for all its slots."""
        from cronce.runtime.effects.steps import Cursor  # noqa: PLC0415

        if not self.exclusive:
            raise BadInput(
                f"runs of {self.job} may overlap, and would overwrite each other's cursor; allow one run at a time"
                " (no overlap='allow', no turns)"
            )
        return Cursor(self.job, self._lease, self._under)

    @property
    def ends(self) -> Boot | None:
        """`deadline`, by the clock that all processes of a machine share."""
        return self._lease.ends

    @property
    def exclusive(self) -> bool:
        """No other run of its job goes on."""
        return self._job.exclusive

    @property
    def _under(self) -> "RunLease":
        from cronce.runtime.effects.steps import RunLease  # noqa: PLC0415

        if self._made is None:
            self._made = RunLease(self._lease, lambda: self._host.node, self.unfinished, self.check)
        return self._made

    def __repr__(self) -> str:
        return f"<run {self.attempt} of {self.key}, fence {self.fence}>"


def times_begun(record: Record) -> int:
    """How often it was begun: its grants, but for those under which nothing ran. While one of these is among the older
    grants that are kept, all that were forgotten are such."""
    idle = [past.end in NOTHING_RAN for past in record.past]
    if not any(idle[:-MOST_LAPSED]) or len(idle) < PAST_KEPT:
        return max(record.grant - sum(idle), 0)
    is_kept = not record.is_running and (not record.is_closed or record.past[-1].started == record.started)
    return len(idle) - sum(idle) + (not is_kept)


def _told(error: BaseException) -> str:
    """In words; what comes from another process is in words already."""
    from cronce.runtime.attempt import describe  # noqa: PLC0415  it imports this module

    return str(error) if isinstance(error, BodyFailed) else describe(error)


class Skipped(Value):
    """What a guarded call returns when its job function did not run here. It is false; `reason` is why, for people."""

    kind: Kind
    reason: str
    slot: str = ""
    outcome: str | None = None
    """How the slot was closed, if it was: succeeded, failed, skipped, lost, unknown."""

    def __bool__(self) -> bool:
        return False


# --- which run this is ----------------------------------------------------------------------------------------------

# Known to all code that a job function calls, however deep, so that a log line can show it. It goes with the context:
# into coroutines and tasks, and into `asyncio.to_thread`, not into threads that a body starts by itself.

Around = Callable[[Run], AbstractContextManager[object]]
"""What a body runs within."""

_CURRENT: Final[ContextVar[Run | None]] = ContextVar("cronce_run", default=None)


def current_run() -> Run | None:
    """The run whose body this is called by; None outside of one."""
    return _CURRENT.get()


class AsCurrentRun:
    """For a while, this run is the current one. By hand: a body may take less time than contextlib."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._token: Token[Run | None] = _CURRENT.set(self._run)

    def __exit__(self, *_error: object) -> None:
        _CURRENT.reset(self._token)
