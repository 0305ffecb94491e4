"""The values as Prometheus reads them: its text format, version 0.0.4."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from cronce.monitor.metrics.catalogue import METRICS, Metric
from cronce.monitor.metrics.registry import Histogram, Value, Values

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
