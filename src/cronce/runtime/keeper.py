"""The keeper: renews all leases of a process in one batch, on a thread and a connection of its own, and stops job
functions whose lease can no longer be trusted.

Two threads, because a job function must be stopped in time even if the store does not answer: one renews, reads whether
a run is asked to stop, and may hang in a call for as long as the store lets it; the other only looks at the clock. A
third does chores, which may take their time. All are there only while there is something to do, so that a process that
forks in between forks without threads.

A call may hang in a connection that died silently until the store's timeout, which can be a whole lease. So a renewal
without an answer is asked again after a fraction of the lease (`client.patience`), on another thread and a new
connection. A run that has ended keeps its lease until the end is on record: the call that records it may hang, too.

A job function that was stopped and goes on keeps its slot and its turn: they are renewed until it has ended, without
trust, so that its effects stay refused and no other run begins beside it.

Whether a lease may be believed is computed where it is asked (`Lease.trusted`), by a clock that goes on in suspend. The
threads only stop what runs. A job function that holds the GIL, a starved machine or a suspended one may delay that, but
never makes a lease that has ended trusted.
"""

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf
from typing import Final, Literal

from cronce.clock import Clock
from cronce.errors import BadInput, BadRecord, CronceError, LeaseLost, StoreError
from cronce.events import Event, What
from cronce.model import Boot, Cell, Fence, Instant
from cronce.protocol.commands import Stale, Unsure
from cronce.protocol.lease import renew_every
from cronce.protocol.record import decode
from cronce.runtime.client import patience
from cronce.runtime.flow import drive
from cronce.runtime.journal import Journal, PendingEnd
from cronce.runtime.ledger import Grant
from cronce.runtime.node import Node, Outage, RenewalConnection, StoreConnection
from cronce.runtime.pending_ends import PendingEnds
from cronce.runtime.prevented import PreventedCounts
from cronce.schedule import format_duration
from cronce.stores.base import Store
from cronce.value import NamedTuple

LOOK: Final = 1.0
"""Seconds. A sleeping thread does not count the time that the machine is suspended, so no thread sleeps longer."""

REMIND: Final = 5.0
"""Seconds until a job function that goes on is stopped again, then twice as long: an exception can be lost, and one
that is cleaning up should not be hit by another."""

LISTEN_EVERY: Final = 5.0
"""Seconds between two looks at whether a run is asked to stop. A shorter run costs no such request."""

NOTED: Final = 1.0
"""Seconds until the progress of a job function is in the store, at most."""

RENEWAL_RETRY: Final = 0.5
"""Seconds until a renewal that got no answer is tried again, at most: so other processes soon see that it is alive."""

SETTLES: Final = 60.0
"""Seconds for which a run that has ended keeps its lease while its end cannot be recorded."""

STUBBORN: Final = 3.0
"""Seconds after which a job function that was stopped, and goes on, is recorded as overdue."""

KEEPER_CLOSE_WAIT: Final = 3.0
"""Seconds for which `close` waits for a store that does not answer."""

MIN_WAIT: Final = 0.1
"""Seconds for which it waits in any case."""

LAZY: Final = 5.0
"""Seconds that a chore may wait, so that many become one write."""

Look = Callable[[], Boot | None]
"""One look: what is due is done. Returns when to look again; None: there is nothing left to look after."""


class LeaseEnd(NamedTuple):
    """Why a lease ended while something ran under it; `why` is for people. `grace`: for how many seconds what is
    stopped is waited for."""

    cause: Literal["lost", "asked", "timed out", "drained"]
    why: str
    grace: float = inf


NOT_RENEWED: Final = LeaseEnd("lost", "it could not be renewed in time")


def asked_to_stop(ask: str) -> LeaseEnd:
    return LeaseEnd("asked", f"asked to stop: {ask}")


def _ask_of(cell: Cell) -> str:
    """Why the run is asked to stop, if it is. Most records have no such request, and are not decoded in full."""
    try:
        return decode(cell.value, cell.key).ask if '"ask":' in cell.value else ""
    except BadRecord:
        return ""


def _ignore(_over: "LeaseEnd") -> None:
    """Nothing runs under the lease any more."""


class Ownership:
    """Something that is held. `told` is called from another thread if it ends while something runs under it."""

    over: LeaseEnd | None = None
    _pause = REMIND
    _again: Boot | None = None

    def __init__(self, told: Callable[[LeaseEnd], None]) -> None:
        self._told = told
        self._pid = os.getpid()

    @property
    def mine(self) -> bool:
        """Whether it is this process's: a forked child has a copy of it, and may not use it."""
        return os.getpid() == self._pid

    def forget_listener(self) -> None:
        """Nothing runs under it any more. The listener refers back to it: without this, neither is freed at once."""
        self._told = _ignore

    def end(self, over: LeaseEnd) -> None:
        if self.over is None:
            self.over = over
            self._told(over)

    def remind(self, boot: Boot) -> Boot:
        """Of one that has ended: call the listener again when it is time; returns when the next time is."""
        if self._again is None:
            self._again = boot + self._pause
        elif self.over is not None and self._again <= boot:
            self._pause *= 2
            self._again = boot + self._pause
            self._told(self.over)
        return self._again


class Lease(Ownership):
    """A grant that is renewed. What few of them change has its default in the class: thousands are made in a second."""

    renew_at = 0.0
    listens = False
    """Whether it is read here that its run is asked to stop. A scheduler reads that of its runs with each look."""
    listen_at: Boot = inf
    progress: tuple[int, int] | None = None
    """The progress that the job function last reported; it is written with the next renewal."""
    told_at: Boot = inf
    """When what runs under it was stopped."""
    stale = False
    """Another process has it, or it was closed: there is nothing left to renew."""
    end_by: Boot = inf
    """Until when it is renewed although what ran under it has ended."""
    began: Boot = inf
    """When a run under it began: one that is granted may have to wait for a thread."""
    ends: Boot | None = None
    """When its time is up, once it has begun."""

    def __init__(
        self,
        grant: Grant,
        clock: Clock,
        told: Callable[[LeaseEnd], None],
        *,
        at_most: Instant | None = None,
        timeout: timedelta | None = None,
        renew: timedelta | None = None,
        renewed: Callable[[Grant], None] = lambda _grant: None,
    ) -> None:
        super().__init__(told)
        self.grant = grant
        self.at_most = at_most
        self.renew = renew
        self.renewed = renewed
        self.timeout = timeout
        self._clock = clock

    @property
    def trusted(self) -> bool:
        return self.mine and not self.over and self.grant.trust.holds(self._clock.boot())

    def check(self) -> None:
        """Raise unless what runs under it may go on."""
        if self.trusted:
            return
        if not self.mine:
            words = f"{self.name} was granted to the process that forked this one, which may not act on it"
            raise LeaseLost(words, name=self.name, fence=self.grant.fence, why="this is a forked child")
        why = (self.over or NOT_RENEWED).why
        raise LeaseLost(f"{self.name} lost its lease: {why}", name=self.name, fence=self.grant.fence, why=why)

    @property
    def held_on(self) -> bool:
        """A run was stopped and goes on: it keeps its slot and its turn until it has ended."""
        return self.over is not None and self.grant.slot is not None and not self.stale

    def overdue(self, boot: Boot) -> str:
        """Why it was stopped, if it has gone on for a while since."""
        goes_on = boot >= max(self.told_at, self.began) + STUBBORN and self.end_by == inf
        return self.over.why if self.over is not None and goes_on else ""

    @property
    def next_end(self) -> Boot:
        """When trust ends, or the time limit, unless the lease is renewed."""
        return self.grant.trust.end if self.ends is None else min(self.grant.trust.end, self.ends)

    @property
    def deadline(self) -> datetime | None:
        """When its time is up, by this machine's clock."""
        if self.ends is None:
            return None
        return self._clock.wall() + timedelta(seconds=self.ends - self._clock.boot())

    @property
    def at_limit(self) -> bool:
        """It is already held until its limit."""
        until = self.grant.cells[0].until
        return self.at_most is not None and until is not None and until >= self.at_most

    @property
    def name(self) -> str:
        return self.grant.slot.key if self.grant.slot else self.grant.key


class RepeatingThread:
    """Calls `look` again and again on a thread of its own, until that returns None."""

    def __init__(self, name: str, look: Look, clock: Clock) -> None:
        self._name, self._look, self._clock = name, look, clock
        self._turn = threading.Condition()
        self._running = self._retired = False
        self._until = 0.0  # when it will look next, if it sleeps
        self._asked = inf  # by when it was asked to look, since it began to look the last time

    def wake(self, by: Boot = 0.0) -> None:
        """Something changed: look by then, on a new thread if there is none. A look goes through everything, and much
        may change in a moment, so it is not done sooner than asked."""
        if self._running and self._asked <= by:
            return
        with self._turn:
            self._asked = min(self._asked, by)
            if not self._running:
                threading.Thread(target=self._beat, name=self._name, daemon=True).start()
                self._running = True  # only now: where no thread could be had, the next to wake this tries again
            elif by < self._until:
                self._turn.notify()

    def retire(self) -> None:
        """It ends after the look that is under way: another thread takes its place."""
        self._retired = True

    def _beat(self) -> None:
        try:
            again = True
            while again:
                with self._turn:
                    self._asked = inf
                again = self._once_more(self._look())
        except BaseException:  # a bug, and loud: the next to wake this begins anew, and trust ends by the clock anyway
            with self._turn:
                self._running = False
            raise

    def _once_more(self, again: Boot | None) -> bool:
        """Wait until it is time to look again; False: nothing is left to do."""
        with self._turn:
            wanted = min(self._asked, inf if again is None else again)
            if wanted == inf or self._retired:
                self._running = False
                return False
            boot = self._clock.boot()
            self._until = min(max(wanted, boot), boot + LOOK)
            if self._until > boot:
                self._turn.wait(self._until - boot)
            self._until = 0.0
            return True


class Keeper:
    def __init__(
        self,
        node: Node,
        beat: Callable[[str, Look, Clock], RepeatingThread] = RepeatingThread,
        journal: Journal | None = None,
    ) -> None:
        self.node = node
        self.pending_ends = PendingEnds(node, journal or Journal(), self._settled)
        self.prevented = PreventedCounts()
        self._record_at: Boot = 0.0
        self._clock = node.clock
        self._lock = threading.Lock()
        self._leases: set[Lease] = set()
        self._ended: set[Lease] = set()
        self._unsettled: dict[Fence, Lease] = {}  # what has ended, and is not on record yet
        self._chores: dict[str, tuple[Boot, Callable[[Store], object]]] = {}
        self.outage = Outage(node)
        self._closed = False
        self.close_by: Boot = inf
        """When `close` has to be done at the latest."""
        self.lingers = False
        """Its threads stay for a moment when there is nothing to do: with a thousand short runs a second, starting them
        anew for each would take longer than the runs."""
        self._connection = RenewalConnection(node, lambda: beat("cronce-keeper", self.renew, node.clock))
        self._watching = beat("cronce-watch", self.watch, node.clock)
        self._tidying = beat("cronce-chores", self.do_chores, node.clock)

    # --- from the threads that hold something ---

    def keep(self, *leases: Lease) -> None:
        """Renew them from now on; or none of them, if no thread can be had for it."""
        if not leases:
            return
        boot = self._clock.boot()
        self.outage.answered(boot)  # they were granted a moment ago
        for lease in leases:
            lease.renew_at = boot + self._every(lease, boot)
            lease.listen_at = boot + LISTEN_EVERY if lease.listens else inf
        with self._lock:
            self._leases.update(leases)
        try:
            self._watching.wake(min([lease.next_end for lease in leases]))
            self._connection.thread.wake(min([min(lease.renew_at, lease.listen_at) for lease in leases]))
        except BaseException:
            with self._lock:
                self._leases.difference_update(leases)
            raise

    def begin(self, lease: Lease) -> Boot:
        """A run begins under it: its timeout counts from now on, and it is renewed if it was not before."""
        if lease not in self._leases and lease not in self._ended:
            self.keep(lease)
        lease.began = boot = self._clock.boot()
        if lease.timeout is not None:
            lease.ends = boot + lease.timeout.total_seconds()
            self._watching.wake(lease.ends)
        return boot

    def drop(self, lease: Lease, *, unrecorded: bool = False) -> None:
        """Its listener is called no more. It is renewed no more or, if the end of its run is not recorded yet, until
        that is (`_settled`)."""
        with self._lock:
            self._leases.discard(lease)
            self._ended.discard(lease)
            if unrecorded:
                lease.end_by = self._clock.boot() + SETTLES
                self._unsettled[lease.grant.fence] = lease
            else:
                self._unsettled.pop(lease.grant.fence, None)
            none_left = not (self._leases or self._ended or self._unsettled)
        lease.forget_listener()
        self._rest(none_left=none_left)

    def _settled(self, fences: Iterable[Fence]) -> None:
        """Their ends are recorded, or never will be."""
        with self._lock:
            known = [self._unsettled.pop(fence, None) for fence in fences]
            none_left = any(known) and not (self._leases or self._ended or self._unsettled)
        self._rest(none_left=none_left)

    def _rest(self, *, none_left: bool) -> None:
        if none_left and not self.lingers:  # the threads may go
            self._watching.wake()
            self._connection.thread.wake()

    def end(self, lease: Lease, over: LeaseEnd) -> None:
        """Stop what runs under it; nothing happens if it was dropped or stopped before."""
        self._end(lease, over)
        self._watching.wake()
        self._connection.thread.wake(lease.renew_at)

    def record_later(self, end: PendingEnd) -> None:
        """The store did not take the end of a run: it is written again, from now on in the background."""
        self.pending_ends.add(end)
        self._settled([end.word.fence])
        self._connection.thread.wake()

    def note_progress(self, lease: Lease, done: int, total: int) -> None:
        """The progress of a job function, for people; it is in the store about a second later."""
        lease.progress = (done, total)
        lease.renew_at = min(lease.renew_at, self._clock.boot() + NOTED)
        self._connection.thread.wake(lease.renew_at)

    @property
    def busy(self) -> bool:
        """Whether anything is held, or a thread is just recording how its run ended."""
        boot, later = self._clock.boot(), self.pending_ends.fences
        with self._lock:
            ending = any(boot < lease.end_by and fence not in later for fence, lease in self._unsettled.items())
            return bool(self._leases or self._ended or ending)

    @property
    def held(self) -> list[Grant]:
        """What is held here, as it was last renewed."""
        return [lease.grant for lease in self._kept()]

    def later(self, name: str, chore: Callable[[Store], object], *, soon: bool = False) -> None:
        """Call this with a store in a few seconds, or `soon`; one of each name."""
        with self._lock:
            self._chores.setdefault(name, (self._clock.boot() + (0.0 if soon else LAZY), chore))
        self._tidying.wake()

    def close(self) -> None:
        """Do the chores that wait, record the ends that are pending, and close the connection unless something is held.
        An end that cannot be recorded even now is in the journal. A store that does not answer is waited for only
        briefly."""
        closing = threading.Thread(target=self._close, name="cronce-close", daemon=True)
        try:
            closing.start()
        except RuntimeError:  # Python is at its end, and there can be no more threads
            self._close()
            return
        closing.join(max(min(KEEPER_CLOSE_WAIT, self.close_by - self._clock.boot()), MIN_WAIT))

    def _close(self) -> None:
        if not self.outage.lasts:
            self.do_chores(at_once=True)
            self._record_ends()
        self._closed = True
        self._hang_up_if_closed()

    def _hang_up_if_closed(self) -> None:
        """An end or a chore that comes after `close` is written on a new connection, which is closed again here."""
        if self._closed and not self.busy:
            self._connection.current.close()

    # --- on the thread that watches ---

    def watch(self) -> Boot | None:
        """Stop what runs without trust or past its timeout; returns when to look again."""
        boot = self._clock.boot()
        for lease in self._kept():
            if not lease.grant.trust.holds(boot):
                self._end(lease, LeaseEnd("lost", "it reached its at_most") if lease.at_limit else NOT_RENEWED)
            elif lease.ends is not None and lease.ends <= boot:
                timeout = format_duration(lease.timeout or timedelta(0))
                self._end(lease, LeaseEnd("timed out", f"timed out after {timeout}"))
        self._connection.replace_if_stuck(boot)
        with self._lock:
            waiting, ended = [lease.next_end for lease in self._leases], set(self._ended)
        waiting += [] if self._connection.hangs_at == inf else [self._connection.hangs_at]
        return min(waiting + [lease.remind(boot) for lease in ended], default=None)

    # --- on the thread that renews ---

    def renew(self) -> Boot | None:
        """Renew what is due, all in one batch; returns when to look again."""
        boot, connection, renewed = self._clock.boot(), self._connection.current, self._renewed()
        due = [lease for lease in renewed if lease.renew_at <= boot]
        listening = [lease for lease in self._kept() if lease.listen_at <= boot]
        is_due = bool(self.pending_ends) and boot >= self._record_at
        if due or listening or is_due:
            self._connection.hangs_at = boot + min((patience(lease.grant.lease) for lease in renewed), default=LOOK)
            with suppress(RuntimeError):  # no thread could be had: it is written, though nobody would see it hang
                self._watching.wake(self._connection.hangs_at)
        if due:
            self._renew(due, connection)
        if listening and connection is self._connection.current:
            self._listen([lease for lease in listening if lease not in due], connection)
            for lease in listening:
                lease.listen_at = self._clock.boot() + LISTEN_EVERY
        if is_due and connection is self._connection.current:
            self._record_ends()
            self._record_at = self._clock.boot() + RENEWAL_RETRY
        if not self._connection.returned(connection):
            return None
        self._hang_up_if_closed()
        waiting = [lease.renew_at for lease in self._renewed()] + [lease.listen_at for lease in self._kept()]
        return min([*waiting, self._record_at] if self.pending_ends else waiting, default=None)

    def _record_ends(self) -> None:
        if self.pending_ends:
            with suppress(StoreError):
                drive(self.pending_ends.report(), self._connection.current.store(), self._clock)

    def _renew(self, due: list[Lease], connection: StoreConnection) -> None:
        limits = {lease.grant.fence: lease.at_most for lease in due if lease.at_most is not None}
        progress = {lease.grant.fence: lease.progress for lease in due if lease.progress is not None}
        began = self._clock.boot()
        overdue = {lease.grant.fence: why for lease in due if (why := lease.overdue(began))}
        try:
            renewal = self.node.ledger.renew([lease.grant for lease in due], limits, progress, overdue)
            answers = drive(renewal, connection.store(), self._clock)
        except StoreError as error:
            answers = [Unsure(str(error), error)] * len(due)
        unsure = [answer for answer in answers if isinstance(answer, Unsure)]
        if len(unsure) < len(due):
            self.outage.answered()
        elif unsure[0].error is not None:
            self.outage.unanswered(began, unsure[0].why)
        renewed, boot = self._renewed(), self._clock.boot()
        for lease, answer in zip(due, answers, strict=True):
            if lease in renewed:
                self._answered(lease, answer)
            if connection is not self._connection.current and isinstance(answer, Unsure):
                continue  # another thread has asked since
            every = self._every(lease, boot)
            lease.renew_at = boot + (min(every, RENEWAL_RETRY) if isinstance(answer, Unsure) else every)
            if lease.held_on and boot < lease.told_at + STUBBORN:
                lease.renew_at = min(lease.renew_at, lease.told_at + STUBBORN)

    def _listen(self, leases: Sequence[Lease], connection: StoreConnection) -> None:
        """Their next renewal would say it as well, but that may be minutes away."""
        if not leases:
            return
        reading = self.node.ledger.client.load([lease.grant.key for lease in leases])
        with suppress(StoreError):
            loaded, _ = drive(reading, connection.store(), self._clock)
            for lease, cell in zip(leases, loaded.cells, strict=True):
                self.heed(lease, cell)

    def heed(self, lease: Lease, cell: Cell) -> None:
        """Stop what runs under it, if the run is asked to stop."""
        ask = _ask_of(cell)
        if ask and cell.fence == lease.grant.fence:
            self.end(lease, asked_to_stop(ask))

    def _answered(self, lease: Lease, answer: object) -> None:
        match answer:
            case Grant():
                if answer.trust.end >= lease.grant.trust.end:  # else it hung, and another came first
                    lease.grant = answer
                    if lease.over is None and lease.end_by == inf:
                        lease.renewed(answer)
                if answer.ask:
                    self._end(lease, asked_to_stop(answer.ask))
            case Stale(by):
                lease.stale = True
                if lease.end_by == inf:  # else it ended here, and saying so brings the news
                    self._tell_stale(lease, by)
                self._end(lease, LeaseEnd("lost", whose(by, self.node.holder)))
            case _:  # unsure: it may be renewed or not; what was trusted before still is
                pass

    def _tell_stale(self, lease: Lease, by: str) -> None:
        node, grant = self.node, lease.grant
        event = Event(What.STALE, grant.key, node.holder, node.ledger.know.now(), grant.fence, by)
        node.ledger.client.report(event)

    def _every(self, lease: Lease, boot: Boot) -> float:
        """A third of the trust that is left, so that two renewals may fail; sooner where that is wanted. Where none is
        left, the store is asked now and then whether the lease is still held."""
        end = lease.grant.trust.end
        left = max((end - boot) / 3, 0.02) if end > boot else RENEWAL_RETRY
        if lease.renew is None and not lease.held_on:
            return left
        usual = (lease.renew or renew_every(lease.grant.lease, self.node.store.traits)).total_seconds()
        return usual if lease.held_on else min(usual, left)

    # --- on the thread for what may take its time ---

    def do_chores(self, *, at_once: bool = False) -> Boot | None:
        """Do the chores that are due; returns when the next is. One that fails is dropped."""
        boot = self._clock.boot()
        with self._lock:
            due = [name for name, (when, _) in self._chores.items() if at_once or when <= boot]
            chores = [self._chores.pop(name)[1] for name in due]
        for chore in chores:
            with suppress(CronceError):
                chore(self._connection.current.store())
        self._hang_up_if_closed()
        with self._lock:
            return min((when for when, _ in self._chores.values()), default=None)

    # --- on either ---

    def _kept(self) -> set[Lease]:
        with self._lock:
            return set(self._leases)

    def _renewed(self) -> set[Lease]:
        """What is renewed: all that may go on, and what goes on though it was stopped."""
        with self._lock:
            going_on = {lease for lease in self._leases if not lease.at_limit}
            boot = self._clock.boot()
            unsettled = {lease for lease in self._unsettled.values() if boot < lease.end_by and not lease.stale}
            return going_on | unsettled | {lease for lease in self._ended if lease.held_on}

    def _end(self, lease: Lease, over: LeaseEnd) -> None:
        """Once; and never after the lease was dropped."""
        with self._lock:
            kept = lease in self._leases
            self._leases.discard(lease)
            if kept:
                self._ended.add(lease)
                lease.told_at = self._clock.boot()
                lease.renew_at = min(lease.renew_at, lease.told_at + STUBBORN)
        if kept:
            lease.end(over)


def refuse_patched_threads() -> None:
    """gevent and eventlet replace threads: a job function that computes keeps all others waiting, also those that renew
    its lease and would stop it, and another process begins the same run."""
    module: str = _thread.start_new_thread.__module__
    if module != "_thread":
        name = module.partition(".")[0]
        raise BadInput(
            f"{name} has replaced this process's threads: while a job function computes, cronce could not renew"
            " its lease, and another process would run it too. Run the jobs in a process of their own (`cronce"
            f" run`), or leave threads as they are: {_LEFT_ALONE.get(name, 'do not replace them')}"
        )


_LEFT_ALONE: Final = {
    "gevent": "monkey.patch_all(thread=False)",
    "eventlet": "eventlet.monkey_patch(thread=False)",
}


def whose(by: str, me: str) -> str:
    """Who has what this process no longer has, for people."""
    if by not in ("", me):
        return f"{by} has it now"
    return "its lease expired, since this process was paused or could not reach the store, and it was closed"
