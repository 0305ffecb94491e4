"""The monitor of a process: it watches, when it leads, and sees to it that alerts reach those who should know.

    with Monitor(cron, ["https://hooks.example/…", page_me]):
        cron.run()

Each `cronce run`, `ui` and `watch` has one. One of them is elected leader: it surveys the store every few seconds,
judges what it saw, and raises and clears alerts. Destinations differ from process to process, so each delivers to its
own.

*Two threads.* One talks to the store, and may hang in a call for as long as the store lets it. The other watches the
clock: when the store has not answered for half a minute, or cannot be used, it alerts from a store of its own in
memory. Then every process alerts for itself, since there is no place where they could agree.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from cronce.clock import SystemClock
from cronce.errors import BadInput, CronceError, StoreCopied, StoreError, StoreForgot, StoreUnusable
from cronce.events import Event, What
from cronce.model import MONITOR, Boot, leader_cell, spell
from cronce.monitor import watch_runs
from cronce.monitor.alerts import AlertKind, Alerts, Incident, NoticeClaim
from cronce.monitor.destinations import Document, Given, LogDestination, Sender, destination, document, told_apart
from cronce.monitor.settings import Settings, check_settings
from cronce.monitor.survey import WatcherState, WatchMemory, survey
from cronce.monitor.watch import clock, is_over, judge
from cronce.monitor.watch_runs import first_of_each
from cronce.protocol.notices import Alert
from cronce.runtime.app import Cronce
from cronce.runtime.clock_repair import clock_doubt
from cronce.runtime.election import Leader, candidacy
from cronce.runtime.flow import Flow, drive
from cronce.runtime.keeper import RepeatingThread
from cronce.runtime.log import LOGGER
from cronce.runtime.node import Node, host_name
from cronce.runtime.queries import load
from cronce.runtime.scheduling.roster import HOLDER_TTL
from cronce.stores import mask_all
from cronce.stores.base import Store, at_once
from cronce.stores.memory import MemoryStore
from cronce.telling.words import short

WATCHER_LEASE: Final = "15s"
"""After this long another process watches, if the leader was killed."""

SURVEY_EVERY: Final = 5.0
"""Seconds between two surveys."""

SELDOM_LEASE: Final = "30s"
SELDOM_EVERY: Final = 10.0
SELDOM_ASK: Final = 5.0
"""The same, and how often a candidate asks who leads, where a store has no place for alerts: an API server, which
counts requests, and of which each process may make one in two seconds."""

NOTICES_EVERY: Final = 2.0
"""Seconds between two looks for notices to send."""

QUIET_TICK: Final = 10.0
"""The same for a process that does not lead, while no alert is open: it only delivers what the leader raises."""

SURE_AFTER_LOOKS: Final = 3
"""After this many looks in a row another process leads for sure, and this one is not about to."""

GLANCE_EVERY: Final = 1.0
"""Seconds between two looks at the clock."""

UNREACHABLE_AFTER: Final = 30.0
"""Seconds without an answer after which the store is unreachable."""

SUSPENDED_AFTER: Final = 10.0
"""More seconds between two looks at the clock mean that this process was suspended, not that the store is silent."""

JUDGE_AFTER_DOUBT: Final = HOLDER_TTL.total_seconds()
"""Seconds from when the store's clock jumped to the next judgement. If it went an hour ahead, all schedulers seem dead
and all slots of that hour missed, until each scheduler has sent a heartbeat and seen to what fell due."""

LAST_WORDS: Final = 10.0
LAST_WORD: Final = 2.0
STOP_WAIT: Final = 0.5
"""Seconds to wait, at most: for the last alerts of a process that ends, for its last notice, and for `stop`."""


class Monitor:
    """`destinations` are URLs, lists of words, functions; the log is always one. It runs between `start` and `stop`,
    or in a block."""

    def __init__(
        self,
        cron: Cronce,
        destinations: Iterable[Given] = (),
        settings: Settings | None = None,
        *,
        log: bool = True,
    ) -> None:
        self._cron = cron
        self._settings = check_settings(settings or Settings())
        self._destinations = told_apart([*([LogDestination()] if log else []), *map(destination, destinations)])
        self._clock = SystemClock()
        self._host = host_name()
        self._watching = RepeatingThread("cronce-monitor", self._watch, self._clock)
        self._guarding = RepeatingThread("cronce-sentry", self._guard, self._clock)
        self._leader: Leader | None = None
        self._process = 0
        self._stopping = threading.Event()
        self._stopped = [threading.Event(), threading.Event()]
        # Of the thread that talks to the store:
        self._store: Store | None = None
        self._at_node: Node | None = None
        self._sender: Sender | None = None
        self._known = WatcherState()
        self._memory: WatchMemory | None = None
        self._judge_from: Boot = 0.0
        self._look_at = self._survey_at = 0.0
        self._quiet_looks = 0
        # Of both: when the store last answered, and what it last said instead.
        self._heard = self._clock.boot()
        self._trouble: StoreError | None = None
        # Of the one that looks at the clock:
        self._own = self._sender_of(MemoryStore(), self._guarding.wake)
        self._glanced = self._clock.boot()
        self._final: StoreUnusable | None = None
        self._told = threading.Event()
        self.standing: tuple[Alert, ...] = ()
        """The alerts of the store as they were last seen, worst first, those that are just over among them."""
        self.own: tuple[Alert, ...] = ()
        """And those of this process alone."""

    def start(self) -> "Monitor":
        self._process = os.getpid()
        self._cron.on_event(self._hear)
        self._heard = self._glanced = self._clock.boot()
        atexit.register(self.stop)
        self._watching.wake()
        self._guarding.wake()
        return self

    def _hear(self, event: Event) -> None:
        """A clock that leaps may be right again before the next look."""
        if event.what in (What.LEAPT, What.STEADY):
            self._survey_at = 0.0
            self._look_soon()

    def _look_soon(self) -> None:
        self._look_at = 0.0
        self._watching.wake()

    def stop(self) -> None:
        """Another watches from now on. What is being sent is not waited for; nor, for long, is the store."""
        atexit.unregister(self.stop)
        if self._process != os.getpid() or self._stopping.is_set():  # a forked child has no monitor
            return
        self._stopping.set()
        self._watching.wake()
        self._guarding.wake()
        until = self._clock.boot() + STOP_WAIT
        self._stopped[1].wait(LAST_WORD if self._unreachable else STOP_WAIT)
        self._stopped[0].wait(max(until - self._clock.boot(), 0.0))

    def last_words(self, error: StoreUnusable) -> None:
        """Send an alert before the process ends because of this error, but do not wait for long."""
        self._final = error
        self._guarding.wake()
        self._told.wait(LAST_WORDS)

    def __enter__(self) -> "Monitor":
        return self.start()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, StoreUnusable):
            self.last_words(error)
        self.stop()

    # --- on the thread that talks to the store ---

    def _watch(self) -> Boot | None:
        if self._stopping.is_set():
            self._leave()
            self._stopped[0].set()
            return None
        began = self._clock.boot()
        if began < self._look_at:  # its thread wakes up more often
            return self._look_at
        self._look_at = began + QUIET_TICK  # unless an event asks for an earlier look
        try:
            self._look()
        except StoreForgot as error:  # it answers, and is another: see what it is the next time
            LOGGER.debug("%s", mask_all(str(error)))
            self._heard = self._clock.boot()
        except StoreError as error:
            self._trouble = error
        except BadInput as error:  # a URL that cannot be meant: the command line reports it, too
            LOGGER.debug("%s", mask_all(str(error)))
        except Exception:
            LOGGER.exception("the monitor could not read the store, and will try again")
        leads = self._leader is not None and self._leader.is_leader
        quiet = not self.standing and self._heard >= began and not leads
        self._quiet_looks = self._quiet_looks + 1 if quiet else 0
        again = self._clock.boot() + (QUIET_TICK if self._quiet_looks > SURE_AFTER_LOOKS else NOTICES_EVERY)
        self._look_at = min(self._look_at, again, self._survey_at if leads else again)
        return self._look_at

    def _look(self) -> None:
        sender = self._sender or self._arrive()
        leader = self._leader = self._leader or self._candidate()
        leader.start()
        if leader.is_leader:
            self._survey(sender)
        elif self._memory is not None:
            self._memory = None
            sender = self._arrive()
        elif isinstance(leader.refused, StoreUnusable):  # it cannot be written, and here nothing was to be
            raise leader.refused
        if not self._has_shelf:
            self._listen()
        self.standing = tuple(one.alert for one in sender.deliver().posted)

    def _candidate(self) -> Leader:
        """Not one of cron's own leaders: `cron.close()` would wait until it has resigned, even if the store hangs."""
        usual = candidacy(MONITOR, WATCHER_LEASE, None)
        seldom = candidacy(MONITOR, SELDOM_LEASE, None)._replace(ask=SELDOM_ASK)
        return Leader(usual if self._has_shelf else seldom, self._cron.at_work, self._clock)

    def _listen(self) -> None:
        """Whether the store answers, by what this process asked it for; it is asked only to hear that where nothing
        else was."""
        if self._trouble is None:
            self._heard = max(self._heard, self._cron.at_work().outage.heard)
        if self._clock.boot() - self._heard >= QUIET_TICK or self._trouble:
            self._do(load([leader_cell(MONITOR)]))

    def _survey(self, sender: Sender) -> None:
        boot = self._clock.boot()
        if boot < self._survey_at:
            return
        self._survey_at = boot + (SURVEY_EVERY if self._has_shelf else SELDOM_EVERY)
        assert self._store is not None
        with at_once(self._store):
            self._survey_now(sender, boot)

    def _survey_now(self, sender: Sender, boot: Boot) -> None:
        anew, memory = self._memory is None, self._memory or WatchMemory()
        self._known = WatcherState() if anew else self._known
        assert self._store is not None
        assert self._at_node is not None
        ledger = self._at_node.ledger
        doubt = self._do(clock_doubt(ledger))
        if doubt is not None:  # without a clock nothing else can be judged
            self._judge_from = boot + JUDGE_AFTER_DOUBT
            sender.settle([clock(doubt, ledger.know.now())], lambda _alert: False, anew=anew)
            return
        seen = self._do(survey(self._known, self._store.traits))
        if boot < self._judge_from:
            return
        findings, remembered = judge(seen, memory, self._settings)
        self._memory = remembered
        sender.settle(findings, lambda alert: is_over(alert, seen, remembered, self._settings), anew=anew)

    def _arrive(self) -> Sender:
        """A connection of its own, and the store for alerts. Where the user's store keeps none, it is one in memory,
        which a new leader begins anew."""
        if self._store is None:
            node = self._cron.at_work().node
            self._store, self._at_node = node.connect(), node
        if self._sender is None or not self._has_shelf:
            self._sender = self._sender_of(self._store if self._has_shelf else MemoryStore(), self._look_soon)
        return self._sender

    @property
    def _has_shelf(self) -> bool:
        return self._store is not None and self._store.traits.history

    def _leave(self) -> None:
        try:
            if self._leader is not None:
                self._leader.stop()
        except CronceError as error:
            LOGGER.debug("%s", mask_all(str(error)))
        if self._store is not None and self._at_node is not None and self._store is not self._at_node.store:
            self._store.close()

    def _do(self, flow: Flow[Any]) -> Any:
        """At the store, which answered."""
        assert self._store is not None
        done = drive(flow, self._store, self._clock)
        self._heard, self._trouble = self._clock.boot(), None
        return done

    def _sender_of(self, store: Store, wake: Callable[[], None]) -> Sender:
        node = Node(store, self._clock, lambda: store, lambda _event: None)
        do = self._do if store is self._store else node.do
        alerts, boot = Alerts(node.ledger.client), self._clock.boot
        return Sender(alerts, self._destinations, do=do, describe=self._describe, boot=boot, wake=wake)

    # --- on the thread that looks at the clock ---

    def _guard(self) -> Boot | None:
        if self._stopping.is_set():
            self._part()
            self._stopped[1].set()
            return None
        try:
            self._glance()
        except Exception:
            LOGGER.exception("the monitor could not report on the store, and will try again")
        return self._clock.boot() + GLANCE_EVERY

    def _glance(self) -> None:
        boot, final = self._clock.boot(), self._final
        if boot - self._glanced > SUSPENDED_AFTER:
            self._heard = boot
        self._glanced = boot
        found, keeper = self._own_finding(boot), self._cron.keeper
        left = keeper.pending_ends.journal.all() if keeper else []
        unsaid = first_of_each(watch_runs.unsaid(left, self._clock.wall()))
        self._own.settle([*unsaid, *([found] if found else [])], lambda _alert: True)
        self.own = tuple(one.alert for one in self._own.deliver().posted)
        if final and self._own.idle:
            self._told.set()

    def _part(self) -> None:
        """Tell that this process no longer watches: a recovery would not be reported."""
        for alert in self._unreachable:
            text = f"no longer watched by {self._host}:{self._process}; it was unreachable since {spell(alert.since)}."
            said = document(alert._replace(text=text), "cleared", self._place, self._host)
            self._own.part(alert, said, LAST_WORD)

    @property
    def _unreachable(self) -> list[Alert]:
        return [one for one in self.own if one.kind == AlertKind.UNREACHABLE and one.cleared is None]

    def _own_finding(self, boot: Boot) -> Alert | None:
        trouble, silent = self._final or self._trouble, boot - self._heard
        since = self._clock.wall() - timedelta(seconds=silent)
        words = mask_all(str(trouble)) if trouble else "a call hangs"
        if isinstance(trouble, StoreUnusable):
            kind = AlertKind.COPIED if isinstance(trouble, StoreCopied) else AlertKind.UNUSABLE
            text = f"{self._host} cannot use its store, and runs nothing: {words}"
            return Alert(kind, self._host, "critical", text, since)
        if silent < UNREACHABLE_AFTER:
            return None
        text = f"{self._place} has not answered {self._host} for {short(timedelta(seconds=round(silent)))}: {words}"
        remedy = "Runs in progress go on while their leases can be trusted; this process starts nothing new."
        return Alert(AlertKind.UNREACHABLE, self._host, "critical", text, since, remedy=remedy)

    # --- on either ---

    @property
    def _place(self) -> str:
        try:
            return self._cron.place
        except CronceError:  # none is named that could be used
            return "the store"

    def _describe(self, claim: NoticeClaim, incident: Incident) -> Document:
        facts = (claim.alert, claim.delivery.notice, self._place, self._host)
        return document(*facts, incident=incident, page=self._settings.page)
