"""The metrics, all of them, as data, and their values as Prometheus reads them: its text format, version 0.0.4.
docs/reference/metrics.md is made of this."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Literal

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
"""Of a store's answers."""
PROMPT: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
"""Of starts."""
BODY_SECONDS: Final = (
    0.01,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    900.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
)
"""Of bodies."""

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
        PROMPT,
    ),
    Metric("cronce_run_duration_seconds", "From the start of a job function to its end.", JOB_LABEL, BODY_SECONDS),
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
    """Every metric is named, those without a value too: so a rule about it is seen to be about something."""
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
