"""A guarded call that has no say: `mode="observe"`.

The body runs as before, in the thread or the task that called it. Beside it, on a thread of its own, the call is made
that the guard would make, and the body of that only waits until the real one is over. So the slot is claimed, renewed
and closed as it would be; whoever is refused runs all the same, and that is noted. Nothing that befalls the lease
reaches the body, and the body never waits for its shadow: not before it begins, nor after it has ended. The shadow goes
by the moment of the call, however late it gets to ask.

Not every refusal is of a duplicate. Where the slot is another's, or a run closed it, the body ran once too often. Where
the job is paused, the slot too old, or another slot still runs, the guard would not have run it, and nobody else did.

A shadow leaves nothing behind that would run some day: it waits for no turn and asks nobody to stop, and a slot that
failed, or whose process died, is closed.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any, Final

from cronce.clock import Clock
from cronce.errors import BadInput, BadPolicy, CronceError, StoreError
from cronce.model import Instant, Slot
from cronce.protocol.commands import Closed, Held
from cronce.protocol.record import Outcome, decode
from cronce.runtime.attempt import Ending, Work, describe
from cronce.runtime.background import Background, Part
from cronce.runtime.call import Call
from cronce.runtime.declare import Declaration, When
from cronce.runtime.guard import dressed, refuse_generators
from cronce.runtime.keeper import Keeper, Over
from cronce.runtime.log import LOGGER
from cronce.runtime.observe import Observation, Refusal, observed
from cronce.runtime.pod import JOB_NAME, fired_at
from cronce.runtime.run import Run, Skipped
from cronce.runtime.steps import Body, take
from cronce.value import NamedTuple

SUCCEEDED: Final = Ending(Outcome.SUCCEEDED)


def _succeeded(_result: Any) -> Ending:
    """Of a function that returned, whatever that was."""
    return SUCCEEDED


class Meant(NamedTuple):
    """What a call says of its slot, at the moment it is made."""

    fired: Instant
    when: When | Exception | None
    """Which, why that cannot be told, or that of this moment."""
    pod: str | None

    def slot_of(self, job: Declaration) -> When | None:
        """The slot it means; None: that of the moment it was made."""
        if isinstance(self.when, Exception):
            raise self.when
        at = fired_at(self.pod) if self.when is None and self.pod else None
        if at is None:
            return self.when
        return Slot(job.name, at) if job.schedule is None else job.slot_at(at)

    @property
    def is_by_hand(self) -> bool:
        """A person made this Job: a run of its own, which nobody would refuse."""
        return self.when is None and bool(self.pod) and fired_at(self.pod or "") is None


class ObservedCall(Part, Work):
    """What the guard's call is for: to wait until the real body is over, and to say how it ended. The real body is in
    the block, whether it is awaited there or not: `with ObservedCall(…) as returned:`, which is told its result."""

    def __init__(
        self,
        job: Declaration,
        when: When | Exception | None,
        background: Background,
        at_work: Callable[[], Keeper],
        clock: Clock,
        *,
        ended: Callable[[Any], Ending] = _succeeded,
    ) -> None:
        super().__init__(job.name)
        self._job, self._background, self._at_work = job, background, at_work
        self._boot, self._meant = clock.boot(), Meant(clock.wall(), when, os.environ.get(JOB_NAME))
        self._held = False
        self._ended = ended
        self._how = SUCCEEDED

    # --- for the real body ---

    def __enter__(self) -> Callable[[Any], None]:
        self._background.play(self)
        return self._returned

    def _returned(self, result: Any) -> None:
        self._how = self._ended(result)

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            self._how = Ending(Outcome.FAILED, describe(error), cut_short=not isinstance(error, Exception))
        self.over.set()

    # --- on its own thread ---

    def play(self) -> None:
        try:
            call = Call(self._at_work(), self._job, self, fired=self._meant.fired, only_noted=True)
            when = self._meant.slot_of(self._job)
            result = None if self._meant.is_by_hand else take(call.steps(when), call.desk)
            self._background.answered()
            if not self._held:
                self._note(self._refusal(result, call) if isinstance(result, Skipped) else None)
        except StoreError as error:
            self._background.failed(error)
        except Exception as error:
            self._background.warn(self._job.name, f"a call of {self._job.name} ran, and has no slot: {describe(error)}")

    def _note(self, refusal: Refusal | None) -> None:
        self._background.add(Observation(self._job.name, self._boot, None, refusal=refusal))

    def _refusal(self, skipped: Skipped, call: Call) -> Refusal | None:
        """Why it was one too many, and who has it or had it; None: it was not. What failed and may be retried would
        not be refused."""
        if skipped.outcome and Outcome(skipped.outcome).is_failure and self._job.retries:
            return None
        if not _is_double(call.answer):
            LOGGER.debug("%s ran; the guard would not have run it: %s", call.slot.key, skipped.reason)
            return None
        holder = ""
        with suppress(CronceError):
            (cell,) = call.desk.store.load([call.slot.cell]).cells
            holder = decode(cell.value, cell.key).holder if cell.version else ""
        by = f", by {holder}" if holder and holder not in skipped.reason else ""
        return Refusal(call.slot.key, f"though {skipped.reason}{by}")

    def run(self, _run: Run) -> None:
        self._held = True
        self._note(None)
        self._background.decide(self)
        self.over.wait()

    def ending(self, _run: Run, _result: Any) -> Ending | None:
        return self._how

    def stop(self, _body: Body, _run: Run, _over: Over) -> None:
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

    return Ending(Outcome.FAILED, in_words(code)) if code else SUCCEEDED


def called(words: Sequence[str]) -> Callable[[], int]:
    """A command as a function that returns its exit code; 128 + n when signal n ended it."""

    def call() -> int:
        import subprocess  # noqa: PLC0415

        code = subprocess.call(words)  # noqa: S603  they are the user's own
        return code if code >= 0 else 128 - code

    return call


# --- jobs that are only observed ------------------------------------------------------------------------------------


class ObservedJob:
    """What makes the shadows of one job."""

    def __init__(
        self,
        job: Declaration,
        background: Callable[[], Background],
        at_work: Callable[[], Keeper],
        clock: Clock,
        ended: Callable[[Any], Ending] = _succeeded,
    ) -> None:
        if job.database is not None:
            raise BadPolicy(
                "mode='observe' runs what the guard would refuse, which cannot commit: leave out transaction"
            )
        self._job, self._background, self._at_work, self._clock, self._ended = job, background, at_work, clock, ended

    def guard(self, fn: Callable[..., Any], slot: Callable[..., When] | None = None) -> Any:
        """The function as it was, with a shadow to each of its calls. Keywords that it takes are its own: only where it
        takes no `slot`, that is the slot of the call."""
        refuse_generators(fn)
        plain = signature(fn)
        if "run" in plain.parameters:
            raise BadInput(
                f"{self._job.name} asks for its run, and with mode='observe' it also runs where it has none: observe"
                " the function as it was before it was guarded"
            )
        takes_slot = "slot" in plain.parameters
        pops_slot = not takes_slot and all(one.kind is not one.VAR_KEYWORD for one in plain.parameters.values())

        def begin(when: When | None, args: tuple[Any, ...], named: dict[str, Any]) -> ObservedCall:
            meant = _computed(slot, args, named) if when is None and slot is not None else when
            return ObservedCall(self._job, meant, self._background(), self._at_work, self._clock, ended=self._ended)

        guard, at = observed(fn, begin, pops_slot=pops_slot)
        made = dressed(guard, self._job.name, fn, plain, None)
        if not takes_slot:  # by place: a keyword might be the body's
            made.at = partial(partial, at)
        return made


def _computed(slot: Callable[..., When], args: tuple[Any, ...], named: dict[str, Any]) -> When | Exception:
    """By the thread that calls, before a body changes its arguments."""
    try:
        return slot(*args, **named)
    except Exception as error:
        return error
