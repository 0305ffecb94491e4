"""What can be asked about a run, what is answered, and the change that makes an answer true. Words only: the rules are
in `table` and `gates`."""

from datetime import timedelta
from typing import Literal

from cronce.errors import StoreError, StoreUnavailable
from cronce.model import Fence, Instant, Mark
from cronce.policy import OnLost, Overlap
from cronce.protocol.record import Maker, Outcome, Record
from cronce.value import NamedTuple, Value

# --- what is asked ------------------------------------------------------------------------------------------------


class Claim(NamedTuple):
    """May I run this slot?"""

    nonce: str
    holder: str
    lease: timedelta
    on_lost: OnLost
    attempts: int = 1
    start_by: Instant | None = None  # judged at a slot's first start only, not after it ended or was resolved
    payload: str = ""  # for a run that was asked for with nothing else
    under: Maker | None = None  # of a step: the run that makes it
    keep: timedelta | None = None  # of an effect: for how long it is known that it is done; None: until it is purged
    joined: bool = False  # it may complete in the user's database
    overlap: Overlap = "skip"  # what becomes of it while other runs of the job have all its turns
    delay: timedelta = timedelta(0)  # how long after its instant it may start at the earliest
    digest: str = ""  # which version of the job this process carries; without one it has no say in which fires
    first: Instant | None = None  # the trigger is outside: the earliest slot that it fired for; see `gates.first_floor`
    least: timedelta = timedelta(0)  # of a lock: for how long nobody else has it, whatever becomes of its holder
    lands_by: Instant | None = None  # of a step: it is begun before the lease of its run is over, or not at all
    key: str = ""  # of an effect: what the other side knows it by, where it is not its name


class Renew(NamedTuple):
    """I am still at it. `ttl` is how long the lease may go on at most, where a limit comes before its end."""

    fence: Fence
    ttl: timedelta | None = None
    progress: tuple[int, int] | None = None
    overdue: str = ""  # why it was told to stop, though it still runs


class Finish(NamedTuple):
    """It is over. A failure with attempts left is retried from `backoff` on, unless it is `final`. One that was cut
    short from outside is no failure of the body: under rerun it is retried, and uses up no attempt."""

    fence: Fence
    outcome: Outcome
    reason: str = ""
    backoff: timedelta = timedelta(0)
    cut_short: bool = False
    output: str = ""  # the end of what it printed, for people
    final: bool = False  # it was asked to stop: whoever asked does not want it to begin again
    result: str = ""  # of an effect: what came of it, as JSON
    ended: Instant | None = None  # when it ended, where that could not be said at once


class Release(NamedTuple):
    """I never started. `rest` keeps it from being granted for a while (a lock's at_least)."""

    fence: Fence
    rest: timedelta = timedelta(0)


class Queue(NamedTuple):
    """It is due; `waiting` for the job's turn. Asked for by hand: by whom, with what, by which key its effects go."""

    waiting: bool = False
    by: str = ""
    payload: str = ""
    key: str = ""
    digest: str = ""  # by a scheduler: which version of the job it carries; a person may ask at any time
    first: Instant | None = None


class Skip(NamedTuple):
    """It shall not run, and that is on record. `untouched`: only if nothing is yet."""

    reason: str
    first: Instant | None = None
    untouched: bool = False


class Settle(NamedTuple):
    """If its holder is gone, act on that, without wanting to run it. `asked`: of this fence the user's own database
    was, and said whether its work is `committed`."""

    asked: Fence | None = None
    committed: bool = False


class Ask(NamedTuple):
    """Its holder shall stop; it learns so with its next renewal."""

    reason: str


class Resolve(NamedTuple):
    """A person has looked: it is done, or it shall be tried again."""

    verdict: Literal["done", "retry"]
    reason: str
    result: str = ""  # of an effect: what came of it, as JSON


Command = Claim | Renew | Finish | Release | Queue | Skip | Settle | Ask | Resolve

# --- what is answered: values, since two tuples of different kinds may be equal ------------------------------------


class Granted(Value):
    """Yours. `taken_over` names the holder that lapsed, if one did."""

    grant: int
    taken_over: str = ""


class Held(Value):
    """Another's, until then at least."""

    by: str
    until: Instant | None


class Early(Value):
    """Nobody's, and not to be claimed before then."""

    until: Instant | None


class Closed(Value):
    outcome: Outcome
    reason: str


class Queued(Value):
    waiting: bool


class Renewed(Value):
    """Still yours; `ask` is why you should stop, if somebody asked."""

    ask: str


class Finished(Value):
    """Your word stands. `retrying` when the slot may be claimed again."""

    outcome: Outcome
    retrying: bool = False


class Released(Value):
    """Given back; it never started."""


class Stale(Value):
    """You speak with an old fence; `by` is who closed or holds it, if anybody."""

    by: str


class Asked(Value):
    """The holder will learn that it shall stop."""


class Settled(Value):
    """Its holder was gone; it is nobody's again."""


class Nothing(Value):
    """There was nothing to do."""


class Busy(Value):
    """The slot is free, but the job's turns are taken: by that run, until then at least."""

    run: str
    until: Instant | None


class Paused(Value):
    """The job is paused, or all jobs are."""


class Superseded(Value):
    """Another version of the job fires it, by facts of up to half a minute ago: ask again, it may be yours by then."""

    firing: str


class Unsure(Value):
    """The store did not answer, or its answer could not be read. This is no permission to run."""

    why: str
    error: StoreError | None = None
    unreadable: bool = False

    @property
    def passing(self) -> bool:
        """Whether it may help to ask again: not until a person has acted, if the store cannot be used, or read."""
        return not self.unreadable and (self.error is None or isinstance(self.error, StoreUnavailable))


Answer = (
    Granted | Held | Early | Closed | Queued | Renewed | Finished | Released | Stale | Asked | Settled | Nothing
    | Busy | Paused | Superseded | Unsure
)  # fmt: skip

# --- what makes an answer true ------------------------------------------------------------------------------------


class Change(NamedTuple):
    """Of the run. The cell's until becomes the store's now + ttl, or stays without a ttl."""

    record: Record
    mark: Mark
    ttl: timedelta | None = timedelta(0)
    grant: bool = False


class Ruling(NamedTuple):
    """What the table says. If there is a change, the answer holds once the change has won; else it holds already."""

    answer: Answer
    change: Change | None = None
