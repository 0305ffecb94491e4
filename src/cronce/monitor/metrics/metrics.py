"""What a process counts: a fold over its events, and a look at what it holds when somebody asks."""

import os
import weakref
from collections.abc import Iterator
from typing import Final

from cronce import __version__
from cronce.events import Event, What
from cronce.monitor.metrics.exposition import exposition
from cronce.monitor.metrics.registry import Key, Registry, Value, Values
from cronce.runtime.app import Cronce
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Grant
from cronce.stores.base import Store, size

CELLS_EVERY: Final = 60.0
"""Seconds between two looks at how large the store is."""

OF_SLOTS: Final = {
    What.TAKEN_OVER: "cronce_takeovers_total",
    What.STARTED: "cronce_runs_started_total",
    What.LATE: "cronce_late_total",
    What.OVERRUN: "cronce_overrun_total",
}
"""What is counted once for each event, by job."""

KINDS: Final = ("run", "lock", "leader")
"""Of leases, by the cells they are on. Those of effects last as long as a call."""

CLAIMS: Final = {What.GRANTED: "won", What.TAKEN_OVER: "won", What.REFUSED: "lost"}


class Metrics:
    """Counts what `cron` does in this process, from now on. `before` is what was counted in its place before."""

    def __init__(self, cron: Cronce, before: Values | None = None) -> None:
        self._cron = cron
        self._registry = Registry(before)
        self._up = True
        self._size: int | None = None
        self._measured = -CELLS_EVERY
        cron.on_event(self.hear)
        cron.on_call(self._answered)
        _ALL.add(self)

    def text(self) -> str:
        """As Prometheus reads it."""
        return exposition(self.read())

    def read(self) -> dict[Key, Value]:
        """What was counted, and how things stand."""
        return {**self._registry.read(), **dict(self._gauges())}

    # --- what happens ---

    def hear(self, event: Event) -> None:
        kind, _, rest = event.key.partition("/")
        if kind == "run":
            self._of_slot(event, rest.partition("/")[0])
        elif kind == "job" and event.what is What.MISSED:
            self._registry.count("cronce_slots_missed_total", rest, by=event.number)
        elif event.what is What.DOUBLED:
            self._registry.count("cronce_doubled_total", rest)
        elif kind in KINDS and event.what in CLAIMS:
            self._registry.count("cronce_lock_claims_total", kind, CLAIMS[event.what])
        elif event.what is What.SILENT:
            self._registry.count("cronce_store_silent_total")
            self._up = False
        if event.what is What.STALE:
            self._registry.count("cronce_stale_total")

    def _of_slot(self, event: Event, job: str) -> None:
        count = self._registry.count
        if (result := CLAIMS.get(event.what)) is not None:
            count("cronce_claims_total", job, "refused" if event.barred else result)
        if (name := OF_SLOTS.get(event.what)) is not None:
            count(name, job)
        match event.what:
            case What.STARTED if event.number == 1 and "#" not in event.key:
                self._registry.observe("cronce_slot_to_start_seconds", event.seconds or 0.0, job)
            case What.ENDED:
                count("cronce_runs_ended_total", job, event.outcome)
                self._registry.observe("cronce_run_duration_seconds", event.seconds or 0.0, job)
            case What.CLOSED if event.outcome == "lost":
                count("cronce_slots_lost_total", job)
            case What.CLOSED if event.outcome == "unknown":
                count("cronce_slots_unknown_total", job)

    def _answered(self, request: str, seconds: float) -> None:
        self._up = True
        self._registry.observe("cronce_store_round_trip_seconds", seconds, request.lower())

    # --- how things stand ---

    def _gauges(self) -> Iterator[tuple[Key, Value]]:
        yield ("cronce_build_info", __version__), 1
        keeper, scheduler = self._cron.keeper, self._cron.scheduler
        if keeper is not None:
            yield ("cronce_store_up",), int(self._up)
            yield from self._of_leases(keeper)
            if keeper.desk.ledger.know.epoch.birth:
                yield ("cronce_clock_skew_seconds",), self._skew(keeper)
            self._measure_in_time(keeper)
        if scheduler is not None:
            yield ("cronce_schedulers_live",), scheduler.engine.live
        if self._size is not None:
            yield ("cronce_cells",), self._size

    def _of_leases(self, keeper: Keeper) -> Iterator[tuple[Key, Value]]:
        now, boot = keeper.desk.ledger.know.now(), keeper.desk.clock.boot()
        held: dict[str, list[Grant]] = {kind: [] for kind in KINDS}
        for grant in keeper.held:
            held.get(grant.key.partition("/")[0], []).append(grant)
        for kind, found in held.items():
            ages = [(now - grant.record.started).total_seconds() for grant in found if grant.record.started]
            yield ("cronce_leases_held", kind), len(found)
            yield ("cronce_lease_age_seconds", kind), max(ages, default=0.0)
            if found:
                left = min((grant.trust.end - boot) / grant.lease.total_seconds() for grant in found)
                yield ("cronce_lease_left_ratio", kind), max(left, 0.0)

    def _skew(self, keeper: Keeper) -> float:
        return (keeper.desk.clock.wall() - keeper.desk.ledger.know.now()).total_seconds()

    def _measure_in_time(self, keeper: Keeper) -> None:
        """On the thread that may take its time: whoever asks for numbers must not have to wait for the store."""
        boot = keeper.desk.clock.boot()
        if boot - self._measured >= CELLS_EVERY:
            self._measured = boot
            keeper.later("cells", self._measure, soon=True)

    def _measure(self, store: Store) -> None:
        self._size = size(store)

    def forked(self) -> None:
        self._registry.forked()


_ALL: Final[weakref.WeakSet[Metrics]] = weakref.WeakSet()


def _forked() -> None:
    for metrics in list(_ALL):
        metrics.forked()


os.register_at_fork(after_in_child=_forked)
