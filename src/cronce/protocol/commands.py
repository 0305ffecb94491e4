"""The commands about a run, their answers, and the change that makes an answer true. Definitions only: the rules are in
`table` and `gates`."""

from datetime import timedelta
from typing import Literal

from cronce.errors import StoreError, StoreUnavailable
from cronce.model import Cell, Fence, Instant, Mark
from cronce.policy import OnLost, Overlap
from cronce.protocol.record import Job, Maker, Outcome, Record
from cronce.value import NamedTuple, Value

# --- commands -----------------------------------------------------------------------------------------------------


class Claim(NamedTuple):
    """Ask to run this slot."""

    nonce: str
    holder: str
    lease: timedelta
    on_lost: OnLost
    attempts: int = 1
    start_by: Instant | None = None  # judged at a slot's first start only, not after it ended or was resolved
    payload: str = ""  # for a run that was requested without a payload of its own
    under: Maker | None = None  # of a step: the run that makes it
    keep: timedelta | None = None  # of an effect: how long its completion stays known; None: until it is purged
    joined: bool = False  # it may complete in the user's database
    overlap: Overlap = "skip"  # what happens while other runs of the job hold all its turns
    delay: timedelta = timedelta(0)  # the earliest start, counted from its instant
    digest: str = ""  # the version of the job in this process; without one it does not influence which version fires
    first: Instant | None = None  # the trigger is outside: the earliest slot that it fired for; see `gates.first_floor`
    least: timedelta = timedelta(0)  # of a lock: no other process gets it for this long, even if its holder dies
    lands_by: Instant | None = None  # of a step: it begins before the lease of its run expires, or not at all
    key: str = ""  # of an effect: the key that the other system knows it by, if that is not its name


class Renew(NamedTuple):
    """Report that the run goes on. `ttl` limits how long the lease may last, if a limit comes before its end."""

    fence: Fence
    ttl: timedelta | None = None
    progress: tuple[int, int] | None = None
    overdue: str = ""  # why it was asked to stop, though it still runs


class Finish(NamedTuple):
    """Report that the run ended. A failure with attempts left is retried from `backoff` on, unless it is `final`. If it
    was cut short from outside, the job function did not fail: under rerun it is retried, and uses up no attempt."""

    fence: Fence
    outcome: Outcome
    reason: str = ""
    backoff: timedelta = timedelta(0)
    cut_short: bool = False
    output: str = ""  # the end of its output, for people
    final: bool = False  # it was asked to stop, so it is not started again
    result: str = ""  # of an effect: its result, as JSON
    ended: Instant | None = None  # when it ended, if that could not be reported at once


class Release(NamedTuple):
    """Give it back: the job function never started. `rest` blocks new grants for a time (a lock's at_least)."""

    fence: Fence
    rest: timedelta = timedelta(0)


class Queue(NamedTuple):
    """Record that it is due; `waiting`: for the job's turn. If a person requested it: who, with what payload and
    effects key."""

    waiting: bool = False
    by: str = ""
    payload: str = ""
    key: str = ""
    digest: str = ""  # from a scheduler: its version of the job; a person may request a run at any time
    first: Instant | None = None


class Skip(NamedTuple):
    """Record that it will not run. `untouched`: only if it has no record yet."""

    reason: str
    first: Instant | None = None
    untouched: bool = False


class Settle(NamedTuple):
    """If its holder is gone, close or reopen it, without running it. `asked`: the user's own database was asked about
    this fence, and answered whether its work is `committed`. `for_person`: contact is not required."""

    asked: Fence | None = None
    committed: bool = False
    for_person: bool = False


class Ask(NamedTuple):
    """Ask its holder to stop; the holder learns it when it next reads or renews the run."""

    reason: str


class Resolve(NamedTuple):
    """A person checked the run: it is done, or to be retried. Or a rerun took its place: it keeps its outcome."""

    verdict: Literal["done", "retry", "superseded"]
    reason: str
    result: str = ""  # of an effect: its result, as JSON


Command = Claim | Renew | Finish | Release | Queue | Skip | Settle | Ask | Resolve

Errand = tuple[str, Command]
"""A command about another run."""

# --- answers: values, since two tuples of different kinds may be equal ---------------------------------------------


class Granted(Value):
    """The caller may run it. `taken_over` names the holder whose lease lapsed, if one did."""

    grant: int
    taken_over: str = ""


class Held(Value):
    """Another process holds it, at least until then."""

    by: str
    until: Instant | None


class Early(Value):
    """No process holds it, and it may not be claimed before then."""

    until: Instant | None


class Closed(Value):
    outcome: Outcome
    reason: str


class Queued(Value):
    waiting: bool


class Renewed(Value):
    """The caller still holds it. `ask` is why it should stop, if it was asked to."""

    ask: str


class Finished(Value):
    """The end is recorded. `retrying`: when the slot may be claimed again."""

    outcome: Outcome
    retrying: bool = False


class Released(Value):
    """It was given back before it started."""


class Stale(Value):
    """The command named an old fence; `by` is the process that closed or holds it, if any."""

    by: str


class Asked(Value):
    """The holder will learn that it should stop."""


class Settled(Value):
    """Its holder was gone; it is free again."""


class Nothing(Value):
    """There was nothing to do."""


class Busy(Value):
    """The slot is free, but the job's turns are taken: by that run, until then at least."""

    run: str
    until: Instant | None


class Paused(Value):
    """The job is paused, or all jobs are."""


class Superseded(Value):
    """Another version of the job fires it, by facts up to half a minute old. Ask again: that may have changed."""

    firing: str


class Unsure(Value):
    """The store did not answer, or its answer could not be read. The caller may not run it."""

    why: str
    error: StoreError | None = None
    unreadable: bool = False

    @property
    def passing(self) -> bool:
        """Whether asking again may help. If the store cannot be used or read, a person must act first."""
        return not self.unreadable and (self.error is None or isinstance(self.error, StoreUnavailable))


Answer = (
    Granted | Held | Early | Closed | Queued | Renewed | Finished | Released | Stale | Asked | Settled | Nothing
    | Busy | Paused | Superseded | Unsure
)  # fmt: skip

# --- what makes an answer true ------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A change of the run. The cell's until becomes the store's now + ttl, or stays the same without a ttl."""

    record: Record
    mark: Mark
    ttl: timedelta | None = timedelta(0)
    grant: bool = False


class Decision(NamedTuple):
    """With a change, the answer holds once that is written; without one, it holds already."""

    answer: Answer
    change: Change | None = None
    turn: Cell | None = None
    """The turn that the run takes, holds or frees with this change."""
    job: Job | None = None
    """The job, if it is new or the store forgot it: written together with the run."""
    also: tuple[Errand, ...] = ()
    """Commands for other runs that follow from this one; the answer does not wait for them."""

    def is_answer_to(self, command: Command) -> bool:
        """False if this only settled another run that blocked the command: then the command is decided again."""
        return not isinstance(self.answer, Settled) or isinstance(command, Settle)
