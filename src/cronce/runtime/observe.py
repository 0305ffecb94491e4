"""Calls that are only observed: they run as before, and what came too often is counted.

`@cron.observe` needs no schedule: calls within a window of each other are one. The window slides. 10:00:09.9 and
10:00:10.1 are 0.2 s apart wherever a grid of windows would have its edge: a call is one too many when another came no
longer than a window before it, for the same key. So of n calls in a bunch n - 1 are. Calls are put in order by the
store's clock before they are compared, so that one that is written down late is found, too.

What is on record is bounded: the last calls, the last that were too many, and two counts. Where more calls than are
kept come within one window, the second count is a lower bound.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from functools import partial, wraps
from inspect import signature
from typing import Any, Final

from cronce.clock import Clock
from cronce.errors import BadInput, BadPolicy, CronceError, StoreError
from cronce.events import Event, What
from cronce.model import MICROSECOND, Boot, Cell, Instant, Mark, Slot, Write, check_key, check_name, observed_cell
from cronce.protocol.codec import readable
from cronce.protocol.commands import Closed, Held
from cronce.protocol.notices import Doubled, LastBeat, Observed, decode_observed, encode_notice
from cronce.protocol.record import Outcome, decode
from cronce.runtime.attempt import Ending, Work, describe
from cronce.runtime.background import BackgroundWriter, Note, NoteWrite
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, Duration, When
from cronce.runtime.flow import Flow
from cronce.runtime.guard import dressed, is_async, refuse_generators
from cronce.runtime.keeper import Keeper, LeaseEnd
from cronce.runtime.log import LOGGER
from cronce.runtime.pod import JOB_NAME, fired_at
from cronce.runtime.process_notes import NOTES_TTL
from cronce.runtime.queries import load, read_all
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import BodyStep, take
from cronce.schedule import format_duration, parse_duration
from cronce.stores.base import Scan
from cronce.value import NamedTuple

CALLS_KEPT: Final = 50
"""How many calls are kept, to compare others with."""

EXTRA_CALLS_KEPT: Final = 20
"""How many of those that were too many are kept, for people."""


class ExtraCall(NamedTuple):
    """Why a call was one too many for its slot."""

    slot: str
    why: str


class Observation(Note):
    """One call. Without a window it is identified by its slot, and `refusal` records whether it was one too many."""

    def __init__(
        self, name: str, boot: Boot, window: timedelta | None, *, key: str = "", refusal: ExtraCall | None = None
    ) -> None:
        super().__init__(observed_cell(name), boot)
        self._window, self._key, self._refusal = window, key, refusal
        self._call: LastBeat | None = None

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
        kept = sorted((*known.calls, *fresh))[-CALLS_KEPT:]
        times, count = known.times + len(fresh), known.doubled + len(doubled)
        recent = (*known.recent, *doubled)[-EXTRA_CALLS_KEPT:]
        value = encode_notice(Observed(self._window, tuple(kept), times, count, recent))
        events = [_event(one, cell.key, holder, count, times) for one in doubled]
        return NoteWrite(Write(cell.key, cell.version, value, Mark.FREE, ttl=NOTES_TTL), events)

    def call(self, known: Iterable[LastBeat], beside: Iterable[Note], holder: str) -> LastBeat:
        """As it is on record. Two threads may call at one moment, and are two."""
        if self._call is None:
            assert self.at is not None
            taken = {*known, *(one._call for one in beside if isinstance(one, Observation))}
            self._call = LastBeat(self.at, holder, self._key)
            while self._call in taken:
                self._call = self._call._replace(at=self._call.at + MICROSECOND)
        return self._call


def doubles(known: Sequence[LastBeat], fresh: Sequence[LastBeat], window: timedelta) -> list[Doubled]:
    """Which calls are too many now, and were not before. A call from before those that are kept is compared to none."""
    oldest = known[0].at if len(known) == CALLS_KEPT else None
    together = sorted((*known, *(call for call in fresh if oldest is None or call.at >= oldest)))
    before, after = _firsts(known, window), _firsts(together, window)
    return [_doubled(call, first) for call, first in after.items() if call not in before]


def _firsts(calls: Sequence[LastBeat], window: timedelta) -> dict[LastBeat, LastBeat]:
    """For each call that is one too many, the first that it is too many after. They are in order."""
    found = {}
    for place, call in enumerate(calls):
        earlier = (one for one in calls[:place] if one.key == call.key and call.at - one.at <= window)
        if first := next(earlier, None):
            found[call] = first
    return found


def _doubled(call: LastBeat, first: LastBeat) -> Doubled:
    gap = format_duration(call.at - first.at)
    return Doubled(_fine(first.at), call.at, call.by, f"{gap} after a call by {first.by}")


def _fine(instant: Instant) -> str:
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(one: Doubled, cell: str, holder: str, count: int, times: int) -> Event:
    detail = f"{one.by} ran it, {one.why}; extra runs so far: {count} of {times} calls"
    return Event(What.DOUBLED, cell, holder, one.at, detail=detail)


def _known(cell: Cell) -> Observed:
    return readable(cell, decode_observed) or Observed(None, (), 0, 0, ())


# --- any function ---------------------------------------------------------------------------------------------------


def observer(
    name: str,
    window: Duration,
    key: Callable[..., object] | None,
    background: Callable[[], BackgroundWriter],
    boot: Callable[[], Boot],
) -> Callable[[Callable[..., Any]], Any]:
    """Notes the calls of one function, and never refuses them. A call is noted as its job function begins, and recorded
    in the background."""
    if not isinstance(name, str):
        raise BadInput("write @cron.observe('order_sync', window='10s'), with a name for what is observed")
    if key is not None and not callable(key):
        raise BadInput("key is a function of the call's arguments, such as key=lambda order: order.id")
    check_name(name)
    span = parse_duration(window)
    if span <= timedelta(0):
        raise BadInput("window is the time within which two calls count as one: more than zero, such as '10s'")

    def begin(_when: None, args: tuple[Any, ...], named: Mapping[str, Any]) -> Block:
        """Whatever cannot be noted is no reason not to run."""
        began = boot()
        try:
            told = "" if key is None else _digest(key(*args, **named))
        except Exception as error:
            why = f"the key of a call of {name} is unknown, so the call is not recorded: {describe(error)}"
            background().warn(name, why)
        else:
            background().add(Observation(name, began, span, key=told))
        return _UNWATCHED

    return lambda fn: observed(fn, begin)[0]


Block = AbstractContextManager[Callable[[Any], None]]
"""What the job function of a call runs in; it is called with what the function returned."""

_UNWATCHED: Final[Block] = nullcontext(lambda _result: None)


def observed(fn: Callable[..., Any], begin: Callable[..., Block], *, pops_slot: bool = False) -> tuple[Any, Any]:
    """The function as it was, each call in the block that `begin` makes of its slot and its arguments; and the same as
    a function that takes the slot first. A call that its signature refuses begins nothing."""
    try:
        bind = signature(fn, follow_wrapped=False).bind  # what it takes itself, whatever it wraps
    except ValueError:  # it is built in, without a signature
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
    """A key may be long, and private."""
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
    page = yield from read_all(Scan("observed/"))
    return page.now, [_seen(cell) for cell in page.cells]


def _seen(cell: Cell) -> ObservedSeen:
    return ObservedSeen(cell.key.partition("/")[2], readable(cell, decode_observed))


# --- guarded calls that refuse nothing: mode="observe" ----------------------------------------------------------------

# The body runs as before, in the thread or the task that called it. Beside it, on a thread of its own, the call is made
# that the guard would make, and the body of that only waits until the real one is over. So the slot is claimed, renewed
# and closed as it would be; a call that is refused runs all the same, and that is noted. Nothing that befalls the lease
# reaches the body, and the body never waits for its shadow: not before it begins, nor after it has ended. The shadow
# goes by the moment of the call, however late it gets to ask.
#
# Not every refusal is of a duplicate. Where the slot is another's, or a run closed it, the body ran once too often.
# Where the job is paused, the slot too old, or another slot still runs, the guard would not have run it, and no other
# process did.
#
# A shadow leaves nothing behind that would run some day: it waits for no turn and stops no other run, and a slot that
# failed, or whose process died, is closed.

OBSERVED_SUCCESS: Final = Ending(Outcome.SUCCEEDED)


class ObservedCall(Work):
    """A call beside a job function that runs anyway: it asks the store, and what it runs where that grants the slot is
    this, which waits until the real function is over, and reports how that ended. The real function runs in the block,
    whether it is awaited there or not: `with ObservedCall(…) as returned:`, which is called with its result."""

    def __init__(
        self,
        job: Declaration,
        when: When | Exception | None,
        background: BackgroundWriter,
        at_work: Callable[[], Keeper],
        clock: Clock,
        *,
        ended: Callable[[Any], Ending] = lambda _result: OBSERVED_SUCCESS,
    ) -> None:
        self.name = job.name
        self.over, self.decided, self.done = threading.Event(), threading.Event(), threading.Event()
        """The job function has ended; the store's answer to the call is known; and all of it is on record."""
        self._job, self._background, self._at_work = job, background, at_work
        self._boot, self._fired, self._when, self._pod = clock.boot(), clock.wall(), when, os.environ.get(JOB_NAME)
        self._held = False
        self._ended = ended
        self._how = OBSERVED_SUCCESS

    @property
    def settled(self) -> threading.Event:
        """What there is to wait for before others ask, or the store is closed."""
        return self.done if self.over.is_set() else self.decided

    # --- for the real body ---

    def __enter__(self) -> Callable[[Any], None]:
        self._background.start_shadow(self)
        return self._returned

    def _returned(self, result: Any) -> None:
        self._how = self._ended(result)

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            self._how = Ending(Outcome.FAILED, describe(error), cut_short=not isinstance(error, Exception))
        self.over.set()

    # --- on its own thread ---

    def ask(self) -> None:
        try:
            call = Call(self._at_work(), self._job, self, fired=self._fired, only_noted=True)
            when, is_by_hand = self._meant()
            result = None if is_by_hand else take(call.steps(when), call.node)
            self._background.answered()
            if not self._held:
                self._note(self._refusal(result, call) if isinstance(result, Skipped) else None)
        except StoreError as error:
            self._background.failed(error)
        except Exception as error:
            self._background.warn(self._job.name, f"a call of {self._job.name} ran, and has no slot: {describe(error)}")

    def _meant(self) -> tuple[When | None, bool]:
        """The slot it means; None: that of the moment it was made. And whether a person made this Job, which is a run
        of its own, and would not be refused."""
        if isinstance(self._when, Exception):
            raise self._when
        if self._when is not None or not self._pod:
            return self._when, False
        at = fired_at(self._pod)
        if at is None:
            return None, True
        return Slot(self._job.name, at) if self._job.schedule is None else self._job.slot_at(at), False

    def _note(self, refusal: ExtraCall | None) -> None:
        self._background.add(Observation(self._job.name, self._boot, None, refusal=refusal))

    def _refusal(self, skipped: Skipped, call: Call) -> ExtraCall | None:
        """Why it was one too many, and who has it or had it; None: it was not. What failed and may be retried would
        not be refused."""
        if skipped.outcome and Outcome(skipped.outcome).is_failure and self._job.retries:
            return None
        if not _is_double(call.answer):
            LOGGER.debug("%s ran; the guard would not have run it: %s", call.slot.key, skipped.reason)
            return None
        holder = ""
        with suppress(CronceError):
            (cell,) = call.node.store.load([call.slot.cell]).cells
            holder = decode(cell.value, cell.key).holder if cell.version else ""
        by = f", by {holder}" if holder and holder not in skipped.reason else ""
        return ExtraCall(call.slot.key, f"though {skipped.reason}{by}")

    def run(self, _run: Run) -> None:
        self._held = True
        self._note(None)
        self._background.decide(self)
        self.over.wait()

    def ending(self, _run: Run, _result: Any) -> Ending | None:
        return self._how

    def stop(self, _body: BodyStep, _run: Run, _over: LeaseEnd) -> None:
        """Whatever befalls the lease, the real body goes on, and so does this."""


def _is_double(answer: object) -> bool:
    """Whether another runs the slot, or has run it."""
    match answer:
        case Held():
            return True
        case Closed(outcome):
            return outcome.is_success or outcome.is_failure
        case _:
            return False


def by_code(code: int) -> Ending:
    """How a command ended, by its exit code."""
    from cronce.runtime.processes.command import in_words  # noqa: PLC0415  most are functions

    return Ending(Outcome.FAILED, in_words(code)) if code else OBSERVED_SUCCESS


def called(words: Sequence[str]) -> Callable[[], int]:
    """A command as a function that returns its exit code; 128 + n when signal n ended it."""

    def call() -> int:
        import subprocess  # noqa: PLC0415

        code = subprocess.call(words)  # noqa: S603  they are the user's own
        return code if code >= 0 else 128 - code

    return call


# --- jobs that are only observed ------------------------------------------------------------------------------------


def observed_job(
    job: Declaration,
    fn: Callable[..., Any],
    slot: Callable[..., When] | None,
    call: Callable[[When | Exception | None], ObservedCall],
) -> Any:
    """The function as it was, with a shadow to each of its calls. Keywords that it takes are its own: only where it
    takes no `slot`, that is the slot of the call."""
    if job.database is not None:
        raise BadPolicy(
            "mode='observe' also runs calls that the guard would refuse, and those cannot commit: leave out transaction"
        )
    refuse_generators(fn)
    plain = signature(fn)
    if "run" in plain.parameters:
        raise BadInput(
            f"{job.name} takes a run as its argument, but with mode='observe' some calls have no run: observe the"
            " function without that argument"
        )
    takes_slot = "slot" in plain.parameters
    pops_slot = not takes_slot and all(one.kind is not one.VAR_KEYWORD for one in plain.parameters.values())

    def begin(when: When | None, args: tuple[Any, ...], named: dict[str, Any]) -> ObservedCall:
        return call(_computed(slot, args, named) if when is None and slot is not None else when)

    guard, at = observed(fn, begin, pops_slot=pops_slot)
    made = dressed(guard, job.name, fn, plain, None)
    if not takes_slot:  # by place: a keyword might be the body's
        made.at = partial(partial, at)
    return made


def _computed(slot: Callable[..., When], args: tuple[Any, ...], named: dict[str, Any]) -> When | Exception:
    """In the thread that calls, before the function changes its arguments."""
    try:
        return slot(*args, **named)
    except Exception as error:
        return error
