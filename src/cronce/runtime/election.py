"""Leadership: of all processes that are candidates of a group one leads, for a term.

A leadership is a claim on a cell that never closes. A process that is granted it leads while it renews, and the fence
of the grant is the number of its term: renewing and resigning name it, so that no process extends or ends another's
term. There is no protocol here beyond that of a lock; this is the loop around it.

*Who leads is not a flag.* `is_leader` compares the clock with the end of trust each time it is asked, and trust ends
before the lease lapses. A process that was stopped, suspended or starved for longer finds that it does not lead before
it finds out anything else, and the store need not be asked. A term ends once: a process that is elected again has a new
term, with a higher fence.

*A process is one candidate.* All its threads lead with it. It is one for as long as its code wants that: between
`start` and `stop`, and in every block of `elected`.

*One thread* asks, calls back and resigns, in this order and never two at once: `on_elected` is stopped when its term
ends, as a lock's block is, then `on_deposed` is called, and only then is the leadership given back, or claimed again.
The keeper renews the lease and watches the clock. It goes on meanwhile: no other process leads before `on_deposed` of
the one that resigns has returned.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from os import urandom
from typing import Final

from cronce.clock import Clock
from cronce.errors import BadPolicy, BadRecord, CronceError, NotElected, StoreError
from cronce.events import Event, What
from cronce.model import Boot, check_name, leader_cell
from cronce.protocol.lease import LOCK_LEASE
from cronce.protocol.terms import check_lease
from cronce.runtime.declare import SHORTEST_LEASE, Duration
from cronce.runtime.interrupt import Interrupt
from cronce.runtime.keeper import NOT_RENEWED, Keeper, Lease, LeaseEnd, Look, Ownership, RepeatingThread
from cronce.runtime.ledger import Grant, Refused
from cronce.runtime.lock import Gate, HeldBlock, Holding, LockTaken, refusal, seconds_left
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node
from cronce.runtime.steps import BodyStep, Steps, StoreStep, take
from cronce.schedule import format_duration, parse_duration
from cronce.value import NamedTuple

ASK: Final = 1.0
"""Seconds: so soon is a resignation noticed."""

LEADER_POLL: Final = 0.05
"""Seconds between two looks of a block that waits at whether its process leads. The store is not asked for it."""

RESIGNED: Final = LeaseEnd("asked", "it resigned")

Callback = Callable[["Term"], object]
Beats = Callable[[str, Look, Clock], RepeatingThread]


class Candidacy(NamedTuple):
    """A group and the settings of its lease. `lease` is how long the others wait for a leader that died, `renew` how
    often a leader renews."""

    group: str
    lease: timedelta
    renew: timedelta
    on_elected: Callback | None = None
    on_deposed: Callback | None = None
    ask: float = ASK
    """Seconds between two questions of a candidate, at most."""


def candidacy(group: str, lease: Duration, renew: Duration | None) -> Candidacy:
    """Two renewals fit into a lease, so that one may fail; three, unless `renew` is given."""
    length = parse_duration(lease)
    if not SHORTEST_LEASE <= length <= LOCK_LEASE:
        longest = format_duration(LOCK_LEASE)
        raise BadPolicy(f"a leader's lease must be 1s to {longest}, not {lease}; it is renewed while the process leads")
    every = length / 3 if renew is None else parse_duration(renew)
    if not timedelta(0) < every <= length / 2:
        raise BadPolicy(
            "renew must be more than zero and at most half of the lease, so that one renewal may fail; not"
            f" {renew} of {lease}"
        )
    return Candidacy(check_name(group), length, every)


class Term(Holding):
    """A leadership from its election to its end, which is for good."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self.lease = lease
        self.announced = False
        """Whether `on_elected` was called. If the term ends right at its beginning it is not, nor is `on_deposed`."""


class LeaderBlock(Ownership):
    """A block that works under a term."""

    def __init__(self, term: Term, gate: Gate) -> None:
        super().__init__(lambda _over: gate.stop())
        self.term = term


class Leader:
    """A candidate for the leadership of a group: this process. Others are candidates of the same group. For its blocks
    it is the keeper, and the node."""

    def __init__(
        self, terms: Candidacy, keeper: Callable[[], Keeper], clock: Clock, beat: Beats = RepeatingThread
    ) -> None:
        self.group, self.clock = terms.group, clock
        self._terms, self._open, self._beats = terms, keeper, beat
        self.forked()

    def forked(self) -> None:
        """In the child as at the beginning: the parent's term is not ours, and its thread is not here."""
        self._keeper: Keeper | None = None
        self._news = threading.Condition()
        self._wanted = 0
        self._started = False
        self._looks = 0
        self._ask_at: Boot = 0.0
        self._term: Term | None = None
        self._body: BodyStep | None = None
        self._blocks: set[LeaderBlock] = set()
        self._thread = 0
        self._beat = self._beats(f"cronce-leader-{self.group}", self.look, self.clock)
        self._unreadable = False
        self.refused: CronceError = NotElected(self.group, "", None)
        """Why this process did not lead when it last asked and was refused."""

    # --- from the threads that want it ---

    def start(self) -> None:
        """Be a candidate, in the background, until `stop`. The caller need not keep this object: its thread does."""
        with self._news:
            if not self._started:
                self._join()
                self._started = True

    def stop(self) -> None:
        """Resign, and be no candidate any more: another process is elected at once. Returns when the leadership was
        given back. If a block of `elected` still runs, the term ends after that block."""
        with self._news:
            started, self._started = self._started, False
        if started:
            self.leave()

    @property
    def is_leader(self) -> bool:
        """Whether this process surely leads, at this moment."""
        return self.term is not None

    @property
    def term(self) -> Term | None:
        """The term in which this process leads; None when it does not. Its `fence` is higher in every later term."""
        term = self._term
        return term if term is not None and self._wanted and term.trusted else None

    def elected(self, *, wait: Duration = "0s") -> HeldBlock:
        """A block that runs only while this process leads: `with leader.elected(wait="1m") as term:`.

        Raises `NotElected` when another leads for as long as that. Unless it was started, the leader is a candidate for
        election because of the block, and resigns behind it.
        """
        return Elected(self.group, parse_duration(wait), lambda: self)

    def join(self) -> int:
        """Be a candidate, together with the other callers of this process. Returns how often the store was asked until
        now."""
        with self._news:
            looks = self._looks
            self._join()
            return looks

    def hear(self, looks: int) -> None:
        """Wait until it is known whether this process leads: it does, or was refused since."""
        with self._news:
            self._news.wait_for(lambda: self._looks > looks or self.term is not None)

    def _join(self) -> None:
        if self._keeper is None:
            keeper = self._open()
            check_lease(self._terms.lease, keeper.node.store.traits)
            self._keeper = keeper
        self._wanted += 1
        self._ask_at = 0.0
        self._beat.wake()

    def leave(self) -> None:
        """The last to leave waits until the leadership was given back; a callback cannot wait for itself."""
        with self._news:
            self._wanted -= 1
            body, calls_back = self._body, threading.get_ident() == self._thread
            if self._wanted:
                return
        self._beat.wake()
        if calls_back:
            return
        if body is not None:
            body.stop()
        with self._news:
            self._news.wait_for(lambda: self._wanted or self._keeper is None)

    def block_under_term(self, gate: Gate) -> LeaderBlock | LockTaken:
        """A block's place under the term, if there is one."""
        with self._news:
            term = self.term
            return LockTaken(self.refused, LEADER_POLL) if term is None else LeaderBlock(term, gate)

    # --- as a keeper, and as a node ---

    @property
    def node(self) -> "Leader":
        return self

    def do(self, work: Callable[[], object]) -> object:
        return work()

    def keep(self, block: LeaderBlock) -> None:
        with self._news:
            self._blocks.add(block)
            over = block.term.lease.over
        if over is not None:  # while it sat down
            block.end(over)

    def drop(self, block: LeaderBlock) -> None:
        with self._news:
            self._blocks.discard(block)

    # --- on the thread of the candidate ---

    def look(self) -> Boot | None:
        """Lead on, step down, or ask once more. Returns when to look again; None: it is no candidate any more."""
        self._thread = threading.get_ident()
        self._remind()
        term = self._term
        if term is not None and self.term is None:
            self._step_down(term)
        again = self._stand_again() if self._wanted and self._term is None else self.clock.boot() + ASK
        with self._news:
            self._looks += 1
            over = not self._wanted and self._term is None
            if over:
                self._keeper, self._thread = None, 0
            self._news.notify_all()
        return None if over else again

    def _remind(self) -> None:
        boot = self.clock.boot()
        with self._news:
            ended = [block for block in self._blocks if block.over is not None]
        for block in ended:
            block.remind(boot)

    def _stand_again(self) -> Boot:
        """Its thread wakes up more often than the store is to be asked."""
        if self.clock.boot() < self._ask_at:
            return self._ask_at
        self._ask_at = self._stand()
        return self._ask_at

    def _stand(self) -> Boot:
        keeper, began = self._keeper, self.clock.boot()
        assert keeper is not None
        node, was_silent = keeper.node, isinstance(self.refused, StoreError)
        answer: Grant | Refused | BadRecord
        try:
            answer = node.do(node.ledger.acquire(leader_cell(self.group), self._terms.lease))
        except StoreError as error:
            keeper.outage.unanswered(began, str(error))
            self.refused = error
            return self.clock.boot() + self._pause()
        except BadRecord as error:
            answer = error
        if was_silent:  # else that an answer was read does not show that the store takes writes
            keeper.outage.answered()
        if isinstance(answer, BadRecord):
            self._cannot_read(answer)
            return self.clock.boot() + self._pause()
        self._unreadable = False
        if isinstance(answer, Grant):
            self._lead(answer, keeper)
            return self.clock.boot() + ASK
        self.refused = refusal(answer, partial(NotElected, self.group), f"to lead {self.group}")
        return self.clock.boot() + self._until(answer, keeper)

    def _cannot_read(self, error: BadRecord) -> None:
        """The record is damaged, or written by a newer cronce: the store answers, and perhaps another process leads. It
        is logged once until the record can be read, since a person has to act."""
        if not self._unreadable:
            LOGGER.warning("this process does not lead %s: %s", self.group, error)
        self._unreadable, self.refused = True, error

    def _until(self, answer: Refused, keeper: Keeper) -> float:
        """Seconds until it is worth asking again: when the lease lapses, but its holder may resign before. One that
        has lapsed is not believed to have before the store's clock was watched for long enough: soon."""
        left = seconds_left(answer, keeper.node)
        return min(left, self._pause()) if left > 0 else self._pause() / 4

    def _pause(self) -> float:
        """Not all at the same moment: a quarter of it is left to chance."""
        return min(self._terms.renew.total_seconds(), self._terms.ask) * (1 - urandom(1)[0] / 1024)

    def _lead(self, grant: Grant, keeper: Keeper) -> None:
        term = Term(Lease(grant, self.clock, self._told, renew=self._terms.renew))
        body = self._calling(self._terms.on_elected, term)
        with self._news:
            wanted = self._wanted > 0
            if wanted:
                self._term, self._body = term, body
                self._news.notify_all()
        if not wanted:
            keeper.node.do(keeper.node.ledger.release([grant]))
            return
        keeper.keep(term.lease)
        self._call(body)
        self._body = None

    def _step_down(self, term: Term) -> None:
        """Resign. If trust has ended, let the lease expire instead, so that the history shows how the term ended."""
        keeper, lease = self._keeper, term.lease
        assert keeper is not None
        with self._news:
            self._term = None
        if not lease.trusted:
            lease.end(NOT_RENEWED)
        if term.announced:
            self._call(self._calling(self._terms.on_deposed, term))
        keeper.drop(lease)
        if lease.trusted:
            lease.end(RESIGNED)
            keeper.node.do(keeper.node.ledger.release([lease.grant]))
        else:
            lease.end(NOT_RENEWED)
            self._tell(keeper.node, lease)

    def _tell(self, node: Node, lease: Lease) -> None:
        """A lost term has no caller to raise to, so it is an event."""
        why, now = (lease.over or NOT_RENEWED).why, node.ledger.know.now()
        node.ledger.client.report(Event(What.DEPOSED, lease.grant.key, node.holder, now, lease.grant.fence, why))

    def _calling(self, callback: Callback | None, term: Term) -> BodyStep:
        def call() -> None:
            term.announced = True
            if callback is not None:
                callback(term)

        return BodyStep(call)

    def _call(self, body: BodyStep) -> None:
        """What it raises does not end the candidacy; nor does its being stopped, since its term has ended."""

        def steps() -> Steps[None]:
            yield body

        try:
            take(steps(), self)
        except Interrupt:
            pass
        except BaseException:
            LOGGER.exception("a callback of %s raised", leader_cell(self.group))

    # --- on the keeper's threads ---

    def _told(self, over: LeaseEnd) -> None:
        """The term has ended: every function that runs under it has to stop."""
        with self._news:
            ended = [block for block in self._blocks if block.term.lease.over is not None]
            body = self._body
        for block in ended:
            block.end(over)
        if body is not None:
            body.stop()
        self._beat.wake()


class Elected(HeldBlock):
    """A block under a term: its steps, for threads and tasks."""

    noun = "the leadership of"

    def _holding(self, block: LeaderBlock) -> Term:
        return block.term

    def _acquire(self, node: Leader, gate: Gate) -> Steps[LeaderBlock]:
        looks = yield StoreStep(node.join)
        try:
            yield StoreStep(partial(node.hear, looks))
            block: LeaderBlock = yield from super()._acquire(node, gate)
        except BaseException:
            yield StoreStep(node.leave)
            raise
        return block

    def _try(self, node: Leader, gate: Gate) -> Steps[LeaderBlock | LockTaken]:
        answer: LeaderBlock | LockTaken = yield StoreStep(partial(node.block_under_term, gate))
        return answer

    def _release(self, _block: LeaderBlock, node: Leader) -> Steps[None]:
        yield StoreStep(node.leave)

    def _undo(self, _block: LeaderBlock, _node: Leader) -> Steps[None]:
        """A block that was cancelled meanwhile leaves as one that was not elected."""
        yield from ()
