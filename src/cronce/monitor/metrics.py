"""What a process counts: a fold over its events, and a look at what it holds when asked.

All metrics are here as data, and docs/reference/metrics.md is made of them. `exposition` writes their values in
Prometheus's text format, version 0.0.4.

*Bounded.* Each job is a label, and jobs may be many. The first `JOB_LABELS` of them that a process counts have a label
of their own, the others share `job="other"`; a job never changes over, so no counter ever falls.

*Prometheus' own client* would save the few lines that write its text format, and no more: it keeps one registry a
process, merges several processes through files, and not all gauges here are a sum, a maximum or a minimum.
"""

import json
import mmap
import os
import struct
import threading
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Literal, cast

from cronce import __version__
from cronce.events import Event, What
from cronce.model import Boot
from cronce.runtime.app import Cronce
from cronce.runtime.keeper import Keeper
from cronce.runtime.ledger import Grant
from cronce.stores.base import Store, size
from cronce.value import NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

Merge = Literal["sum", "max", "min", "widest"]
"""How the gauges of several processes become one; counters and histograms add up."""


class Metric(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Merge = "sum"

    @property
    def kind(self) -> Kind:
        return "histogram" if self.buckets else "counter" if self.name.endswith("_total") else "gauge"


JOB_LABEL: Final = ("job",)
STORE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0)
"""How long a store takes to answer."""
START_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
"""How late slots start."""
RUN_SECONDS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 86400.0)
"""How long job functions take."""

_METRICS: Final = (
    Metric(
        "cronce_claims_total",
        "Claims of slots: won, lost to another process, or refused (paused, too old, superseded).",
        ("job", "result"),
    ),
    Metric("cronce_takeovers_total", "Slots taken over from a holder that was gone.", JOB_LABEL),
    Metric(
        "cronce_lock_claims_total",
        "Claims of locks and leaderships that were answered: won, or lost because another process has it.",
        ("kind", "result"),
    ),
    Metric("cronce_runs_started_total", "Job functions that started.", JOB_LABEL),
    Metric("cronce_runs_ended_total", "Job functions that ended, by outcome.", ("job", "outcome")),
    Metric(
        "cronce_slot_to_start_seconds",
        "From the instant of a slot to its first start; manual runs do not count.",
        JOB_LABEL,
        START_SECONDS,
    ),
    Metric("cronce_run_duration_seconds", "From the start of a job function to its end.", JOB_LABEL, RUN_SECONDS),
    Metric("cronce_slots_missed_total", "Slots that no scheduler started in time.", JOB_LABEL),
    Metric("cronce_slots_lost_total", "Slots closed as lost: their holder died.", JOB_LABEL),
    Metric("cronce_slots_unknown_total", "Slots closed as unknown: a person has to check them.", JOB_LABEL),
    Metric("cronce_late_total", "Slots that started more than 5 seconds after they were due.", JOB_LABEL),
    Metric("cronce_overrun_total", "Runs that were still running at the next slot of their job.", JOB_LABEL),
    Metric("cronce_doubled_total", "Duplicate calls of jobs that are only observed: they ran.", JOB_LABEL),
    Metric(
        "cronce_stale_total", "Writes refused because their fence was old: another process had been granted the slot."
    ),
    Metric("cronce_leases_held", "Leases held here.", ("kind",)),
    Metric(
        "cronce_lease_age_seconds", "Age of the oldest lease held here; 0 if there is none.", ("kind",), merge="max"
    ),
    Metric(
        "cronce_lease_left_ratio",
        "The part that is left of the lease that ends first; above 0.4 while leases are renewed in time.",
        ("kind",),
        merge="min",
    ),
    Metric("cronce_store_round_trip_seconds", "From a call of the store to its answer.", ("call",), STORE_SECONDS),
    Metric("cronce_store_up", "1 while the store answers, 0 while it does not.", merge="min"),
    Metric("cronce_store_silent_total", "Outages: how often the store stopped answering."),
    Metric(
        "cronce_clock_skew_seconds",
        "This machine's clock minus the store's; of several processes, the largest difference.",
        merge="widest",
    ),
    Metric("cronce_schedulers_live", "Schedulers alive on the store, on all machines.", merge="max"),
    Metric("cronce_cells", "Cells in the store, as it estimates them.", merge="max"),
    Metric("cronce_build_info", "Always 1; the label is the version of cronce.", ("version",), merge="max"),
)
METRICS: Final = MappingProxyType({metric.name: metric for metric in _METRICS})

# --- as text ----------------------------------------------------------------------------------------------------------

Key = tuple[str, ...]
"""The metric, and the values of its labels in their order."""

Histogram = list[float]
"""The sum of what was observed, then how many fell into each bucket, the last being those above all."""

Value = float | Histogram
Values = Mapping[Key, Value]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(values: Values) -> str:
    """Every metric is named, those without a value too: so that an alerting rule refers to a metric that exists."""
    found: dict[str, list[tuple[tuple[str, ...], Value]]] = {name: [] for name in METRICS}
    for (name, *labels), value in sorted(values.items(), key=lambda one: one[0]):
        found[name].append((tuple(labels), value))
    return "".join(f"{line}\n" for name, rows in found.items() for line in _metric(METRICS[name], rows))


def _metric(metric: Metric, rows: list[tuple[tuple[str, ...], Value]]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in rows:
        pairs = [f'{name}="{_escaped(label)}"' for name, label in zip(metric.labels, labels, strict=True)]
        if isinstance(value, list):
            yield from _histogram(metric, pairs, value)
        else:
            yield _line(metric.name, pairs, value)


def _histogram(metric: Metric, pairs: list[str], value: Histogram) -> Iterator[str]:
    seconds, *counts = value
    for bound, count in zip([*map(str, metric.buckets), "+Inf"], accumulate(counts), strict=True):
        yield _line(f"{metric.name}_bucket", [*pairs, f'le="{bound}"'], count)
    yield _line(f"{metric.name}_sum", pairs, seconds)
    yield _line(f"{metric.name}_count", pairs, sum(counts))


def _line(name: str, pairs: list[str], value: float) -> str:
    labels = f"{{{','.join(pairs)}}}" if pairs else ""
    return f"{name}{labels} {value}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


# --- what is counted in this process ----------------------------------------------------------------------------------

CELLS_EVERY: Final = 60.0
"""Seconds between two looks at how large the store is."""

OF_SLOTS: Final = {
    What.TAKEN_OVER: "cronce_takeovers_total",
    What.STARTED: "cronce_runs_started_total",
    What.LATE: "cronce_late_total",
    What.OVERRUN: "cronce_overrun_total",
}
"""What is counted once for each event, by job."""

LEASE_KINDS: Final = ("run", "lock", "leader")
"""Of leases, by the cells they are on. Those of effects last as long as a call."""

CLAIMS: Final = {What.GRANTED: "won", What.TAKEN_OVER: "won", What.REFUSED: "lost"}


class Metrics:
    """Counts what `cron` does in this process, from now on. `before` is what the process before this one counted."""

    def __init__(self, cron: Cronce, before: Values | None = None) -> None:
        self._cron = cron
        self._registry = Registry(before)
        self._up = True
        self._size: int | None = None
        self._measured = -CELLS_EVERY
        cron.on_event(self.hear)
        cron.on_call(self._answered)

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
        elif kind in LEASE_KINDS and event.what in CLAIMS:
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
            if keeper.node.ledger.know.epoch.birth:
                off = keeper.node.clock.wall() - keeper.node.ledger.know.now()
                yield ("cronce_clock_skew_seconds",), off.total_seconds()
            self._measure_in_time(keeper)
        if scheduler is not None:
            yield ("cronce_schedulers_live",), scheduler.engine.live
        if self._size is not None:
            yield ("cronce_cells",), self._size

    def _of_leases(self, keeper: Keeper) -> Iterator[tuple[Key, Value]]:
        now, boot = keeper.node.ledger.know.now(), keeper.node.clock.boot()
        held: dict[str, list[Grant]] = {kind: [] for kind in LEASE_KINDS}
        for grant in keeper.held:
            held.get(grant.key.partition("/")[0], []).append(grant)
        for kind, found in held.items():
            ages = [(now - grant.record.started).total_seconds() for grant in found if grant.record.started]
            yield ("cronce_leases_held", kind), len(found)
            yield ("cronce_lease_age_seconds", kind), max(ages, default=0.0)
            if found:
                left = min((grant.trust.end - boot) / grant.lease.total_seconds() for grant in found)
                yield ("cronce_lease_left_ratio", kind), max(left, 0.0)

    def _measure_in_time(self, keeper: Keeper) -> None:
        """On the keeper's slow thread: a scrape must not wait for the store."""
        boot = keeper.node.clock.boot()
        if boot - self._measured >= CELLS_EVERY:
            self._measured = boot
            keeper.later("cells", self._measure, soon=True)

    def _measure(self, store: Store) -> None:
        self._size = size(store)


# --- values: counted in one process, and added up over several -------------------------------------------------------


JOB_LABELS: Final = 200
"""Jobs that have a label of their own, in each process."""

OTHER: Final = "other"

_BY_JOB: Final = frozenset(name for name, metric in METRICS.items() if metric.labels[:1] == ("job",))


class Registry:
    """For any number of threads. `before` is what the process before this one counted: it goes on from there."""

    def __init__(self, before: Values | None = None) -> None:
        self._begin(before or {})

    def _begin(self, before: Values) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._values: dict[Key, Value] = {
            key: list(value) if isinstance(value, list) else value for key, value in without_gauges(before).items()
        }
        self._jobs = {key[1] for key in self._values if key[0] in _BY_JOB}

    def _locked(self) -> threading.Lock:
        """In a forked child a thread of the parent may hold the lock for ever, and the counts are the parent's."""
        if self._process != os.getpid():
            self._begin({})
        return self._lock

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        with self._locked():
            key = self._key(name, labels)
            self._values[key] = cast(float, self._values.get(key, 0)) + by

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        buckets = METRICS[name].buckets
        with self._locked():
            key = self._key(name, labels)
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = [0] * (len(buckets) + 2)
            assert isinstance(value, list)
            value[0] += seconds
            value[bisect_left(buckets, seconds) + 1] += 1

    def read(self) -> dict[Key, Value]:
        with self._locked():
            return {key: list(value) if isinstance(value, list) else value for key, value in self._values.items()}

    def _key(self, name: str, labels: Key) -> Key:
        return (name, self._label(labels[0]), *labels[1:]) if name in _BY_JOB else (name, *labels)

    def _label(self, job: str) -> str:
        if job not in self._jobs:
            if len(self._jobs) >= JOB_LABELS:
                return OTHER
            self._jobs.add(job)
        return job


# --- several processes ----------------------------------------------------------------------------------------------

_MERGES: Final[Mapping[Merge, Callable[[Iterable[float]], float]]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "widest": lambda values: max(values, key=abs),
}


def merged(all_values: Iterable[Values]) -> dict[Key, Value]:
    """The values of several processes as those of one."""
    found: dict[Key, list[Value]] = {}
    for values in all_values:
        for key, value in values.items():
            found.setdefault(key, []).append(value)
    return {key: _merged(key[0], values) for key, values in found.items()}


def _merged(name: str, values: list[Value]) -> Value:
    metric = METRICS[name]
    if metric.kind == "histogram":
        return [sum(column) for column in zip(*cast(list[Histogram], values), strict=True)]
    return _MERGES[metric.merge](cast(list[float], values))


def without_gauges(values: Values) -> Values:
    """Counters and histograms: what still counts of a process that is gone."""
    return {key: value for key, value in values.items() if METRICS[key[0]].kind != "gauge"}


# --- memory that several processes share ------------------------------------------------------------------------------
#
# *A place each, and two halves to a place.* A snapshot is written into the half that holds the older one, with a number
# that is higher by one, its length and its checksum. A reader takes the half with the higher number whose checksum is
# right. So a writer that is killed in the middle leaves the snapshot before, and a reader never takes half of one.
#
# *A successor counts on.* A process that died is replaced, and the new one begins with the snapshot in its place: so
# counters never fall, and their rate shows no restart. What the old one counted in its last second, and had not written
# yet, is lost.

HALF: Final = 2 << 20
"""Bytes. Jobs with labels of their own are few enough that their snapshot always fits, however long their names; and
what is not written takes no memory."""

_SNAPSHOT_HEAD: Final = struct.Struct("=QII")
"""Number, length, checksum."""


class Snapshot(NamedTuple):
    """What a process counted, and when it said so."""

    at: Boot
    values: Values


class ProcessSnapshots:
    """Made before the processes are, of which each writes in its own place."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._memory = mmap.mmap(-1, number * 2 * HALF)

    def write(self, place: int, snapshot: Snapshot) -> None:
        text = json.dumps([snapshot.at, list(snapshot.values.items())], separators=(",", ":")).encode()
        assert len(text) <= HALF - _SNAPSHOT_HEAD.size, f"{len(text)} bytes"
        number = max(self._number(place, half) for half in (0, 1)) + 1
        start = self._start(place, number % 2)
        self._memory[start + _SNAPSHOT_HEAD.size : start + _SNAPSHOT_HEAD.size + len(text)] = text
        _SNAPSHOT_HEAD.pack_into(self._memory, start, number, len(text), _checksum(number, text))

    def read(self, place: int) -> Snapshot | None:
        """The last that is whole. While it is read two more may be written: then there is a newer one."""
        for _ in range(10):
            for half in sorted((0, 1), key=lambda half: self._number(place, half), reverse=True):
                text = self._text(place, half)
                if text is not None:
                    at, values = json.loads(text)
                    return Snapshot(at, {tuple(key): value for key, value in values})
        return None

    def _text(self, place: int, half: int) -> bytes | None:
        start = self._start(place, half)
        number, length, checksum = _SNAPSHOT_HEAD.unpack_from(self._memory, start)
        text = self._memory[
            start + _SNAPSHOT_HEAD.size : start + _SNAPSHOT_HEAD.size + min(length, HALF - _SNAPSHOT_HEAD.size)
        ]
        return text if number and checksum == _checksum(number, text) else None

    def _number(self, place: int, half: int) -> int:
        number: int = _SNAPSHOT_HEAD.unpack_from(self._memory, self._start(place, half))[0]
        return number

    def _start(self, place: int, half: int) -> int:
        return (2 * place + half) * HALF


def _checksum(number: int, text: bytes) -> int:
    return zlib.crc32(text, number & 0xFFFFFFFF)
